/* Calls kernels of the cuda table as a queue does. Operands are in separate blocks, and outputs and
 * workspace are poisoned before the call. */
#include "tests/devices/kernels/direct_cuda.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "devices/cuda/library/kernels.h"
#include "tests/devices/cuda_emulation/grid.h"
#include "tests/devices/kernels/direct_cuda_stream.h"
#include "tests/devices/kernels/kernel_set.h"

/* One order of threads for the tests that the cpu's kernels share; the cases run in all three. */
const char *const direct_isas[] = {"random"};
const size_t direct_isa_count = sizeof direct_isas / sizeof direct_isas[0];

const tdm_kernel *direct_kernel(const char *isa, const char *operation, tdm_dtype dtype) {
  grid_set_order(strcmp(isa, "descending") == 0 ? GRID_DESCENDING
                 : strcmp(isa, "random") == 0   ? GRID_RANDOM
                                                : GRID_ASCENDING,
                 7);
  kernel_set set = {.count = 0};
  assert_int_equal(tdm_cuda_each_kernel(kernel_set_add, &set), TDM_OK);
  const tdm_kernel *kernel = kernel_set_find(&set, operation, dtype);
  if (!kernel) fail_msg("no kernel %s of %s", operation, tdm_dtype_name(dtype));
  return kernel;
}

/* ---- One run --------------------------------------------------------------------------------- */

enum { MOST_OPERANDS = TDM_KERNEL_MAX_INPUTS + TDM_KERNEL_MAX_OUTPUTS };

typedef struct direct_job {
  const direct_operand *operands;
  size_t input_count;
  size_t count; /* number of operands */
  tdm_spec specs[MOST_OPERANDS];
  direct_block *blocks[MOST_OPERANDS]; /* NULL: absent, or another's */
  void *pointers[MOST_OPERANDS];
  bool written[MOST_OPERANDS];
} direct_job;

static size_t bytes_of(const tdm_spec *spec) {
  return (size_t)tdm_shape_bytes(&spec->shape, spec->dtype);
}

/* Returns the input whose data this output overwrites, or -1. */
static int overwritten_input(const direct_job *job, size_t output) {
  for (size_t i = 0; i < job->input_count; i++) {
    const direct_operand *input = &job->operands[i];
    if (input->dtype != TDM_DTYPE_NONE && input->data == job->operands[output].data) return (int)i;
  }
  return -1;
}

static void job_upload(direct_job *job) {
  for (size_t i = 0; i < job->count; i++) {
    const direct_operand *operand = &job->operands[i];
    job->specs[i] = (tdm_spec){.dtype = operand->dtype, .shape = operand->shape};
    if (operand->dtype == TDM_DTYPE_NONE) continue;
    const int input = i >= job->input_count ? overwritten_input(job, i) : -1;
    job->written[i] = i >= job->input_count;
    if (input >= 0) {
      job->pointers[i] = job->pointers[input];
      job->written[input] = true;
      continue;
    }
    const size_t bytes = bytes_of(&job->specs[i]);
    job->blocks[i] = direct_block_create(bytes);
    job->pointers[i] = job->blocks[i]->data;
    if (i < job->input_count && bytes > 0) memcpy(job->pointers[i], operand->data, bytes);
  }
}

static void job_download(direct_job *job, const char *name) {
  for (size_t i = 0; i < job->count; i++) {
    const size_t bytes = job->pointers[i] ? bytes_of(&job->specs[i]) : 0;
    if (job->blocks[i] && !direct_block_intact(job->blocks[i]))
      fail_msg("%s wrote before operand %zu", name, i);
    if (bytes == 0) continue;
    if (job->written[i]) {
      memcpy(job->operands[i].data, job->pointers[i], bytes);
    } else if (memcmp(job->pointers[i], job->operands[i].data, bytes) != 0) {
      fail_msg("%s changed input %zu", name, i);
    }
  }
}

static void job_release(direct_job *job) {
  for (size_t i = 0; i < job->count; i++)
    if (job->blocks[i]) direct_block_release(job->blocks[i]);
}

tdm_status direct_cuda_run(const tdm_kernel *kernel, const void *attributes,
                           const direct_operand *operands, size_t input_count, size_t output_count,
                           const direct_cuda_options *options) {
  direct_job job = {
      .operands = operands, .input_count = input_count, .count = input_count + output_count};
  job_upload(&job);
  const tdm_kernel_request request = {.attributes = attributes,
                                      .inputs = job.specs,
                                      .input_count = input_count,
                                      .outputs = job.specs + input_count,
                                      .output_count = output_count,
                                      .team_size = 1,
                                      .deterministic = options->deterministic};
  tdm_kernel_answer answer = {0};
  assert_int_equal(kernel->prepare(&request, &answer), TDM_OK);
  direct_block *workspace = direct_block_create((answer.workspace_bytes + 63) / 64 * 64);
  direct_cuda_report_clear();
  const tdm_kernel_call call = {.attributes = attributes,
                                .state = answer.state,
                                .input_specs = job.specs,
                                .output_specs = job.specs + input_count,
                                .inputs = (const void *const *)job.pointers,
                                .outputs = job.pointers + input_count,
                                .workspace = workspace->data,
                                .scalars = options->scalars,
                                .stream = direct_cuda_stream()};
  tdm_status status = kernel->execute(&call);
  if (status == TDM_OK) status = direct_cuda_report_status();
  assert_true(direct_block_intact(workspace));
  job_download(&job, kernel->operation);
  direct_block_release(workspace);
  job_release(&job);
  kernel->release(answer.state);
  return status;
}

tdm_status direct_run(const tdm_kernel *kernel, const void *attributes,
                      const direct_operand *operands, size_t input_count, size_t output_count,
                      tdm_team *team) {
  const tdm_run_scalars scalars = {.learning_rate = 0.1};
  (void)team;
  return direct_cuda_run(kernel, attributes, operands, input_count, output_count,
                         &(direct_cuda_options){.scalars = &scalars, .deterministic = true});
}
