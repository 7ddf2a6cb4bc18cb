/* UTF-8 (RFC 3629). Invariant: only valid text is decoded, so decoded text encodes again to the
 * same bytes. */
#include "core/utf8.h"

#include <string.h>

size_t tdm_utf8_decode(const char *bytes, size_t size, uint32_t *out_point) {
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

size_t tdm_utf8_encode(uint32_t point, char out_bytes[4]) {
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

bool tdm_utf8_is_valid(const char *bytes, size_t size) {
  uint32_t point = 0;
  for (size_t at = 0; at < size;) {
    const size_t used = tdm_utf8_decode(bytes + at, size - at, &point);
    if (used == 0) return false;
    at += used;
  }
  return true;
}

void tdm_utf8_make_printable(char *text) {
  for (size_t left = strlen(text); left > 0;) {
    uint32_t point = 0;
    const size_t used = tdm_utf8_decode(text, left, &point);
    const size_t passed = used == 0 ? 1 : used;
    if (used == 0 || point < ' ' || (point >= 0x7F && point <= 0x9F)) memset(text, '?', passed);
    text += passed;
    left -= passed;
  }
}
