/* A strict in-place reader of the JSON (RFC 8259) in safetensors headers: objects, arrays, strings
 * and whole numbers. It builds no tree and copies no string. So a hostile header uses no memory
 * except what the caller keeps, and no nesting depth except what the caller reads. */
#ifndef TANDEM_DATA_SAFETENSORS_JSON_H
#define TANDEM_DATA_SAFETENSORS_JSON_H

#include "core/status.h"

typedef struct tdm_json {
  char *text;
  size_t bytes;
  size_t at; /* index of the next byte to read */
} tdm_json;

/* Failures are CORRUPT_DATA and name the byte. All functions skip white space first. */
tdm_status tdm_json_expect(tdm_json *json, char symbol) TDM_WARN_UNUSED;
/* Returns true and advances if symbol is next. */
bool tdm_json_accept(tdm_json *json, char symbol);
/* Reads the separator between members: *out_more is true at a comma, false at the closing
 * symbol. */
tdm_status tdm_json_more(tdm_json *json, char closing, bool *out_more) TDM_WARN_UNUSED;
/* Reads a whole number from 0 to INT64_MAX, without sign, fraction, exponent or leading zeros. */
tdm_status tdm_json_whole_number(tdm_json *json, int64_t *out_number) TDM_WARN_UNUSED;
/* Reads a string without zeros. Decodes it in place, where it always fits, and terminates it. The
 * text up to there is not JSON any more. */
tdm_status tdm_json_string(tdm_json *json, char **out_text) TDM_WARN_UNUSED;
/* Reads a string of fewer than capacity bytes. A longer one is cut; no valid keyword is that
 * long. */
tdm_status tdm_json_word(tdm_json *json, char *out_text, size_t capacity) TDM_WARN_UNUSED;
/* Fails unless only white space is left. */
tdm_status tdm_json_end(tdm_json *json) TDM_WARN_UNUSED;

#endif
