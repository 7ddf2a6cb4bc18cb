/* Cases of the linear layer and of the recurrent layer. */
#include "tests/devices/kernels/cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- linear ---------------------------------------------------------------------------------- */

static void linear_reference(const kernel_case *self, const double *const *inputs,
                             double *const *outputs) {
  const int64_t in = input_dim(self, 1, 1), out = input_dim(self, 1, 0);
  const int64_t rows = tdm_shape_count(&self->outputs[0].shape) / out;
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t o = 0; o < out; o++) {
      double sum = inputs[2] != NULL ? inputs[2][o] : 0;
      for (int64_t i = 0; i < in; i++)
        sum += inputs[0][r * in + i] * inputs[1][o * in + i];
      outputs[0][r * out + o] = sum;
    }
  }
}

static void linear_input_gradient_reference(const kernel_case *self, const double *const *inputs,
                                            double *const *outputs) {
  const int64_t in = input_dim(self, 1, 1), out = input_dim(self, 1, 0);
  const int64_t rows = input_count_of(self, 0) / out;
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t i = 0; i < in; i++) {
      double sum = 0;
      for (int64_t o = 0; o < out; o++)
        sum += inputs[0][r * out + o] * inputs[1][o * in + i];
      outputs[0][r * in + i] = sum;
    }
  }
}

static void linear_parameter_gradient_reference(const kernel_case *self,
                                                const double *const *inputs,
                                                double *const *outputs) {
  const int64_t out = self->outputs[0].shape.dims[0], in = self->outputs[0].shape.dims[1];
  const int64_t rows = input_count_of(self, 0) / out;
  for (int64_t o = 0; o < out; o++) {
    for (int64_t i = 0; i < in; i++) {
      double sum = 0;
      for (int64_t r = 0; r < rows; r++)
        sum += inputs[0][r * out + o] * inputs[1][r * in + i];
      outputs[0][o * in + i] = sum;
    }
    double sum = 0;
    for (int64_t r = 0; r < rows; r++)
      sum += inputs[0][r * out + o];
    outputs[1][o] = sum;
  }
}

static tdm_shape rows_shape(int64_t first, int64_t second, int64_t last) {
  return second == 0 ? tdm_shape_of(2, first, last) : tdm_shape_of(3, first, second, last);
}

static void linear_case(tdm_dtype dtype, const int64_t size[4], kernel_visit visit, void *user) {
  const tdm_shape x = rows_shape(size[0], size[1], size[2]);
  const tdm_shape y = rows_shape(size[0], size[1], size[3]);
  const tdm_shape weight = tdm_shape_of(2, size[3], size[2]);
  for (int bias = 0; bias < 2; bias++) {
    kernel_case test =
        kernel_case_make(TDM_OP_LINEAR, dtype, linear_reference, "%lldx%lld rows, %lld -> %lld%s",
                         (long long)size[0], (long long)size[1], (long long)size[2],
                         (long long)size[3], bias != 0 ? " with bias" : "");
    kernel_case_input(&test, dtype, x, -1, 1);
    kernel_case_input(&test, dtype, weight, -1, 1);
    if (bias != 0) {
      kernel_case_input(&test, dtype, tdm_shape_of(1, size[3]), -1, 1);
    } else {
      kernel_case_absent_input(&test);
    }
    kernel_case_output(&test, dtype, y);
    visit(&test, user);
  }
  kernel_case input =
      kernel_case_make(TDM_OP_LINEAR_INPUT_GRADIENT, dtype, linear_input_gradient_reference,
                       "%lldx%lld rows, %lld -> %lld", (long long)size[0], (long long)size[1],
                       (long long)size[2], (long long)size[3]);
  kernel_case_input(&input, dtype, y, -1, 1);
  kernel_case_input(&input, dtype, weight, -1, 1);
  kernel_case_output(&input, dtype, x);
  visit(&input, user);

  kernel_case parameter =
      kernel_case_make(TDM_OP_LINEAR_PARAMETER_GRADIENT, dtype, linear_parameter_gradient_reference,
                       "%s", input.name + strlen(TDM_OP_LINEAR_INPUT_GRADIENT));
  kernel_case_input(&parameter, dtype, y, -1, 1);
  kernel_case_input(&parameter, dtype, x, -1, 1);
  kernel_case_output(&parameter, dtype, weight);
  kernel_case_output(&parameter, dtype, tdm_shape_of(1, size[3]));
  visit(&parameter, user);
}

void linear_cases(kernel_visit visit, void *user) {
  static const int64_t sizes[][4] = {
      {30, 0, 10, 10},  {0, 0, 4, 3},     {1, 0, 1, 1},      {1, 0, 7, 65},    {5, 3, 17, 33},
      {9, 0, 300, 31},  {67, 0, 129, 64}, {3, 0, 5, 600},    {130, 0, 3, 257}, {2, 100, 33, 8},
      {700, 0, 10, 10}, {4, 0, 520, 16},  {97, 2, 128, 100},
  };
  EACH_REAL(dtype) {
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
      linear_case(dtype, sizes[i], visit, user);
    }
  }
}

/* ---- rnn ------------------------------------------------------------------------------------- */

typedef struct rnn_size {
  int64_t length, batch, in, hidden;
} rnn_size;

static rnn_size size_of(const kernel_case *test, size_t x, size_t y_hidden) {
  return (rnn_size){input_dim(test, x, 0), input_dim(test, x, 1), input_dim(test, x, 2),
                    input_last_dim(test, y_hidden)};
}

static double dot(const double *a, const double *b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++)
    sum += a[i] * b[i];
  return sum;
}

static void rnn_reference(const kernel_case *self, const double *const *inputs,
                          double *const *outputs) {
  const rnn_size size = size_of(self, 0, 3);
  const double *x = inputs[0], *h0 = inputs[1], *weight_ih = inputs[2], *weight_hh = inputs[3];
  double *y = outputs[0]; /* (length, batch, hidden) */
  const int64_t in = size.in, hidden = size.hidden;
  for (int64_t i = 0; i < size.length * size.batch; i++) {
    const double *before = i >= size.batch ? y + (i - size.batch) * hidden
                           : h0 != NULL    ? h0 + i * hidden
                                           : NULL;
    for (int64_t h = 0; h < hidden; h++) {
      double sum = inputs[4][h] + inputs[5][h] + dot(x + i * in, weight_ih + h * in, in);
      if (before != NULL) sum += dot(before, weight_hh + h * hidden, hidden);
      y[i * hidden + h] =
          self->attributes.rnn.nonlinearity == TDM_RNN_RELU ? fmax(sum, 0) : tanh(sum);
    }
  }
}

/* Adds the contributions of one (step, row) of the batch; d_a (hidden) is the gradient before the
 * activation, before (hidden) the state that went in, d_before where its gradient goes. */
static void rnn_gradient_add(const rnn_size *size, const double *d_a, const double *x,
                             const double *before, const double *const *inputs,
                             double *const *outputs, double *d_x, double *d_before) {
  const double *weight_ih = inputs[4], *weight_hh = inputs[5];
  for (int64_t h = 0; h < size->hidden; h++) {
    for (int64_t i = 0; i < size->in; i++) {
      d_x[i] += d_a[h] * weight_ih[h * size->in + i];
      outputs[2][h * size->in + i] += d_a[h] * x[i];
    }
    for (int64_t i = 0; i < size->hidden; i++) {
      d_before[i] += d_a[h] * weight_hh[h * size->hidden + i];
      if (before != NULL) outputs[3][h * size->hidden + i] += d_a[h] * before[i];
    }
    outputs[4][h] += d_a[h];
  }
}

static void rnn_gradient_reference(const kernel_case *self, const double *const *inputs,
                                   double *const *outputs) {
  const rnn_size size = size_of(self, 1, 2);
  const int64_t in = size.in, hidden = size.hidden, steps = size.length * size.batch;
  const double *y = inputs[2], *h0 = inputs[3];
  for (size_t i = 0; i < 5; i++) {
    const int64_t count = tdm_shape_count(&self->outputs[i].shape);
    for (int64_t j = 0; j < count; j++)
      outputs[i][j] = 0;
  }
  const size_t d_y_bytes = (size_t)(steps * hidden) * sizeof(double);
  double *d_y = malloc(d_y_bytes + 1); /* with what later steps add */
  if (d_y_bytes > 0) memcpy(d_y, inputs[0], d_y_bytes);
  for (int64_t i = steps - 1; i >= 0; i--) {
    double *d_a = d_y + i * hidden;
    for (int64_t h = 0; h < hidden; h++) {
      const double out = y[i * hidden + h];
      d_a[h] *= self->attributes.rnn.nonlinearity == TDM_RNN_RELU ? out > 0 : 1 - out * out;
    }
    const bool first = i < size.batch;
    const double *before = !first       ? y + (i - size.batch) * hidden
                           : h0 != NULL ? h0 + i * hidden
                                        : NULL;
    double *d_before = first ? outputs[1] + i * hidden : d_y + (i - size.batch) * hidden;
    rnn_gradient_add(&size, d_a, inputs[1] + i * in, before, inputs, outputs, outputs[0] + i * in,
                     d_before);
  }
  free(d_y);
}

/* The weights are small enough that states do not saturate and relu does not explode. */
static void rnn_inputs(kernel_case *test, tdm_dtype dtype, const rnn_size *size, bool initial,
                       bool biases) {
  const double bound = 1.0 / sqrt((double)size->hidden);
  if (initial) {
    kernel_case_input(test, dtype, tdm_shape_of(2, size->batch, size->hidden), -1, 1);
  } else {
    kernel_case_absent_input(test);
  }
  kernel_case_input(test, dtype, tdm_shape_of(2, size->hidden, size->in), -bound, bound);
  kernel_case_input(test, dtype, tdm_shape_of(2, size->hidden, size->hidden), -bound, bound);
  for (int i = 0; i < 2 && biases; i++) {
    kernel_case_input(test, dtype, tdm_shape_of(1, size->hidden), -bound, bound);
  }
}

static void rnn_case(tdm_dtype dtype, const rnn_size *size, bool initial,
                     tdm_rnn_nonlinearity nonlinearity, kernel_visit visit, void *user) {
  const tdm_shape x = tdm_shape_of(3, size->length, size->batch, size->in);
  const tdm_shape y = tdm_shape_of(3, size->length, size->batch, size->hidden);
  const tdm_shape h0 = tdm_shape_of(2, size->batch, size->hidden);
  kernel_case forward = kernel_case_make(
      TDM_OP_RNN, dtype, rnn_reference, "%s length %lld batch %lld, %lld -> %lld%s",
      nonlinearity == TDM_RNN_RELU ? "relu" : "tanh", (long long)size->length,
      (long long)size->batch, (long long)size->in, (long long)size->hidden,
      initial ? " with h0" : "");
  forward.attributes.rnn.nonlinearity = (int32_t)nonlinearity;
  kernel_case_input(&forward, dtype, x, -1, 1);
  rnn_inputs(&forward, dtype, size, initial, true);
  kernel_case_output(&forward, dtype, y);
  visit(&forward, user);

  kernel_case gradient =
      kernel_case_make(TDM_OP_RNN_GRADIENT, dtype, rnn_gradient_reference, "%s", forward.name);
  gradient.attributes.rnn.nonlinearity = (int32_t)nonlinearity;
  kernel_case_input(&gradient, dtype, y, -1, 1);
  kernel_case_input(&gradient, dtype, x, -1, 1);
  kernel_case_input(&gradient, dtype, y, -1, 1); /* as good as results: the formula reads them */
  rnn_inputs(&gradient, dtype, size, initial, false);
  kernel_case_output(&gradient, dtype, x);
  kernel_case_output(&gradient, dtype, h0);
  kernel_case_output(&gradient, dtype, tdm_shape_of(2, size->hidden, size->in));
  kernel_case_output(&gradient, dtype, tdm_shape_of(2, size->hidden, size->hidden));
  kernel_case_output(&gradient, dtype, tdm_shape_of(1, size->hidden));
  visit(&gradient, user);
}

void rnn_cases(kernel_visit visit, void *user) {
  static const rnn_size sizes[] = {
      {1, 1, 1, 1}, {3, 2, 5, 7}, {4, 33, 9, 17}, {0, 3, 4, 5}, {2, 0, 3, 6}, {5, 70, 32, 128},
  };
  EACH_REAL(dtype) {
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
      rnn_case(dtype, &sizes[i], i % 2 == 0, TDM_RNN_TANH, visit, user);
      rnn_case(dtype, &sizes[i], i % 2 != 0, TDM_RNN_RELU, visit, user);
    }
  }
}
