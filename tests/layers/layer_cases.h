/* The cases that golden data of layers exist for, as graphs. */
#ifndef TANDEM_TESTS_LAYERS_LAYER_CASES_H
#define TANDEM_TESTS_LAYERS_LAYER_CASES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/layers/layer_test.h"

typedef struct layer_case layer_case;

struct layer_case {
  const char *name;
  void (*build)(layer_test *test, const layer_case *options);
  const char *not_smooth; /* why finite differences say nothing; NULL: they do */
  int dimension;          /* argument of softmax and select */
  int64_t index;          /* argument of select */
  tdm_shape shape;        /* argument of reshape */
  bool twice;             /* the same parameters, or the same operand, a second time */
  bool without_bias;
  const int64_t *padding_index; /* option of embedding; NULL: none */
  bool sparse;
  int layers; /* option of rnn */
  bool relu;
  bool batch_first;
  bool has_h0;
  tdm_loss_reduction reduction;
  const int64_t *ignore_index; /* option of cross_entropy; NULL: the default */
  tdm_value (*function)(tdm_graph *, const char *,
                        tdm_value); /* a function of devices/kernels/elementwise/functions.h */
  bool in_training; /* a run that trains has another loss, which finite differences are taken of */
  double numbers[48]; /* numbers of option_cases_all, from the golden file */
  size_t number_count;
};

/* Fills cases (capacity) and returns their number. Names are static storage. */
size_t layer_cases_all(layer_case *cases, size_t capacity);
#define LAYER_CASES_MAX 512

/* Builders of the cases of golden files that contain their cases (cases/option.c), by the name of
 * the layer. Each list ends with NULL. */
typedef struct layer_builder {
  const char *layer;
  layer_case options;
} layer_builder;
extern const layer_builder arrays_builders[];
extern const layer_builder blocks_builders[];
extern const layer_builder loss_builders[];
extern const layer_builder moves_builders[];
extern const layer_builder pointwise_builders[];
extern const layer_builder table_builders[];
extern const layer_builder vision_builders[];
extern const layer_builder volumes_builders[];
extern const layer_builder recurrent_builders[];

/* Fills cases like layer_cases_all, from a file that stores options. */
size_t option_cases_all(const golden_file *golden, layer_case *cases, size_t capacity);

/* The file whose cases a test runs, if the build names it. It contains its cases. */
#ifdef LAYER_FAMILY
#define layer_cases_of option_cases_all
#else
#define LAYER_FAMILY "layers"
#define LAYER_FAMILY_IN_C
#define layer_cases_of(golden, cases, capacity) layer_cases_all(cases, capacity)
#endif

/* Opens that file of one dtype and calls check for each of its cases, all of which must be
 * known. */
static inline void layer_cases_each(tdm_dtype dtype, const char *placement,
                                    void (*check)(const golden_file *golden,
                                                  const layer_case *options,
                                                  const char *placement)) {
  golden_file golden;
  golden_open(&golden, LAYER_FAMILY, dtype);
  static layer_case cases[LAYER_CASES_MAX];
  const size_t count = layer_cases_of(&golden, cases, LAYER_CASES_MAX);
  assert_int_equal(count, golden_case_count(&golden));
  for (size_t i = 0; i < count; i++)
    check(&golden, &cases[i], placement);
  golden_close(&golden);
}

#endif
