/* The sanitizers that a test is built with: slow parts are repeated less often with them, and an
 * intended fault would end the program. */
#ifndef TANDEM_TESTS_DEVICES_SANITIZED_H
#define TANDEM_TESTS_DEVICES_SANITIZED_H

#include <stdbool.h>

#if defined(__has_feature)
#define TEST_HAS_FEATURE(name) __has_feature(name)
#else
#define TEST_HAS_FEATURE(name) 0
#endif

static inline bool test_is_thread_sanitized(void) {
#if defined(__SANITIZE_THREAD__) || TEST_HAS_FEATURE(thread_sanitizer)
  return true;
#else
  return false;
#endif
}

/* Any sanitizer that makes it slow. */
static inline bool test_is_sanitized(void) {
#if defined(__SANITIZE_ADDRESS__) || TEST_HAS_FEATURE(address_sanitizer)
  return true;
#else
  return test_is_thread_sanitized();
#endif
}

#endif
