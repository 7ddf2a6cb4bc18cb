/* The launches of CUDA kernels for tensors of 2^32 rows, which fit the memory of a large GPU.
 * Nothing is allocated or executed here: each launch fits a grid. Shapes are those of the kernels'
 * cases, with a longer first dimension. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tests/devices/kernels/cases.h"
#include "tests/devices/kernels/direct_cuda.h"
#include "tests/devices/kernels/direct_cuda_stream.h"

static const int64_t ROWS = (int64_t)1 << 32;
static const int64_t MOST_ELEMENTS = (int64_t)1 << 38; /* more than any memory holds */

/* ---- What takes launches and executes none --------------------------------------------------- */

static uint64_t launches;

static tdm_cuda_code launch(const tdm_cuda_launch *wanted) {
  if (wanted->blocks == 0 || wanted->blocks > INT32_MAX || wanted->threads > 1024)
    fail_msg("%s: %u blocks of %u threads", wanted->name, wanted->blocks, wanted->threads);
  launches++;
  return TDM_CUDA_SUCCESS;
}

static tdm_cuda_code fill_async(void *to, int byte, size_t bytes, tdm_cuda_stream stream) {
  (void)to, (void)byte, (void)bytes, (void)stream;
  return TDM_CUDA_SUCCESS;
}

static tdm_cuda_code copy_async(void *to, const void *from, size_t bytes,
                                tdm_cuda_direction direction, tdm_cuda_stream stream) {
  (void)to, (void)from, (void)bytes, (void)direction, (void)stream;
  return TDM_CUDA_SUCCESS;
}

static tdm_cuda_code set_stream(tdm_cuda_blas blas, tdm_cuda_stream stream) {
  (void)blas, (void)stream;
  return TDM_CUDA_SUCCESS;
}

static tdm_cuda_code multiply(tdm_cuda_blas blas, const tdm_cuda_product *product) {
  (void)blas, (void)product;
  return TDM_CUDA_SUCCESS;
}

static tdm_cuda_kernel_stream *recording_stream(void) {
  static const tdm_cuda_api api = {.launch = launch,
                                   .fill_async = fill_async,
                                   .copy_async = copy_async,
                                   .blas_set_stream = set_stream,
                                   .blas_product = multiply};
  static char handle;
  static tdm_cuda_blas blas = (tdm_cuda_blas)(void *)&handle;
  static tdm_cuda_report report;
  static tdm_cuda_kernel_stream stream = {.api = &api, .blas = &blas, .report = &report};
  return &stream;
}

/* ---- Cases ----------------------------------------------------------------------------------- */

enum { MOST_OPERANDS = TDM_KERNEL_MAX_INPUTS + TDM_KERNEL_MAX_OUTPUTS };

/* The case's operands with so much more of their first dimension that the longest has ROWS of it;
 * false: they would be larger than any memory, or there is no such dimension. */
static bool lengthen(const kernel_case *test, tdm_spec *out_specs) {
  int64_t longest = 0, elements = 0;
  for (size_t i = 0; i < test->input_count; i++)
    out_specs[i] = test->inputs[i].spec;
  for (size_t i = 0; i < test->output_count; i++)
    out_specs[test->input_count + i] = test->outputs[i];
  const size_t count = test->input_count + test->output_count;
  for (size_t i = 0; i < count; i++) {
    const tdm_shape *shape = &out_specs[i].shape;
    if (out_specs[i].dtype != TDM_DTYPE_NONE && shape->rank > 0 && shape->dims[0] > longest)
      longest = shape->dims[0];
  }
  for (size_t i = 0; i < count && longest > 0; i++) {
    tdm_shape *shape = &out_specs[i].shape;
    if (out_specs[i].dtype == TDM_DTYPE_NONE || shape->rank == 0) continue;
    shape->dims[0] *= (ROWS + longest - 1) / longest;
    elements += tdm_shape_count(shape);
  }
  return longest > 0 && elements < MOST_ELEMENTS;
}

static void case_visit(const kernel_case *test, void *user) {
  uint64_t *visited = user;
  tdm_spec specs[MOST_OPERANDS] = {0};
  static char bytes[MOST_OPERANDS + 1]; /* bytes whose addresses represent operands */
  void *pointers[MOST_OPERANDS];
  if (!lengthen(test, specs)) return;
  for (size_t i = 0; i < MOST_OPERANDS; i++)
    pointers[i] = specs[i].dtype == TDM_DTYPE_NONE ? NULL : &bytes[i];
  const tdm_kernel *kernel = direct_kernel("ascending", test->operation, test->dtype);
  const tdm_kernel_request request = {.attributes = &test->attributes,
                                      .inputs = specs,
                                      .input_count = test->input_count,
                                      .outputs = specs + test->input_count,
                                      .output_count = test->output_count,
                                      .team_size = 1};
  tdm_kernel_answer answer = {0};
  if (kernel->prepare(&request, &answer) != TDM_OK)
    fail_msg("%s: %s", test->name, tdm_last_message());
  const tdm_kernel_call call = {.attributes = &test->attributes,
                                .state = answer.state,
                                .input_specs = specs,
                                .output_specs = specs + test->input_count,
                                .inputs = (const void *const *)pointers,
                                .outputs = pointers + test->input_count,
                                .workspace = &bytes[MOST_OPERANDS],
                                .scalars = &test->scalars,
                                .stream = recording_stream()};
  if (kernel->execute(&call) != TDM_OK) fail_msg("%s: %s", test->name, tdm_last_message());
  kernel->release(answer.state);
  ++*visited;
}

/* Except for those with a launch for each step of time or each batch, and for images, which are too
 * large. */
static void launches_fit_a_grid(void **state) {
  (void)state;
  static const char *const others[] = {"recurrent", "product", "convolution", "pool"};
  for (size_t i = 0; i < kernel_family_count; i++) {
    uint64_t visited = 0;
    bool is_other = false;
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++)
      is_other |= strcmp(kernel_families[i].name, others[k]) == 0;
    if (is_other) continue;
    kernel_families[i].each(case_visit, &visited);
    if (visited == 0) fail_msg("no case of %s", kernel_families[i].name);
  }
  assert_true(launches > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(launches_fit_a_grid)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
