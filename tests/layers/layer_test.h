/* One graph under test, built from golden data: parameters and inputs take their shapes and values
 * from a file that tests/golden/make_golden.py wrote. Failures end the running cmocka test and name
 * the case and the tensor. */
#ifndef TANDEM_TESTS_LAYERS_LAYER_TEST_H
#define TANDEM_TESTS_LAYERS_LAYER_TEST_H

#include "tandem/tandem.h"

#define LAYER_TEST_MAX_FEEDS 16
#define LAYER_TEST_MAX_FETCHES 8

/* A golden file and the dtype of its floating-point tensors: files have float64, and float32 is
 * rounded from it. */
typedef struct golden_file {
  tdm_context *context;
  tdm_tensor_list *list;
  tdm_dtype dtype;
} golden_file;

void golden_open(golden_file *golden, const char *family, tdm_dtype dtype);
void golden_close(golden_file *golden);
/* Returns the tensor CASE/KIND.NAME; borrowed; fails when it is not there. */
tdm_tensor *golden_tensor(const golden_file *golden, const char *case_name, const char *kind,
                          const char *name);
/* Returns the part of name after "CASE/KIND.", NULL for other names. */
const char *golden_suffix(const char *name, const char *case_name, const char *kind);
/* Returns the number of different cases in the file. */
size_t golden_case_count(const golden_file *golden);
/* Returns the tensors named "CASE/parameter.NAME" as NAME. The caller releases the list. */
tdm_tensor_list *golden_parameters(const golden_file *golden, const char *case_name);
/* Returns the tensors named "CASE/KIND.NAME" as NAME. The caller releases the list. */
tdm_tensor_list *golden_list(const golden_file *golden, const char *case_name, const char *kind);
/* Fails unless max|found - wanted| <= tolerance x max|wanted|. */
void golden_compare(const char *case_name, const char *name, const tdm_tensor *found,
                    const tdm_tensor *wanted, double tolerance);
/* Returns all elements as double; freed by the caller. */
double *tensor_values(const tdm_tensor *tensor, size_t *out_count);

typedef struct layer_test {
  const golden_file *golden;
  const char *name;      /* name of the case */
  const char *placement; /* a device map */
  tdm_graph *graph;
  tdm_session *session;
  tdm_value loss;
  bool weighs;    /* the loss of a judged output is the sum of its products with its target */
  bool feeds_all; /* parameters are fed like inputs, and the checked result has no target */
  int named[LAYER_TEST_MAX_FEEDS]; /* for each feed: 1 + the dimension named "batch"; 0: none */
  tdm_feed feeds[LAYER_TEST_MAX_FEEDS];
  tdm_value fed[LAYER_TEST_MAX_FEEDS]; /* the input of each */
  size_t feed_count;
  tdm_fetch fetches[LAYER_TEST_MAX_FETCHES];
  size_t fetch_count;
} layer_test;

void layer_test_begin(layer_test *test, const golden_file *golden, const char *case_name,
                      const char *placement);
void layer_test_end(layer_test *test);

/* For builders: declares the case's parameter of that name. */
tdm_value layer_parameter(layer_test *test, const char *name);
tdm_value layer_input(layer_test *test, const char *name);
/* An output of that name that is compared. */
void layer_output(layer_test *test, const char *name, tdm_value value);
/* The same, and its sum of squared differences to the case's target is added to the loss. */
void layer_judge(layer_test *test, const char *name, tdm_value value);
void layer_add_loss(layer_test *test, tdm_value loss);

/* Makes the session, with the case's parameters loaded. Its optimizer keeps every gradient as the
 * state "gradient/NAME" and changes no parameter. */
void layer_test_start(layer_test *test);
/* Makes one training step; returns the loss. */
double layer_test_step(layer_test *test);
/* Returns the gradient of a parameter after a step, from the list that tdm_store_save gave. The
 * caller releases it. */
tdm_tensor *layer_test_gradient(const layer_test *test, const tdm_tensor_list *saved,
                                const char *name);

#endif
