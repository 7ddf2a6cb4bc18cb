/* Numbers as text, the same in every locale: "1.5" is one and a half even if the program has chosen
 * a locale that writes "1,5". Only this file reads or writes numbers with a decimal point. */
#ifndef TANDEM_CORE_NUMBER_H
#define TANDEM_CORE_NUMBER_H

#include <locale.h>
#include <stdbool.h>

#include "tandem/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Parses the whole text as a number, like strtod in the locale "C". Returns false if it is not a
 * number or exceeds the range of a double. */
bool tdm_number_parse(const char *text, double *out_number);

#define TDM_NUMBER_TEXT 32
/* Writes "%.*g" of number with at most 17 digits, followed by ".0" if the result looks like a whole
 * number. text has TDM_NUMBER_TEXT bytes. Returns text. */
const char *tdm_number_text(double number, int digits, char *text);

/* Like snprintf, with a decimal point in any locale. */
int tdm_plain_print(char *text, size_t capacity, const char *format, ...) TDM_PRINTF(3, 4);

/* Between enter and leave the calling thread's printf and scanf use the locale "C". */
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
