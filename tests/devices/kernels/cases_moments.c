/* Cases of the variants of Adam: AMSGrad, NAdam, RAdam, Adamax. One step from given states, by the
 * formulas of the documentation of torch.optim. */
#include <math.h>
#include <string.h>

#include "tests/devices/kernels/cases.h"

typedef struct moments_step {
  double p, g; /* with weight decay */
  double step;
  double first, second;
} moments_step;

static moments_step begin_element(const kernel_case *self, const double *const *inputs, int64_t i) {
  const tdm_adam_attributes own = kernel_case_adam(self), *a = &own;
  const bool decoupled = a->decoupled != 0;
  moments_step made = {.step = inputs[self->input_count - 1][0] + 1};
  made.p = inputs[0][i] * (decoupled ? 1 - self->scalars.learning_rate * a->weight_decay : 1);
  made.g = inputs[1][i] + (decoupled ? 0 : a->weight_decay * made.p);
  made.first = a->beta1 * inputs[2][i] + (1 - a->beta1) * made.g;
  made.second = a->beta2 * inputs[3][i] + (1 - a->beta2) * made.g * made.g;
  return made;
}

static void end_element(const moments_step *made, double change, int64_t i,
                        double *const *outputs) {
  outputs[0][i] = made->p - change;
  outputs[1][i] = made->first;
  outputs[2][i] = made->second;
}

static void amsgrad_reference(const kernel_case *self, const double *const *inputs,
                              double *const *outputs) {
  const tdm_adam_attributes own = kernel_case_adam(self), *a = &own;
  for (int64_t i = 0; i < input_count_of(self, 0); i++) {
    const moments_step s = begin_element(self, inputs, i);
    outputs[3][i] = fmax(inputs[4][i], s.second);
    const double largest = outputs[3][i] / (1 - pow(a->beta2, s.step));
    const double mean = s.first / (1 - pow(a->beta1, s.step));
    end_element(&s, self->scalars.learning_rate * mean / (sqrt(largest) + a->epsilon), i, outputs);
  }
  outputs[4][0] = inputs[5][0] + 1;
}

static void nadam_reference(const kernel_case *self, const double *const *inputs,
                            double *const *outputs) {
  const tdm_adam_attributes own = kernel_case_adam(self), *a = &own;
  const double step = inputs[5][0] + 1;
  const double mu = a->beta1 * (1 - 0.5 * pow(0.96, step * a->momentum_decay));
  const double next = a->beta1 * (1 - 0.5 * pow(0.96, (step + 1) * a->momentum_decay));
  const double product = inputs[4][0] * mu;
  for (int64_t i = 0; i < input_count_of(self, 0); i++) {
    const moments_step s = begin_element(self, inputs, i);
    const double m = next * s.first / (1 - product * next) + (1 - mu) * s.g / (1 - product);
    const double v = s.second / (1 - pow(a->beta2, step));
    end_element(&s, self->scalars.learning_rate * m / (sqrt(v) + a->epsilon), i, outputs);
  }
  outputs[3][0] = product;
  outputs[4][0] = step;
}

static void radam_reference(const kernel_case *self, const double *const *inputs,
                            double *const *outputs) {
  const tdm_adam_attributes own = kernel_case_adam(self), *a = &own;
  const double step = inputs[4][0] + 1;
  const double infinity = 2 / (1 - a->beta2) - 1;
  const double power = pow(a->beta2, step);
  const double rho = infinity - 2 * step * power / (1 - power);
  const double r = sqrt((rho - 4) * (rho - 2) * infinity / ((infinity - 4) * (infinity - 2) * rho));
  for (int64_t i = 0; i < input_count_of(self, 0); i++) {
    const moments_step s = begin_element(self, inputs, i);
    double change = self->scalars.learning_rate * s.first / (1 - pow(a->beta1, step));
    if (rho > 5) change *= r * sqrt(1 - power) / (sqrt(s.second) + a->epsilon);
    end_element(&s, change, i, outputs);
  }
  outputs[3][0] = step;
}

static void adamax_reference(const kernel_case *self, const double *const *inputs,
                             double *const *outputs) {
  const tdm_adam_attributes own = kernel_case_adam(self), *a = &own;
  for (int64_t i = 0; i < input_count_of(self, 0); i++) {
    moments_step s = begin_element(self, inputs, i);
    s.second = fmax(a->beta2 * inputs[3][i], fabs(s.g) + a->epsilon);
    const double mean = s.first / (1 - pow(a->beta1, s.step));
    end_element(&s, self->scalars.learning_rate * mean / s.second, i, outputs);
  }
  outputs[3][0] = inputs[4][0] + 1;
}

typedef struct moments_member {
  const char *operation;
  kernel_reference reference;
  tdm_adam_attributes attributes;
  double step; /* before this one */
} moments_member;

static void moments_case(tdm_dtype dtype, int64_t count, const moments_member *member,
                         kernel_visit visit, void *user) {
  const tdm_shape shape = tdm_shape_of(1, count);
  const double step = member->step;
  kernel_case test = kernel_case_make(
      member->operation, dtype, member->reference, "%lld, decay %g%s, step %g", (long long)count,
      member->attributes.weight_decay, member->attributes.decoupled ? " decoupled" : "", step);
  test.attributes.adam = member->attributes;
  kernel_case_input(&test, dtype, shape, -1, 1);
  kernel_case_input(&test, dtype, shape, -1, 1);
  kernel_case_input(&test, dtype, shape, step == 0 ? 0 : -0.5, step == 0 ? 0 : 0.5);
  kernel_case_input(&test, dtype, shape, 0, step == 0 ? 0 : 0.3);
  if (member->attributes.amsgrad != 0)
    kernel_case_input(&test, dtype, shape, 0, step == 0 ? 0 : 0.4);
  if (strcmp(member->operation, TDM_OP_NADAM) == 0) {
    const double product = step == 0 ? 1 : 0.03;
    kernel_case_input(&test, dtype, tdm_shape_scalar(), product, product);
  }
  kernel_case_input(&test, dtype, tdm_shape_scalar(), step, step);
  kernel_case_overwrite(&test, 0);
  for (size_t i = 2; i < test.input_count; i++)
    kernel_case_overwrite(&test, i);
  kernel_case_visit_momenta(&test, visit, user);
}

#define BETAS .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8

static const moments_member members[] = {
    {TDM_OP_ADAM, amsgrad_reference, {BETAS, .amsgrad = 1}, 0},
    {TDM_OP_ADAM, amsgrad_reference, {BETAS, .weight_decay = 0.1, .decoupled = 1, .amsgrad = 1}, 4},
    {TDM_OP_NADAM, nadam_reference, {BETAS, .momentum_decay = 4e-3}, 0},
    {TDM_OP_NADAM, nadam_reference, {BETAS, .momentum_decay = 0.1, .weight_decay = 0.1}, 6},
    {TDM_OP_RADAM, radam_reference, {BETAS}, 0},
    {TDM_OP_RADAM, radam_reference, {BETAS, .weight_decay = 0.1}, 4},
    {TDM_OP_RADAM, radam_reference, {BETAS, .weight_decay = 0.1, .decoupled = 1}, 5},
    {TDM_OP_RADAM, radam_reference, {BETAS, .weight_decay = 0.1}, 40},
    {TDM_OP_ADAMAX, adamax_reference, {BETAS}, 0},
    {TDM_OP_ADAMAX, adamax_reference, {BETAS, .weight_decay = 0.1}, 4},
};

void moments_cases(tdm_dtype dtype, int64_t count, kernel_visit visit, void *user) {
  const size_t each = count > 1000 ? 3 : 1; /* large ones are slow where threads are emulated */
  for (size_t i = 0; i < sizeof members / sizeof members[0]; i += each)
    moments_case(dtype, count > 1000 ? count / 2 : count, &members[i], visit, user);
}
