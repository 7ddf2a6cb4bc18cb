/* Numbers as text, the same in every locale: "1.5" is one and a half also where the program has
 * asked for a locale that writes "1,5". The only place that reads or writes numbers with a point.
 */
#ifndef TANDEM_CORE_NUMBER_H
#define TANDEM_CORE_NUMBER_H

#include <locale.h>
#include <stdbool.h>

#include "tandem/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The whole text as a number, as strtod reads it in the locale "C"; false where it is none, or
 * beyond what a double holds. */
bool tdm_number_parse(const char *text, double *out_number);

#define TDM_NUMBER_TEXT 32
/* Writes "%.*g" of number with at most 17 digits, and ".0" behind what looks like a whole number;
 * text has TDM_NUMBER_TEXT bytes. Answers text. */
const char *tdm_number_text(double number, int digits, char *text);

/* snprintf, with a point in any locale. */
int tdm_plain_print(char *text, size_t capacity, const char *format, ...) TDM_PRINTF(3, 4);

/* Between these two calls the calling thread's printf and scanf use the locale "C". */
typedef struct tdm_plain_locale {
  locale_t plain;
  locale_t before;
} tdm_plain_locale;
void tdm_plain_locale_enter(tdm_plain_locale *scope);
void tdm_plain_locale_leave(tdm_plain_locale *scope);

#ifdef __cplusplus
}
#endif
#endif
