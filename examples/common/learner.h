/* Training and evaluating any model over loaders, as the shared options ask. One thread. */
#ifndef EXAMPLES_COMMON_LEARNER_H
#define EXAMPLES_COMMON_LEARNER_H

#include "examples/common/batch.h"
#include "examples/common/common_options.h"

/* Computes a score of the results on held-out data. */
typedef struct judge {
  const char *score_name;    /* "test accuracy" */
  void (*begin)(void *user); /* called before the first batch; NULL: nothing is */
  /* Counts the model's output for the batch. */
  tdm_status (*count)(void *user, const batch *asked, const tdm_tensor *answers);
  double (*score)(const void *user);
  void *user;
} judge;

/* A state that one step passes to the next: the output is fed as the input. `first` (borrowed) is
 * fed to the first step of every epoch. Steps then run one after the other. */
typedef struct carried {
  const char *input;
  const char *output;
  tdm_tensor *first;
} carried;
enum { MOST_CARRIED = 4 };

/* A model, its data and its score; all pointers are borrowed. */
typedef struct learner {
  tdm_session *session;
  tdm_loader *training;
  tdm_loader *held_out;
  /* Arranges the fields of each batch for the model; NULL: they are fed as they are. */
  tdm_status (*arrange)(void *arranges_for, batch *taken);
  void *arranges_for;
  const char *const *inputs; /* field i of a batch is fed as inputs[i] */
  size_t input_count;
  size_t question_count; /* number of inputs that an evaluation feeds, from the first */
  const char *answer;    /* name of the output that is compared with the target */
  const char *unit;      /* name of a row, or of `row_units` of them: "words" */
  int64_t row_units;     /* units of a row; 0: 1 */
  judge judging;
  const carried *carries;
  size_t carry_count;
  const tdm_tensor_list
      *kept; /* goes into checkpoints besides, for who reads them; NULL: nothing */
} learner;

/* Trains for the options' epochs, printing a line an epoch, and judges after each; once, without
 * training, where there are none. Writes the timeline that they ask for. Ctrl-C ends it after the
 * step under way, with CANCELLED, and with a checkpoint where they ask for one. */
tdm_status learner_train(const learner *self, const common_options *given);
/* Makes the plan of a training step on a batch of the most common shapes the session's latest, and
 * prints it, and writes it for graphviz, as the options ask. */
tdm_status learner_explain(const learner *self, const common_options *given);

#endif
