/* What the tests of primitives and wrapped models share: devices, drawn tensors, comparing.
 * Invariant: TEST_KIND names the accelerators, of which there are two; all tests hold for each. */
#ifndef TANDEM_TESTS_PARALLEL_SUPPORT_H
#define TANDEM_TESTS_PARALLEL_SUPPORT_H

#include "tests/graph/support.h"

#define FIRST TEST_KIND ":0"
#define SECOND TEST_KIND ":1"

/* Of the group: three cpu devices, two accelerators; links without cost. */
extern tdm_context *context;
int begin_group(void **unused);
int end_group(void **unused);

/* Of shape on device, in [-1, 1), by seed. */
tdm_tensor *draw_on(const char *device, tdm_shape shape, uint64_t seed);
/* The same on cpu:0. */
tdm_tensor *draw(tdm_shape shape, uint64_t seed);
/* 0, 1, 2, ... of dtype on device. */
tdm_tensor *count_on(const char *device, tdm_dtype dtype, tdm_shape shape);
/* The tensor on cpu:0; takes over the reference. */
tdm_tensor *to_host(tdm_tensor *tensor);

void assert_on(const tdm_tensor *tensor, const char *device);
/* Same dtype, shape and bits, wherever they lie. */
void assert_equal_tensors(tdm_tensor *a, tdm_tensor *b);
/* Float tensors of one shape: max|a-b| <= tolerance max|b|. */
void assert_near_tensor(tdm_tensor *a, tdm_tensor *b, double tolerance);
/* Of every parameter. */
void assert_near_state(const tdm_tensor_list *a, const tdm_tensor_list *b, double tolerance);
/* The plan of the session's latest run has a line with all three texts; NULL: no matter. */
void assert_planned(tdm_session *session, const char *a, const char *b, const char *c);
void release_tensors(tdm_tensor **tensors, size_t count);

#endif
