/* The table of CUDA kernels: whole, without doubles, as complete as the cpu's, every family run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "devices/cuda/library/kernels.h"
#include "devices/kernels/cpu/kernels.h"
#include "tests/devices/kernels/cases.h"
#include "tests/devices/kernels/kernel_set.h"

static void entries_are_whole_and_distinct(void **state) {
  (void)state;
  kernel_set set = {.count = 0};
  assert_int_equal(tdm_cuda_each_kernel(kernel_set_add, &set), TDM_OK);
  for (size_t i = 0; i < set.count; i++) {
    const tdm_kernel *kernel = set.kernels[i];
    assert_int_equal(kernel->struct_size, sizeof(tdm_kernel));
    assert_string_equal(kernel->executes, "cuda");
    assert_non_null(kernel->prepare);
    assert_non_null(kernel->execute);
    assert_non_null(kernel->release);
    assert_ptr_equal(kernel_set_find(&set, kernel->operation, kernel->dtype), kernel);
  }
}

static void cpu_and_cuda_have_the_same_kernels(void **state) {
  (void)state;
  kernel_set set = {.count = 0}, cpu = {.count = 0};
  assert_int_equal(tdm_cuda_each_kernel(kernel_set_add, &set), TDM_OK);
  assert_int_equal(tdm_cpu_each_kernel_of("baseline", kernel_set_add, &cpu), TDM_OK);
  for (size_t i = 0; i < cpu.count; i++) {
    const tdm_kernel *kernel = cpu.kernels[i];
    if (!kernel_set_find(&set, kernel->operation, kernel->dtype))
      fail_msg("cuda lacks %s of %s", kernel->operation, tdm_dtype_name(kernel->dtype));
  }
  assert_int_equal(set.count, cpu.count);
}

/* FAMILIES: those that BUILD runs, each a target. */
static void every_family_has_a_target(void **state) {
  (void)state;
  static const char *const families[] = {FAMILIES};
  assert_int_equal(kernel_family_count, sizeof families / sizeof families[0]);
  for (size_t i = 0; i < kernel_family_count; i++) {
    bool found = false;
    for (size_t j = 0; j < kernel_family_count; j++)
      found |= strcmp(families[j], kernel_families[i].name) == 0;
    assert_true(found);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(entries_are_whole_and_distinct),
      cmocka_unit_test(cpu_and_cuda_have_the_same_kernels),
      cmocka_unit_test(every_family_has_a_target),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
