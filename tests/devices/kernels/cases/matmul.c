/* Cases of products of matrices with broadcasting, of exchanged dimensions, and of the pairwise dot
 * interaction. */
#include "tests/devices/kernels/cases.h"

#include <string.h>

/* ---- matmul ---------------------------------------------------------------------------------- */

/* Returns the offset of the operand's matrix for the result's matrix number batch. */
static int64_t matrix_at(const tdm_shape *operand, const tdm_shape *y, int64_t batch) {
  int64_t at = 0, step = operand->dims[operand->rank - 2] * operand->dims[operand->rank - 1];
  for (int i = y->rank - 3; i >= 0; i--) {
    const int64_t place = batch % y->dims[i];
    const int j = i - (y->rank - operand->rank);
    batch /= y->dims[i];
    if (j < 0 || operand->dims[j] == 1) continue;
    at += place * step;
    step *= operand->dims[j];
  }
  return at;
}

static void matmul_reference(const kernel_case *self, const double *const *inputs,
                             double *const *outputs) {
  const tdm_matmul_attributes *attributes = &self->attributes.matmul;
  const tdm_shape *a = &self->inputs[0].spec.shape, *b = &self->inputs[1].spec.shape;
  const tdm_shape *y = &self->outputs[0].shape;
  const int64_t m = y->dims[y->rank - 2], n = y->dims[y->rank - 1];
  const int64_t k = a->dims[a->rank - (attributes->transpose_a ? 2 : 1)];
  for (int64_t at = 0; at < tdm_shape_count(y); at++) {
    const int64_t batch = at / (m * n), i = at / n % m, j = at % n;
    const double *left = inputs[0] + matrix_at(a, y, batch);
    const double *right = inputs[1] + matrix_at(b, y, batch);
    outputs[0][at] = 0;
    for (int64_t p = 0; p < k; p++)
      outputs[0][at] += left[attributes->transpose_a ? p * m + i : i * k + p] *
                        right[attributes->transpose_b ? j * k + p : p * n + j];
  }
}

static void matmul_case(tdm_dtype dtype, tdm_shape a, tdm_shape b, tdm_shape y, bool transpose_a,
                        bool transpose_b, kernel_visit visit, void *user) {
  char a_text[TDM_SHAPE_TEXT], b_text[TDM_SHAPE_TEXT];
  kernel_case test =
      kernel_case_make(TDM_OP_MATMUL, dtype, matmul_reference, "%s%s %s%s",
                       tdm_shape_text(&a, a_text, sizeof a_text), transpose_a ? "^T" : "",
                       tdm_shape_text(&b, b_text, sizeof b_text), transpose_b ? "^T" : "");
  test.attributes.matmul = (tdm_matmul_attributes){transpose_a, transpose_b};
  kernel_case_input(&test, dtype, a, -1, 1);
  kernel_case_input(&test, dtype, b, -1, 1);
  kernel_case_output(&test, dtype, y);
  visit(&test, user);
}

static void matmul_cases(tdm_dtype dtype, kernel_visit visit, void *user) {
  matmul_case(dtype, tdm_shape_of(2, 3, 5), tdm_shape_of(2, 5, 4), tdm_shape_of(2, 3, 4), false,
              false, visit, user);
  matmul_case(dtype, tdm_shape_of(3, 2, 3, 5), tdm_shape_of(3, 2, 4, 5), tdm_shape_of(3, 2, 3, 4),
              false, true, visit, user);
  matmul_case(dtype, tdm_shape_of(3, 2, 5, 3), tdm_shape_of(3, 2, 5, 4), tdm_shape_of(3, 2, 3, 4),
              true, false, visit, user);
  matmul_case(dtype, tdm_shape_of(4, 3, 1, 2, 7), tdm_shape_of(3, 2, 7, 3),
              tdm_shape_of(4, 3, 2, 2, 3), false, false, visit, user);
  matmul_case(dtype, tdm_shape_of(2, 4, 6), tdm_shape_of(3, 3, 6, 2), tdm_shape_of(3, 3, 4, 2),
              false, false, visit, user);
  matmul_case(dtype, tdm_shape_of(2, 150, 40), tdm_shape_of(2, 40, 33), tdm_shape_of(2, 150, 33),
              false, false, visit, user);
  matmul_case(dtype, tdm_shape_of(2, 40, 150), tdm_shape_of(2, 40, 33), tdm_shape_of(2, 150, 33),
              true, false, visit, user);
  matmul_case(dtype, tdm_shape_of(3, 2, 3, 0), tdm_shape_of(2, 0, 4), tdm_shape_of(3, 2, 3, 4),
              false, false, visit, user);
  matmul_case(dtype, tdm_shape_of(3, 0, 3, 5), tdm_shape_of(2, 5, 4), tdm_shape_of(3, 0, 3, 4),
              false, false, visit, user);
}

/* ---- transpose ------------------------------------------------------------------------------- */

static void transpose_reference(const kernel_case *self, const double *const *inputs,
                                double *const *outputs) {
  const tdm_transpose_attributes *attributes = &self->attributes.transpose;
  const tdm_shape *x = &self->inputs[0].spec.shape, *y = &self->outputs[0].shape;
  for (int64_t at = 0; at < tdm_shape_count(x); at++) {
    int64_t places[TDM_MAX_RANK], rest = at, to = 0;
    for (int i = x->rank - 1; i >= 0; i--) {
      places[i] = rest % x->dims[i];
      rest /= x->dims[i];
    }
    const int64_t first = places[attributes->first];
    places[attributes->first] = places[attributes->second];
    places[attributes->second] = first;
    for (int i = 0; i < y->rank; i++)
      to = to * y->dims[i] + places[i];
    outputs[0][to] = inputs[0][at];
  }
}

static void transpose_case(tdm_dtype dtype, tdm_shape x, int first, int second, kernel_visit visit,
                           void *user) {
  char text[TDM_SHAPE_TEXT];
  kernel_case test = kernel_case_make(TDM_OP_TRANSPOSE, dtype, transpose_reference, "%s %d %d",
                                      tdm_shape_text(&x, text, sizeof text), first, second);
  test.attributes.transpose = (tdm_transpose_attributes){first, second};
  kernel_case_any_input(&test, dtype, x);
  const int64_t size = x.dims[first];
  x.dims[first] = x.dims[second];
  x.dims[second] = size;
  kernel_case_output(&test, dtype, x);
  visit(&test, user);
}

static void transpose_cases(kernel_visit visit, void *user) {
  const tdm_dtype *const all = every_dtype;
  for (size_t i = 0; i < EVERY_DTYPE; i++) {
    transpose_case(all[i], tdm_shape_of(2, 19, 35), 0, 1, visit, user);
    transpose_case(all[i], tdm_shape_of(4, 2, 3, 4, 5), 1, 2, visit, user);
    transpose_case(all[i], tdm_shape_of(4, 2, 3, 4, 5), 1, 3, visit, user);
    transpose_case(all[i], tdm_shape_of(4, 2, 3, 4, 5), 0, 2, visit, user);
    transpose_case(all[i], tdm_shape_of(3, 2, 0, 4), 0, 2, visit, user);
  }
}

/* ---- dot_interaction ------------------------------------------------------------------------- */

/* Calls take(i, j, pair) of every pair of one sample, in order. */
#define EACH_PAIR(self, vectors, i, j, pair)                                                       \
  for (int64_t pair = 0, i = 0; i < (vectors); i++)                                                \
    for (int64_t j = 0; j < i + (self)->attributes.interaction.self; j++, pair++)

static void interaction_reference(const kernel_case *self, const double *const *inputs,
                                  double *const *outputs) {
  const int64_t vectors = input_dim(self, 0, 1), dim = input_dim(self, 0, 2);
  const int64_t pairs = self->outputs[0].shape.dims[1];
  for (int64_t sample = 0; sample < input_dim(self, 0, 0); sample++) {
    const double *x = inputs[0] + sample * vectors * dim;
    EACH_PAIR(self, vectors, i, j, pair) {
      outputs[0][sample * pairs + pair] = 0;
      for (int64_t d = 0; d < dim; d++)
        outputs[0][sample * pairs + pair] += x[i * dim + d] * x[j * dim + d];
    }
  }
}

static void interaction_gradient_reference(const kernel_case *self, const double *const *inputs,
                                           double *const *outputs) {
  const int64_t vectors = input_dim(self, 1, 1), dim = input_dim(self, 1, 2);
  const int64_t pairs = input_dim(self, 0, 1);
  memset(outputs[0], 0, (size_t)input_count_of(self, 1) * sizeof(double));
  for (int64_t sample = 0; sample < input_dim(self, 1, 0); sample++) {
    const double *x = inputs[1] + sample * vectors * dim;
    double *d_x = outputs[0] + sample * vectors * dim;
    EACH_PAIR(self, vectors, i, j, pair) {
      for (int64_t d = 0; d < dim; d++) {
        d_x[i * dim + d] += inputs[0][sample * pairs + pair] * x[j * dim + d];
        d_x[j * dim + d] += inputs[0][sample * pairs + pair] * x[i * dim + d];
      }
    }
  }
}

static void interaction_case(tdm_dtype dtype, tdm_shape x, int64_t with_self, kernel_visit visit,
                             void *user) {
  char text[TDM_SHAPE_TEXT];
  const int64_t vectors = x.dims[1];
  const tdm_shape y = tdm_shape_of(2, x.dims[0], vectors * (vectors - 1) / 2 + with_self * vectors);
  kernel_case test =
      kernel_case_make(TDM_OP_DOT_INTERACTION, dtype, interaction_reference, "%s self %d",
                       tdm_shape_text(&x, text, sizeof text), (int)with_self);
  test.attributes.interaction = (tdm_dot_interaction_attributes){with_self};
  kernel_case_input(&test, dtype, x, -1, 1);
  kernel_case_output(&test, dtype, y);
  visit(&test, user);
  kernel_case gradient =
      kernel_case_make(TDM_OP_DOT_INTERACTION_GRADIENT, dtype, interaction_gradient_reference,
                       "%s self %d", tdm_shape_text(&x, text, sizeof text), (int)with_self);
  gradient.attributes.interaction = test.attributes.interaction;
  kernel_case_input(&gradient, dtype, y, -1, 1);
  kernel_case_input(&gradient, dtype, x, -1, 1);
  kernel_case_output(&gradient, dtype, x);
  visit(&gradient, user);
}

void product_cases(kernel_visit visit, void *user) {
  EACH_REAL(dtype) {
    matmul_cases(dtype, visit, user);
    interaction_case(dtype, tdm_shape_of(3, 4, 3, 5), 0, visit, user);
    interaction_case(dtype, tdm_shape_of(3, 3, 27, 16), 0, visit, user);
    interaction_case(dtype, tdm_shape_of(3, 2, 18, 33), 1, visit, user);
    interaction_case(dtype, tdm_shape_of(3, 5, 1, 4), 1, visit, user);
    interaction_case(dtype, tdm_shape_of(3, 0, 4, 4), 0, visit, user);
  }
  transpose_cases(visit, user);
}
