/* The cases that golden data of layers exist for, as graphs. */
#ifndef TANDEM_TESTS_LAYERS_LAYER_CASES_H
#define TANDEM_TESTS_LAYERS_LAYER_CASES_H

#include "tests/layers/layer_test.h"

typedef struct layer_case layer_case;

struct layer_case {
  const char *name;
  void (*build)(layer_test *test, const layer_case *options);
  const char *not_smooth; /* why finite differences say nothing; NULL: they do */
  int dimension;          /* of softmax and select */
  int64_t index;          /* of select */
  tdm_shape shape;        /* of reshape */
  bool twice;             /* the same parameters, or the same operand, a second time */
  bool without_bias;
  tdm_embedding_options embedding;
  tdm_rnn_options rnn;
  bool has_h0;
  tdm_loss_options loss;
  bool in_training; /* a run that trains has another loss, which finite differences are taken of */
  double numbers[16]; /* of vision cases: the options that stand in the golden file */
  size_t number_count;
};

/* Fills cases (capacity) and answers how many there are; names are static storage. */
size_t layer_cases_all(layer_case *cases, size_t capacity);
#define LAYER_CASES_MAX 512

/* The same for the golden file "vision", which tells its cases itself. */
size_t vision_cases_all(const golden_file *golden, layer_case *cases, size_t capacity);

/* The file whose cases a test runs. */
#ifdef TEST_VISION
#define LAYER_FAMILY "vision"
#define layer_cases_of vision_cases_all
#else
#define LAYER_FAMILY "layers"
#define layer_cases_of(golden, cases, capacity) layer_cases_all(cases, capacity)
#endif

#endif
