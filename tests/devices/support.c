/* See support.h. */
#include "tests/devices/support.h"
#include "devices/context/route.h"
#include "tests/options.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Kernels --------------------------------------------------------------------------------- */

int64_t test_mix(int64_t out, const int64_t *inputs, size_t input_count, int64_t attribute) {
  uint64_t mixed = (uint64_t)out * 31 + (uint64_t)attribute;
  for (size_t i = 0; i < input_count; i++)
    mixed += (uint64_t)inputs[i];
  return (int64_t)mixed;
}

static tdm_status execute_mix(const tdm_kernel_call *call) {
  const test_mix_attributes *attributes = call->attributes;
  int64_t *out = call->outputs[0];
  const int64_t count = tdm_shape_count(&call->output_specs[0].shape);
  const size_t input_count = (size_t)attributes->input_count;
  for (int64_t i = 0; i < count; i++) {
    int64_t inputs[8];
    for (size_t k = 0; k < input_count; k++)
      inputs[k] = ((const int64_t *)call->inputs[k + 1])[i];
    out[i] = test_mix(out[i], inputs, input_count, attributes->value);
  }
  return TDM_OK;
}

static tdm_status execute_failing(const tdm_kernel_call *call) {
  (void)call;
  return tdm_fail(TDM_INVALID_ARGUMENT, "the kernel that fails");
}

static tdm_status execute_slow(const tdm_kernel_call *call) {
  const test_mix_attributes *attributes = call->attributes;
  const struct timespec pause = {.tv_nsec = attributes->value * 1000};
  (void)nanosleep(&pause, NULL);
  return execute_mix(call);
}

const tdm_kernel test_mix_kernel = {.struct_size = sizeof(tdm_kernel),
                                    .operation = "test_mix",
                                    .executes = "cpu",
                                    .dtype = TDM_INT64,
                                    .execute = execute_mix};
const tdm_kernel test_failing_kernel = {.struct_size = sizeof(tdm_kernel),
                                        .operation = "test_failing",
                                        .executes = "cpu",
                                        .dtype = TDM_INT64,
                                        .execute = execute_failing};
const tdm_kernel test_slow_kernel = {.struct_size = sizeof(tdm_kernel),
                                     .operation = "test_slow",
                                     .executes = "cpu",
                                     .dtype = TDM_INT64,
                                     .execute = execute_slow};

tdm_context *test_context(const char *sim_settings) {
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 2, o.sim_devices = 2,
              o.sim = sim_settings ? sim_settings : "latency_us=0,gigabytes_per_second=0");
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  assert_ok(tdm_kernel_register(context, &test_mix_kernel));
  assert_ok(tdm_kernel_register(context, &test_failing_kernel));
  assert_ok(tdm_kernel_register(context, &test_slow_kernel));
  for (size_t i = 0; test_twins[i]; i++)
    assert_ok(tdm_kernel_register(context, test_twins[i]));
  return context;
}

const tdm_kernel *test_kernel_on(const tdm_device *device, const tdm_kernel *kernel) {
  for (size_t i = 0; test_twins[i]; i++) {
    const tdm_kernel *twin = test_twins[i];
    if (strcmp(twin->operation, kernel->operation) == 0 &&
        strcmp(twin->executes, device->ops->executes) == 0) {
      return twin;
    }
  }
  return kernel;
}

const char *test_partner(const char *name) {
  if (strcmp(name, "sim:0") == 0 || strcmp(name, "cuda:0") == 0) return "cpu:1";
  return strcmp(name, "cuda:1") == 0 ? "cuda:0" : "sim:0";
}

tdm_queue *test_route(const tdm_device *from, const tdm_device *to) {
  tdm_queue *route = tdm_direct_queue(from, to);
  const bool foreign =
      !from->host_addressable && !to->host_addressable && !tdm_device_same_kind(from, to);
  assert_int_equal(!route, foreign);
  return route;
}

tdm_device *test_device(tdm_context *context, const char *name) {
  tdm_device *device = tdm_context_find_device(context, name);
  if (!device) fail_msg("%s", tdm_last_message());
  return device;
}

/* ---- Building -------------------------------------------------------------------------------- */

static void settled(tdm_flight *flight) {
  test_flight *test = flight->user;
  tdm_doorbell *bell = tdm_context_bell(test->context, test->bell);
  atomic_fetch_add(&test->settled_count, 1); /* test may be released from here on */
  tdm_doorbell_ring(bell);
}

test_flight *test_flight_create(tdm_context *context) {
  test_flight *test = calloc(1, sizeof *test);
  assert_non_null(test);
  test->context = context;
  test->bell = tdm_context_bell_acquire(context);
  test->flight = (tdm_flight){.programs = test->programs,
                              .program_bases = test->program_bases,
                              .bases = test->bases,
                              .conditions = test->conditions,
                              .scalars = &test->scalars,
                              .failed_ids = test->failed_ids,
                              .settled = settled,
                              .user = test};
  return test;
}

void test_flight_destroy(test_flight *test) {
  for (uint32_t i = 0; i < test->base_count; i++) {
    tdm_device *device = test->memories[i].device;
    device->ops->release(device, &test->memories[i]);
  }
  tdm_context_bell_release(test->context, test->bell);
  free(test);
}

static tdm_memory host_view(tdm_context *context, const void *data, size_t bytes) {
  return (tdm_memory){
      .device = tdm_context_device(context, 0), .address = (tdm_address)data, .bytes = bytes};
}

uint32_t test_base(test_flight *test, tdm_device *device, size_t count, int64_t value) {
  assert_true(test->base_count < TEST_MOST_BASES);
  const uint32_t base = test->base_count++;
  tdm_memory *memory = &test->memories[base];
  assert_ok(device->ops->allocate(device, count * sizeof(int64_t), memory));
  test->bases[base] = memory->address;
  int64_t *values = malloc(memory->bytes);
  assert_non_null(values);
  for (size_t i = 0; i < count; i++)
    values[i] = value;
  const tdm_memory from = host_view(test->context, values, memory->bytes);
  assert_ok(tdm_context_copy(test->context, &from, memory, memory->bytes));
  free(values);
  return base;
}

int64_t test_value(test_flight *test, uint32_t base) {
  int64_t value = 0;
  const tdm_memory to = host_view(test->context, &value, sizeof(value));
  assert_ok(tdm_context_copy(test->context, &test->memories[base], &to, sizeof(value)));
  return value;
}

uint32_t test_program(test_flight *test, tdm_queue *queue) {
  assert_true(test->program_count < TEST_MOST_PROGRAMS);
  const uint32_t program = test->program_count++;
  test->programs[program] = (tdm_program){.queue = queue, .commands = test->commands[program]};
  test->submissions[program].program = program;
  return program;
}

static tdm_command *append(test_flight *test, uint32_t program, tdm_command_kind kind) {
  assert_true(test->programs[program].count < TEST_MOST_COMMANDS);
  tdm_command *command = &test->commands[program][test->programs[program].count++];
  *command = (tdm_command){.kind = (uint8_t)kind, .id = test->id_count++};
  return command;
}

static test_command_data *data_of(test_flight *test, const tdm_command *command) {
  const size_t index = (size_t)(command - &test->commands[0][0]);
  return &test->data[index / TEST_MOST_COMMANDS][index % TEST_MOST_COMMANDS];
}

tdm_command *test_execute(test_flight *test, uint32_t program, const tdm_kernel *kernel,
                          uint32_t out_base, const uint32_t *in_bases, size_t in_count,
                          int64_t attribute) {
  tdm_command *command = append(test, program, TDM_COMMAND_EXECUTE);
  test_command_data *data = data_of(test, command);
  assert_true(in_count + 2 <= TDM_COUNT_OF(data->specs));
  const int64_t elements = (int64_t)(test->memories[out_base].bytes / sizeof(int64_t));
  for (size_t i = 0; i < in_count + 2; i++) {
    const bool is_output = i == 0 || i == in_count + 1;
    data->operands[i].base = is_output ? out_base : in_bases[i - 1];
    data->specs[i] =
        (tdm_spec){.dtype = TDM_INT64, .shape = tdm_shape_make(1, (tdm_dim[]){elements})};
  }
  data->attributes = (test_mix_attributes){.value = attribute, .input_count = (int64_t)in_count};
  const tdm_device *device = test->programs[program].queue->device;
  command->execute = (tdm_execute){.kernel = test_kernel_on(device, kernel),
                                   .attributes = &data->attributes,
                                   .specs = data->specs,
                                   .operands = data->operands,
                                   .input_count = (uint16_t)(in_count + 1),
                                   .output_count = 1,
                                   .workspace = {.base = TDM_OPERAND_ABSENT}};
  return command;
}

tdm_command *test_copy(test_flight *test, uint32_t program, uint32_t from_base, uint32_t to_base) {
  tdm_command *command = append(test, program, TDM_COMMAND_COPY);
  const tdm_memory *from = &test->memories[from_base];
  const tdm_memory *to = &test->memories[to_base];
  command->copy = (tdm_copy){.from_device = from->device,
                             .to_device = to->device,
                             .from = {.base = from_base},
                             .to = {.base = to_base},
                             .bytes = from->bytes < to->bytes ? from->bytes : to->bytes};
  return command;
}

tdm_command *test_wait(test_flight *test, uint32_t program, const tdm_command *for_command) {
  const size_t index = (size_t)(for_command - &test->commands[0][0]);
  const uint32_t position = (uint32_t)(index % TEST_MOST_COMMANDS);
  test->commands[index / TEST_MOST_COMMANDS][position].signals = true;
  tdm_command *command = append(test, program, TDM_COMMAND_WAIT);
  command->wait =
      (tdm_wait){.program = (uint32_t)(index / TEST_MOST_COMMANDS), .position = position};
  return command;
}

tdm_command *test_gate(test_flight *test, uint32_t program) {
  return append(test, program, TDM_COMMAND_GATE);
}

void test_depend(test_flight *test, tdm_command *command, const tdm_command *on) {
  test_command_data *data = data_of(test, command);
  assert_true(command->dependency_count < TDM_COUNT_OF(data->dependencies));
  data->dependencies[command->dependency_count++] = on->id;
  command->dependencies = data->dependencies;
}

/* ---- Running --------------------------------------------------------------------------------- */

void test_submit(test_flight *test, bool adopt) {
  tdm_flight_reset(&test->flight, test->id_count);
  atomic_store(&test->settled_count, 0);
  assert_ok(tdm_context_submit(test->context, &test->flight, test->submissions, test->program_count,
                               adopt));
}

void test_join(test_flight *test) {
  tdm_doorbell *bell = tdm_context_bell(test->context, test->bell);
  const uint64_t limit_ns = tdm_time_ns() + 60000000000u;
  for (;;) {
    const uint32_t seen = tdm_doorbell_read(bell);
    if (atomic_load(&test->settled_count) != 0) break;
    if (tdm_time_ns() > limit_ns) {
      /* Nothing can be released any more: leave as the test program would after a hang. */
      print_error("a flight of %u programs has not settled in a minute\n", test->program_count);
      abort();
    }
    tdm_doorbell_park(bell, seen, 1000000000);
  }
  assert_int_equal(atomic_load(&test->settled_count), 1);
  assert_reached(test);
}

void test_run(test_flight *test, bool adopt) {
  test_submit(test, adopt);
  test_join(test);
}

bool test_has_failed(const test_flight *test, const tdm_command *command) {
  return test->failed_ids[command->id] != 0;
}

void assert_reached(const test_flight *test) {
  for (uint32_t i = 0; i < test->program_count; i++) {
    const tdm_program *program = &test->programs[i];
    if (program->count == 0) continue;
    assert_true(tdm_queue_reached(program->queue, test->program_bases[i] + program->count - 1));
  }
}
