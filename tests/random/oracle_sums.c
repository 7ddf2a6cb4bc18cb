/* The oracle's sums, extremes and losses; tables and bags of their rows; windows of images. */
#include <math.h>

#include "tests/random/oracle.h"

/* ---- Along one dimension, or over everything (dimension -1) ---------------------------------- */

static stretch summed(const oracle *it, const random_node *what) {
  if (what->dimension < 0) return (stretch){1, oracle_count(it, what->operands[0]), 1};
  return oracle_stretch(it, what->operands[0], what->dimension);
}

void forward_sum(oracle *it, const random_node *what) {
  const stretch s = summed(it, what);
  const double *x = oracle_operand(it, what, 0);
  for (int64_t i = 0; i < s.outer * s.inner; i++) {
    exact sum = {0};
    for (int64_t k = 0; k < s.length; k++)
      exact_add(&sum, x[(i / s.inner * s.length + k) * s.inner + i % s.inner]);
    it->values[what->first_value][i] =
        what->kind == NODE_SUM ? exact_settle(it, &sum) : exact_divide(it, &sum, (double)s.length);
  }
}

void backward_sum(oracle *it, const random_node *what) {
  const stretch s = summed(it, what);
  const double divisor = what->kind == NODE_SUM ? 1 : (double)s.length;
  for (int64_t i = 0; i < s.outer * s.inner; i++) {
    const double flow = it->flows[what->first_value][i] / divisor;
    for (int64_t k = 0; k < s.length; k++)
      exact_add(
          &it->adjoints[what->operands[0]][(i / s.inner * s.length + k) * s.inner + i % s.inner],
          flow);
  }
}

void forward_cumsum(oracle *it, const random_node *what) {
  const stretch s = summed(it, what);
  const double *x = oracle_operand(it, what, 0);
  for (int64_t i = 0; i < s.outer * s.inner; i++) {
    exact sum = {0};
    for (int64_t k = 0; k < s.length; k++) {
      const int64_t at = (i / s.inner * s.length + k) * s.inner + i % s.inner;
      exact_add(&sum, x[at]);
      it->values[what->first_value][at] = exact_settle(it, &sum);
    }
  }
}

void backward_cumsum(oracle *it, const random_node *what) {
  const stretch s = summed(it, what);
  for (int64_t i = 0; i < s.outer * s.inner; i++)
    for (int64_t k = 0; k < s.length; k++)
      for (int64_t j = 0; j <= k; j++)
        exact_add(
            &it->adjoints[what->operands[0]][(i / s.inner * s.length + j) * s.inner + i % s.inner],
            it->flows[what->first_value][(i / s.inner * s.length + k) * s.inner + i % s.inner]);
}

/* Returns the first of the largest, or least, elements of line i. */
static int64_t extreme_of(const oracle *it, const random_node *what, int64_t i) {
  const stretch s = summed(it, what);
  const double *x = oracle_operand(it, what, 0);
  int64_t best = -1;
  for (int64_t k = 0; k < s.length; k++) {
    const int64_t at = (i / s.inner * s.length + k) * s.inner + i % s.inner;
    if (best < 0 || (what->flag ? x[at] < x[best] : x[at] > x[best])) best = at;
  }
  return best;
}

void forward_extreme(oracle *it, const random_node *what) {
  for (int64_t i = 0; i < oracle_count(it, what->first_value); i++)
    it->values[what->first_value][i] = oracle_operand(it, what, 0)[extreme_of(it, what, i)];
}

void backward_extreme(oracle *it, const random_node *what) {
  for (int64_t i = 0; i < oracle_count(it, what->first_value); i++)
    exact_add(&it->adjoints[what->operands[0]][extreme_of(it, what, i)],
              it->flows[what->first_value][i]);
}

/* ---- Losses, summed -------------------------------------------------------------------------- */

void forward_loss(oracle *it, const random_node *what) {
  exact sum = {0};
  for (int64_t i = 0; i < oracle_count(it, what->operands[0]); i++) {
    const double d = oracle_operand(it, what, 0)[i] - oracle_operand(it, what, 1)[i];
    exact_add(&sum, what->which == LOSS_MSE  ? exact_product(it, d, d)
                    : what->which == LOSS_L1 ? fabs(d)
                    : fabs(d) < 1            ? exact_product(it, 0.5, exact_product(it, d, d))
                                             : fabs(d) - 0.5);
  }
  it->values[what->first_value][0] = exact_settle(it, &sum);
}

void backward_loss(oracle *it, const random_node *what) {
  const double flow = it->flows[what->first_value][0];
  for (int64_t i = 0; i < oracle_count(it, what->operands[0]); i++) {
    const double d = oracle_operand(it, what, 0)[i] - oracle_operand(it, what, 1)[i];
    const double sign = (d > 0) - (d < 0);
    const double slope = what->which == LOSS_MSE  ? 2 * d
                         : what->which == LOSS_L1 ? sign
                         : fabs(d) < 1            ? d
                                                  : sign;
    exact_add_product(it, &it->adjoints[what->operands[0]][i], flow, slope);
    exact_add_product(it, &it->adjoints[what->operands[1]][i], flow, -slope);
  }
}

/* ---- Tables ---------------------------------------------------------------------------------- */

void forward_embedding(oracle *it, const random_node *what) {
  const int64_t dim = it->model->parameters[what->parameters[0]].shape.dims[1];
  const double *ids = oracle_operand(it, what, 0);
  for (int64_t i = 0; i < oracle_count(it, what->first_value); i++)
    it->values[what->first_value][i] =
        it->parameters[what->parameters[0]][(int64_t)ids[i / dim] * dim + i % dim];
}

void backward_embedding(oracle *it, const random_node *what) {
  const int64_t dim = it->model->parameters[what->parameters[0]].shape.dims[1];
  const double *ids = oracle_operand(it, what, 0);
  for (int64_t i = 0; i < oracle_count(it, what->first_value); i++) {
    const int64_t row = (int64_t)ids[i / dim];
    if (row != what->padding_row)
      exact_add(&it->gradients[what->parameters[0]][row * dim + i % dim],
                it->flows[what->first_value][i]);
  }
}

/* Calls visit for every row in the bag of element i; for a maximum, only for the first largest. */
typedef void (*bag_visit)(oracle *it, const random_node *what, int64_t element, int64_t position,
                          int64_t in_table, double divisor, exact *sum);

static void visit_bag(oracle *it, const random_node *what, int64_t element, bag_visit visit,
                      exact *sum) {
  const int64_t dim = it->model->parameters[what->parameters[0]].shape.dims[1];
  const int64_t length = oracle_extent(it, what, 0)->dims[1];
  const double *ids = oracle_operand(it, what, 0);
  const double *table = it->parameters[what->parameters[0]];
  int64_t present = 0, best = -1, best_position = -1;
  for (int64_t k = 0; k < length; k++) {
    const int64_t position = element / dim * length + k, row = (int64_t)ids[position];
    const int64_t at = row * dim + element % dim;
    if (row == what->padding_row) continue;
    present++;
    if (best < 0 || table[at] > table[best]) best = at, best_position = position;
  }
  if (what->which == BAG_MAX) {
    if (best >= 0) visit(it, what, element, best_position, best, 1, sum);
    return;
  }
  for (int64_t k = 0; k < length; k++) {
    const int64_t position = element / dim * length + k, row = (int64_t)ids[position];
    if (row != what->padding_row)
      visit(it, what, element, position, row * dim + element % dim,
            what->which == BAG_MEAN ? (double)present : 1, sum);
  }
}

static double scale_at(const oracle *it, const random_node *what, int64_t position) {
  return what->operand_count > 1 ? oracle_operand(it, what, 1)[position] : 1;
}

static void add_row(oracle *it, const random_node *what, int64_t element, int64_t position,
                    int64_t in_table, double divisor, exact *sum) {
  (void)element;
  int exponent;
  if (frexp(divisor, &exponent) != 0.5) it->inexact = true;
  exact_add_product(it, sum, it->parameters[what->parameters[0]][in_table] / divisor,
                    scale_at(it, what, position));
}

void forward_bag(oracle *it, const random_node *what) {
  for (int64_t i = 0; i < oracle_count(it, what->first_value); i++) {
    exact sum = {0};
    visit_bag(it, what, i, add_row, &sum);
    it->values[what->first_value][i] = exact_settle(it, &sum);
  }
}

static void add_row_gradient(oracle *it, const random_node *what, int64_t element, int64_t position,
                             int64_t in_table, double divisor, exact *sum) {
  (void)sum;
  const double flow = it->flows[what->first_value][element] / divisor;
  exact_add_product(it, &it->gradients[what->parameters[0]][in_table], flow,
                    scale_at(it, what, position));
  if (what->operand_count > 1)
    exact_add_product(it, &it->adjoints[what->operands[1]][position], flow,
                      it->parameters[what->parameters[0]][in_table]);
}

void backward_bag(oracle *it, const random_node *what) {
  for (int64_t i = 0; i < oracle_count(it, what->first_value); i++)
    visit_bag(it, what, i, add_row_gradient, NULL);
}

/* ---- Windows --------------------------------------------------------------------------------- */

/* Returns the element of x at a position of the window of element i; -1: in the padding. */
static int64_t window_element(const oracle *it, const random_node *what, int64_t i,
                              int64_t position) {
  const extent *x = oracle_extent(it, what, 0);
  const extent *y = &it->model->values[what->first_value];
  const int64_t column = i % y->dims[3], row = i / y->dims[3] % y->dims[2];
  const int64_t plane = i / (y->dims[3] * y->dims[2]);
  const int64_t at_y =
      row * what->stride[0] - what->padding[0] + position / what->kernel[1] * what->dilation[0];
  const int64_t at_x =
      column * what->stride[1] - what->padding[1] + position % what->kernel[1] * what->dilation[1];
  const bool inside = at_y >= 0 && at_y < x->dims[2] && at_x >= 0 && at_x < x->dims[3];
  return inside ? (plane * x->dims[2] + at_y) * x->dims[3] + at_x : -1;
}

static int64_t largest_in_window(const oracle *it, const random_node *what, int64_t i) {
  const double *x = oracle_operand(it, what, 0);
  int64_t best = -1;
  for (int64_t k = 0; k < what->kernel[0] * what->kernel[1]; k++) {
    const int64_t at = window_element(it, what, i, k);
    if (at >= 0 && (best < 0 || x[at] > x[best])) best = at;
  }
  return best;
}

void forward_pool(oracle *it, const random_node *what) {
  const double *x = oracle_operand(it, what, 0);
  const int64_t size = what->kernel[0] * what->kernel[1];
  for (int64_t i = 0; i < oracle_count(it, what->first_value); i++) {
    exact sum = {0};
    if (what->which == POOL_MAX) exact_add(&sum, x[largest_in_window(it, what, i)]);
    for (int64_t k = 0; k < size && what->which == POOL_AVERAGE; k++) {
      const int64_t at = window_element(it, what, i, k);
      if (at >= 0) exact_add(&sum, x[at]);
    }
    it->values[what->first_value][i] =
        exact_divide(it, &sum, what->which == POOL_MAX ? 1 : (double)size);
  }
}

void backward_pool(oracle *it, const random_node *what) {
  const int64_t size = what->kernel[0] * what->kernel[1];
  exact *adjoints = it->adjoints[what->operands[0]];
  for (int64_t i = 0; i < oracle_count(it, what->first_value); i++) {
    const double flow = it->flows[what->first_value][i];
    if (what->which == POOL_MAX) exact_add(&adjoints[largest_in_window(it, what, i)], flow);
    for (int64_t k = 0; k < size && what->which == POOL_AVERAGE; k++) {
      const int64_t at = window_element(it, what, i, k);
      if (at >= 0) exact_add(&adjoints[at], flow / (double)size);
    }
  }
}
