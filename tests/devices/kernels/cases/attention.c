/* Cases of attention: several blocks of queries and keys, causal, padded, masked, dropped, of a
 * chunk. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/philox.h"
#include "tests/devices/kernels/cases.h"

typedef struct attention_size {
  int64_t batch, queries, keys, heads, dim, width;
  bool causal, padded;
  double p;
  int64_t offset; /* offset of the chunk */
  int mask;       /* 0: none; 1: bool; 2: added; 3, 4: the same, one a head */
} attention_size;

static const attention_size attention_sizes[] = {
    {2, 3, 5, 2, 4, 3, false, false, 0, 0, 0},     {1, 2, 3, 1, 2, 2, false, false, 0.5, 1, 0},
    {1, 37, 37, 1, 8, 8, true, false, 0, 0, 0},    {2, 9, 6, 2, 3, 5, false, true, 0, 0, 0},
    {1, 4, 140, 2, 5, 2, false, true, 0.25, 0, 0}, {2, 6, 6, 3, 2, 2, true, true, 0.5, 3, 0},
    {2, 5, 6, 2, 3, 2, false, false, 0, 0, 1},     {1, 34, 4, 2, 2, 2, false, false, 0, 0, 4},
    {2, 6, 6, 2, 2, 2, true, true, 0.5, 0, 2},     {2, 3, 7, 3, 2, 2, false, false, 0, 2, 3},
    {2, 0, 4, 1, 3, 3, false, false, 0, 0, 0},     {1, 3, 0, 1, 3, 3, false, false, 0, 0, 0},
};

/* Every key of the second sample but the last is left out, and of the first one the last; so a
 * causal query of the second sees nothing. */
static void make_padding(const kernel_case *test, void *data) {
  size_t input = 0;
  while (test->inputs[input].generate != make_padding)
    input++;
  const int64_t keys = input_dim(test, input, 1);
  for (int64_t i = 0; i < input_count_of(test, input); i++)
    ((uint8_t *)data)[i] = (i / keys == 1) != (i % keys == keys - 1);
}

/* Hides one key of every query, a different one for each. */
static void make_mask(const kernel_case *test, void *data) {
  size_t input = 0;
  while (test->inputs[input].generate != make_mask)
    input++;
  const int rank = test->inputs[input].spec.shape.rank;
  const int64_t keys = input_dim(test, input, rank - 1);
  for (int64_t i = 0; i < input_count_of(test, input); i++)
    ((uint8_t *)data)[i] = i % keys == i / keys % keys;
}

/* ---- References: every matrix in full -------------------------------------------------------- */

typedef struct attention_view {
  int64_t batch, queries, keys, heads, dim, width;
  const double *q, *k, *v, *padding, *mask;
  bool mask_each, mask_hides;
  bool drops;
} attention_view;

static attention_view view_of(const kernel_case *self, const double *const *inputs, size_t q) {
  const int64_t heads = self->attributes.attention.heads;
  const size_t mask = q == 0 ? 4 : 7;
  return (attention_view){.batch = input_dim(self, q, 0),
                          .queries = input_dim(self, q, 1),
                          .keys = input_dim(self, q + 1, 1),
                          .heads = heads,
                          .dim = input_dim(self, q, 2) / heads,
                          .width = input_dim(self, q + 2, 2) / heads,
                          .q = inputs[q],
                          .k = inputs[q + 1],
                          .v = inputs[q + 2],
                          .padding = inputs[q == 0 ? 3 : 6],
                          .mask = inputs[mask],
                          .mask_each = self->inputs[mask].spec.shape.rank == 4,
                          .mask_hides = self->inputs[mask].spec.dtype == TDM_BOOL,
                          .drops = strcmp(self->operation, TDM_OP_ATTENTION) != 0};
}

static double mask_at(const attention_view *view, int64_t batch, int64_t head, int64_t query,
                      int64_t key) {
  const int64_t matrix = view->mask_each ? batch * view->heads + head : 0;
  return view->mask ? view->mask[(matrix * view->queries + query) * view->keys + key] : 0;
}

/* Computes the probabilities (keys) of a query. Returns the logarithm of their sum. */
static double probabilities_of(const kernel_case *self, const attention_view *view, int64_t batch,
                               int64_t head, int64_t query, double *out) {
  const double *q = view->q + ((batch * view->queries + query) * view->heads + head) * view->dim;
  double sum = 0;
  for (int64_t key = 0; key < view->keys; key++) {
    const double *k = view->k + ((batch * view->keys + key) * view->heads + head) * view->dim;
    double score = 0;
    for (int64_t d = 0; d < view->dim; d++)
      score += q[d] * k[d];
    const double more = mask_at(view, batch, head, query, key);
    const bool hidden = (self->attributes.attention.causal && key > query) ||
                        (view->mask_hides && more != 0) ||
                        (view->padding && view->padding[batch * view->keys + key] != 0);
    out[key] = hidden ? 0 : exp(score * self->attributes.attention.scale + more);
    sum += out[key];
  }
  for (int64_t key = 0; key < view->keys && sum > 0; key++)
    out[key] /= sum;
  return sum > 0 ? log(sum) : (double)INFINITY;
}

/* Returns the dropout factor of a probability. */
static double kept_of(const kernel_case *self, const attention_view *view, int64_t batch,
                      int64_t head, int64_t query, int64_t key) {
  const tdm_attention_attributes *attributes = &self->attributes.attention;
  const int64_t row =
      ((attributes->chunk.offset + batch) * view->heads + head) * view->queries + query;
  const uint64_t place = (uint64_t)(row * view->keys + key);
  uint32_t words[4];
  if (!view->drops || attributes->p == 0) return 1;
  tdm_philox_block(self->scalars.seed, attributes->stream, (uint32_t)self->scalars.step, place / 4,
                   words);
  return (double)(words[place % 4] >> 8) < floor(attributes->p * 0x1p24) ? 0
                                                                         : 1 / (1 - attributes->p);
}

static void attention_reference(const kernel_case *self, const double *const *inputs,
                                double *const *outputs) {
  const attention_view view = view_of(self, inputs, 0);
  double *p = malloc((size_t)(view.keys + 1) * sizeof *p);
  for (int64_t at = 0; at < view.batch * view.heads * view.queries; at++) {
    const int64_t batch = at / view.queries / view.heads, head = at / view.queries % view.heads;
    const int64_t query = at % view.queries;
    double *y = outputs[0] + ((batch * view.queries + query) * view.heads + head) * view.width;
    outputs[1][at] = probabilities_of(self, &view, batch, head, query, p);
    for (int64_t j = 0; j < view.width; j++) {
      y[j] = 0;
      for (int64_t key = 0; key < view.keys; key++)
        y[j] += p[key] * kept_of(self, &view, batch, head, query, key) *
                view.v[((batch * view.keys + key) * view.heads + head) * view.width + j];
    }
  }
  free(p);
}

/* Adds one query's contribution to the gradients. */
static void add_slopes(const kernel_case *self, const attention_view *view,
                       const double *const *inputs, int64_t batch, int64_t head, int64_t query,
                       double *p, double *const *outputs) {
  const int64_t q_at = ((batch * view->queries + query) * view->heads + head) * view->dim;
  const int64_t y_at = ((batch * view->queries + query) * view->heads + head) * view->width;
  const double *d_y = inputs[0] + y_at, *y = inputs[4] + y_at;
  double mean = 0;
  (void)probabilities_of(self, view, batch, head, query, p);
  for (int64_t j = 0; j < view->width; j++)
    mean += d_y[j] * y[j];
  for (int64_t key = 0; key < view->keys; key++) {
    const int64_t row = (batch * view->keys + key) * view->heads + head;
    const double kept = kept_of(self, view, batch, head, query, key);
    double d_p = 0;
    for (int64_t j = 0; j < view->width; j++) {
      d_p += d_y[j] * view->v[row * view->width + j];
      outputs[2][row * view->width + j] += p[key] * kept * d_y[j];
    }
    const double slope = p[key] * (d_p * kept - mean) * self->attributes.attention.scale;
    for (int64_t d = 0; d < view->dim; d++) {
      outputs[0][q_at + d] += slope * view->k[row * view->dim + d];
      outputs[1][row * view->dim + d] += slope * view->q[q_at + d];
    }
  }
}

/* Computes y and the logarithms of sums from the operands, and does not read the given ones. */
static void attention_gradient_reference(const kernel_case *self, const double *const *inputs,
                                         double *const *outputs) {
  const attention_view view = view_of(self, inputs, 1);
  double *p = malloc((size_t)(view.keys + 1) * sizeof *p);
  for (size_t i = 0; i < 3; i++)
    memset(outputs[i], 0, (size_t)input_count_of(self, i + 1) * sizeof(double));
  for (int64_t at = 0; at < view.batch * view.heads * view.queries; at++)
    add_slopes(self, &view, inputs, at / view.queries / view.heads, at / view.queries % view.heads,
               at % view.queries, p, outputs);
  free(p);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static kernel_case attention_case(const attention_size *size, const char *operation,
                                  tdm_dtype dtype, kernel_reference reference) {
  kernel_case test = kernel_case_make(
      operation, dtype, reference, "%lldx%lldx%lld heads %lld of %lld, %lld%s%s p %g mask %d",
      (long long)size->batch, (long long)size->queries, (long long)size->keys,
      (long long)size->heads, (long long)size->dim, (long long)size->width,
      size->causal ? " causal" : "", size->padded ? " padded" : "", size->p, size->mask);
  test.attributes.attention = (tdm_attention_attributes){
      .heads = size->heads, .causal = size->causal, .scale = 0.4, .p = size->p, .stream = 77};
  if (size->offset > 0)
    test.attributes.attention.chunk = (tdm_chunk){0, size->offset, size->offset + size->batch};
  return test;
}

static void attention_inputs(kernel_case *test, const attention_size *size, tdm_dtype dtype) {
  kernel_case_input(test, dtype,
                    tdm_shape_of(3, size->batch, size->queries, size->heads * size->dim), -2, 2);
  kernel_case_input(test, dtype, tdm_shape_of(3, size->batch, size->keys, size->heads * size->dim),
                    -2, 2);
  kernel_case_input(test, dtype,
                    tdm_shape_of(3, size->batch, size->keys, size->heads * size->width), -1, 1);
}

static void padding_input(kernel_case *test, const attention_size *size) {
  if (size->padded)
    kernel_case_input(test, TDM_BOOL, tdm_shape_of(2, size->batch, size->keys), 0, 1)->generate =
        make_padding;
  else
    kernel_case_absent_input(test);
}

static void mask_input(kernel_case *test, const attention_size *size, tdm_dtype dtype) {
  const tdm_shape one = tdm_shape_of(2, size->queries, size->keys);
  const tdm_shape each = tdm_shape_of(4, size->batch, size->heads, size->queries, size->keys);
  if (size->mask == 0)
    kernel_case_absent_input(test);
  else if (size->mask % 2 == 0)
    kernel_case_input(test, dtype, size->mask > 2 ? each : one, -2, 2);
  else
    kernel_case_input(test, TDM_BOOL, size->mask > 2 ? each : one, 0, 1)->generate = make_mask;
}

static void forward_case(const attention_size *size, const char *operation, tdm_dtype dtype,
                         kernel_visit visit, void *user) {
  kernel_case test = attention_case(size, operation, dtype, attention_reference);
  attention_inputs(&test, size, dtype);
  padding_input(&test, size);
  mask_input(&test, size, dtype);
  kernel_case_output(&test, dtype,
                     tdm_shape_of(3, size->batch, size->queries, size->heads * size->width));
  kernel_case_output(&test, dtype, tdm_shape_of(3, size->batch, size->heads, size->queries));
  visit(&test, user);
}

/* The gradient computes probabilities from the logarithms of sums, which must match q and k. Here q
 * is 0: all scores are 0, and the logarithm is that of the number of visible keys. y is arbitrary.
 */
static void gradient_case(const attention_size *size, tdm_dtype dtype, kernel_visit visit,
                          void *user) {
  kernel_case test =
      attention_case(size, TDM_OP_ATTENTION_GRADIENT, dtype, attention_gradient_reference);
  const tdm_shape y = tdm_shape_of(3, size->batch, size->queries, size->heads * size->width);
  kernel_case_input(&test, dtype, y, -1, 1);
  attention_inputs(&test, size, dtype);
  test.inputs[1].low = test.inputs[1].high = 0; /* q: the sums count the keys that are seen */
  kernel_case_input(&test, dtype, y, -1, 1);
  kernel_input *sums = kernel_case_input(
      &test, dtype, tdm_shape_of(3, size->batch, size->heads, size->queries), 0, 0);
  sums->low = sums->high = log((double)(size->keys - size->mask % 2));
  padding_input(&test, size);
  mask_input(&test, size, dtype);
  kernel_case_output(&test, dtype, test.inputs[1].spec.shape);
  kernel_case_output(&test, dtype, test.inputs[2].spec.shape);
  kernel_case_output(&test, dtype, test.inputs[3].spec.shape);
  visit(&test, user);
}

void attention_cases(kernel_visit visit, void *user) {
  EACH_REAL(dtype) {
    for (size_t i = 0; i < sizeof attention_sizes / sizeof attention_sizes[0]; i++) {
      const attention_size *size = &attention_sizes[i];
      forward_case(size, size->p > 0 ? TDM_OP_ATTENTION_DROPOUT : TDM_OP_ATTENTION, dtype, visit,
                   user);
      if (!size->causal && !size->padded && !size->mask) gradient_case(size, dtype, visit, user);
    }
    static const attention_size dropped = {2, 5, 130, 2, 3, 4, false, false, 0.25, 1, 0};
    gradient_case(&dropped, dtype, visit, user);
    static const attention_size masked[] = {{1, 3, 20, 2, 3, 4, false, false, 0, 0, 1},
                                            {2, 7, 6, 3, 2, 2, false, false, 0.25, 0, 3}};
    gradient_case(&masked[0], dtype, visit, user);
    gradient_case(&masked[1], dtype, visit, user);
  }
}
