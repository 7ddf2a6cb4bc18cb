/* Marks memory as inaccessible for AddressSanitizer. In other builds the macros do nothing. */
#ifndef TANDEM_CORE_POISON_H
#define TANDEM_CORE_POISON_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TDM_POISONS 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define TDM_POISONS 1
#endif

/* TDM_POISON(memory, bytes): every later access is reported, until TDM_UNPOISON. */
#ifdef TDM_POISONS
#include <sanitizer/asan_interface.h>
#define TDM_POISON(memory, bytes) __asan_poison_memory_region(memory, bytes)
#define TDM_UNPOISON(memory, bytes) __asan_unpoison_memory_region(memory, bytes)
#else
#define TDM_POISONS 0
#define TDM_POISON(memory, bytes) (void)0
#define TDM_UNPOISON(memory, bytes) (void)0
#endif

#endif
