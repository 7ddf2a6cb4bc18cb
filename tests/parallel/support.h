/* Helpers for tests of primitives and wrapped models: devices, drawn tensors, comparisons.
 * Invariant: there are two accelerators, of the kind TEST_KIND, and all tests pass for each
 * kind. */
#ifndef TANDEM_TESTS_PARALLEL_SUPPORT_H
#define TANDEM_TESTS_PARALLEL_SUPPORT_H

#include "tests/graph/support.h"

#define FIRST TEST_KIND ":0"
#define SECOND TEST_KIND ":1"

/* The context of the group: three cpu devices, two accelerators; links without cost. */
extern tdm_context *context;
int begin_group(void **unused);
int end_group(void **unused);

/* Draws a tensor on device in [-1, 1), by seed. */
tdm_tensor *draw_on(const char *device, tdm_shape shape, uint64_t seed);
/* Draws such a tensor on cpu:0. */
tdm_tensor *draw(tdm_shape shape, uint64_t seed);
/* 0, 1, 2, ... of dtype on device. */
tdm_tensor *count_on(const char *device, tdm_dtype dtype, tdm_shape shape);
/* Returns the tensor on cpu:0. Takes ownership of the reference. */
tdm_tensor *to_host(tdm_tensor *tensor);

void assert_on(const tdm_tensor *tensor, const char *device);
/* Checks that dtype, shape and bits are equal, on any devices. */
void assert_equal_tensors(tdm_tensor *a, tdm_tensor *b);
/* Float tensors of one shape: max|a-b| <= tolerance max|b|. */
void assert_near_tensor(tdm_tensor *a, tdm_tensor *b, double tolerance);
/* Compares every parameter. */
void assert_near_state(const tdm_tensor_list *a, const tdm_tensor_list *b, double tolerance);
/* The plan of the session's latest run has a line with all three texts; NULL: no matter. */
void assert_planned(tdm_session *session, const char *a, const char *b, const char *c);

/* It has no line with the text. */
void assert_unplanned(tdm_session *session, const char *text);

/* ---- A model with a part to wrap: x -> "before", linear -> "module/..." -> y, judged by mse ----
 */

typedef struct test_model {
  tdm_value (*build)(tdm_graph *graph, tdm_value x); /* below the scope "module" */
  tdm_shape x;                                       /* one dimension is TDM_DIM("batch") */
  tdm_shape y;
  int dimension; /* that is cut: of x, and of y */
} test_model;

/* Wraps the module over devices (NULL: not); takes the store, unless that is NULL, and sgd. */
tdm_session *model_session(const test_model *model, const char *devices, const char *output_device,
                           tdm_store *store);
/* Fetches "y", of `rows` rows by seed. */
tdm_tensor *model_run(tdm_session *session, const test_model *model, int64_t rows, uint64_t seed);
double model_train(tdm_session *session, const test_model *model, int64_t rows, uint64_t seed);
/* Wrapped and plain agree in outputs, and in parameters after training, for many numbers of rows:
 * so do their gradients. */
void assert_like_plain(const test_model *model, const char *devices, const char *output_device);

/* x weight^T of any two values: linear without parameters, and without a gradient. */
tdm_value append_product(tdm_graph *graph, const char *name, tdm_value x, tdm_value weight);

void release_tensors(tdm_tensor **tensors, size_t count);

#endif
