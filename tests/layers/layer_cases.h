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
};

/* Fills cases (capacity) and answers how many there are; names are static storage. */
size_t layer_cases_all(layer_case *cases, size_t capacity);
#define LAYER_CASES_MAX 128

#endif
