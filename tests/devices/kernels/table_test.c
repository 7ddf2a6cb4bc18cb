/* The tables themselves: complete, without doubles, every kernel with a case; and the choice of an
 * instruction set by the environment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "devices/kernels/cpu/kernels.h"
#include "devices/kernels/elementwise/fused.h"
#include "tests/devices/kernels/cases.h"
#include "tests/devices/kernels/direct.h"
#include "tests/devices/kernels/kernel_set.h"

/* ---- The tables ------------------------------------------------------------------------------ */

static void entries_are_whole_and_distinct(void **state) {
  (void)state;
  for (size_t isa = 0; isa < direct_isa_count; isa++) {
    kernel_set set = {.count = 0};
    if (tdm_cpu_each_kernel_of(direct_isas[isa], kernel_set_add, &set) != TDM_OK) continue;
    for (size_t i = 0; i < set.count; i++) {
      const tdm_kernel *kernel = set.kernels[i];
      assert_int_equal(kernel->struct_size, sizeof(tdm_kernel));
      assert_string_equal(kernel->executes, "cpu");
      assert_non_null(kernel->prepare);
      assert_non_null(kernel->execute);
      assert_non_null(kernel->release);
      assert_ptr_equal(kernel_set_find(&set, kernel->operation, kernel->dtype), kernel);
    }
  }
}

static void instruction_sets_agree_on_operations(void **state) {
  (void)state;
  kernel_set set = {.count = 0};
  assert_int_equal(tdm_cpu_each_kernel_of("baseline", kernel_set_add, &set), TDM_OK);
  for (size_t isa = 0; isa < direct_isa_count; isa++) {
    kernel_set others = {.count = 0};
    if (tdm_cpu_each_kernel_of(direct_isas[isa], kernel_set_add, &others) != TDM_OK) continue;
    assert_int_equal(others.count, set.count);
    for (size_t i = 0; i < set.count; i++) {
      const tdm_kernel *kernel = set.kernels[i];
      const tdm_kernel *other = kernel_set_find(&others, kernel->operation, kernel->dtype);
      assert_non_null(other);
      assert_int_equal(!other->execute_part, !kernel->execute_part);
    }
  }
}

typedef struct coverage {
  kernel_set set;
  size_t cases[KERNEL_SET_MOST];
} coverage;

static void count_case(const kernel_case *test, void *user) {
  coverage *seen = user;
  for (size_t i = 0; i < seen->set.count; i++) {
    const tdm_kernel *kernel = seen->set.kernels[i];
    seen->cases[i] +=
        kernel->dtype == test->dtype && strcmp(kernel->operation, test->operation) == 0;
  }
}

/* Returns true for fused nodes, which have no expected numbers:
 * tests/graph/passes/fuse_models_test.c compares them with their members. */
static bool is_compared_elsewhere(const tdm_kernel *kernel) {
  return strcmp(kernel->operation, TDM_OP_FUSED) == 0;
}

static void every_kernel_has_cases(void **state) {
  (void)state;
  coverage seen = {.set = {.count = 0}};
  assert_int_equal(tdm_cpu_each_kernel_of("baseline", kernel_set_add, &seen.set), TDM_OK);
  assert_true(seen.set.count > 0);
  for (size_t i = 0; i < kernel_family_count; i++)
    kernel_families[i].each(count_case, &seen);
  for (size_t i = 0; i < seen.set.count; i++) {
    const tdm_kernel *kernel = seen.set.kernels[i];
    if (seen.cases[i] < 3 && !is_compared_elsewhere(kernel)) {
      fail_msg("%s of %s has %zu cases", kernel->operation, tdm_dtype_name(kernel->dtype),
               seen.cases[i]);
    }
  }
}

/* ---- The environment ---------------------------------------------------------------------------
 */

/* Expects that the kernels selected by the environment are those of the instruction set isa. */
static void assert_kernels_of(const char *isa) {
  kernel_set chosen = {.count = 0}, named = {.count = 0};
  assert_int_equal(tdm_cpu_each_kernel(kernel_set_add, &chosen), TDM_OK);
  assert_int_equal(tdm_cpu_each_kernel_of(isa, kernel_set_add, &named), TDM_OK);
  assert_int_equal(chosen.count, named.count);
  assert_memory_equal(chosen.kernels, named.kernels, named.count * sizeof named.kernels[0]);
}

static void environment_names_an_instruction_set(void **state) {
  (void)state;
  assert_int_equal(setenv("TANDEM_CPU_ISA", "baseline", 1), 0);
  assert_kernels_of("baseline");
  assert_int_equal(setenv("TANDEM_CPU_ISA", "", 1), 0);
  assert_kernels_of(NULL);
  assert_int_equal(unsetenv("TANDEM_CPU_ISA"), 0);
  assert_kernels_of(NULL);
}

static void unknown_instruction_set_is_refused(void **state) {
  (void)state;
  kernel_set set = {.count = 0};
  assert_int_equal(setenv("TANDEM_CPU_ISA", "mmx", 1), 0);
  assert_int_equal(tdm_cpu_each_kernel(kernel_set_add, &set), TDM_UNAVAILABLE);
  assert_int_equal(set.count, 0);
  assert_non_null(strstr(tdm_last_message(), "mmx"));
  assert_non_null(strstr(tdm_last_message(), "(baseline"));
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
