/* Cases of the functions of devices/kernels/elementwise/functions.h with golden data: PyTorch's
 * values, repeated over full and partial vectors and over several pieces of a team. Invariant: no
 * function is named here. */
#include "devices/kernels/elementwise/functions.h"
#include "core/status.h"
#include "tests/devices/kernels/cases.h"

#include <string.h>

enum { X, Y, D_Y, D_X, PARTS };

typedef struct function_values {
  const char *function;
  int64_t count;
  const double *values[PARTS]; /* (count) */
} function_values;

#include "tests/golden/function_values.h"

static const int64_t counts[] = {0, 1, 15, 17, 100, 4099, 40001};

/* ---- Values ---------------------------------------------------------------------------------- */

/* Those of the function, or of the function whose gradient the operation is. */
static const function_values *values_of(const char *operation) {
  const char *end = strstr(operation, "_gradient");
  const size_t length = end ? (size_t)(end - operation) : strlen(operation);
  const function_values *found = all_values;
  while (strlen(found->function) != length || strncmp(found->function, operation, length) != 0)
    found++;
  return found;
}

static void generate(const kernel_case *test, int part, void *data) {
  const function_values *from = values_of(test->operation);
  for (int64_t i = 0; i < input_count_of(test, 0); i++) {
    const double value = from->values[part][i % from->count];
    if (test->dtype == TDM_FLOAT32)
      ((float *)data)[i] = (float)value;
    else
      ((double *)data)[i] = value;
  }
}

static void generate_x(const kernel_case *test, void *data) {
  generate(test, X, data);
}

static void generate_y(const kernel_case *test, void *data) {
  generate(test, Y, data);
}

static void generate_d_y(const kernel_case *test, void *data) {
  generate(test, D_Y, data);
}

static void reference(const kernel_case *self, const double *const *inputs,
                      double *const *outputs) {
  (void)inputs;
  const function_values *from = values_of(self->operation);
  const double *values = from->values[self->input_count == 1 ? Y : D_X];
  for (int64_t i = 0; i < input_count_of(self, 0); i++)
    outputs[0][i] = values[i % from->count];
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static void add_input(kernel_case *test, int64_t count,
                      void (*generate_it)(const kernel_case *, void *)) {
  kernel_case_input(test, test->dtype, tdm_shape_of(1, count), 0, 0)->generate = generate_it;
}

static void function_case(const char *name, const char *gradient, bool reads_y, tdm_dtype dtype,
                          int64_t count, kernel_visit visit, void *user) {
  kernel_case forward = kernel_case_make(name, dtype, reference, "%lld elements", (long long)count);
  add_input(&forward, count, generate_x);
  kernel_case_output(&forward, dtype, tdm_shape_of(1, count));
  visit(&forward, user);

  kernel_case back =
      kernel_case_make(gradient, dtype, reference, "%lld elements", (long long)count);
  add_input(&back, count, generate_d_y);
  add_input(&back, count, reads_y ? generate_y : generate_x);
  kernel_case_output(&back, dtype, tdm_shape_of(1, count));
  visit(&back, user);
}

static bool has_values(const char *function) {
  for (size_t i = 0; i < TDM_COUNT_OF(all_values); i++)
    if (strcmp(all_values[i].function, function) == 0) return true;
  return false;
}

typedef struct listed_function {
  const char *name;
  const char *gradient;
  const char *reads;
} listed_function;

#define LISTED(name, reads, precision) {#name, #name "_gradient", #reads},
static const listed_function functions[] = {TDM_FUNCTIONS(LISTED)};

void function_cases(kernel_visit visit, void *user) {
  EACH_REAL(dtype) {
    for (size_t f = 0; f < TDM_COUNT_OF(functions); f++)
      for (size_t i = 0; i < TDM_COUNT_OF(counts) && has_values(functions[f].name); i++)
        function_case(functions[f].name, functions[f].gradient, functions[f].reads[0] == 'Y', dtype,
                      counts[i], visit, user);
  }
}
