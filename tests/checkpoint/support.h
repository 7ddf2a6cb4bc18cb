/* Helpers for tests of checkpoints: a small model with dropout, batch normalization and Adam, one
 * with a table of sparse gradients and Adagrad, and a shuffled loader. Invariant: TEST_KIND names
 * the accelerators, and two equal trainers take the same steps. */
#ifndef TANDEM_TESTS_CHECKPOINT_SUPPORT_H
#define TANDEM_TESTS_CHECKPOINT_SUPPORT_H

#include "tests/graph/support.h"

enum { ITEMS = 24, BATCH = 4, FEATURES = 6, CLASSES = 3 };

typedef struct trainer_options {
  const char *device_map; /* "*=sim:0" */
  const char *wrapped;    /* devices of replicas; NULL: not replicated */
  int micro_batches;
  bool has_table; /* true: model with a table; false: dense model */
  uint64_t seed;
  int prefetch;
  int64_t batch_size;             /* 0: BATCH */
  int64_t classes;                /* 0: CLASSES */
  const tdm_optimizer *optimizer; /* NULL: the model's own */
} trainer_options;

typedef struct trainer {
  tdm_session *session;
  tdm_loader *loader;
  bool has_table;
} trainer;

trainer trainer_create(tdm_context *context, const trainer_options *options);
void trainer_release(trainer *made);
/* Trains on the next batch, or on the first of the next epoch after the last. Returns the loss. */
double trainer_step(trainer *made);

/* Returns a path in the test's own temporary folder; path has 512 bytes. */
const char *checkpoint_path(char *path, const char *name);

#endif
