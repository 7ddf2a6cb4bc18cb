/* Words as datasets and batches. */
#ifndef EXAMPLES_WORDS_BATCHES_H
#define EXAMPLES_WORDS_BATCHES_H

#include "examples/common/batch.h"
#include "examples/words/words.h"

/* Returns a dataset of fields "characters" int64 (max_length), padded with 0, "length" int64 () and
 * "class" int64 (). */
tdm_dataset *word_set_dataset(const word_set *set, bool training);
/* Returns a loader of that dataset whose batches hold words of one length. */
tdm_loader *word_set_loader(const word_set *set, bool training, const tdm_loader_options *options);
/* Replaces the tensors of a batch of that loader by those that the model takes: characters int64
 * (length, rows), time first and without padding, and class int64 (rows). device: the device to
 * which batches are copied, or NULL. */
tdm_status word_batch_arrange(tdm_context *context, const char *device, batch *taken);

#endif
