/* Converts between numbers and text. Invariant: the locale of the process is never changed, and
 * that of the calling thread only inside a scope. */
#define _GNU_SOURCE /* newlocale, uselocale */
#include "core/number.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The C library has the locale "C" built in: creating it allocates nothing and cannot fail. */
void tdm_plain_locale_enter(tdm_plain_locale *scope) {
  scope->plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  scope->before = uselocale(scope->plain);
}

void tdm_plain_locale_leave(tdm_plain_locale *scope) {
  (void)uselocale(scope->before);
  if (scope->plain != (locale_t)0) freelocale(scope->plain);
}

bool tdm_number_parse(const char *text, double *out_number) {
  char *end = NULL;
  tdm_plain_locale scope;
  tdm_plain_locale_enter(&scope);
  errno = 0;
  const double number = strtod(text, &end);
  const bool is_number = end != text && *end == '\0' && errno == 0;
  tdm_plain_locale_leave(&scope);
  if (is_number) *out_number = number;
  return is_number;
}

int tdm_plain_print(char *text, size_t capacity, const char *format, ...) {
  va_list arguments;
  tdm_plain_locale scope;
  tdm_plain_locale_enter(&scope);
  va_start(arguments, format);
  const int length = vsnprintf(text, capacity, format, arguments);
  va_end(arguments);
  tdm_plain_locale_leave(&scope);
  return length;
}

const char *tdm_number_text(double number, int digits, char *text) {
  (void)tdm_plain_print(text, TDM_NUMBER_TEXT - 2, "%.*g", digits < 17 ? digits : 17, number);
  if (strspn(text, "-0123456789") == strlen(text)) (void)strcat(text, ".0");
  return text;
}
