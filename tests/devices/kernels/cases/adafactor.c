/* Cases of Adafactor: one step from given states, by the formulas of the documentation of
 * torch.optim. */
#include <math.h>
#include <string.h>

#include "tests/devices/kernels/cases.h"

static double clamped(double value, double least) {
  return value > least ? value : least;
}

static double fresh_share(const kernel_case *self, double step) {
  return pow(step, self->attributes.adafactor.beta2_decay);
}

/* updates holds the values whose root is the divisor. The end of the step is equal for all
 * shapes. */
static void finish(const kernel_case *self, double step, const double *const *inputs,
                   double *updates) {
  const tdm_adafactor_attributes *a = &self->attributes.adafactor;
  const int64_t count = input_count_of(self, 0);
  const double rate = self->scalars.learning_rate;
  double of_parameter = 0, of_update = 0;
  for (int64_t i = 0; i < count; i++) {
    updates[i] = inputs[1][i] / sqrt(clamped(updates[i], a->epsilon1 * a->epsilon1));
    of_parameter += inputs[0][i] * inputs[0][i];
    of_update += updates[i] * updates[i];
  }
  const double alpha =
      clamped(sqrt(of_parameter / (double)count), a->epsilon2) * fmin(rate, 1 / sqrt(step));
  const double divisor = clamped(sqrt(of_update / (double)count) / a->d, 1);
  for (int64_t i = 0; i < count; i++)
    updates[i] = inputs[0][i] * (1 - rate * a->weight_decay) - alpha / divisor * updates[i];
}

static void vector_reference(const kernel_case *self, const double *const *inputs,
                             double *const *outputs) {
  const double step = inputs[3][0] + 1, fresh = fresh_share(self, step);
  for (int64_t i = 0; i < input_count_of(self, 0); i++) {
    const double g = inputs[1][i];
    outputs[1][i] = inputs[2][i] + fresh * (g * g - inputs[2][i]);
    outputs[0][i] = outputs[1][i];
  }
  outputs[2][0] = step;
  finish(self, step, inputs, outputs[0]);
}

static void matrix_reference(const kernel_case *self, const double *const *inputs,
                             double *const *outputs) {
  const double step = inputs[4][0] + 1, fresh = fresh_share(self, step);
  const int64_t m = input_dim(self, 0, 1), n = input_dim(self, 0, 2);
  for (int64_t b = 0; b < input_dim(self, 0, 0); b++) {
    const double *g = inputs[1] + b * m * n;
    double *rows = outputs[1] + b * m, *columns = outputs[2] + b * n, mean = 0;
    memcpy(rows, inputs[2] + b * m, (size_t)m * sizeof *rows);
    memcpy(columns, inputs[3] + b * n, (size_t)n * sizeof *columns);
    for (int64_t i = 0; i < m; i++)
      rows[i] *= 1 - fresh;
    for (int64_t j = 0; j < n; j++)
      columns[j] *= 1 - fresh;
    for (int64_t i = 0; i < m * n; i++) {
      rows[i / n] += fresh * g[i] * g[i] / (double)n;
      columns[i % n] += fresh * g[i] * g[i] / (double)m;
    }
    for (int64_t i = 0; i < m; i++)
      mean += rows[i] / (double)m;
    for (int64_t i = 0; i < m * n; i++)
      outputs[0][b * m * n + i] =
          rows[i / n] * columns[i % n] / clamped(mean, self->attributes.adafactor.epsilon1);
  }
  outputs[3][0] = step;
  finish(self, step, inputs, outputs[0]);
}

static void adafactor_case(tdm_dtype dtype, tdm_shape shape, tdm_adafactor_attributes attributes,
                           double step, kernel_visit visit, void *user) {
  const bool is_matrix = shape.rank == 3;
  char text[TDM_SHAPE_TEXT];
  kernel_case test =
      kernel_case_make(TDM_OP_ADAFACTOR, dtype, is_matrix ? matrix_reference : vector_reference,
                       "%s, decay %g, d %g, step %g", tdm_shape_text(&shape, text, sizeof text),
                       attributes.weight_decay, attributes.d, step);
  test.attributes.adafactor = attributes;
  kernel_case_input(&test, dtype, shape, -1, 1);
  kernel_case_input(&test, dtype, shape, -1, 1);
  const double most = step == 0 ? 0 : 0.6, least = step == 0 ? 0 : 0.2;
  if (is_matrix) {
    kernel_case_input(&test, dtype, tdm_shape_of(3, shape.dims[0], shape.dims[1], 1), least, most);
    kernel_case_input(&test, dtype, tdm_shape_of(3, shape.dims[0], 1, shape.dims[2]), least, most);
  } else {
    kernel_case_input(&test, dtype, shape, least, most);
  }
  kernel_case_input(&test, dtype, tdm_shape_scalar(), step, step);
  kernel_case_overwrite(&test, 0);
  for (size_t i = 2; i < test.input_count; i++)
    kernel_case_overwrite(&test, i);
  visit(&test, user);
}

void adafactor_cases(tdm_dtype dtype, int64_t count, kernel_visit visit, void *user) {
  const tdm_adafactor_attributes plain = {
      .beta2_decay = -0.8, .epsilon1 = 1.2e-7, .epsilon2 = 1e-3, .d = 1};
  const tdm_adafactor_attributes loose = {
      .beta2_decay = -0.5, .epsilon1 = 0.4, .epsilon2 = 2, .d = 3, .weight_decay = 0.1};
  adafactor_case(dtype, tdm_shape_of(1, count), plain, 4, visit, user);
  if (count > 1000) { /* large ones are slow where threads are emulated */
    adafactor_case(dtype, tdm_shape_of(3, 2, count / 300, 70), plain, 4, visit, user);
    return;
  }
  adafactor_case(dtype, tdm_shape_of(1, count), loose, 0, visit, user);
  adafactor_case(dtype, tdm_shape_of(3, 1, 7, count), plain, 0, visit, user);
  if (count == 0) return; /* without elements, states do not change */
  adafactor_case(dtype, tdm_shape_of(3, 1, 7, count), loose, 9, visit, user);
  adafactor_case(dtype, tdm_shape_of(3, 2, count, 3), plain, 3, visit, user);
}
