/* The table of CUDA kernels: whole, without doubles, as complete as the cpu's, every family run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "devices/cpu/kernels.h"
#include "devices/cuda/kernels.h"
#include "tests/devices/kernels/cases.h"

static void entries_are_whole_and_distinct(void **state) {
  (void)state;
  size_t count;
  const tdm_kernel *kernels = tdm_cuda_kernels(&count);
  for (size_t i = 0; i < count; i++) {
    assert_int_equal(kernels[i].struct_size, sizeof(tdm_kernel));
    assert_string_equal(kernels[i].executes, "cuda");
    assert_non_null(kernels[i].prepare);
    assert_non_null(kernels[i].execute);
    assert_non_null(kernels[i].release);
    for (size_t j = 0; j < i; j++) {
      assert_true(kernels[i].dtype != kernels[j].dtype ||
                  strcmp(kernels[i].operation, kernels[j].operation) != 0);
    }
  }
}

static bool has_kernel(const tdm_kernel *kernels, size_t count, const char *operation,
                       tdm_dtype dtype) {
  for (size_t i = 0; i < count; i++) {
    if (kernels[i].dtype == dtype && strcmp(kernels[i].operation, operation) == 0) return true;
  }
  return false;
}

static void cpu_and_cuda_have_the_same_kernels(void **state) {
  (void)state;
  size_t count, cpu_count;
  const tdm_kernel *kernels = tdm_cuda_kernels(&count);
  const tdm_kernel *cpu_kernels = tdm_cpu_kernels_for("baseline", &cpu_count);
  for (size_t i = 0; i < cpu_count; i++) {
    if (!has_kernel(kernels, count, cpu_kernels[i].operation, cpu_kernels[i].dtype)) {
      fail_msg("cuda lacks %s of %s", cpu_kernels[i].operation,
               tdm_dtype_name(cpu_kernels[i].dtype));
    }
  }
  assert_int_equal(count, cpu_count);
}

/* The families that BUILD runs, each a target. */
static void every_family_has_a_target(void **state) {
  (void)state;
  static const char *const families[] = {
      "elementwise", "embedding", "linear",      "loss",     "optimizer",
      "recurrent",   "shape",     "softmax",     "sparse",   "sparse_optimizer",
      "norm",        "reduction", "convolution", "pool",     "dropout",
      "bag",         "attention", "product",     "pointwise"};
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
