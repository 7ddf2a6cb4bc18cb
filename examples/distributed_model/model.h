/* The model: characters (length, batch) -> embedding -> RNN -> its last step -> linear -> a score a
 * language. Owns the graph and the session; borrows context and words. */
#ifndef EXAMPLES_DISTRIBUTED_MODEL_MODEL_H
#define EXAMPLES_DISTRIBUTED_MODEL_MODEL_H

#include "examples/distributed_model/options.h"

typedef struct model {
  tdm_context *context; /* borrowed */
  word_set *words;      /* borrowed */
  tdm_graph *graph;
  tdm_session *session;
  const char *accelerator; /* device of the recurrent part; NULL: the options select it */
} model;

/* Names of the inputs and outputs of a run. */
#define MODEL_CHARACTERS "characters"       /* int64 (length, batch) */
#define MODEL_CLASSES "class"               /* int64 (batch); training only */
#define MODEL_SCORES "scores"               /* float32 (batch, languages) */
#define MODEL_PROBABILITIES "probabilities" /* float32 (batch, languages) */

/* Describes the model and makes a session that can train it. On failure out_model is all zeros. */
tdm_status model_create(tdm_context *context, word_set *words, const options *given,
                        model *out_model);
void model_release(model *released);
/* Parameters from a saved list; path is for messages. Every parameter must be there. */
tdm_status model_load(model *loaded, const tdm_tensor_list *list, const char *path);
/* Parameters and the tables of words, written in one go. */
tdm_status model_save(const model *saved, const char *path);

#endif
