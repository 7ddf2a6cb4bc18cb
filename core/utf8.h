/* Code points and the bytes of UTF-8 that stand for them. No locale is looked at. */
#ifndef TANDEM_CORE_UTF8_H
#define TANDEM_CORE_UTF8_H

#include "tandem/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads one code point; answers its bytes, or 0 where there is no valid one (or size is 0):
 * overlong forms, surrogates and values past U+10FFFF are not valid. */
size_t tdm_utf8_decode(const char *bytes, size_t size, uint32_t *out_point);
/* Writes a code point; answers its bytes, 1 to 4. */
size_t tdm_utf8_encode(uint32_t point, char out_bytes[4]);
/* Is all of it valid? */
bool tdm_utf8_is_valid(const char *bytes, size_t size);
/* Puts '?' for every byte of what is not valid, and of control characters, those from U+0080 to
 * U+009F too: what is left of a text that anybody may have written moves no cursor of a terminal,
 * and ends no line. */
void tdm_utf8_make_printable(char *text);

#ifdef __cplusplus
}
#endif
#endif
