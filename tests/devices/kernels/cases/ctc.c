/* Cases of the paths of the connectionist temporal classification, compared by their sums.
 * Impossible paths are far below all others, so these are compared in rows of two places, and by
 * gradients. */
#include <math.h>

#include "tests/devices/kernels/cases.h"

static int64_t at(const kernel_case *self, int64_t t, int64_t n, int64_t i) {
  return (t * input_dim(self, 0, 1) + n) * input_dim(self, 0, 2) + i;
}

/* Returns the probability that reaches place i of step t + 1 from place i - back, or before the
 * first step. */
static double coming(const kernel_case *self, const double *paths, double bar, int64_t t, int64_t n,
                     int64_t i, int back) {
  const int64_t from = i - back;
  double path = TDM_NO_PATH;
  if (t < 0 && from == -1) path = 0;
  if (t >= 0 && from >= 0) path = paths[at(self, t, n, from)];
  return fmax(back == 2 ? path + bar : path, TDM_NO_PATH);
}

static double sum_of(const kernel_case *self, const double *paths, double bar, int64_t t, int64_t n,
                     int64_t i) {
  double most = TDM_NO_PATH, sum = 0;
  for (int back = 0; back < 3; back++)
    most = fmax(most, coming(self, paths, bar, t, n, i, back));
  for (int back = 0; back < 3; back++)
    sum += exp(coming(self, paths, bar, t, n, i, back) - most);
  return most + log(sum);
}

static void paths_reference(const kernel_case *self, const double *const *inputs,
                            double *const *outputs) {
  const int64_t batch = input_dim(self, 0, 1), places = input_dim(self, 0, 2);
  for (int64_t t = 0; t < input_dim(self, 0, 0); t++)
    for (int64_t n = 0; n < batch; n++)
      for (int64_t i = 0; i < places; i++) {
        const double bar = inputs[1][n * places + i];
        const double sum = sum_of(self, outputs[0], bar, t - 1, n, i);
        outputs[0][at(self, t, n, i)] = fmax(inputs[0][at(self, t, n, i)] + sum, TDM_NO_PATH);
      }
}

static void gradient_reference(const kernel_case *self, const double *const *inputs,
                               double *const *outputs) {
  const int64_t batch = input_dim(self, 0, 1), places = input_dim(self, 0, 2);
  const int64_t steps = input_dim(self, 0, 0);
  for (int64_t i = 0; i < input_count_of(self, 0); i++)
    outputs[0][i] = inputs[0][i];
  for (int64_t t = steps - 2; t >= 0; t--)
    for (int64_t n = 0; n < batch; n++)
      for (int64_t i = 0; i < places; i++) {
        const double bar = inputs[1][n * places + i], *paths = inputs[2];
        const double sum = sum_of(self, paths, bar, t, n, i);
        for (int back = 0; back < 3 && back <= i; back++)
          outputs[0][at(self, t, n, i - back)] +=
              outputs[0][at(self, t + 1, n, i)] *
              exp(coming(self, paths, bar, t, n, i, back) - sum);
      }
}

static void ctc_case(tdm_dtype dtype, const int64_t size[3], double bar, kernel_visit visit,
                     void *user) {
  const tdm_shape shape = tdm_shape_of(3, size[0], size[1], size[2]);
  const tdm_shape rows = tdm_shape_of(2, size[1], size[2]);
  kernel_case paths =
      kernel_case_make(TDM_OP_CTC_PATHS, dtype, paths_reference, "%lld x %lld x %lld, bars %g",
                       (long long)size[0], (long long)size[1], (long long)size[2], bar);
  kernel_case_input(&paths, dtype, shape, -3, 0);
  kernel_case_input(&paths, dtype, rows, bar, bar);
  kernel_case_output(&paths, dtype, shape);
  visit(&paths, user);
  kernel_case back = kernel_case_make(TDM_OP_CTC_PATHS_GRADIENT, dtype, gradient_reference,
                                      "%lld x %lld x %lld, bars %g", (long long)size[0],
                                      (long long)size[1], (long long)size[2], bar);
  kernel_case_input(&back, dtype, shape, -1, 1);
  kernel_case_input(&back, dtype, rows, bar, bar);
  kernel_case_input(&back, dtype, shape, -4, 0);
  kernel_case_output(&back, dtype, shape);
  visit(&back, user);
}

void ctc_cases(tdm_dtype dtype, kernel_visit visit, void *user) {
  static const int64_t sizes[][3] = {{1, 1, 1},  {5, 3, 2},  {4, 2, 7},
                                     {3, 5, 33}, {6, 2, 70}, {2, 0, 3}};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    ctc_case(dtype, sizes[i], 0, visit, user);
    ctc_case(dtype, sizes[i], TDM_NO_PATH, visit, user);
  }
}
