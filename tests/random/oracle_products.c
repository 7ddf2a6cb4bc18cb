/* The oracle's products: linear layers, matrices, pairs of vectors, convolutions. */
#include "tests/random/oracle.h"

/* ---- Linear: x (rows, in), weight (out, in), bias (out) -------------------------------------- */

void forward_linear(oracle *it, const random_node *what) {
  const extent *weight_shape = &it->model->parameters[what->parameters[0]].shape;
  const int64_t outs = weight_shape->dims[0], ins = weight_shape->dims[1];
  const double *x = oracle_operand(it, what, 0);
  const double *weight = it->parameters[what->parameters[0]];
  double *y = it->values[what->first_value];
  for (int64_t i = 0; i < oracle_count(it, what->first_value); i++) {
    const int64_t row = i / outs, out = i % outs;
    exact sum = {0};
    if (what->parameter_count > 1) exact_add(&sum, it->parameters[what->parameters[1]][out]);
    for (int64_t k = 0; k < ins; k++)
      exact_add_product(it, &sum, x[row * ins + k], weight[out * ins + k]);
    y[i] = exact_settle(it, &sum);
  }
}

void backward_linear(oracle *it, const random_node *what) {
  const extent *weight_shape = &it->model->parameters[what->parameters[0]].shape;
  const int64_t outs = weight_shape->dims[0], ins = weight_shape->dims[1];
  const double *x = oracle_operand(it, what, 0);
  const double *weight = it->parameters[what->parameters[0]];
  const double *flow = it->flows[what->first_value];
  for (int64_t i = 0; i < oracle_count(it, what->first_value); i++) {
    const int64_t row = i / outs, out = i % outs;
    if (what->parameter_count > 1) exact_add(&it->gradients[what->parameters[1]][out], flow[i]);
    for (int64_t k = 0; k < ins; k++) {
      exact_add_product(it, &it->gradients[what->parameters[0]][out * ins + k], flow[i],
                        x[row * ins + k]);
      exact_add_product(it, &it->adjoints[what->operands[0]][row * ins + k], flow[i],
                        weight[out * ins + k]);
    }
  }
}

/* ---- Matrices: a (batches or nothing, m, k), b (batches or nothing, k, n) -------------------- */

typedef struct matrices {
  int64_t batches, m, k, n;
  int64_t a_step, b_step; /* from batch to batch; 0: one for all */
} matrices;

static matrices matrices_of(const oracle *it, const random_node *what) {
  const extent *a = oracle_extent(it, what, 0);
  const extent *b = oracle_extent(it, what, 1);
  matrices sizes = {.m = extent_dim(a, a->rank - 2, it->rows),
                    .k = extent_dim(a, a->rank - 1, it->rows),
                    .n = extent_dim(b, b->rank - 1, it->rows)};
  sizes.batches = 1;
  if (a->rank == 3) sizes.batches = extent_dim(a, 0, it->rows);
  if (b->rank == 3) sizes.batches = extent_dim(b, 0, it->rows);
  sizes.a_step = a->rank == 3 ? sizes.m * sizes.k : 0;
  sizes.b_step = b->rank == 3 ? sizes.k * sizes.n : 0;
  return sizes;
}

void forward_matmul(oracle *it, const random_node *what) {
  const matrices s = matrices_of(it, what);
  const double *a = oracle_operand(it, what, 0);
  const double *b = oracle_operand(it, what, 1);
  double *y = it->values[what->first_value];
  for (int64_t i = 0; i < s.batches * s.m * s.n; i++) {
    const int64_t batch = i / (s.m * s.n), row = i / s.n % s.m, column = i % s.n;
    exact sum = {0};
    for (int64_t k = 0; k < s.k; k++)
      exact_add_product(it, &sum, a[batch * s.a_step + row * s.k + k],
                        b[batch * s.b_step + k * s.n + column]);
    y[i] = exact_settle(it, &sum);
  }
}

void backward_matmul(oracle *it, const random_node *what) {
  const matrices s = matrices_of(it, what);
  const double *a = oracle_operand(it, what, 0);
  const double *b = oracle_operand(it, what, 1);
  const double *flow = it->flows[what->first_value];
  for (int64_t i = 0; i < s.batches * s.m * s.n; i++) {
    const int64_t batch = i / (s.m * s.n), row = i / s.n % s.m, column = i % s.n;
    for (int64_t k = 0; k < s.k; k++) {
      const int64_t in_a = batch * s.a_step + row * s.k + k;
      const int64_t in_b = batch * s.b_step + k * s.n + column;
      exact_add_product(it, &it->adjoints[what->operands[0]][in_a], flow[i], b[in_b]);
      exact_add_product(it, &it->adjoints[what->operands[1]][in_b], flow[i], a[in_a]);
    }
  }
}

/* ---- Pairs of vectors: x (batch, vectors, dim) -> (batch, pairs), the lower triangle --------- */

void forward_interaction(oracle *it, const random_node *what) {
  const extent *shape = oracle_extent(it, what, 0);
  const int64_t vectors = shape->dims[1], dim = shape->dims[2];
  const double *x = oracle_operand(it, what, 0);
  double *y = it->values[what->first_value];
  for (int64_t row = 0; row < it->rows; row++, x += vectors * dim)
    for (int64_t i = 0; i < vectors; i++)
      for (int64_t j = 0; j < i + (what->flag ? 1 : 0); j++) {
        exact sum = {0};
        for (int64_t k = 0; k < dim; k++)
          exact_add_product(it, &sum, x[i * dim + k], x[j * dim + k]);
        *y++ = exact_settle(it, &sum);
      }
}

void backward_interaction(oracle *it, const random_node *what) {
  const extent *shape = oracle_extent(it, what, 0);
  const int64_t vectors = shape->dims[1], dim = shape->dims[2];
  const double *x = oracle_operand(it, what, 0);
  exact *adjoints = it->adjoints[what->operands[0]];
  const double *flow = it->flows[what->first_value];
  for (int64_t row = 0; row < it->rows; row++, x += vectors * dim, adjoints += vectors * dim)
    for (int64_t i = 0; i < vectors; i++)
      for (int64_t j = 0; j < i + (what->flag ? 1 : 0); j++, flow++)
        for (int64_t k = 0; k < dim; k++) {
          exact_add_product(it, &adjoints[i * dim + k], *flow, x[j * dim + k]);
          exact_add_product(it, &adjoints[j * dim + k], *flow, x[i * dim + k]);
        }
}

/* ---- Convolutions: x (n, channels, h, w), weight (out, channels / groups, kh, kw) ------------ */

/* One product of a convolution: its elements. */
typedef struct tap {
  int64_t x, weight; /* x: -1: in the padding */
} tap;

static tap tap_of(const oracle *it, const random_node *what, int64_t element, int64_t position) {
  const extent *x = oracle_extent(it, what, 0);
  const extent *y = &it->model->values[what->first_value];
  const int64_t ins = x->dims[1] / what->groups, outs = y->dims[1];
  const int64_t height = what->kernel[0], width = what->kernel[1];
  const int64_t column = element % y->dims[3], row = element / y->dims[3] % y->dims[2];
  const int64_t out = element / (y->dims[3] * y->dims[2]) % outs;
  const int64_t image = element / (y->dims[3] * y->dims[2] * outs);
  const int64_t kx = position % width, ky = position / width % height;
  const int64_t in = position / (width * height);
  const int64_t at_y = row * what->stride[0] - what->padding[0] + ky * what->dilation[0];
  const int64_t at_x = column * what->stride[1] - what->padding[1] + kx * what->dilation[1];
  const int64_t channel = out / (outs / what->groups) * ins + in;
  tap found = {-1, out * ins * height * width + position};
  if (at_y >= 0 && at_y < x->dims[2] && at_x >= 0 && at_x < x->dims[3])
    found.x = ((image * x->dims[1] + channel) * x->dims[2] + at_y) * x->dims[3] + at_x;
  return found;
}

static int64_t taps_of(const oracle *it, const random_node *what) {
  return oracle_extent(it, what, 0)->dims[1] / what->groups * what->kernel[0] * what->kernel[1];
}

static int64_t channel_of(const oracle *it, const random_node *what, int64_t element) {
  const extent *y = &it->model->values[what->first_value];
  return element / (y->dims[3] * y->dims[2]) % y->dims[1];
}

void forward_convolution(oracle *it, const random_node *what) {
  const double *x = oracle_operand(it, what, 0);
  for (int64_t i = 0; i < oracle_count(it, what->first_value); i++) {
    exact sum = {0};
    if (what->parameter_count > 1)
      exact_add(&sum, it->parameters[what->parameters[1]][channel_of(it, what, i)]);
    for (int64_t k = 0; k < taps_of(it, what); k++) {
      const tap at = tap_of(it, what, i, k);
      if (at.x >= 0)
        exact_add_product(it, &sum, x[at.x], it->parameters[what->parameters[0]][at.weight]);
    }
    it->values[what->first_value][i] = exact_settle(it, &sum);
  }
}

void backward_convolution(oracle *it, const random_node *what) {
  const double *x = oracle_operand(it, what, 0);
  for (int64_t i = 0; i < oracle_count(it, what->first_value); i++) {
    const double flow = it->flows[what->first_value][i];
    if (what->parameter_count > 1)
      exact_add(&it->gradients[what->parameters[1]][channel_of(it, what, i)], flow);
    for (int64_t k = 0; k < taps_of(it, what); k++) {
      const tap at = tap_of(it, what, i, k);
      if (at.x < 0) continue;
      exact_add_product(it, &it->gradients[what->parameters[0]][at.weight], flow, x[at.x]);
      exact_add_product(it, &it->adjoints[what->operands[0]][at.x], flow,
                        it->parameters[what->parameters[0]][at.weight]);
    }
  }
}
