/* Statuses and messages: names, one message a thread, cutting of long ones, prefixes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/status.h"
#include "core/utf8.h"

static void names_are_those_of_the_enumeration(void **state) {
  (void)state;
  assert_string_equal(tdm_status_name(TDM_OK), "OK");
  assert_string_equal(tdm_status_name(TDM_INVALID_ARGUMENT), "INVALID_ARGUMENT");
  assert_string_equal(tdm_status_name(TDM_OUT_OF_MEMORY), "OUT_OF_MEMORY");
  assert_string_equal(tdm_status_name(TDM_UNAVAILABLE), "UNAVAILABLE");
  assert_string_equal(tdm_status_name(TDM_UNSUPPORTED), "UNSUPPORTED");
  assert_string_equal(tdm_status_name(TDM_DEVICE_LOST), "DEVICE_LOST");
  assert_string_equal(tdm_status_name(TDM_CANCELLED), "CANCELLED");
  assert_string_equal(tdm_status_name(TDM_IO), "IO");
  assert_string_equal(tdm_status_name(TDM_CORRUPT_DATA), "CORRUPT_DATA");
  assert_string_equal(tdm_status_name(TDM_INTERNAL), "INTERNAL");
  assert_string_equal(tdm_status_name(TDM_DEADLINE_EXCEEDED), "DEADLINE_EXCEEDED");
  assert_string_equal(tdm_status_name(TDM_RESOURCE_EXHAUSTED), "RESOURCE_EXHAUSTED");
  assert_string_equal(tdm_status_name(TDM_NOT_FINITE), "NOT_FINITE");
  assert_string_equal(tdm_status_name((tdm_status)99), "UNKNOWN");
}

static void version_is_that_of_the_header(void **state) {
  (void)state;
  char text[32];
  (void)snprintf(text, sizeof(text), "%d.%d.%d", TDM_VERSION_MAJOR, TDM_VERSION_MINOR,
                 TDM_VERSION_PATCH);
  assert_string_equal(tdm_version(), text);
}

static void failing_sets_the_message(void **state) {
  (void)state;
  assert_int_equal(tdm_fail(TDM_IO, "cannot read %s: %d", "file", 5), TDM_IO);
  assert_string_equal(tdm_last_message(), "cannot read file: 5");
  assert_int_equal(tdm_last_status(), TDM_IO);
  assert_int_equal(tdm_fail_memory(64, "a plan"), TDM_OUT_OF_MEMORY);
  assert_string_equal(tdm_last_message(), "out of memory: 64 bytes for a plan");
}

static void prefixes_stand_before_the_message(void **state) {
  (void)state;
  (void)tdm_fail(TDM_INVALID_ARGUMENT, "rank 3 is not 2");
  assert_int_equal(tdm_fail_within(TDM_INVALID_ARGUMENT, "layer %s", "rnn"), TDM_INVALID_ARGUMENT);
  assert_string_equal(tdm_last_message(), "layer rnn: rank 3 is not 2");
  (void)tdm_fail_within(TDM_UNSUPPORTED, "plan");
  assert_int_equal(tdm_last_status(), TDM_UNSUPPORTED);
}

static void a_message_may_quote_the_one_before(void **state) {
  (void)state;
  (void)tdm_fail(TDM_IO, "inner");
  (void)tdm_fail(TDM_IO, "outer (%s)", tdm_last_message());
  assert_string_equal(tdm_last_message(), "outer (inner)");
}

static void long_messages_are_cut(void **state) {
  (void)state;
  char text[2 * TDM_MESSAGE_BYTES];
  memset(text, 'm', sizeof(text) - 1);
  text[sizeof(text) - 1] = '\0';
  (void)tdm_fail(TDM_IO, "%s", text);
  assert_int_equal(strlen(tdm_last_message()), TDM_MESSAGE_BYTES - 1);
  (void)tdm_fail_within(TDM_IO, "prefix");
  assert_int_equal(strlen(tdm_last_message()), TDM_MESSAGE_BYTES - 1);
  assert_memory_equal(tdm_last_message(), "prefix: mmm", 11);
  (void)tdm_fail_within(TDM_IO, "%s", text);
  assert_int_equal(strlen(tdm_last_message()), TDM_MESSAGE_BYTES - 1);
}

static void what_is_cut_ends_behind_a_word(void **state) {
  (void)state;
  char text[2 * TDM_MESSAGE_BYTES] = "", whole[TDM_MESSAGE_BYTES];
  while (strlen(text) + sizeof "shapes " <= sizeof text)
    strcat(text, "shapes ");
  (void)tdm_fail(TDM_IO, "%s", text);
  const char *told = tdm_last_message();
  assert_in_range(strlen(told), TDM_MESSAGE_BYTES - 8, TDM_MESSAGE_BYTES - 1);
  assert_string_equal(told + strlen(told) - 11, "s shapes...");
  (void)tdm_fail_within(TDM_IO, "so");
  assert_string_equal(told + strlen(told) - 11, "s shapes...");
  (void)snprintf(whole, sizeof whole, "%.*s", TDM_MESSAGE_BYTES - 1, text); /* just fits */
  (void)tdm_fail(TDM_IO, "%s", whole);
  assert_string_equal(tdm_last_message(), whole);
}

/* Messages may contain names of files and tensors from untrusted sources. */
static void messages_are_one_line_of_text(void **state) {
  (void)state;
  (void)tdm_fail(TDM_IO,
                 "a\x1b[2Jb\nc\x7f"
                 "d\xc2\x9b"
                 "e\xff"
                 "f \xc3\xa4 \xf0\x9f\x90\xa6 %.1s",
                 "\xc3\xa4");
  assert_string_equal(tdm_last_message(), "a?[2Jb?c?d?"
                                          "?e?f \xc3\xa4 \xf0\x9f\x90\xa6 ?");
  char text[2 * TDM_MESSAGE_BYTES] = "";
  while (strlen(text) + 2 < sizeof text)
    strcat(text, "\xc3\xa4");
  (void)tdm_fail(TDM_IO, "%s", text);
  assert_int_equal(strlen(tdm_last_message()), TDM_MESSAGE_BYTES - 1);
  assert_true(tdm_utf8_is_valid(tdm_last_message(), TDM_MESSAGE_BYTES - 1));
  (void)tdm_fail(TDM_IO, "b%s", text);
  (void)tdm_fail_within(TDM_IO, "ab");
  assert_in_range(strlen(tdm_last_message()), TDM_MESSAGE_BYTES - 2, TDM_MESSAGE_BYTES - 1);
  assert_true(tdm_utf8_is_valid(tdm_last_message(), strlen(tdm_last_message())));
  assert_null(strchr(tdm_last_message(), '?'));
}

static void *fail_elsewhere(void *user) {
  *(int *)user = tdm_last_message()[0] == '\0' && tdm_last_status() == TDM_OK;
  (void)tdm_fail(TDM_IO, "elsewhere");
  return NULL;
}

static void each_thread_has_its_own(void **state) {
  (void)state;
  (void)tdm_fail(TDM_IO, "here");
  pthread_t thread;
  int was_empty = 0;
  assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &was_empty), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_true(was_empty);
  assert_string_equal(tdm_last_message(), "here");
}

static tdm_status try_both(tdm_status first, int *reached) {
  TDM_TRY(first);
  *reached = 1;
  return TDM_OK;
}

static void try_hands_on_failures_only(void **state) {
  (void)state;
  int reached = 0;
  assert_int_equal(try_both(TDM_DEVICE_LOST, &reached), TDM_DEVICE_LOST);
  assert_int_equal(reached, 0);
  assert_int_equal(try_both(TDM_OK, &reached), TDM_OK);
  assert_int_equal(reached, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_are_those_of_the_enumeration),
      cmocka_unit_test(version_is_that_of_the_header),
      cmocka_unit_test(failing_sets_the_message),
      cmocka_unit_test(prefixes_stand_before_the_message),
      cmocka_unit_test(a_message_may_quote_the_one_before),
      cmocka_unit_test(long_messages_are_cut),
      cmocka_unit_test(what_is_cut_ends_behind_a_word),
      cmocka_unit_test(messages_are_one_line_of_text),
      cmocka_unit_test(each_thread_has_its_own),
      cmocka_unit_test(try_hands_on_failures_only),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
