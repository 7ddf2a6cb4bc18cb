/* The oracle's rules element by element, and those that only move elements. */
#include <math.h>

#include "tests/random/oracle.h"

/* ---- Functions of one value ------------------------------------------------------------------ */

static double limits(double x, double least, double most) {
  return x < least ? least : x > most ? most : x;
}

static double unary(oracle *it, const random_node *what, double x) {
  exact sum = {0};
  switch (what->which) {
  case UNARY_RELU:
    return x > 0 ? x : 0;
  case UNARY_ABS:
    return fabs(x);
  case UNARY_NEG:
    return -x;
  case UNARY_SQUARE:
    return exact_product(it, x, x);
  case UNARY_CUBE:
    return exact_product(it, exact_product(it, x, x), x);
  case UNARY_CLAMP:
  case UNARY_HARDTANH:
    return limits(x, what->numbers[0], what->numbers[1]);
  case UNARY_RELU6:
    return limits(x, 0, 6);
  case UNARY_LEAKY:
    return x < 0 ? exact_product(it, x, what->numbers[0]) : x;
  default: /* UNARY_AFFINE */
    exact_add_product(it, &sum, what->numbers[0], x);
    exact_add(&sum, what->numbers[1]);
    return exact_settle(it, &sum);
  }
}

static double slope(oracle *it, const random_node *what, double x) {
  switch (what->which) {
  case UNARY_RELU:
    return x > 0;
  case UNARY_ABS:
    return (x > 0) - (x < 0);
  case UNARY_NEG:
    return -1;
  case UNARY_SQUARE:
    return 2 * x;
  case UNARY_CUBE:
    return exact_product(it, 3, exact_product(it, x, x));
  case UNARY_CLAMP:
  case UNARY_HARDTANH:
    return x > what->numbers[0] && x < what->numbers[1];
  case UNARY_RELU6:
    return x > 0 && x < 6;
  case UNARY_LEAKY:
    return x > 0 ? 1 : what->numbers[0];
  default:
    return what->numbers[0]; /* UNARY_AFFINE */
  }
}

void forward_unary(oracle *it, const random_node *what) {
  for (int64_t i = 0; i < oracle_count(it, what->first_value); i++)
    it->values[what->first_value][i] = unary(it, what, oracle_operand(it, what, 0)[i]);
}

void backward_unary(oracle *it, const random_node *what) {
  for (int64_t i = 0; i < oracle_count(it, what->first_value); i++)
    exact_add_product(it, &it->adjoints[what->operands[0]][i], it->flows[what->first_value][i],
                      slope(it, what, oracle_operand(it, what, 0)[i]));
}

/* ---- Functions of several values, broadcast -------------------------------------------------- */

/* Returns the element of an operand that belongs to an element of the result. */
static int64_t broadcast_from(const oracle *it, const extent *out, const extent *operand,
                              int64_t element) {
  int64_t found = 0, step = 1;
  for (int i = 1; i <= out->rank; i++) {
    const int64_t length = extent_dim(out, out->rank - i, it->rows);
    const int64_t at = element % length;
    element /= length;
    if (i > operand->rank) continue;
    const int64_t own = extent_dim(operand, operand->rank - i, it->rows);
    if (operand->dims[operand->rank - i] != 1) found += at * step;
    step *= own;
  }
  return found;
}

static int64_t element_of(const oracle *it, const random_node *what, int operand, int64_t element) {
  return broadcast_from(it, &it->model->values[what->first_value], oracle_extent(it, what, operand),
                        element);
}

void forward_binary(oracle *it, const random_node *what) {
  for (int64_t i = 0; i < oracle_count(it, what->first_value); i++) {
    const double a = oracle_operand(it, what, 0)[element_of(it, what, 0, i)];
    const double b = oracle_operand(it, what, 1)[element_of(it, what, 1, i)];
    exact sum = {0};
    if (what->which == BINARY_MUL) exact_add_product(it, &sum, a, b);
    if (what->which == BINARY_MAXIMUM) exact_add(&sum, a > b ? a : b);
    if (what->which == BINARY_MINIMUM) exact_add(&sum, a < b ? a : b);
    if (what->which == BINARY_ADD || what->which == BINARY_SUB) {
      exact_add(&sum, a);
      exact_add(&sum, what->which == BINARY_ADD ? b : -b);
    }
    it->values[what->first_value][i] = exact_settle(it, &sum);
  }
}

/* Returns the fraction of the adjoint for the first operand of a maximum or minimum. */
static double share(int which, double a, double b) {
  if (a == b) return 0.5;
  return (a > b) == (which == BINARY_MAXIMUM);
}

void backward_binary(oracle *it, const random_node *what) {
  for (int64_t i = 0; i < oracle_count(it, what->first_value); i++) {
    const int64_t at_a = element_of(it, what, 0, i), at_b = element_of(it, what, 1, i);
    const double a = oracle_operand(it, what, 0)[at_a];
    const double b = oracle_operand(it, what, 1)[at_b];
    const double flow = it->flows[what->first_value][i];
    double to_a = 1, to_b = what->which == BINARY_SUB ? -1 : 1;
    if (what->which == BINARY_MUL) to_a = b, to_b = a;
    if (what->which == BINARY_MAXIMUM || what->which == BINARY_MINIMUM)
      to_a = share(what->which, a, b), to_b = 1 - to_a;
    exact_add_product(it, &it->adjoints[what->operands[0]][at_a], flow, to_a);
    exact_add_product(it, &it->adjoints[what->operands[1]][at_b], flow, to_b);
  }
}

/* Operands a, b, c, d: a where c relation d, otherwise b. */
static bool holds(const oracle *it, const random_node *what, int64_t element) {
  const double c = oracle_operand(it, what, 2)[element_of(it, what, 2, element)];
  const double d = oracle_operand(it, what, 3)[element_of(it, what, 3, element)];
  const bool relations[] = {c<d, c <= d, c> d, c >= d, c == d, c != d};
  return relations[what->which];
}

void forward_where(oracle *it, const random_node *what) {
  for (int64_t i = 0; i < oracle_count(it, what->first_value); i++) {
    const int chosen = holds(it, what, i) ? 0 : 1;
    it->values[what->first_value][i] =
        oracle_operand(it, what, chosen)[element_of(it, what, chosen, i)];
  }
}

void backward_where(oracle *it, const random_node *what) {
  for (int64_t i = 0; i < oracle_count(it, what->first_value); i++) {
    const int chosen = holds(it, what, i) ? 0 : 1;
    exact_add(&it->adjoints[what->operands[chosen]][element_of(it, what, chosen, i)],
              it->flows[what->first_value][i]);
  }
}

/* ---- Moves ----------------------------------------------------------------------------------- */

typedef struct source {
  int operand;
  int64_t element;
} source;

/* Within (outer, length, inner), the element at another offset and length of the dimension. */
static int64_t along(stretch from, int64_t element, int64_t offset, int64_t length) {
  const int64_t inner = element % from.inner, at = element / from.inner % from.length;
  const int64_t outer = element / (from.inner * from.length);
  return (outer * length + at + offset) * from.inner + inner;
}

static source concat_source(const oracle *it, const random_node *what, int64_t element) {
  const stretch whole = oracle_stretch(it, what->first_value, what->dimension);
  int64_t at = element / whole.inner % whole.length;
  int operand = 0;
  for (;; operand++) {
    const int64_t length = extent_dim(oracle_extent(it, what, operand), what->dimension, it->rows);
    if (at < length) {
      const int64_t outer = element / (whole.inner * whole.length);
      return (source){operand, (outer * length + at) * whole.inner + element % whole.inner};
    }
    at -= length;
  }
}

static int64_t transpose_source(const oracle *it, const random_node *what, int64_t element) {
  const extent *out = &it->model->values[what->first_value];
  int64_t index[MOST_RANK];
  for (int i = out->rank - 1; i >= 0; i--) {
    const int64_t length = extent_dim(out, i, it->rows);
    index[i] = element % length;
    element /= length;
  }
  const int64_t kept = index[what->dimension];
  index[what->dimension] = index[what->other];
  index[what->other] = kept;
  int64_t found = 0;
  for (int i = 0; i < out->rank; i++)
    found = found * extent_dim(oracle_extent(it, what, 0), i, it->rows) + index[i];
  return found;
}

static source source_of(const oracle *it, const random_node *what, int output, int64_t element) {
  if (what->kind == NODE_CONCAT) return concat_source(it, what, element);
  if (what->kind == NODE_TRANSPOSE) return (source){0, transpose_source(it, what, element)};
  if (what->kind == NODE_SELECT) {
    const stretch whole = oracle_stretch(it, what->operands[0], what->dimension);
    const int64_t outer = element / whole.inner, inner = element % whole.inner;
    return (source){0, (outer * whole.length + what->count) * whole.inner + inner};
  }
  if (what->kind != NODE_SPLIT) return (source){0, element};
  int64_t offset = 0;
  for (int i = 0; i < output; i++)
    offset += it->model->values[what->first_value + i].dims[what->dimension];
  const stretch part = oracle_stretch(it, what->first_value + output, what->dimension);
  const extent *whole = oracle_extent(it, what, 0);
  return (source){0, along(part, element, offset, whole->dims[what->dimension])};
}

void forward_move(oracle *it, const random_node *what) {
  for (int k = 0; k < what->value_count; k++)
    for (int64_t i = 0; i < oracle_count(it, what->first_value + k); i++) {
      const source from = source_of(it, what, k, i);
      it->values[what->first_value + k][i] = oracle_operand(it, what, from.operand)[from.element];
    }
}

void backward_move(oracle *it, const random_node *what) {
  for (int k = 0; k < what->value_count; k++)
    for (int64_t i = 0; i < oracle_count(it, what->first_value + k); i++) {
      const source from = source_of(it, what, k, i);
      exact_add(&it->adjoints[what->operands[from.operand]][from.element],
                it->flows[what->first_value + k][i]);
    }
}
