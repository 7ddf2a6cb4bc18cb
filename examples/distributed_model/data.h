/* The words: read from lists, or the tables of a saved model; loaders over them; a dump. */
#ifndef EXAMPLES_DISTRIBUTED_MODEL_DATA_H
#define EXAMPLES_DISTRIBUTED_MODEL_DATA_H

#include "examples/distributed_model/options.h"

/* Reads the tables of words from a file: a saved model or a checkpoint has them in addition to its
 * parameters. */
tdm_status data_saved_words(tdm_context *context, const tdm_tensor_list *list,
                            word_set **out_words);

enum { MAX_WORD_LENGTH = 24 }; /* characters; longer words are left out */

/* Returns the words of the options' lists, a tenth of each held out. NULL on failure, with a
 * message. */
word_set *data_read_words(tdm_context *context, const options *given);
/* Checks that both have the same numbers of characters and languages. The message names the file
 * that differs. */
tdm_status data_check_same_tables(tdm_context *context, word_set *words, word_set *saved,
                                  const char *path);
/* Checks, before training, that the model's alphabet has every character of these words. */
tdm_status data_check_known(word_set *words, char *const *asked, int count);
/* Batches of words of one length, made ahead; a new order every epoch if shuffle. near: the device
 * that they are uploaded to, or NULL. */
tdm_loader *data_create_loader(word_set *words, bool training, int64_t batch_size, bool shuffle,
                               uint64_t seed, const char *near);
/* Writes all words: characters int64 (n, length), padded with 0; lengths, classes int64 (n); split
 * int64 (n), 1 for training. */
tdm_status data_dump(tdm_context *context, word_set *words, const char *path);

#endif
