/* Reads settings. Invariant: see settings.h. */
#include "core/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/number.h"
#include "core/status.h"

static bool copy_part(char *out, size_t capacity, const char *begin, const char *end) {
  const size_t length = (size_t)(end - begin);
  if (length == 0 || length >= capacity) return false;
  memcpy(out, begin, length);
  out[length] = '\0';
  return true;
}

bool tdm_setting_next(const char **cursor, const char *source, tdm_setting *out_setting,
                      tdm_status *out_status) {
  *out_status = TDM_OK;
  const char *begin = *cursor;
  if (*begin == '\0') return false;
  const char *end = begin + strcspn(begin, ",");
  const char *equals = memchr(begin, '=', (size_t)(end - begin));
  const bool trailing = *end == ',' && end[1] == '\0';
  if (!equals || trailing || !copy_part(out_setting->key, sizeof out_setting->key, begin, equals) ||
      !copy_part(out_setting->value, sizeof out_setting->value, equals + 1, end)) {
    *out_status =
        tdm_fail(TDM_INVALID_ARGUMENT, "%s: \"%.100s\" is not key=value,key=value", source, begin);
    return false;
  }
  *cursor = *end == ',' ? end + 1 : end;
  return true;
}

tdm_status tdm_setting_number(const char *source, const char *key, const char *text, double least,
                              double most, double *out_number) {
  double number = 0;
  if (!tdm_number_parse(text, &number) || !(number >= least && number <= most)) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s: %s is \"%.40s\", not a number from %g to %g", source,
                    key, text, least, most);
  }
  *out_number = number;
  return TDM_OK;
}

tdm_status tdm_setting_integer(const char *source, const char *key, const char *text,
                               uint64_t least, uint64_t most, uint64_t *out_number) {
  char *end = NULL;
  errno = 0;
  const bool digit = text[0] >= '0' && text[0] <= '9'; /* strtoull also accepts signs and spaces */
  const unsigned long long number = digit ? strtoull(text, &end, 10) : 0;
  if (!digit || *end != '\0' || errno != 0 || number < least || number > most) {
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "%s: %s is \"%.40s\", not a whole number from %llu to %llu", source, key, text,
                    (unsigned long long)least, (unsigned long long)most);
  }
  *out_number = number;
  return TDM_OK;
}
