/* Text as code points: UTF-8 and ISO-8859-1, and which code points are letters of the Latin, Greek
 * and Cyrillic scripts. Invariant: the results do not depend on the locale. */
#ifndef EXAMPLES_WORDS_TEXT_H
#define EXAMPLES_WORDS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { POINT_LIMIT = 0x2000 }; /* every letter, folded or not, is below it */

/* Reads one code point of UTF-8. Returns its bytes, or 0 if there is no valid one or size is 0. */
size_t utf8_decode(const char *bytes, size_t size, uint32_t *out_point);
/* Writes a code point as UTF-8. Returns its bytes, 1 to 4. */
size_t utf8_encode(uint32_t point, char out_bytes[4]);

bool point_is_letter(uint32_t point);
/* Returns the lower-case letter of a letter, which is always one code point. */
uint32_t point_fold(uint32_t point);

typedef enum encoding {
  ENCODING_NONE, /* not valid in any of these encodings */
  ENCODING_UTF8,
  ENCODING_LATIN1, /* ISO-8859-1 */
} encoding;

/* Returns the encoding of a text. Text that is not UTF-8 counts as ISO-8859-1 only if it has no
 * UTF-8 sequence at all and none of the control bytes 0x80 to 0x9F. For ENCODING_NONE *out_line is
 * the first line (from 1) that is not UTF-8. */
encoding text_encoding(const char *bytes, size_t size, int64_t *out_line);
/* Same as utf8_decode for a text in one of the two encodings. */
size_t text_decode(encoding of, const char *bytes, size_t size, uint32_t *out_point);

#endif
