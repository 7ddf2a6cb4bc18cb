/* Cases of the linear layer. */
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
      double sum = inputs[2] ? inputs[2][o] : 0;
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
      {700, 0, 10, 10}, {4, 0, 520, 16},  {97, 2, 128, 100}, {1100, 0, 2, 40},
  };
  EACH_REAL(dtype) {
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
      linear_case(dtype, sizes[i], visit, user);
  }
}
