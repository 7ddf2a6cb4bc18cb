/* Reads "key=value,key=value", the form of the environment's variables and of a device kind's
 * settings. Invariant: a malformed text is refused, never accepted in part. */
#ifndef TANDEM_CORE_SETTINGS_H
#define TANDEM_CORE_SETTINGS_H

#include "tandem/core/core.h"

typedef struct tdm_setting {
  char key[32];
  char value[32];
} tdm_setting;

/* Reads the pair at *cursor and advances. Returns false at the end. If there is no pair, returns
 * false and sets *out_status to INVALID_ARGUMENT with a message that names `source`. */
bool tdm_setting_next(const char **cursor, const char *source, tdm_setting *out_setting,
                      tdm_status *out_status);

/* Parses the whole text as a number in [least, most]. Messages name source and key. */
tdm_status tdm_setting_number(const char *source, const char *key, const char *text, double least,
                              double most, double *out_number) TDM_WARN_UNUSED;
tdm_status tdm_setting_integer(const char *source, const char *key, const char *text,
                               uint64_t least, uint64_t most, uint64_t *out_number) TDM_WARN_UNUSED;

#endif
