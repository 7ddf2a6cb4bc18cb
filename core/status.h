/* Internal side of statuses: how code of the library sets the calling thread's message, and the
 * macro that hands a failure on. Invariant: a function that returns other than TDM_OK has set the
 * message, or called one that has. */
#ifndef TANDEM_CORE_STATUS_H
#define TANDEM_CORE_STATUS_H

#include <stdarg.h>

#include "tandem/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Puts "prefix: " before the thread's message and returns status. */
tdm_status tdm_fail_within(tdm_status status, const char *format, ...) TDM_PRINTF(2, 3);
/* tdm_fail(TDM_OUT_OF_MEMORY) with one wording: "out of memory: N bytes for WHAT". */
tdm_status tdm_fail_memory(size_t bytes, const char *what);

/* INVALID_ARGUMENT for an object that is NULL because making it has failed, perhaps: the message
 * tells the failure before this one as well, whatever was called with nothing in between. */
tdm_status tdm_fail_null(const char *format, ...) TDM_PRINTF(1, 2);

#define TDM_MESSAGE_BYTES 512 /* of a thread's or a run's message, terminator included */

/* Writes a message as all are written: numbers with a point in any locale, cut behind a word, by
 * "...", where it is longer than capacity, and printable (core/utf8.h), whatever names of layers,
 * files and tensors it quotes. format NULL: a message that tells so. */
void tdm_message_format(char *text, size_t capacity, const char *format, va_list arguments);

/* Returns the status of expression if it is not TDM_OK. Only before a function's first
 * acquisition; after it, go to one fail: label. */
#define TDM_TRY(expression)                                                                        \
  do {                                                                                             \
    const tdm_status try_status_ = (expression);                                                   \
    if (try_status_ != TDM_OK) return try_status_;                                                 \
  } while (0)

#define TDM_UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define TDM_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#ifdef __cplusplus
}
#endif
#endif
