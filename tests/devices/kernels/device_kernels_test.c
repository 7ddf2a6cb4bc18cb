/* Conformance of a device's kernels: every case runs through the queue of the device that
 * TEST_DEVICE names, on tensors of that device that lie between sentinels, by its worker and on a
 * borrowed thread, with the same bits. */
#include <string.h>

#include <stdio.h>
#include <stdlib.h>

#include "tests/devices/kernels/cases.h"
#include "tests/devices/support.h"

enum { GUARD_BYTES = 64, SENTINEL = 0xA5, POISON = 0xFF /* NaN in floats */ };
enum { MOST_OPERANDS = TDM_KERNEL_MAX_INPUTS + TDM_KERNEL_MAX_OUTPUTS };

/* ---- Operands on the device ------------------------------------------------------------------ */

/* A tensor of bytes that holds an operand between guards, and the host's copy of it. */
typedef struct device_operand {
  tdm_tensor *tensor; /* NULL: absent, or an input's memory */
  unsigned char *host;
  size_t bytes;  /* size of the operand */
  size_t offset; /* offset of the operand in the tensor */
  size_t total;
} device_operand;

static size_t bytes_of(const tdm_spec *spec) {
  return (size_t)tdm_shape_bytes(&spec->shape, spec->dtype);
}

static device_operand operand_create(tdm_context *context, size_t bytes, size_t misalignment,
                                     int fill) {
  device_operand operand = {.bytes = bytes, .offset = GUARD_BYTES + misalignment};
  operand.total = operand.offset + bytes + GUARD_BYTES;
  operand.host = malloc(operand.total);
  assert_non_null(operand.host);
  memset(operand.host, SENTINEL, operand.total);
  memset(operand.host + operand.offset, fill, bytes);
  operand.tensor =
      tdm_tensor_create(context, TEST_DEVICE, TDM_UINT8, tdm_shape_of(1, (tdm_dim)operand.total));
  if (!operand.tensor) fail_msg("no tensor: %s", tdm_last_message());
  return operand;
}

static void operand_upload(const device_operand *operand) {
  assert_ok(tdm_tensor_write(operand->tensor, operand->host, operand->total));
}

/* Returns the tensor's bytes now, guards checked; freed by the caller. */
static unsigned char *operand_download(const device_operand *operand, const char *name) {
  unsigned char *now = malloc(operand->total);
  assert_non_null(now);
  assert_ok(tdm_tensor_read(operand->tensor, now, operand->total));
  for (size_t i = 0; i < operand->total; i++) {
    const bool inside = i >= operand->offset && i < operand->offset + operand->bytes;
    if (!inside && now[i] != SENTINEL) fail_msg("%s: wrote outside a tensor", name);
  }
  return now;
}

static void operand_release(device_operand *operand) {
  tdm_tensor_release(operand->tensor);
  free(operand->host);
}

/* ---- A case on the device ----------------------------------------------------------------------
 */

typedef struct device_case {
  const kernel_case *test;
  tdm_context *context;
  const tdm_kernel *kernel;
  tdm_kernel_answer answer;
  tdm_spec specs[MOST_OPERANDS];
  device_operand operands[MOST_OPERANDS + 1]; /* inputs, outputs, workspace */
  double *expected[TDM_KERNEL_MAX_OUTPUTS];
  unsigned char *first[TDM_KERNEL_MAX_OUTPUTS]; /* whole tensors after the first run */
  tdm_flight flight;
  tdm_program program;
  tdm_command command;
  tdm_operand places[MOST_OPERANDS];
  tdm_address bases[MOST_OPERANDS + 1];
  tdm_submission submission;
  uint64_t program_base;
  uint8_t failed_ids[1];
} device_case;

/* Index among the operands of the memory that output i has. */
static size_t output_place(const kernel_case *test, size_t i) {
  return test->overwrites[i] >= 0 ? (size_t)test->overwrites[i] : test->input_count + i;
}

static void inputs_create(device_case *self) {
  const kernel_case *test = self->test;
  double *values[TDM_KERNEL_MAX_INPUTS] = {NULL};
  for (size_t i = 0; i < test->input_count; i++) {
    const tdm_spec *spec = &test->inputs[i].spec;
    self->specs[i] = *spec;
    if (spec->dtype == TDM_DTYPE_NONE) continue;
    device_operand *operand = &self->operands[i];
    *operand = operand_create(self->context, bytes_of(spec), tdm_dtype_bytes(spec->dtype), 0);
    kernel_input_generate(test, i, operand->host + operand->offset);
    values[i] = malloc((size_t)input_count_of(test, i) * sizeof(double) + 1);
    assert_non_null(values[i]);
    kernel_values_read(spec->dtype, operand->host + operand->offset, input_count_of(test, i),
                       values[i]);
  }
  for (size_t i = 0; i < test->output_count; i++) {
    const int64_t count = tdm_shape_count(&test->outputs[i].shape);
    self->expected[i] = malloc((size_t)count * sizeof(double) + 1);
    assert_non_null(self->expected[i]);
  }
  test->reference(test, (const double *const *)values, self->expected);
  for (size_t i = 0; i < test->input_count; i++)
    free(values[i]);
}

static void outputs_create(device_case *self) {
  const kernel_case *test = self->test;
  for (size_t i = 0; i < test->output_count; i++) {
    const tdm_spec *spec = &test->outputs[i];
    self->specs[test->input_count + i] = *spec;
    if (test->overwrites[i] >= 0) continue;
    self->operands[test->input_count + i] =
        operand_create(self->context, bytes_of(spec), tdm_dtype_bytes(spec->dtype), POISON);
  }
}

static void kernel_prepare(device_case *self, const tdm_device *device) {
  const kernel_case *test = self->test;
  self->kernel =
      tdm_context_find_kernel(self->context, test->operation, device->ops->executes, test->dtype);
  if (!self->kernel) fail_msg("%s: no kernel", test->name);
  const tdm_kernel_request request = {.attributes = &test->attributes,
                                      .inputs = self->specs,
                                      .input_count = test->input_count,
                                      .outputs = self->specs + test->input_count,
                                      .output_count = test->output_count,
                                      .team_size = device->team_size};
  assert_ok(self->kernel->prepare(&request, &self->answer));
  /* Its guards and the tensor's own alignment leave it aligned to 64. */
  self->operands[MOST_OPERANDS] =
      operand_create(self->context, self->answer.workspace_bytes, 0, POISON);
}

/* Shared by all cases, since the signalling thread may still touch a doorbell after the waiting
 * thread has continued. */
static tdm_doorbell bell;

static void settled(tdm_flight *flight) {
  (void)flight;
  tdm_doorbell_ring(&bell);
}

static void flight_create(device_case *self, tdm_device *device) {
  const kernel_case *test = self->test;
  for (uint32_t i = 0; i <= MOST_OPERANDS; i++) {
    const device_operand *operand = &self->operands[i];
    if (!operand->tensor) continue;
    self->bases[i] = tdm_tensor_address(operand->tensor) + operand->offset;
  }
  for (uint32_t i = 0; i < test->input_count; i++) {
    const bool absent = !self->operands[i].tensor;
    self->places[i].base = absent ? TDM_OPERAND_ABSENT : i;
  }
  for (size_t i = 0; i < test->output_count; i++)
    self->places[test->input_count + i].base = (uint32_t)output_place(test, i);
  self->command = (tdm_command){.kind = TDM_COMMAND_EXECUTE,
                                .execute = {.kernel = self->kernel,
                                            .attributes = &test->attributes,
                                            .state = self->answer.state,
                                            .specs = self->specs,
                                            .operands = self->places,
                                            .input_count = (uint16_t)test->input_count,
                                            .output_count = (uint16_t)test->output_count,
                                            .workspace = {.base = MOST_OPERANDS},
                                            .workspace_bytes = self->answer.workspace_bytes}};
  self->program = (tdm_program){.queue = device->queues[TDM_QUEUE_COMPUTE],
                                .commands = &self->command,
                                .count = 1,
                                .splits = self->answer.splits};
  self->flight = (tdm_flight){.programs = &self->program,
                              .program_bases = &self->program_base,
                              .bases = self->bases,
                              .scalars = &test->scalars,
                              .failed_ids = self->failed_ids,
                              .settled = settled};
}

static void run(device_case *self, bool adopt) {
  for (size_t i = 0; i <= MOST_OPERANDS; i++)
    if (self->operands[i].tensor) operand_upload(&self->operands[i]);
  const uint32_t before = tdm_doorbell_read(&bell);
  tdm_flight_reset(&self->flight, 1);
  assert_ok(tdm_context_submit(self->context, &self->flight, &self->submission, 1, adopt));
  while (tdm_doorbell_read(&bell) == before)
    tdm_doorbell_park(&bell, before, 1000000000);
  if (self->flight.failure.id != UINT32_MAX)
    fail_msg("%s: %s", self->test->name, self->flight.failure.message);
}

static void results_check(device_case *self, const char *where) {
  const kernel_case *test = self->test;
  for (size_t i = 0; i < test->output_count; i++) {
    const device_operand *operand = &self->operands[output_place(test, i)];
    unsigned char *now = operand_download(operand, test->name);
    kernel_output_check(test, i, where, now + operand->offset, self->expected[i]);
    if (!self->first[i]) {
      self->first[i] = now;
      continue;
    }
    if (memcmp(self->first[i], now, operand->total) != 0)
      fail_msg("%s, %s: output %zu differs in its bits", test->name, where, i);
    free(now);
  }
  free(operand_download(&self->operands[MOST_OPERANDS], test->name));
}

static void case_visit(const kernel_case *test, void *context) {
  tdm_device *device = test_device(context, TEST_DEVICE);
  device_case *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->test = test;
  self->context = context;
  inputs_create(self);
  outputs_create(self);
  kernel_prepare(self, device);
  flight_create(self, device);
  run(self, false);
  results_check(self, TEST_DEVICE " by its worker");
  run(self, true);
  results_check(self, TEST_DEVICE " on a borrowed thread");
  for (size_t i = 0; i <= MOST_OPERANDS; i++)
    operand_release(&self->operands[i]);
  for (size_t i = 0; i < TDM_KERNEL_MAX_OUTPUTS; i++) {
    free(self->expected[i]);
    free(self->first[i]);
  }
  if (self->kernel->release) self->kernel->release(self->answer.state);
  free(self);
}

static void family_test(void **state) {
  const kernel_family *family = *state;
  tdm_context *context = test_context(NULL);
  family->each(case_visit, context);
  tdm_context_release(context);
}

int main(void) {
  enum { MOST = 32 };
  static struct CMUnitTest tests[MOST];
  assert_in_range(kernel_family_count, 1, MOST);
  for (size_t i = 0; i < kernel_family_count; i++) {
    tests[i] = (struct CMUnitTest){kernel_families[i].name, family_test, NULL, NULL,
                                   (void *)&kernel_families[i]};
  }
  return _cmocka_run_group_tests("kernels of " TEST_DEVICE, tests, kernel_family_count, NULL, NULL);
}
