/* Text as code points: UTF-8 and ISO-8859-1, and which code points are letters of the Latin, Greek
 * and Cyrillic scripts. Invariant: the results do not depend on the locale. */
#ifndef TANDEM_DATA_TEXT_H
#define TANDEM_DATA_TEXT_H

#include "core/utf8.h"

#ifdef __cplusplus
extern "C" {
#endif

bool tdm_point_is_letter(uint32_t point);
/* Returns the lower-case form of a letter, which is always one code point. */
uint32_t tdm_point_fold(uint32_t point);

typedef enum tdm_encoding {
  TDM_ENCODING_NONE, /* not entirely valid in either encoding */
  TDM_ENCODING_UTF8,
  TDM_ENCODING_LATIN1, /* ISO-8859-1 */
} tdm_encoding;

/* Detects the encoding of a text. Text that is not UTF-8 counts as ISO-8859-1 only if it has no
 * multi-byte UTF-8 sequence and none of the control bytes 0x80 to 0x9F. Otherwise returns NONE, and
 * *out_line is the line (from 1) that is not UTF-8. */
tdm_encoding tdm_text_encoding(const char *bytes, size_t size, int64_t *out_line);
/* Like tdm_utf8_decode for a text in one of the two encodings. */
size_t tdm_text_decode(tdm_encoding encoding, const char *bytes, size_t size, uint32_t *out_point);

#ifdef __cplusplus
}
#endif
#endif
