/* Building, generating and checking of cases, and the list of families. */
#include "tests/devices/kernels/cases.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

const kernel_family kernel_families[] = {
    {"embedding", embedding_cases},
    {"attention", attention_cases},
    {"bag", bag_cases},
    {"product", product_cases},
    {"sparse", sparse_cases},
    {"index_copy", index_copy_cases},
    {"linear", linear_cases},
    {"recurrent", recurrent_cases},
    {"elementwise", elementwise_cases},
    {"function", function_cases},
    {"pointwise", pointwise_cases},
    {"shape", shape_cases},
    {"moves", move_cases},
    {"gather", gather_cases},
    {"convolution", convolution_cases},
    {"pool", pool_cases},
    {"dropout", dropout_cases},
    {"reduction", reduction_cases},
    {"norm", norm_cases},
    {"softmax", softmax_cases},
    {"sort", sort_cases},
    {"loss", loss_cases},
    {"optimizer", optimizer_cases},
    {"sparse_optimizer", sparse_optimizer_cases},
};
const size_t kernel_family_count = sizeof kernel_families / sizeof kernel_families[0];

/* ---- Building -------------------------------------------------------------------------------- */

kernel_case kernel_case_make(const char *operation, tdm_dtype dtype, kernel_reference reference,
                             const char *format, ...) {
  kernel_case test = {.operation = operation,
                      .dtype = dtype,
                      .reference = reference,
                      .scalars = {.step = 3, .seed = 7, .learning_rate = 0.05}};
  const int length =
      snprintf(test.name, sizeof test.name, "%s %s ", operation, tdm_dtype_name(dtype));
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(test.name + length, sizeof test.name - (size_t)length, format, arguments);
  va_end(arguments);
  return test;
}

kernel_input *kernel_case_input(kernel_case *test, tdm_dtype dtype, tdm_shape shape, double low,
                                double high) {
  kernel_input *input = &test->inputs[test->input_count++];
  *input = (kernel_input){.spec = {.dtype = dtype, .shape = shape}, .low = low, .high = high};
  return input;
}

kernel_input *kernel_case_any_input(kernel_case *test, tdm_dtype dtype, tdm_shape shape) {
  if (dtype == TDM_BOOL) return kernel_case_input(test, dtype, shape, 0, 2);
  const bool is_signed = tdm_dtype_bytes(dtype) > 2;
  return kernel_case_input(test, dtype, shape, is_signed ? -90 : 1, 99);
}

void kernel_case_absent_input(kernel_case *test) {
  test->inputs[test->input_count++] = (kernel_input){.spec = {.dtype = TDM_DTYPE_NONE}};
}

void kernel_case_output(kernel_case *test, tdm_dtype dtype, tdm_shape shape) {
  test->overwrites[test->output_count] = -1;
  test->outputs[test->output_count++] = (tdm_spec){.dtype = dtype, .shape = shape};
}

void kernel_case_overwrite(kernel_case *test, size_t input) {
  const tdm_spec *spec = &test->inputs[input].spec;
  kernel_case_output(test, spec->dtype, spec->shape);
  test->overwrites[test->output_count - 1] = (int)input;
}

/* ---- Generating ------------------------------------------------------------------------------ */

static void value_write(tdm_dtype dtype, void *data, int64_t index, double value) {
  switch (dtype) {
  case TDM_FLOAT32:
    ((float *)data)[index] = (float)value;
    break;
  case TDM_FLOAT64:
    ((double *)data)[index] = value;
    break;
  case TDM_INT32:
    ((int32_t *)data)[index] = (int32_t)floor(value);
    break;
  case TDM_INT64:
    ((int64_t *)data)[index] = (int64_t)floor(value);
    break;
  case TDM_BOOL:
    ((uint8_t *)data)[index] = value >= 0.5;
    break;
  case TDM_FLOAT16:
  case TDM_BFLOAT16:
    ((uint16_t *)data)[index] = (uint16_t)floor(value);
    break;
  default:
    ((uint8_t *)data)[index] = (uint8_t)floor(value);
    break;
  }
}

/* Returns element i of distinct ascending indices spread over [low, high). */
static double sparse_index(const kernel_input *input, int64_t i) {
  if (i >= input->used) return -1;
  const double room = (input->high - input->low) / (double)input->used;
  return floor(input->low + room * (double)i);
}

void kernel_input_generate(const kernel_case *test, size_t input, void *data) {
  const kernel_input *from = &test->inputs[input];
  const int64_t count = input_count_of(test, input);
  if (from->generate) {
    from->generate(test, data);
    return;
  }
  const tdm_random random = {.seed = input, .stream = tdm_random_stream(test->name)};
  const int64_t row = from->spec.shape.rank > 1 ? input_last_dim(test, input) : 1;
  for (int64_t i = 0; i < count; i++) {
    const double uniform = tdm_random_uniform_float64(&random, (uint64_t)i);
    double value = from->low + (from->high - from->low) * uniform;
    if (from->fill == FILL_TARGETS && i % 7 == 3) value = (double)from->ignored;
    if (from->fill == FILL_SPARSE) value = sparse_index(from, i);
    if (from->fill == FILL_ROWS && i / row >= from->used) value = 0;
    value_write(from->spec.dtype, data, i, value);
  }
}

/* ---- Checking -------------------------------------------------------------------------------- */

void kernel_values_read(tdm_dtype dtype, const void *data, int64_t count, double *out) {
  for (int64_t i = 0; i < count; i++) {
    out[i] = dtype == TDM_FLOAT32          ? (double)((const float *)data)[i]
             : dtype == TDM_FLOAT64        ? ((const double *)data)[i]
             : dtype == TDM_INT32          ? (double)((const int32_t *)data)[i]
             : dtype == TDM_INT64          ? (double)((const int64_t *)data)[i]
             : tdm_dtype_bytes(dtype) == 2 ? (double)((const uint16_t *)data)[i]
                                           : (double)((const uint8_t *)data)[i];
  }
}

static double value_at(tdm_dtype dtype, const void *data, int64_t index) {
  double value;
  const char *at = (const char *)data + (size_t)index * tdm_dtype_bytes(dtype);
  kernel_values_read(dtype, at, 1, &value);
  return value;
}

void kernel_output_check(const kernel_case *test, size_t output, const char *where, const void *got,
                         const double *expected) {
  const tdm_spec *spec = &test->outputs[output];
  const int64_t count = tdm_shape_count(&spec->shape);
  const bool is_exact = spec->dtype == TDM_FLOAT64 && test->dtype != TDM_FLOAT32;
  const double narrow = test->tolerance > 0 ? test->tolerance : 1e-5;
  const double t = !tdm_dtype_is_floating(spec->dtype) ? 0 : is_exact ? 1e-12 : narrow;
  double largest = 0;
  for (int64_t i = 0; i < count; i++)
    if (isfinite(expected[i]) && fabs(expected[i]) > largest) largest = fabs(expected[i]);
  for (int64_t i = 0; i < count; i++) {
    const double value = value_at(spec->dtype, got, i);
    if (value == expected[i] || (isnan(value) && isnan(expected[i]))) continue;
    if (fabs(value - expected[i]) <= t * largest) continue;
    fail_msg("%s, %s: output %zu element %lld is %.17g, expected %.17g (largest %g)", test->name,
             where, output, (long long)i, value, expected[i], largest);
  }
}

void kernel_case_visit_momenta(kernel_case *self, kernel_visit visit, void *user) {
  visit(self, user);
  if (input_count_of(self, 0) > 100) return;
  self->scalars.has_momentum = true;
  self->scalars.momentum = 0.6;
  visit(self, user);
  self->scalars.momentum = 0;
  visit(self, user);
}
