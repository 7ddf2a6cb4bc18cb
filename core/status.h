/* Internal side of statuses: sets the calling thread's message, and defines the macro that returns
 * a callee's failure. Invariant: a function that returns a status other than TDM_OK has set the
 * message, or called a function that has. */
#ifndef TANDEM_CORE_STATUS_H
#define TANDEM_CORE_STATUS_H

#include <stdarg.h>

#include "tandem/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Puts "prefix: " before the thread's message and returns status. */
tdm_status tdm_fail_within(tdm_status status, const char *format, ...) TDM_PRINTF(2, 3);
/* tdm_fail(TDM_OUT_OF_MEMORY) with the standard wording: "out of memory: N bytes for WHAT". */
tdm_status tdm_fail_memory(size_t bytes, const char *what);

/* Fails with INVALID_ARGUMENT for an object that is NULL, perhaps because its creation failed. If
 * nothing was called in between, the message also quotes that previous failure. */
tdm_status tdm_fail_null(const char *format, ...) TDM_PRINTF(1, 2);

#define TDM_MESSAGE_BYTES 512 /* size of a thread's or a run's message, terminator included */

/* Formats a message the standard way: numbers with a decimal point in any locale, and names of
 * layers, files and tensors made printable (core/utf8.h). A text longer than capacity is cut after
 * a word and ends with "...". If format is NULL, the message reports that. */
void tdm_message_format(char *text, size_t capacity, const char *format, va_list arguments);

/* Returns the status of expression if it is not TDM_OK. Use it only before a function's first
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
