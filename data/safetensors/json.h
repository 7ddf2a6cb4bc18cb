/* A strict reader of the JSON (RFC 8259) that safetensors headers are made of: objects, arrays,
 * strings and whole numbers, read in place. No tree is built and no string is copied, so that a
 * hostile header costs no memory beyond what its caller keeps, and no depth beyond what its caller
 * asks for. */
#ifndef TANDEM_DATA_SAFETENSORS_JSON_H
#define TANDEM_DATA_SAFETENSORS_JSON_H

#include "core/status.h"

typedef struct tdm_json {
  char *text;
  size_t bytes;
  size_t at; /* of the next byte to read */
} tdm_json;

/* Failures are CORRUPT_DATA and say at which byte. All skip white space first. */
tdm_status tdm_json_expect(tdm_json *json, char symbol) TDM_WARN_UNUSED;
/* Is symbol next? If so, passes it. */
bool tdm_json_accept(tdm_json *json, char symbol);
/* Between members: true at a comma, false at the closing symbol; either is passed. */
tdm_status tdm_json_more(tdm_json *json, char closing, bool *out_more) TDM_WARN_UNUSED;
/* A whole number from 0 to INT64_MAX, without sign, fraction, exponent or leading zeros. */
tdm_status tdm_json_whole_number(tdm_json *json, int64_t *out_number) TDM_WARN_UNUSED;
/* A string without zeros, decoded where it stands, which it never outgrows, and terminated. The
 * text is no JSON any more from there on back. */
tdm_status tdm_json_string(tdm_json *json, char **out_text) TDM_WARN_UNUSED;
/* A string of fewer than capacity bytes; a longer one is cut, and is no known word anyway. */
tdm_status tdm_json_word(tdm_json *json, char *out_text, size_t capacity) TDM_WARN_UNUSED;
/* Only white space may be left. */
tdm_status tdm_json_end(tdm_json *json) TDM_WARN_UNUSED;

#endif
