/* Decoding (RFC 3629), and the case of letters as ranges of code points (Unicode 15:
 * UnicodeData.txt, simple lower-case mappings). Invariant: folding a folded letter changes nothing.
 */
#include "examples/words/text.h"

/* ---- Encodings ------------------------------------------------------------------------------- */

size_t utf8_decode(const char *bytes, size_t size, uint32_t *out_point) {
  if (size == 0) return 0;
  const unsigned char first = (unsigned char)bytes[0];
  if (first < 0x80) {
    *out_point = first;
    return 1;
  }
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || length > size) return 0;
  uint32_t point = first & (0x7Fu >> length);
  for (size_t i = 1; i < length; i++) {
    const unsigned char next = (unsigned char)bytes[i];
    if ((next & 0xC0) != 0x80) return 0;
    point = point << 6 | (next & 0x3Fu);
  }
  const uint32_t least = length == 4 ? 0x10000 : length == 3 ? 0x800 : 0x80;
  if (point < least || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF)) return 0;
  *out_point = point;
  return length;
}

size_t utf8_encode(uint32_t point, char out_bytes[4]) {
  if (point < 0x80) {
    out_bytes[0] = (char)point;
    return 1;
  }
  const size_t length = point >= 0x10000 ? 4 : point >= 0x800 ? 3 : 2;
  for (size_t i = length - 1; i > 0; i--) {
    out_bytes[i] = (char)(0x80 | (point & 0x3F));
    point >>= 6;
  }
  out_bytes[0] = (char)((0xF00u >> length) | point);
  return length;
}

encoding text_encoding(const char *bytes, size_t size, int64_t *out_line) {
  bool has_sequences = false;
  bool has_controls = false;
  int64_t line = 1;
  *out_line = 0;
  for (size_t at = 0; at < size;) {
    uint32_t point = 0;
    const size_t used = utf8_decode(bytes + at, size - at, &point);
    if (used == 0) {
      if (*out_line == 0) *out_line = line;
      has_controls = has_controls || (unsigned char)bytes[at] < 0xA0;
    }
    has_sequences = has_sequences || used > 1;
    line += bytes[at] == '\n';
    at += used == 0 ? 1 : used;
  }
  if (*out_line == 0) return ENCODING_UTF8;
  return has_sequences || has_controls ? ENCODING_NONE : ENCODING_LATIN1;
}

size_t text_decode(encoding of, const char *bytes, size_t size, uint32_t *out_point) {
  if (of != ENCODING_LATIN1) return utf8_decode(bytes, size, out_point);
  if (size == 0) return 0;
  *out_point = (unsigned char)bytes[0];
  return 1;
}

/* ---- Letters --------------------------------------------------------------------------------- */

typedef struct point_range {
  uint32_t first;
  uint32_t last;
} point_range;

static const point_range letters[] = {
    {0x41, 0x5A},   {0x61, 0x7A},   {0xC0, 0xD6},     {0xD8, 0xF6},   {0xF8, 0x24F},
    {0x386, 0x386}, {0x388, 0x38A}, {0x38C, 0x38C},   {0x38E, 0x3A1}, {0x3A3, 0x3CE},
    {0x400, 0x481}, {0x48A, 0x52F}, {0x1E00, 0x1EFF},
};

bool point_is_letter(uint32_t point) {
  for (size_t i = 0; i < sizeof letters / sizeof letters[0] && point >= letters[i].first; i++)
    if (point <= letters[i].last) return true;
  return false;
}

/* Capitals first, first + step, ... up to last become themselves plus shift. */
typedef struct case_range {
  uint32_t first;
  uint32_t last;
  uint32_t step;
  int32_t shift;
} case_range;

static const case_range capitals[] = {
    {0x41, 0x5A, 1, 32},
    {0xC0, 0xD6, 1, 32},
    {0xD8, 0xDE, 1, 32},
    {0x100, 0x12E, 2, 1},
    {0x130, 0x130, 1, 'i' - 0x130}, /* the dotted I of Turkish */
    {0x132, 0x136, 2, 1},
    {0x139, 0x147, 2, 1},
    {0x14A, 0x176, 2, 1},
    {0x178, 0x178, 1, 0xFF - 0x178},
    {0x179, 0x17D, 2, 1},
    {0x1A0, 0x1A4, 2, 1},
    {0x1AF, 0x1AF, 1, 1},
    {0x1CD, 0x1DB, 2, 1},
    {0x1DE, 0x1EE, 2, 1},
    {0x1F8, 0x21E, 2, 1},
    {0x222, 0x232, 2, 1},
    {0x386, 0x386, 1, 38},
    {0x388, 0x38A, 1, 37},
    {0x38C, 0x38C, 1, 64},
    {0x38E, 0x38F, 1, 63},
    {0x391, 0x3A1, 1, 32},
    {0x3A3, 0x3AB, 1, 32},
    {0x400, 0x40F, 1, 80},
    {0x410, 0x42F, 1, 32},
    {0x460, 0x480, 2, 1},
    {0x48A, 0x4BE, 2, 1},
    {0x4C0, 0x4C0, 1, 15},
    {0x4C1, 0x4CD, 2, 1},
    {0x4D0, 0x52E, 2, 1},
    {0x1E00, 0x1E94, 2, 1},
    {0x1E9E, 0x1E9E, 1, 0xDF - 0x1E9E}, /* the capital sharp s */
    {0x1EA0, 0x1EFE, 2, 1},
};

uint32_t point_fold(uint32_t point) {
  for (size_t i = 0; i < sizeof capitals / sizeof capitals[0] && point >= capitals[i].first; i++) {
    const case_range *range = &capitals[i];
    if (point > range->last) continue;
    const bool is_capital = (point - range->first) % range->step == 0;
    return is_capital ? point + (uint32_t)range->shift : point;
  }
  return point;
}
