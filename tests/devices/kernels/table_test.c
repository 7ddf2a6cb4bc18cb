/* The tables themselves: complete, without doubles, every kernel with a case; and the choice of an
 * instruction set by the environment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "devices/cpu/kernels.h"
#include "devices/fused.h"
#include "tests/devices/kernels/cases.h"
#include "tests/devices/kernels/direct.h"

/* ---- The tables ------------------------------------------------------------------------------ */

static void entries_are_whole_and_distinct(void **state) {
  (void)state;
  for (size_t isa = 0; isa < direct_isa_count; isa++) {
    size_t count;
    const tdm_kernel *kernels = tdm_cpu_kernels_for(direct_isas[isa], &count);
    for (size_t i = 0; i < count; i++) {
      assert_int_equal(kernels[i].struct_size, sizeof(tdm_kernel));
      assert_string_equal(kernels[i].executes, "cpu");
      assert_non_null(kernels[i].prepare);
      assert_non_null(kernels[i].execute);
      assert_non_null(kernels[i].release);
      for (size_t j = 0; j < i; j++) {
        assert_true(kernels[i].dtype != kernels[j].dtype ||
                    strcmp(kernels[i].operation, kernels[j].operation) != 0);
      }
    }
  }
}

static void instruction_sets_agree_on_operations(void **state) {
  (void)state;
  size_t count;
  const tdm_kernel *kernels = tdm_cpu_kernels_for("baseline", &count);
  assert_non_null(kernels);
  for (size_t isa = 0; isa < direct_isa_count; isa++) {
    size_t others;
    if (tdm_cpu_kernels_for(direct_isas[isa], &others) == NULL) continue;
    assert_int_equal(others, count);
    for (size_t i = 0; i < count; i++) {
      assert_non_null(direct_kernel(direct_isas[isa], kernels[i].operation, kernels[i].dtype));
    }
  }
}

typedef struct coverage {
  const tdm_kernel *kernels;
  size_t count;
  size_t cases[512];
} coverage;

static void count_case(const kernel_case *test, void *user) {
  coverage *seen = user;
  for (size_t i = 0; i < seen->count; i++) {
    seen->cases[i] += seen->kernels[i].dtype == test->dtype &&
                      strcmp(seen->kernels[i].operation, test->operation) == 0;
  }
}

/* Fused nodes have no numbers of their own: tests/graph/passes/fuse_models_test.c compares them
 * with their members. */
static bool is_compared_elsewhere(const tdm_kernel *kernel) {
  return strcmp(kernel->operation, TDM_OP_FUSED) == 0;
}

static void every_kernel_has_cases(void **state) {
  (void)state;
  coverage seen = {0};
  seen.kernels = tdm_cpu_kernels_for("baseline", &seen.count);
  assert_in_range(seen.count, 1, 512);
  for (size_t i = 0; i < kernel_family_count; i++)
    kernel_families[i].each(count_case, &seen);
  for (size_t i = 0; i < seen.count; i++) {
    if (seen.cases[i] < 3 && !is_compared_elsewhere(&seen.kernels[i])) {
      fail_msg("%s of %s has %zu cases", seen.kernels[i].operation,
               tdm_dtype_name(seen.kernels[i].dtype), seen.cases[i]);
    }
  }
}

/* ---- The environment ---------------------------------------------------------------------------
 */

static void environment_names_an_instruction_set(void **state) {
  (void)state;
  size_t count;
  assert_int_equal(setenv("TANDEM_CPU_ISA", "baseline", 1), 0);
  assert_ptr_equal(tdm_cpu_kernels(&count), tdm_cpu_kernels_for("baseline", &count));
  assert_int_equal(setenv("TANDEM_CPU_ISA", "", 1), 0);
  assert_ptr_equal(tdm_cpu_kernels(&count), tdm_cpu_kernels_for(NULL, &count));
  assert_int_equal(unsetenv("TANDEM_CPU_ISA"), 0);
  assert_ptr_equal(tdm_cpu_kernels(&count), tdm_cpu_kernels_for(NULL, &count));
}

static void unknown_instruction_set_is_refused(void **state) {
  (void)state;
  size_t count = 7;
  assert_int_equal(setenv("TANDEM_CPU_ISA", "mmx", 1), 0);
  assert_null(tdm_cpu_kernels(&count));
  assert_int_equal(count, 0);
  assert_non_null(strstr(tdm_last_message(), "mmx"));
  assert_int_equal(unsetenv("TANDEM_CPU_ISA"), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(entries_are_whole_and_distinct),
      cmocka_unit_test(instruction_sets_agree_on_operations),
      cmocka_unit_test(every_kernel_has_cases),
      cmocka_unit_test(environment_names_an_instruction_set),
      cmocka_unit_test(unknown_instruction_set_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
