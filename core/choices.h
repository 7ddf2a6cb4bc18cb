/* What a message says of a name that is not there: which names there are, and which of them was
 * probably meant. Owns nothing; never allocates, since it is used while failing. */
#ifndef TANDEM_CORE_CHOICES_H
#define TANDEM_CORE_CHOICES_H

#include "tandem/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TDM_CHOICES_BYTES 224 /* of the listed names; those that do not fit are counted */

typedef struct tdm_choices {
  const char *given;
  char nearest[64]; /* "": none is near */
  size_t distance;  /* from given to nearest */
  size_t count;
  size_t left_out;
  size_t used; /* bytes of listed */
  char listed[TDM_CHOICES_BYTES];
  char text[TDM_CHOICES_BYTES + 160];
} tdm_choices;

/* given may be NULL, which is near to nothing. */
void tdm_choices_init(tdm_choices *choices, const char *given);
/* One name that there is. */
void tdm_choices_add(tdm_choices *choices, const char *name);
/* One that may have been meant, length bytes of name, and is not listed. */
void tdm_choices_consider(tdm_choices *choices, const char *name, size_t length);
/* "inputs are: ids, lengths (did you mean 'ids'?)", "there are no inputs"; of what is called kind,
 * in the plural. Lies in choices. */
const char *tdm_choices_text(tdm_choices *choices, const char *kind);

/* How many letters have to be put in, left out, replaced or swapped with their neighbour to make
 * one word of the other; limit + 1 beyond limit, or for words of more than 63 bytes. */
size_t tdm_edit_distance(const char *a, const char *b, size_t limit);

#ifdef __cplusplus
}
#endif
#endif
