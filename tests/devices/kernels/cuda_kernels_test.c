/* Every CUDA kernel, executed on the emulated grid, against its float64 reference. Outputs and
 * workspace are poisoned, tensors are guarded, and the results have the same bits in any order of
 * blocks and threads. Sanitizers check one order, since memory errors and races are the same in
 * all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/devices/kernels/cases.h"
#include "tests/devices/kernels/direct_cuda.h"
#include "tests/devices/sanitized.h"

/* ---- One case -------------------------------------------------------------------------------- */

/* A case with its inputs, the expected outputs and those of the first run. */
typedef struct prepared_case {
  const kernel_case *test;
  void *inputs[TDM_KERNEL_MAX_INPUTS];
  double *expected[TDM_KERNEL_MAX_OUTPUTS];
  unsigned char *first[TDM_KERNEL_MAX_OUTPUTS];
} prepared_case;

static void *checked_allocation(size_t bytes) {
  void *memory = malloc(bytes + 1);
  assert_non_null(memory);
  return memory;
}

static size_t bytes_of(const tdm_spec *spec) {
  return (size_t)tdm_shape_bytes(&spec->shape, spec->dtype);
}

static void case_prepare(prepared_case *prepared, const kernel_case *test) {
  double *values[TDM_KERNEL_MAX_INPUTS] = {NULL};
  *prepared = (prepared_case){.test = test};
  for (size_t i = 0; i < test->input_count; i++) {
    const tdm_spec *spec = &test->inputs[i].spec;
    if (spec->dtype == TDM_DTYPE_NONE) continue;
    prepared->inputs[i] = checked_allocation(bytes_of(spec));
    kernel_input_generate(test, i, prepared->inputs[i]);
    values[i] = checked_allocation((size_t)input_count_of(test, i) * sizeof(double));
    kernel_values_read(spec->dtype, prepared->inputs[i], input_count_of(test, i), values[i]);
  }
  for (size_t i = 0; i < test->output_count; i++) {
    const int64_t count = tdm_shape_count(&test->outputs[i].shape);
    prepared->expected[i] = checked_allocation((size_t)count * sizeof(double));
    prepared->first[i] = checked_allocation(bytes_of(&test->outputs[i]));
  }
  test->reference(test, (const double *const *)values, prepared->expected);
  for (size_t i = 0; i < test->input_count; i++)
    free(values[i]);
}

static void case_release(prepared_case *prepared) {
  for (size_t i = 0; i < TDM_KERNEL_MAX_INPUTS; i++)
    free(prepared->inputs[i]);
  for (size_t i = 0; i < TDM_KERNEL_MAX_OUTPUTS; i++) {
    free(prepared->expected[i]);
    free(prepared->first[i]);
  }
}

/* Copies of the inputs, then outputs; one that overwrites an input is that input's copy. */
static void operands_create(const prepared_case *prepared, direct_operand *operands) {
  const kernel_case *test = prepared->test;
  for (size_t i = 0; i < test->input_count; i++) {
    const tdm_spec *spec = &test->inputs[i].spec;
    operands[i] = (direct_operand){.dtype = spec->dtype, .shape = spec->shape};
    if (spec->dtype == TDM_DTYPE_NONE) continue;
    operands[i].data = checked_allocation(bytes_of(spec));
    memcpy(operands[i].data, prepared->inputs[i], bytes_of(spec));
  }
  for (size_t i = 0; i < test->output_count; i++) {
    const tdm_spec *spec = &test->outputs[i];
    operands[test->input_count + i] = (direct_operand){
        .dtype = spec->dtype,
        .shape = spec->shape,
        .data = test->overwrites[i] >= 0 ? operands[test->overwrites[i]].data
                                         : checked_allocation(bytes_of(spec)),
    };
  }
}

static void operands_release(const kernel_case *test, direct_operand *operands) {
  for (size_t i = 0; i < test->input_count; i++)
    free(operands[i].data);
  for (size_t i = 0; i < test->output_count; i++)
    if (test->overwrites[i] < 0) free(operands[test->input_count + i].data);
}

/* first: of the runs with this `deterministic`, whose bits must agree. */
static void case_run(prepared_case *prepared, const char *order, bool deterministic, bool first) {
  const kernel_case *test = prepared->test;
  direct_operand operands[TDM_KERNEL_MAX_INPUTS + TDM_KERNEL_MAX_OUTPUTS] = {0};
  const tdm_kernel *kernel = direct_kernel(order, test->operation, test->dtype);
  operands_create(prepared, operands);
  const tdm_status status = direct_cuda_run(
      kernel, &test->attributes, operands, test->input_count, test->output_count,
      &(direct_cuda_options){.scalars = &test->scalars, .deterministic = deterministic});
  if (status != TDM_OK) fail_msg("%s: %s", test->name, tdm_last_message());
  char where[64];
  (void)snprintf(where, sizeof where, "%s%s", order, deterministic ? ", deterministic" : "");
  for (size_t i = 0; i < test->output_count; i++) {
    const void *got = operands[test->input_count + i].data;
    const size_t bytes = bytes_of(&test->outputs[i]);
    kernel_output_check(test, i, where, got, prepared->expected[i]);
    if (first) memcpy(prepared->first[i], got, bytes);
    if (memcmp(prepared->first[i], got, bytes) != 0)
      fail_msg("%s, %s: output %zu differs in its bits from the first run", test->name, where, i);
  }
  operands_release(test, operands);
}

/* ---- The suite ------------------------------------------------------------------------------- */

#ifdef ONE_ORDER
enum { HAS_ONE_ORDER = true };
#else
enum { HAS_ONE_ORDER = false };
#endif

/* Runs a case in one order. Every other case of a family is deterministic, which few kernels
 * distinguish. Where races are detected, only float32 runs, since one template serves both
 * precisions. Cases of a size for the CPU's caches are executed by device_kernels_test on all kinds
 * of devices. */
static void case_visit(const kernel_case *test, void *user) {
  size_t *number = user;
  if (test->of_cpu || (HAS_ONE_ORDER && test->dtype == TDM_FLOAT64)) return;
  prepared_case prepared;
  case_prepare(&prepared, test);
  if (HAS_ONE_ORDER || test_is_sanitized()) {
    case_run(&prepared, "ascending", (*number)++ % 2 != 0, true);
  } else {
    case_run(&prepared, "ascending", false, true);
    case_run(&prepared, "descending", false, false);
    case_run(&prepared, "random", false, false);
    case_run(&prepared, "ascending", true, true);
    case_run(&prepared, "random", true, false);
  }
  case_release(&prepared);
}

static void family_test(void **state) {
  const kernel_family *family = *state;
  size_t number = 0;
  family->each(case_visit, &number);
}

/* Runs the kernels of the family FAMILY. */
int main(void) {
  size_t i = 0;
  while (i < kernel_family_count && strcmp(FAMILY, kernel_families[i].name) != 0)
    i++;
  assert_true(i < kernel_family_count);
  const struct CMUnitTest tests[] = {
      {FAMILY, family_test, NULL, NULL, (void *)(uintptr_t)&kernel_families[i]}};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
