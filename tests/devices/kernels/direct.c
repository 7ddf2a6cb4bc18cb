/* Kernels called as a worker would call them, without a queue: operands between sentinels, outputs
 * poisoned before. */
#include "tests/devices/kernels/direct.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "devices/kernels/cpu/kernels.h"
#include "tests/devices/kernels/kernel_set.h"

const char *const direct_isas[] = {"baseline", "avx2", "avx512"};
const size_t direct_isa_count = sizeof direct_isas / sizeof direct_isas[0];

const tdm_kernel *direct_kernel(const char *isa, const char *operation, tdm_dtype dtype) {
  kernel_set set = {.count = 0};
  if (tdm_cpu_each_kernel_of(isa, kernel_set_add, &set) != TDM_OK) return NULL;
  const tdm_kernel *kernel = kernel_set_find(&set, operation, dtype);
  if (!kernel) fail_msg("no kernel %s of %s", operation, tdm_dtype_name(dtype));
  return kernel;
}

tdm_status direct_run(const tdm_kernel *kernel, const void *attributes,
                      const direct_operand *operands, size_t input_count, size_t output_count,
                      tdm_team *team) {
  tdm_spec specs[TDM_KERNEL_MAX_INPUTS + TDM_KERNEL_MAX_OUTPUTS] = {0};
  const void *inputs[TDM_KERNEL_MAX_INPUTS] = {NULL};
  void *outputs[TDM_KERNEL_MAX_OUTPUTS] = {NULL};
  for (size_t i = 0; i < input_count + output_count; i++) {
    specs[i] = (tdm_spec){.dtype = operands[i].dtype, .shape = operands[i].shape};
    if (i < input_count) {
      inputs[i] = operands[i].data;
    } else {
      outputs[i - input_count] = operands[i].data;
    }
  }
  const tdm_kernel_request request = {.attributes = attributes,
                                      .inputs = specs,
                                      .input_count = input_count,
                                      .outputs = specs + input_count,
                                      .output_count = output_count,
                                      .team_size = tdm_team_size(team),
                                      .deterministic = true};
  tdm_kernel_answer answer = {0};
  assert_int_equal(kernel->prepare(&request, &answer), TDM_OK);
  void *workspace = aligned_alloc(64, (answer.workspace_bytes + 127) / 64 * 64);
  assert_non_null(workspace);
  const tdm_run_scalars scalars = {.learning_rate = 0.1};
  const tdm_kernel_call call = {.attributes = attributes,
                                .state = answer.state,
                                .input_specs = specs,
                                .output_specs = specs + input_count,
                                .inputs = inputs,
                                .outputs = outputs,
                                .workspace = workspace,
                                .team = team,
                                .scalars = &scalars};
  const tdm_status status = kernel->execute(&call);
  free(workspace);
  kernel->release(answer.state);
  return status;
}
