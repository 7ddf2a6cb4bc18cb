/* Cases of recurrent layers. The references compute row by row and step by step, gate by gate, by
 * the formulas in devices/kernels.h. */
#include "tests/devices/kernels/cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COLUMNS = 4 * 384 };

typedef struct recurrent_size {
  int64_t length, batch, in, hidden;
} recurrent_size;

/* Options of a case in addition to its size. */
typedef struct recurrent_options {
  int32_t cell;
  bool reverse;
  bool biases;
  bool initial;      /* h0, and c0 of lstm */
  tdm_dtype lengths; /* TDM_DTYPE_NONE: absent */
  int adjoints;      /* adjoints of the gradient: bit 0: d_y, 1: d_h_n, 2: d_c_n */
  bool d_x;
} recurrent_options;

static bool has_cells(const kernel_case *self) {
  return self->attributes.recurrent.cell == TDM_CELL_LSTM;
}

static double logistic(double x) {
  return 1 / (1 + exp(-x));
}

/* Returns the length of a row, 0 to length, in no order. */
static int64_t length_of(const recurrent_size *size, int64_t row) {
  return (5 * row + 3) % (size->length + 1);
}

/* sums (columns) = weight (columns, count) from (count) + bias; bias may be NULL. */
static void affine(int64_t columns, int64_t count, const double *weight, const double *from,
                   const double *bias, double *sums) {
  for (int64_t j = 0; j < columns; j++) {
    sums[j] = bias ? bias[j] : 0;
    for (int64_t i = 0; i < count; i++)
      sums[j] += weight[j * count + i] * from[i];
  }
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* One step of one row: a, b (columns) give the states h, c (hidden) that follow, and the gates (4
 * hidden). */
static void cell_reference(int32_t cell, int64_t hidden, const double *a, const double *b,
                           double *h, double *c, double *gates) {
  for (int64_t j = 0; j < hidden; j++) {
    double gate[4] = {0, 0, 0, 0};
    if (cell == TDM_CELL_LSTM) {
      for (int g = 0; g < 4; g++) {
        const double sum = a[g * hidden + j] + b[g * hidden + j];
        gate[g] = g == 2 ? tanh(sum) : logistic(sum);
      }
      c[j] = gate[1] * c[j] + gate[0] * gate[2];
      h[j] = gate[3] * tanh(c[j]);
    } else if (cell == TDM_CELL_GRU) {
      gate[0] = logistic(a[j] + b[j]);
      gate[1] = logistic(a[hidden + j] + b[hidden + j]);
      gate[3] = b[2 * hidden + j];
      gate[2] = tanh(a[2 * hidden + j] + gate[0] * gate[3]);
      h[j] = (1 - gate[1]) * gate[2] + gate[1] * h[j];
    } else {
      h[j] = cell == TDM_CELL_RELU ? fmax(a[j] + b[j], 0) : tanh(a[j] + b[j]);
    }
    for (int g = 0; g < 4; g++)
      gates[g * hidden + j] = gate[g];
  }
}

static void zero(double *values, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    values[i] = 0;
}

static void copy(double *to, const double *from, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    to[i] = from ? from[i] : 0;
}

static recurrent_size size_of(const kernel_case *self, int64_t hidden) {
  return (recurrent_size){input_dim(self, 0, 0), input_dim(self, 0, 1), input_dim(self, 0, 2),
                          hidden};
}

static void forward_reference(const kernel_case *self, const double *const *inputs,
                              double *const *outputs) {
  const tdm_recurrent_attributes *attributes = &self->attributes.recurrent;
  const int64_t hidden = self->outputs[0].shape.dims[2];
  const recurrent_size size = size_of(self, hidden);
  const int64_t columns = tdm_cell_gates(attributes->cell) * hidden;
  const bool lstm = has_cells(self);
  const size_t states = lstm ? 3 : 2; /* outputs before the gates */
  for (size_t i = 0; i < self->output_count; i++)
    zero(outputs[i], tdm_shape_count(&self->outputs[i].shape));
  for (int64_t row = 0; row < size.batch; row++) {
    const int64_t steps = inputs[7] ? (int64_t)inputs[7][row] : size.length;
    double h[MOST_COLUMNS], c[MOST_COLUMNS], a[MOST_COLUMNS], b[MOST_COLUMNS];
    double gates[MOST_COLUMNS];
    copy(h, inputs[5] ? inputs[5] + row * hidden : NULL, hidden);
    copy(c, inputs[6] ? inputs[6] + row * hidden : NULL, hidden);
    for (int64_t done = 0; done < steps; done++) {
      const int64_t place = (attributes->reverse ? steps - 1 - done : done) * size.batch + row;
      affine(columns, size.in, inputs[1], inputs[0] + place * size.in, inputs[3], a);
      affine(columns, hidden, inputs[2], h, inputs[4], b);
      cell_reference(attributes->cell, hidden, a, b, h, c, gates);
      copy(outputs[0] + place * hidden, h, hidden);
      if (self->output_count > states)
        copy(outputs[states] + place * 4 * hidden, gates, 4 * hidden);
      if (self->output_count > states && lstm) copy(outputs[4] + place * hidden, c, hidden);
    }
    copy(outputs[1] + row * hidden, h, hidden);
    if (lstm) copy(outputs[2] + row * hidden, c, hidden);
  }
}

/* ---- Gradient -------------------------------------------------------------------------------- */

/* The operands and results of a step, and the adjoints of its states, which flow back through
 * it. */
typedef struct step_values {
  const double *gates; /* (4 hidden) */
  const double *y;     /* (hidden) */
  const double *cell;  /* (hidden) */
  const double *h;     /* (hidden): before; NULL: zeros */
  const double *c;     /* (hidden): before; NULL: zeros */
  double *d_h;
  double *d_c;
} step_values;

/* Computes d_a, d_b (columns) of a and b. d_h and d_c become those of the previous states, except
 * for the part through b. */
static void cell_back_reference(int32_t cell, int64_t hidden, const step_values *step, double *d_a,
                                double *d_b) {
  for (int64_t j = 0; j < hidden; j++) {
    double gate[4];
    for (int g = 0; g < 4; g++)
      gate[g] = step->gates ? step->gates[g * hidden + j] : 0;
    const double d_h = step->d_h[j], h = step->h ? step->h[j] : 0;
    step->d_h[j] = 0;
    if (cell == TDM_CELL_LSTM) {
      const double c = step->c ? step->c[j] : 0, squashed = tanh(step->cell[j]);
      const double d_c = step->d_c[j] + d_h * gate[3] * (1 - squashed * squashed);
      const double d_gate[4] = {d_c * gate[2], d_c * c, d_c * gate[0], d_h * squashed};
      for (int g = 0; g < 4; g++)
        d_b[g * hidden + j] = d_a[g * hidden + j] =
            d_gate[g] * (g == 2 ? 1 - gate[g] * gate[g] : gate[g] * (1 - gate[g]));
      step->d_c[j] = d_c * gate[1];
    } else if (cell == TDM_CELL_GRU) {
      const double d_n = d_h * (1 - gate[1]) * (1 - gate[2] * gate[2]);
      d_b[j] = d_a[j] = d_n * gate[3] * gate[0] * (1 - gate[0]);
      d_b[hidden + j] = d_a[hidden + j] = d_h * (h - gate[2]) * gate[1] * (1 - gate[1]);
      d_a[2 * hidden + j] = d_n;
      d_b[2 * hidden + j] = d_n * gate[0];
      step->d_h[j] = d_h * gate[1];
    } else {
      const double y = step->y[j];
      d_b[j] = d_a[j] = d_h * (cell == TDM_CELL_RELU ? y > 0 : 1 - y * y);
    }
  }
}

/* d_weight += d (columns) from^T, d_from += weight^T d, both (columns, count); from and d_from may
 * be NULL. */
static void product_back(int64_t columns, int64_t count, const double *weight, const double *d,
                         const double *from, double *d_weight, double *d_from) {
  for (int64_t j = 0; j < columns; j++) {
    for (int64_t i = 0; i < count; i++) {
      if (from) d_weight[j * count + i] += d[j] * from[i];
      if (d_from) d_from[i] += d[j] * weight[j * count + i];
    }
  }
}

/* Row `row` goes back through all its steps. */
static void row_back_reference(const kernel_case *self, const double *const *inputs,
                               double *const *outputs, const recurrent_size *size, int64_t row) {
  const tdm_recurrent_attributes *attributes = &self->attributes.recurrent;
  const int64_t hidden = size->hidden, columns = tdm_cell_gates(attributes->cell) * hidden;
  const int64_t steps = inputs[11] ? (int64_t)inputs[11][row] : size->length;
  double d_a[MOST_COLUMNS], d_b[MOST_COLUMNS];
  double *d_x = attributes->input_gradient ? outputs[self->output_count - 1] : NULL;
  step_values step = {.d_h = outputs[4] + row * hidden,
                      .d_c = has_cells(self) ? outputs[5] + row * hidden : NULL};
  copy(step.d_h, inputs[5] ? inputs[5] + row * hidden : NULL, hidden);
  if (step.d_c) copy(step.d_c, inputs[6] ? inputs[6] + row * hidden : NULL, hidden);
  for (int64_t done = steps - 1; done >= 0; done--) {
    const int64_t t = attributes->reverse ? steps - 1 - done : done;
    const int64_t place = t * size->batch + row;
    const int64_t before = (attributes->reverse ? t + 1 : t - 1) * size->batch + row;
    step.gates = inputs[9] ? inputs[9] + place * 4 * hidden : NULL;
    step.y = inputs[1] + place * hidden;
    step.cell = inputs[10] ? inputs[10] + place * hidden : NULL;
    step.h = done > 0 ? inputs[1] + before * hidden : inputs[7] ? inputs[7] + row * hidden : NULL;
    step.c = done > 0 && inputs[10] ? inputs[10] + before * hidden
             : inputs[8]            ? inputs[8] + row * hidden
                                    : NULL;
    for (int64_t j = 0; j < hidden && inputs[4] != NULL; j++)
      step.d_h[j] += inputs[4][place * hidden + j];
    cell_back_reference(attributes->cell, hidden, &step, d_a, d_b);
    product_back(columns, hidden, inputs[3], d_b, step.h, outputs[1], step.d_h);
    product_back(columns, size->in, inputs[2], d_a, inputs[0] + place * size->in, outputs[0],
                 d_x ? d_x + place * size->in : NULL);
    for (int64_t j = 0; j < columns; j++) {
      outputs[2][j] += d_a[j];
      outputs[3][j] += d_b[j];
    }
  }
}

static void gradient_reference(const kernel_case *self, const double *const *inputs,
                               double *const *outputs) {
  const recurrent_size size = size_of(self, input_dim(self, 1, 2));
  for (size_t i = 0; i < self->output_count; i++)
    zero(outputs[i], tdm_shape_count(&self->outputs[i].shape));
  for (int64_t row = 0; row < size.batch; row++)
    row_back_reference(self, inputs, outputs, &size, row);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static void generate_lengths(const kernel_case *test, void *data) {
  const recurrent_size size = size_of(test, 0);
  const size_t at = test->input_count - 1; /* the last input of both operations */
  for (int64_t i = 0; i < size.batch; i++) {
    if (test->inputs[at].spec.dtype == TDM_INT64)
      ((int64_t *)data)[i] = length_of(&size, i);
    else
      ((int32_t *)data)[i] = (int32_t)length_of(&size, i);
  }
}

/* Generates y as the results of another weight: zeros after a row's last step. */
static void generate_y(const kernel_case *test, void *data) {
  const recurrent_size size = size_of(test, input_dim(test, 1, 2));
  const bool all = test->inputs[test->input_count - 1].spec.dtype == TDM_DTYPE_NONE;
  const tdm_random random = {.seed = 1, .stream = tdm_random_stream(test->name)};
  for (int64_t i = 0; i < size.length * size.batch * size.hidden; i++) {
    const int64_t place = i / size.hidden;
    const bool runs = all || place / size.batch < length_of(&size, place % size.batch);
    const double value = runs ? 2 * tdm_random_uniform_float64(&random, (uint64_t)i) - 1 : 0;
    if (test->dtype == TDM_FLOAT64)
      ((double *)data)[i] = value;
    else
      ((float *)data)[i] = (float)value;
  }
}

/* An input that may be absent. */
static void input_if(bool there, kernel_case *test, tdm_shape shape, double low, double high) {
  if (there)
    kernel_case_input(test, test->dtype, shape, low, high);
  else
    kernel_case_absent_input(test);
}

static void add_lengths(kernel_case *test, const recurrent_options *options, int64_t batch) {
  if (options->lengths == TDM_DTYPE_NONE)
    kernel_case_absent_input(test);
  else
    kernel_case_input(test, options->lengths, tdm_shape_of(1, batch), 0, 0)->generate =
        generate_lengths;
}

static kernel_case case_of(const char *operation, tdm_dtype dtype, kernel_reference reference,
                           const recurrent_size *size, const recurrent_options *options) {
  static const char *const cells[] = {"tanh", "relu", "lstm", "gru"};
  kernel_case test = kernel_case_make(
      operation, dtype, reference, "%s%s length %lld batch %lld, %lld -> %lld%s%s%s adjoints %d%s",
      cells[options->cell], options->reverse ? " reverse" : "", (long long)size->length,
      (long long)size->batch, (long long)size->in, (long long)size->hidden,
      options->initial ? " with states" : "", options->biases ? " with biases" : "",
      options->lengths != TDM_DTYPE_NONE ? " with lengths" : "", options->adjoints,
      options->d_x ? " with d_x" : "");
  test.attributes.recurrent =
      (tdm_recurrent_attributes){.cell = options->cell, .reverse = options->reverse};
  return test;
}

static void visit_forward(const char *operation, tdm_dtype dtype, const recurrent_size *size,
                          const recurrent_options *options, bool training, kernel_visit visit,
                          void *user) {
  kernel_case test = case_of(operation, dtype, forward_reference, size, options);
  const int64_t columns = tdm_cell_gates(options->cell) * size->hidden;
  const double bound = 1.0 / sqrt((double)size->hidden);
  const tdm_shape state = tdm_shape_of(2, size->batch, size->hidden);
  const bool lstm = options->cell == TDM_CELL_LSTM;
  kernel_case_input(&test, dtype, tdm_shape_of(3, size->length, size->batch, size->in), -1, 1);
  kernel_case_input(&test, dtype, tdm_shape_of(2, columns, size->in), -bound, bound);
  kernel_case_input(&test, dtype, tdm_shape_of(2, columns, size->hidden), -bound, bound);
  input_if(options->biases, &test, tdm_shape_of(1, columns), -bound, bound);
  input_if(options->biases, &test, tdm_shape_of(1, columns), -bound, bound);
  input_if(options->initial, &test, state, -1, 1);
  input_if(options->initial && lstm, &test, state, -1, 1);
  add_lengths(&test, options, size->batch);
  kernel_case_output(&test, dtype, tdm_shape_of(3, size->length, size->batch, size->hidden));
  kernel_case_output(&test, dtype, state);
  if (lstm) kernel_case_output(&test, dtype, state);
  if (training)
    kernel_case_output(&test, dtype, tdm_shape_of(3, size->length, size->batch, 4 * size->hidden));
  if (training && lstm)
    kernel_case_output(&test, dtype, tdm_shape_of(3, size->length, size->batch, size->hidden));
  visit(&test, user);
}

static void visit_gradient(const char *operation, tdm_dtype dtype, const recurrent_size *size,
                           const recurrent_options *options, kernel_visit visit, void *user) {
  kernel_case test = case_of(operation, dtype, gradient_reference, size, options);
  const int64_t hidden = size->hidden, columns = tdm_cell_gates(options->cell) * hidden;
  const double bound = 1.0 / sqrt((double)hidden);
  const tdm_shape state = tdm_shape_of(2, size->batch, hidden);
  const tdm_shape x = tdm_shape_of(3, size->length, size->batch, size->in);
  const tdm_shape y = tdm_shape_of(3, size->length, size->batch, hidden);
  const bool lstm = options->cell == TDM_CELL_LSTM, gated = options->cell >= TDM_CELL_LSTM;
  test.attributes.recurrent.input_gradient = options->d_x;
  kernel_case_input(&test, dtype, x, -1, 1);
  kernel_case_input(&test, dtype, y, -1, 1)->generate = generate_y;
  kernel_case_input(&test, dtype, tdm_shape_of(2, columns, size->in), -bound, bound);
  kernel_case_input(&test, dtype, tdm_shape_of(2, columns, hidden), -bound, bound);
  input_if((options->adjoints & 1) != 0, &test, y, -1, 1);
  input_if((options->adjoints & 2) != 0, &test, state, -1, 1);
  input_if((options->adjoints & 4) != 0 && lstm, &test, state, -1, 1);
  input_if(options->initial, &test, state, -1, 1);
  input_if(options->initial && lstm, &test, state, -1, 1);
  input_if(gated, &test, tdm_shape_of(3, size->length, size->batch, 4 * hidden), 0.1, 0.9);
  input_if(lstm, &test, y, -1, 1);
  add_lengths(&test, options, size->batch);
  kernel_case_output(&test, dtype, tdm_shape_of(2, columns, size->in));
  kernel_case_output(&test, dtype, tdm_shape_of(2, columns, hidden));
  kernel_case_output(&test, dtype, tdm_shape_of(1, columns));
  kernel_case_output(&test, dtype, tdm_shape_of(1, columns));
  kernel_case_output(&test, dtype, state);
  if (lstm) kernel_case_output(&test, dtype, state);
  if (options->d_x) kernel_case_output(&test, dtype, x);
  visit(&test, user);
}

static void visit_cell(tdm_dtype dtype, const recurrent_size *size, recurrent_options options,
                       kernel_visit visit, void *user) {
  static const char *const forward[] = {TDM_OP_RNN, TDM_OP_RNN, TDM_OP_LSTM, TDM_OP_GRU};
  static const char *const training[] = {NULL, NULL, TDM_OP_LSTM_TRAINING, TDM_OP_GRU_TRAINING};
  static const char *const gradient[] = {TDM_OP_RNN_GRADIENT, TDM_OP_RNN_GRADIENT,
                                         TDM_OP_LSTM_GRADIENT, TDM_OP_GRU_GRADIENT};
  visit_forward(forward[options.cell], dtype, size, &options, false, visit, user);
  if (training[options.cell])
    visit_forward(training[options.cell], dtype, size, &options, true, visit, user);
  visit_gradient(gradient[options.cell], dtype, size, &options, visit, user);
}

/* Enough weights for each step to be shared out by units, in panels of any instruction set. */
static void visit_units(tdm_dtype dtype, kernel_visit visit, void *user) {
  static const int64_t hidden[] = {
      [TDM_CELL_TANH] = 384, [TDM_CELL_LSTM] = 192, [TDM_CELL_GRU] = 224};
  for (int cell = TDM_CELL_TANH; cell <= TDM_CELL_GRU; cell++) {
    if (hidden[cell] == 0) continue; /* relu goes as tanh does */
    const recurrent_size size = {3, 2, 5, hidden[cell]};
    const bool odd = (cell + (dtype == TDM_FLOAT64)) % 2 != 0;
    visit_cell(dtype, &size,
               (recurrent_options){.cell = cell,
                                   .reverse = odd,
                                   .biases = true,
                                   .initial = cell % 2 != 0,
                                   .lengths = odd ? TDM_INT64 : TDM_DTYPE_NONE,
                                   .adjoints = 7,
                                   .d_x = odd},
               visit, user);
  }
}

void recurrent_cases(kernel_visit visit, void *user) {
  static const recurrent_size sizes[] = {{1, 1, 1, 1},   {3, 2, 5, 7},  {4, 5, 9, 17},
                                         {0, 3, 4, 5},   {2, 0, 3, 6},  {4, 5, 3, 4},
                                         {2, 25, 5, 18}, {9, 70, 3, 9}, {2, 600, 2, 3}};
  static const tdm_dtype lengths[] = {TDM_DTYPE_NONE, TDM_INT64, TDM_INT32};
  EACH_REAL(dtype) {
    visit_units(dtype, visit, user);
    for (int i = 0; i < (int)(sizeof sizes / sizeof sizes[0]); i++) {
      for (int cell = TDM_CELL_TANH; cell <= TDM_CELL_GRU; cell++) {
        const int mix = 3 * i + cell; /* every option with others from case to case */
        visit_cell(dtype, &sizes[i],
                   (recurrent_options){.cell = cell,
                                       .reverse = mix % 2 != 0,
                                       .biases = mix % 5 != 0,
                                       .initial = (mix / 2 + i) % 2 != 0,
                                       .lengths = lengths[(mix + i) % 3],
                                       .adjoints = 1 + mix % 7,
                                       .d_x = (mix + i / 2) % 2 != 0},
                   visit, user);
      }
    }
  }
}
