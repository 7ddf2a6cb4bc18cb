/* One pass over what is held out; Ctrl-C ends it early. */
#ifndef EXAMPLES_COMMON_EVALUATE_H
#define EXAMPLES_COMMON_EVALUATE_H

#include "examples/common/learner.h"

/* The current carried values; owned. */
typedef struct carrier {
  tdm_tensor *values[MOST_CARRIED];
} carrier;
void carrier_begin(carrier *state, const learner *self);
void carrier_end(carrier *state, const learner *self);
/* Makes feeds for the first field_count fields of a batch, then for carried values; returns their
 * number.
 * out_feeds has room for TDM_DATASET_MAX_FIELDS + MOST_CARRIED. */
size_t carrier_feeds(const carrier *state, const learner *self, const batch *taken,
                     size_t field_count, bool handed_over, tdm_feed *out_feeds);
/* Takes what fetches, one for each that is carried, have brought. */
void carrier_take(carrier *state, const learner *self, tdm_fetch *fetches);

/* Releases what *out_batch holds, then fills it with the loader's next, arranged. */
tdm_status learner_next(const learner *self, tdm_loader *loader, batch *out_batch);

tdm_status evaluate(const learner *self);

#endif
