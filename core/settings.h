/* Reading "key=value,key=value", the form of the environment's variables and of a kind's settings.
 * Invariant: a text that is not of this form is refused, never read in part and left. */
#ifndef TANDEM_CORE_SETTINGS_H
#define TANDEM_CORE_SETTINGS_H

#include "tandem/core/core.h"

typedef struct tdm_setting {
  char key[32];
  char value[32];
} tdm_setting;

/* Reads the pair at *cursor and moves on; false at the end and, with *out_status set to
 * INVALID_ARGUMENT and a message that names `source`, where there is no pair. */
bool tdm_setting_next(const char **cursor, const char *source, tdm_setting *out_setting,
                      tdm_status *out_status);

/* The whole text as a number inside [least, most]; the message names source and key. */
tdm_status tdm_setting_number(const char *source, const char *key, const char *text, double least,
                              double most, double *out_number) TDM_WARN_UNUSED;
tdm_status tdm_setting_integer(const char *source, const char *key, const char *text,
                               uint64_t least, uint64_t most, uint64_t *out_number) TDM_WARN_UNUSED;

#endif
