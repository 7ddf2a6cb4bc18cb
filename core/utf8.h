/* Converts between code points and their UTF-8 bytes, independently of the locale. */
#ifndef TANDEM_CORE_UTF8_H
#define TANDEM_CORE_UTF8_H

#include "tandem/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Decodes one code point. Returns its number of bytes, or 0 if there is no valid one (or size is
 * 0): overlong forms, surrogates and values above U+10FFFF are invalid. */
size_t tdm_utf8_decode(const char *bytes, size_t size, uint32_t *out_point);
/* Encodes a code point. Returns its number of bytes, 1 to 4. */
size_t tdm_utf8_encode(uint32_t point, char out_bytes[4]);
/* Returns true if the whole text is valid. */
bool tdm_utf8_is_valid(const char *bytes, size_t size);
/* Replaces every invalid byte and every control character, including U+0080 to U+009F, by '?'. So
 * text from an untrusted source moves no cursor of a terminal and ends no line. */
void tdm_utf8_make_printable(char *text);

#ifdef __cplusplus
}
#endif
#endif
