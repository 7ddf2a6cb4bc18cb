/* Builds the part of a message about an unknown name that lists the valid names and suggests the
 * nearest one. Owns nothing and never allocates, because it is used while failing. */
#ifndef TANDEM_CORE_CHOICES_H
#define TANDEM_CORE_CHOICES_H

#include "tandem/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TDM_CHOICES_BYTES 224 /* size of `listed`; names that do not fit are counted */

typedef struct tdm_choices {
  const char *given;
  char nearest[64]; /* "" if no name is near */
  size_t distance;  /* edit distance from `given` to `nearest` */
  size_t count;
  size_t left_out;
  size_t used; /* bytes used in `listed` */
  char listed[TDM_CHOICES_BYTES];
  char text[TDM_CHOICES_BYTES + 160];
} tdm_choices;

/* given may be NULL; no name is near to NULL. */
void tdm_choices_init(tdm_choices *choices, const char *given);
/* Adds one valid name. */
void tdm_choices_add(tdm_choices *choices, const char *name);
/* Considers a name, of `length` bytes, for the suggestion without listing it. */
void tdm_choices_consider(tdm_choices *choices, const char *name, size_t length);
/* Returns the text "inputs are: ids, lengths (did you mean 'ids'?)" or "there are no inputs".
 * `kind` is the plural of what is listed. The text is stored in choices. */
const char *tdm_choices_text(tdm_choices *choices, const char *kind);

/* Returns how many letters have to be inserted, deleted, replaced or swapped with their neighbour
 * to turn one word into the other. Returns limit + 1 if that is above limit, or if a word has more
 * than 63 bytes. */
size_t tdm_edit_distance(const char *a, const char *b, size_t limit);

#ifdef __cplusplus
}
#endif
#endif
