/* The strict JSON reader. Invariant: at never exceeds bytes, and every byte before it has been
 * checked. */
#include "data/safetensors/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/utf8.h"

static tdm_status fail_at(const tdm_json *json, const char *wanted) {
  if (json->at >= json->bytes)
    return tdm_fail(TDM_CORRUPT_DATA, "the header ends where %s was expected", wanted);
  const unsigned char found = (unsigned char)json->text[json->at];
  if (found > ' ' && found < 0x7F) {
    return tdm_fail(TDM_CORRUPT_DATA, "header byte %zu: expected %s, found '%c'", json->at, wanted,
                    found);
  }
  return tdm_fail(TDM_CORRUPT_DATA, "header byte %zu: expected %s, found byte 0x%02X", json->at,
                  wanted, found);
}

static void skip_blanks(tdm_json *json) {
  while (json->at < json->bytes) {
    const char next = json->text[json->at];
    if (next != ' ' && next != '\n' && next != '\r' && next != '\t') return;
    json->at++;
  }
}

bool tdm_json_accept(tdm_json *json, char symbol) {
  skip_blanks(json);
  if (json->at == json->bytes || json->text[json->at] != symbol) return false;
  json->at++;
  return true;
}

tdm_status tdm_json_expect(tdm_json *json, char symbol) {
  const char wanted[] = {'\'', symbol, '\'', '\0'};
  return tdm_json_accept(json, symbol) ? TDM_OK : fail_at(json, wanted);
}

tdm_status tdm_json_more(tdm_json *json, char closing, bool *out_more) {
  const char wanted[] = {'\'', ',', '\'', ' ', 'o', 'r', ' ', '\'', closing, '\'', '\0'};
  *out_more = tdm_json_accept(json, ',');
  return *out_more || tdm_json_accept(json, closing) ? TDM_OK : fail_at(json, wanted);
}

tdm_status tdm_json_end(tdm_json *json) {
  skip_blanks(json);
  return json->at == json->bytes ? TDM_OK : fail_at(json, "the end");
}

static bool is_digit(const tdm_json *json, size_t at) {
  return at < json->bytes && json->text[at] >= '0' && json->text[at] <= '9';
}

tdm_status tdm_json_whole_number(tdm_json *json, int64_t *out_number) {
  static const char wanted[] = "a whole number, 0 or more";
  skip_blanks(json);
  if (!is_digit(json, json->at)) return fail_at(json, wanted);
  const bool is_led_by_zero = json->text[json->at] == '0';
  int64_t number = json->text[json->at++] - '0';
  if (is_led_by_zero && is_digit(json, json->at))
    return fail_at(json, "no digit after a leading zero");
  for (; is_digit(json, json->at); json->at++) {
    if (__builtin_mul_overflow(number, 10, &number) ||
        __builtin_add_overflow(number, json->text[json->at] - '0', &number)) {
      return tdm_fail(TDM_CORRUPT_DATA, "header byte %zu: the number is beyond 64 bits", json->at);
    }
  }
  const bool goes_on =
      json->at < json->bytes && strchr(".eE", json->text[json->at]) && json->text[json->at] != '\0';
  if (goes_on) return fail_at(json, wanted);
  *out_number = number;
  return TDM_OK;
}

/* ---- Strings --------------------------------------------------------------------------------- */

/* Reads four hexadecimal digits. */
static tdm_status read_unit(tdm_json *json, uint32_t *out_unit) {
  *out_unit = 0;
  for (int i = 0; i < 4; i++, json->at++) {
    const char digit = json->at < json->bytes ? json->text[json->at] : '\0';
    uint32_t value = 16;
    if (digit >= '0' && digit <= '9') value = (uint32_t)(digit - '0');
    if (digit >= 'a' && digit <= 'f') value = (uint32_t)(digit - 'a') + 10;
    if (digit >= 'A' && digit <= 'F') value = (uint32_t)(digit - 'A') + 10;
    if (value > 15) return fail_at(json, "a hexadecimal digit");
    *out_unit = *out_unit << 4 | value;
  }
  return TDM_OK;
}

/* Reads what follows \u. A surrogate must have its partner. */
static tdm_status read_escaped_point(tdm_json *json, uint32_t *out_point) {
  const size_t begin = json->at;
  TDM_TRY(read_unit(json, out_point));
  const bool is_high = *out_point >= 0xD800 && *out_point <= 0xDBFF;
  bool is_lone = *out_point >= 0xDC00 && *out_point <= 0xDFFF;
  if (is_high) {
    is_lone = json->bytes - json->at < 2 || memcmp(json->text + json->at, "\\u", 2) != 0;
    if (!is_lone) {
      uint32_t low = 0;
      json->at += 2;
      TDM_TRY(read_unit(json, &low));
      is_lone = low < 0xDC00 || low > 0xDFFF;
      *out_point = 0x10000 + ((*out_point - 0xD800) << 10) + (low - 0xDC00);
    }
  }
  if (is_lone) return tdm_fail(TDM_CORRUPT_DATA, "header byte %zu: half a surrogate pair", begin);
  if (*out_point == 0)
    return tdm_fail(TDM_CORRUPT_DATA, "header byte %zu: a zero inside a string", begin);
  return TDM_OK;
}

static tdm_status read_escape(tdm_json *json, uint32_t *out_point) {
  static const char names[] = "\"\\/bfnrt";
  static const char points[] = "\"\\/\b\f\n\r\t";
  const char name = json->at < json->bytes ? json->text[json->at] : '\0';
  const char *found = name == '\0' ? NULL : strchr(names, name);
  if (!found && name != 'u') return fail_at(json, "an escape");
  json->at++;
  if (name == 'u') return read_escaped_point(json, out_point);
  *out_point = (unsigned char)points[found - names];
  return TDM_OK;
}

/* Reads a string with its quotes. Writes it, terminated and cut to capacity > 0 bytes, and returns
 * its uncut size in *out_bytes. */
static tdm_status read_string(tdm_json *json, char *out_text, size_t capacity, size_t *out_bytes) {
  size_t written = 0;
  *out_bytes = 0;
  if (!tdm_json_accept(json, '"')) return fail_at(json, "a string");
  for (;;) {
    uint32_t point = 0;
    if (json->at == json->bytes) return fail_at(json, "the end of a string");
    if (json->text[json->at] == '"') break;
    if (json->text[json->at] == '\\') {
      json->at++;
      TDM_TRY(read_escape(json, &point));
    } else {
      const size_t used = tdm_utf8_decode(json->text + json->at, json->bytes - json->at, &point);
      if (used == 0) return fail_at(json, "UTF-8");
      if (point < ' ') return fail_at(json, "no control character in a string");
      json->at += used;
    }
    char encoded[4];
    const size_t length = tdm_utf8_encode(point, encoded);
    if (written == *out_bytes && length < capacity - written) {
      memcpy(out_text + written, encoded, length);
      written += length;
    }
    *out_bytes += length;
  }
  json->at++;
  out_text[written] = '\0';
  return TDM_OK;
}

/* A decoded character is never longer than its escape. So writing never overtakes reading, and the
 * terminator fits where the closing quote was. */
tdm_status tdm_json_string(tdm_json *json, char **out_text) {
  *out_text = NULL;
  skip_blanks(json);
  if (json->at == json->bytes) return fail_at(json, "a string");
  char *text = json->text + json->at + 1;
  size_t bytes = 0;
  TDM_TRY(read_string(json, text, json->bytes - json->at, &bytes));
  *out_text = text;
  return TDM_OK;
}

tdm_status tdm_json_word(tdm_json *json, char *out_text, size_t capacity) {
  size_t bytes = 0;
  return read_string(json, out_text, capacity, &bytes);
}
