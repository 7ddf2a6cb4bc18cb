/* Cases of all updates of the table (devices/kernels/updates/optimizers.h): a step from given
 * states, with settings of their ranges. References are the formulas of the table in float64, one
 * element after the other. Golden data of training compares the formulas with PyTorch. */
#include <math.h>
#include <string.h>

#include "tests/devices/kernels/cases.h"

typedef double real;
typedef double stored;
#define number double
#define root_of sqrt
#define absolute_of fabs
#define choose(condition, yes, no) ((condition) ? (yes) : (no))
#define FOR_REAL
#define FOR_STORED
#define FOR_REAL_FUNCTION static inline
#define FOR_STORED_FUNCTION static inline
#define ON_DEVICES
#define OF_REAL(type) struct type
#define OF_STORED(type) struct type
#define REAL_OF_STORED(type) struct type
#define USING_REAL
#define WIDENED(x) (x)
#define NARROWED(x) (x)
#include "devices/kernels/updates/formulas.h"

static const int64_t counts[] = {0, 1, 17, 110, 10000, 40003};
#define COUNTS (sizeof counts / sizeof counts[0])

/* ---- References ------------------------------------------------------------------------------ */

#define LOAD(state, shape, condition, initial) LOAD_##shape(state)
#define LOAD_ELEMENTS(state) e.state = at.state ? at.state[to] : 0;
#define LOAD_NUMBER(state)
#define STORE(state, shape, condition, initial) STORE_##shape(state)
#define STORE_ELEMENTS(state)                                                                      \
  if (at.state) at.state[to] = e.state;
#define STORE_NUMBER(state)

/* Updates elements of rows of `dim` elements: row i of the gradient belongs to row indices[i] of
 * the parameter, or to row i if indices is NULL. */
#define REFERENCE(name, replaced)                                                                  \
  static void name##_rows(const kernel_case *self, const double *const *inputs,                    \
                          double *const *outputs, const double *indices, int64_t rows,             \
                          int64_t dim) {                                                           \
    const tdm_kernel_call call = {.attributes = &self->attributes,                                 \
                                  .scalars = &self->scalars,                                       \
                                  .inputs = (const void *const *)inputs,                           \
                                  .outputs = (void *const *)outputs};                              \
    tdm_##name##_attributes attributes;                                                            \
    struct name##_numbers n;                                                                       \
    struct name##_operands at;                                                                     \
    for (size_t k = 0; k < self->output_count; k++) {                                              \
      const size_t input = (size_t)self->overwrites[k];                                            \
      memcpy(outputs[k], inputs[input], (size_t)input_count_of(self, input) * sizeof(double));     \
    }                                                                                              \
    name##_read(&call, &attributes, &at);                                                          \
    name##_begin(&attributes, self->scalars.learning_rate, &at, &n);                               \
    for (int64_t i = 0; i < rows * dim; i++) {                                                     \
      const int64_t to = indices ? (int64_t)indices[i / dim] * dim + i % dim : i;                  \
      struct name##_element e = {.gradient = at.gradient[i], .parameter = at.parameter[to]};       \
      TDM_STATES_##name(LOAD) name##_update(&n, &e);                                               \
      at.parameter[to] = e.parameter;                                                              \
      TDM_STATES_##name(STORE)                                                                     \
    }                                                                                              \
  }
#define DENSE_REFERENCE(name, replaced)                                                            \
  REFERENCE(name, replaced)                                                                        \
  static void name##_reference(const kernel_case *self, const double *const *inputs,               \
                               double *const *outputs) {                                           \
    name##_rows(self, inputs, outputs, NULL, input_count_of(self, 0), 1);                          \
  }
#define ROWS_REFERENCE(operation, name)                                                            \
  static void operation##_reference(const kernel_case *self, const double *const *inputs,          \
                                    double *const *outputs) {                                      \
    name##_rows(self, inputs, outputs, inputs[2], (int64_t)inputs[3][0], input_dim(self, 0, 1));   \
  }
TDM_UPDATES(DENSE_REFERENCE)
REFERENCE(adam_sparse, beta1)
TDM_ROW_UPDATES(ROWS_REFERENCE)

/* ---- Cases ----------------------------------------------------------------------------------- */

enum { VARIANTS = 6 };

/* Values of a setting of each range. */
typedef double setting_values[3];
static const setting_values NOT_NEGATIVE = {0.5, 0.1, 0}, FINITE = {0.3, 0.9, -1};
static const setting_values DECAY_RATE = {0.9, 0.999, 0.8}, FRACTION = {0.9, 0.7, 0.5};
static const setting_values ZERO = {0, 0, 0}, FLAG = {0, 1, 0};

static double setting_value(const char *name, const double *values, int variant, int place) {
  if (values == FLAG) return (variant / 3 + place) % 2;
  if (strcmp(name, "alpha") == 0) return values[variant % 2]; /* 0 leaves a variance of 0 */
  return values[(variant + place) % 3];
}

#define SETTING(setting, range) settings.setting = setting_value(#setting, range, variant, place++);
#define STATE(state, shape, condition, initial)                                                    \
  if (condition) add_##shape(&test, variant, initial);

/* The first step begins with initial states. In others, no mean of squares is less than a squared
 * mean. */
static void add_ELEMENTS(kernel_case *test, int variant, double initial) {
  const bool first = variant % 2 == 0;
  kernel_case_input(test, test->dtype, test->inputs[0].spec.shape, first ? initial : 0.3,
                    first ? initial : 0.5);
  kernel_case_overwrite(test, test->input_count - 1);
}

static void add_NUMBER(kernel_case *test, int variant, double initial) {
  const double value = variant % 2 == 0 ? initial : variant == 1 ? 4 : 40;
  kernel_case_input(test, test->dtype, tdm_shape_scalar(), value, value);
  kernel_case_overwrite(test, test->input_count - 1);
}

/* Completes a case of an update, which has the operands before the states. */
#define CASES(name, replaced)                                                                      \
  static void name##_case(kernel_case test, kernel_reference reference, int variant,               \
                          kernel_visit visit, void *user) {                                        \
    tdm_##name##_attributes settings;                                                              \
    const tdm_##name##_attributes *a = &settings;                                                  \
    int place = 0;                                                                                 \
    (void)a;                                                                                       \
    TDM_SETTINGS_##name(SETTING) memcpy(&test.attributes, &settings, sizeof settings);             \
    test.reference = reference;                                                                    \
    kernel_case_overwrite(&test, 0);                                                               \
    TDM_STATES_##name(STATE) kernel_case_visit_momenta(&test, visit, user);                        \
  }
TDM_UPDATES(CASES)
CASES(adam_sparse, beta1)

static kernel_case dense_case(const char *operation, tdm_dtype dtype, int64_t count, int variant) {
  const tdm_shape shape = tdm_shape_of(1, count);
  kernel_case test =
      kernel_case_make(operation, dtype, NULL, "%lld, variant %d", (long long)count, variant);
  kernel_case_input(&test, dtype, shape, -1, 1);
  kernel_case_input(&test, dtype, shape, -1, 1);
  return test;
}

void optimizer_cases(kernel_visit visit, void *user) {
  EACH_REAL(dtype) {
    for (size_t i = 0; i < COUNTS; i++) {
      const bool is_large = counts[i] > 1000; /* slow where threads are emulated */
      const int64_t count = is_large ? counts[i] / 2 : counts[i];
      for (int variant = is_large; variant < VARIANTS; variant += is_large ? 4 : 1) {
#define VISIT(name, replaced)                                                                      \
  name##_case(dense_case(#name, dtype, count, variant), name##_reference, variant, visit, user);
        TDM_UPDATES(VISIT)
      }
      adafactor_cases(dtype, counts[i], visit, user);
    }
  }
}

/* Creates a case with a parameter (rows, dim) and a gradient of n entries, `used` of which are
 * valid. */
static kernel_case rows_case(const char *operation, tdm_dtype dtype, const int64_t size[4],
                             int variant) {
  const int64_t rows = size[0], dim = size[1], n = size[2], used = size[3];
  kernel_case test =
      kernel_case_make(operation, dtype, NULL, "%lld x %lld, %lld of %lld entries, variant %d",
                       (long long)rows, (long long)dim, (long long)used, (long long)n, variant);
  kernel_case_input(&test, dtype, tdm_shape_of(2, rows, dim), -1, 1);
  kernel_input *values = kernel_case_input(&test, dtype, tdm_shape_of(2, n, dim), -1, 1);
  values->fill = FILL_ROWS;
  values->used = used;
  kernel_input *indices = kernel_case_input(&test, TDM_INT64, tdm_shape_of(1, n), 0, (double)rows);
  indices->fill = FILL_SPARSE;
  indices->used = used;
  kernel_case_input(&test, TDM_INT64, tdm_shape_scalar(), (double)used, (double)used);
  return test;
}

void sparse_optimizer_cases(kernel_visit visit, void *user) {
  static const int64_t sizes[][4] = {
      {10, 4, 0, 0}, {10, 4, 6, 0}, {1, 1, 1, 1}, {50, 17, 30, 22}, {2000, 64, 1500, 1500}};
  EACH_REAL(dtype) {
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
      for (int variant = 2; variant < 4; variant++) {
#define VISIT_ROWS(operation, name)                                                                \
  name##_case(rows_case(#operation, dtype, sizes[i], variant), operation##_reference, variant,     \
              visit, user);
        TDM_ROW_UPDATES(VISIT_ROWS)
      }
  }
}
