/* Training and evaluation over the words. One thread. */
#ifndef EXAMPLES_DISTRIBUTED_MODEL_TRAIN_H
#define EXAMPLES_DISTRIBUTED_MODEL_TRAIN_H

#include "examples/distributed_model/model.h"

typedef struct evaluation {
  int64_t word_count;
  int64_t correct_count;
  int64_t confusion[MAX_LANGUAGES][MAX_LANGUAGES]; /* [the word's][the model's answer] */
} evaluation;

static inline double evaluation_accuracy(const evaluation *measured) {
  return measured->word_count ? (double)measured->correct_count / (double)measured->word_count : 0;
}

/* Trains for the options' epochs, printing a line an epoch, and evaluates after each; once, without
 * training, where there are none. out_last gets the last evaluation. */
tdm_status train_model(model *trained, const options *given, evaluation *out_last);
/* Makes the plan of a training step on words of the most common length the session's latest. */
tdm_status train_prepare_common(model *trained, const options *given);

#endif
