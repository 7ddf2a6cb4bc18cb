/* Layer and root mean square normalization, and their gradients. x is seen as (rows, count).
 * Invariants: a row of the result depends only on its own row; sums over rows are taken in blocks
 * of a fixed size. */
#include "core/status.h"
#include "devices/kernels/cpu/moments.h"
#include "devices/kernels/normalization/normalization.h"
#include "devices/kernels/normalization/normalization_sizes.h"

#define DEPTH 256 /* rows whose contributions are summed before their sum is added to the rest */

typedef struct norm_state {
  layer_norm_sizes sizes;
  bool splits;
} norm_state;

static tdm_status layer_norm_prepare_state(const tdm_kernel_request *request,
                                           tdm_kernel_answer *answer, const tdm_spec *x) {
  norm_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  layer_norm_sizes_read(&state->sizes, request, x);
  state->splits = answer->splits =
      tdm_cpu_splits(request, (double)count_of(x) * sizeof(stored) / 10.0);
  return TDM_OK;
}

static tdm_status layer_norm_run(const tdm_kernel_call *call, int64_t tasks, int64_t grain,
                                 void (*range)(void *call, int64_t begin, int64_t end)) {
  const norm_state *state = call->state;
  tdm_team_run(state->splits ? call->team : NULL, tasks, grain, range, (void *)call);
  return TDM_OK;
}

static int64_t grain_of(const norm_state *state) {
  return state->sizes.count > 0 && state->sizes.count < 1024 ? 1024 / state->sizes.count : 1;
}

/* How a row is normalized: n = (x - mean) inverse + rest, where rest is the part of the mean that
 * does not fit in `real`. */
typedef struct row_rule {
  real mean;
  real inverse;
  real rest;
} row_rule;

ALWAYS_INLINE row_rule rule_of(double mean, double inverse) {
  const real rounded = (real)mean;
  return (row_rule){.mean = rounded,
                    .inverse = (real)inverse,
                    .rest = (real)(((double)rounded - mean) * (double)(real)inverse)};
}

ALWAYS_INLINE vec normal_at(const row_rule *rule, const stored *x, int64_t left) {
  return (element_load(x, left) - rule->mean) * rule->inverse + rule->rest;
}

/* ---- Forward --------------------------------------------------------------------------------- */

typedef struct affine {
  const stored *weight; /* (count), or NULL: 1 */
  const stored *bias;   /* (count), or NULL: 0 */
} affine;

ALWAYS_INLINE void normalize_at(const row_rule *rule, const stored *x, affine by, stored *y,
                                int64_t i, int64_t left) {
  vec value = normal_at(rule, x + i, left);
  if (by.weight) value *= element_load(by.weight + i, left);
  if (by.bias) value += element_load(by.bias + i, left);
  element_store(y + i, value, left);
}

ALWAYS_INLINE void row_normalize(const row_rule *rule, const stored *x, affine by, stored *y,
                                 int64_t count) {
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    normalize_at(rule, x, by, y, i, LANES);
  if (i < count) normalize_at(rule, x, by, y, i, count - i);
}

static void forward_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const norm_state *state = call->state;
  const int64_t count = state->sizes.count;
  const double epsilon = state->sizes.epsilon;
  const affine by = {call->inputs[1], call->inputs[2]};
  double *means = call->outputs[1];    /* (rows) */
  stored *inverses = call->outputs[2]; /* (rows) */
  for (int64_t row = begin; row < end; row++) {
    const stored *x = (const stored *)call->inputs[0] + row * count; /* (count) */
    stored *y = (stored *)call->outputs[0] + row * count;            /* (count) */
    const strips from = {.x = x, .count = 1, .length = count};
    const moments found = count == 0              ? (moments){.scale = 1}
                          : state->sizes.centered ? strips_moments(&from, epsilon)
                                                  : row_moments_of_zero(x, count, epsilon);
    const row_rule rule = rule_of(found.mean, moments_inverse(&found, epsilon));
    means[row] = found.mean;
    inverses[row] = narrowed(rule.inverse);
    row_normalize(&rule, x, by, y, count);
  }
}

static tdm_status layer_norm_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return layer_norm_prepare_state(request, answer, &request->inputs[0]);
}

static tdm_status layer_norm_execute(const tdm_kernel_call *call) {
  const norm_state *state = call->state;
  return layer_norm_run(call, state->sizes.rows, grain_of(state), forward_range);
}

/* ---- Gradient of x --------------------------------------------------------------------------- */

/* The operands of a row of the gradient. */
typedef struct gradient_row {
  const stored *d_y;    /* (count) */
  const stored *x;      /* (count) */
  const stored *weight; /* (count), or NULL: 1 */
  stored *d_x;          /* (count) */
  row_rule rule;
} gradient_row;

/* d_y weight */
ALWAYS_INLINE vec slope_at(const gradient_row *row, int64_t i, int64_t left) {
  const vec d = element_load(row->d_y + i, left);
  return row->weight ? d * element_load(row->weight + i, left) : d;
}

/* Sums of g and of g n. */
typedef struct slope_sums {
  double slopes;
  double products;
} slope_sums;

ALWAYS_INLINE slope_sums row_slope_sums(const gradient_row *row, int64_t count) {
  slope_sums total = {0, 0};
  for (int64_t first = 0; first < count; first += 2 * LANES * MOMENT_TERMS) {
    const int64_t end = lesser_of(count, first + 2 * LANES * MOMENT_TERMS);
    vec slopes[2] = {{0}, {0}}, products[2] = {{0}, {0}};
    int64_t i = first;
    for (; i + 2 * LANES <= end; i += 2 * LANES) {
      for (int v = 0; v < 2; v++) {
        const vec g = slope_at(row, i + v * LANES, LANES);
        slopes[v] += g;
        products[v] += g * normal_at(&row->rule, row->x + i + v * LANES, LANES);
      }
    }
    for (; i < end; i += LANES) { /* g is 0 after the row */
      const vec g = slope_at(row, i, end - i);
      slopes[0] += g;
      products[0] += g * normal_at(&row->rule, row->x + i, end - i);
    }
    total.slopes += (double)vec_sum(slopes[0] + slopes[1]);
    total.products += (double)vec_sum(products[0] + products[1]);
  }
  return total;
}

ALWAYS_INLINE void gradient_at(const gradient_row *row, real slope, real product, int64_t i,
                               int64_t left) {
  const vec g = slope_at(row, i, left);
  const vec n = normal_at(&row->rule, row->x + i, left);
  element_store(row->d_x + i, row->rule.inverse * (g - slope - n * product), left);
}

/* With g = d_y weight: d_x = inverse (g - average(g) - n average(g n)), where average(g) is the
 * mean's part, and 0 if not centered. */
ALWAYS_INLINE void row_gradient(const gradient_row *row, int64_t count, bool centered) {
  const double share = 1 / (double)count;
  const slope_sums sums = row_slope_sums(row, count);
  const real slope = centered ? (real)(sums.slopes * share) : 0;
  const real product = (real)(sums.products * share);
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    gradient_at(row, slope, product, i, LANES);
  if (i < count) gradient_at(row, slope, product, i, count - i);
}

static void gradient_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const norm_state *state = call->state;
  const int64_t count = state->sizes.count;
  const double *means = call->inputs[2];    /* (rows) */
  const stored *inverses = call->inputs[3]; /* (rows) */
  for (int64_t row = begin; row < end; row++) {
    const gradient_row of = {.d_y = (const stored *)call->inputs[0] + row * count,
                             .x = (const stored *)call->inputs[1] + row * count,
                             .weight = call->inputs[4],
                             .d_x = (stored *)call->outputs[0] + row * count,
                             .rule = rule_of(means[row], (double)widened(inverses[row]))};
    row_gradient(&of, count, state->sizes.centered);
  }
}

static tdm_status prepare_gradient(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return layer_norm_prepare_state(request, answer, &request->inputs[1]);
}

static tdm_status layer_norm_gradient_execute(const tdm_kernel_call *call) {
  const norm_state *state = call->state;
  return layer_norm_run(call, state->sizes.rows, grain_of(state), gradient_range);
}

/* ---- Gradients of weight and bias ------------------------------------------------------------ */

#define WIDE 4 /* vectors of columns that a task takes */

/* `vectors` vectors of columns from j on, of which the last may be partial. */
ALWAYS_INLINE void column_gradients(const tdm_kernel_call *call, const row_rule *rules,
                                    int64_t first, int64_t rows, int64_t j, int vectors,
                                    int64_t columns, vec *d_weight, vec *d_bias) {
  const int64_t count = ((const norm_state *)call->state)->sizes.count;
  const stored *d_y = (const stored *)call->inputs[0] + first * count + j; /* (rows, count) */
  const stored *x = (const stored *)call->inputs[1] + first * count + j;   /* (rows, count) */
  vec products[WIDE] = {{0}}, sums[WIDE] = {{0}};
  for (int64_t row = 0; row < rows; row++) {
    for (int v = 0; v < vectors; v++) {
      const int64_t at = row * count + v * LANES, left = columns - v * LANES;
      const vec d = element_load(d_y + at, left);
      sums[v] += d;
      products[v] += d * normal_at(&rules[row], x + at, left);
    }
  }
  for (int v = 0; v < vectors; v++) {
    d_weight[v] += products[v];
    d_bias[v] += sums[v];
  }
}

static void parameter_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const norm_state *state = call->state;
  const int64_t count = state->sizes.count, rows = state->sizes.rows;
  const double *means = call->inputs[2];    /* (rows) */
  const stored *inverses = call->inputs[3]; /* (rows) */
  for (int64_t task = begin; task < end; task++) {
    const int64_t j = task * WIDE * LANES, columns = lesser_of(count - j, WIDE * LANES);
    vec d_weight[WIDE] = {{0}}, d_bias[WIDE] = {{0}};
    for (int64_t first = 0; first < rows; first += DEPTH) {
      const int64_t depth = lesser_of(rows - first, DEPTH);
      row_rule rules[DEPTH];
      for (int64_t i = 0; i < depth; i++)
        rules[i] = rule_of(means[first + i], (double)widened(inverses[first + i]));
      if (columns == WIDE * LANES)
        column_gradients(call, rules, first, depth, j, WIDE, WIDE * LANES, d_weight, d_bias);
      else
        for (int v = 0; v * LANES < columns; v++)
          column_gradients(call, rules, first, depth, j + v * LANES, 1, columns - v * LANES,
                           d_weight + v, d_bias + v);
    }
    for (int v = 0; v * LANES < columns; v++) {
      element_store((stored *)call->outputs[0] + j + v * LANES, d_weight[v], columns - v * LANES);
      element_store((stored *)call->outputs[1] + j + v * LANES, d_bias[v], columns - v * LANES);
    }
  }
}

static tdm_status layer_norm_parameter_gradient_execute(const tdm_kernel_call *call) {
  const norm_state *state = call->state;
  return layer_norm_run(call, ceil_div(state->sizes.count, WIDE * LANES), 1, parameter_range);
}

KERNELS(layer_norm, KERNEL(TDM_OP_LAYER_NORM, layer_norm_prepare, layer_norm_execute),
        KERNEL(TDM_OP_LAYER_NORM_GRADIENT, prepare_gradient, layer_norm_gradient_execute),
        KERNEL(TDM_OP_LAYER_NORM_PARAMETER_GRADIENT, prepare_gradient,
               layer_norm_parameter_gradient_execute))
