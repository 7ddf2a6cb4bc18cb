/* Cases with golden data of training: a model, an optimizer and a placement. */
#ifndef TANDEM_TESTS_LAYERS_CASES_TRAINING_H
#define TANDEM_TESTS_LAYERS_CASES_TRAINING_H

#include "tests/layers/layer_test.h"

#define TRAINING_FEEDS 2
#define TRAINING_CASES_MAX 160

typedef struct training_model {
  tdm_value (*build)(tdm_graph *graph, tdm_dtype dtype); /* returns the loss */
  const char *feeds[TRAINING_FEEDS];
} training_model;

typedef struct training_case {
  char name[32];
  const training_model *model;
  const char *placement; /* second placement to test; NULL: none */
  double tolerance[2];   /* float32, float64 */
  tdm_optimizer optimizer;
  bool cycles; /* rate and momentum follow one cycle, up to the optimizer's rate */
} training_case;

/* Fills cases (TRAINING_CASES_MAX) and returns their number. */
size_t training_cases_all(const golden_file *golden, training_case *cases);
/* Creates a session of the case's model, placed by the device map; released by the caller. */
tdm_session *training_session(const golden_file *golden, const training_case *training,
                              const char *placement);

#endif
