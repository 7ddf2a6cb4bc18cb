/* One-off submissions: steps become one program per queue in one flight, with waits for the results
 * of other queues. Invariant: its memory is released after that flight has settled. */
#include "devices/tensors/oneshot.h"

#include <string.h>

#include "devices/context/route.h"
#include "devices/staging/staged_memory.h"

struct tdm_oneshot_step {
  tdm_oneshot_step *next;
  tdm_queue *queue;
  tdm_command command;
  tdm_oneshot_step **after; /* (after_count) steps whose results it reads */
  uint32_t after_count;
  uint32_t first_base;
  tdm_address *addresses; /* (address_count) of its operands */
  uint32_t address_count;
  const tdm_kernel *kernel; /* NULL: a copy */
  void *state;
  bool splits;      /* uses the device's team */
  uint32_t program; /* set when numbered */
  uint32_t position;
};

struct tdm_oneshot_memory {
  tdm_oneshot_memory *next;
  tdm_memory memory;
};

typedef struct oneshot_wait {
  tdm_doorbell *bell; /* a bell of the context, which outlives the ringing thread */
  _Atomic bool settled;
} oneshot_wait;

/* ---- Beginning and end ----------------------------------------------------------------------- */

void tdm_oneshot_init(tdm_oneshot *oneshot, tdm_context *context) {
  memset(oneshot, 0, sizeof *oneshot);
  oneshot->context = context;
  tdm_region_init(&oneshot->region, tdm_context_allocator(context));
  oneshot->entered = tdm_context_enter(context);
  if (!oneshot->entered) {
    oneshot->status = tdm_context_refuse(context);
    return;
  }
  oneshot->status = tdm_context_start(context);
}

void tdm_oneshot_deinit(tdm_oneshot *oneshot) {
  if (!oneshot->context) return;
  for (tdm_oneshot_step *step = oneshot->first; step != NULL; step = step->next)
    if (step->kernel && step->kernel->release) step->kernel->release(step->state);
  for (tdm_oneshot_memory *taken = oneshot->memories; taken != NULL; taken = taken->next)
    tdm_memory_give_back(&taken->memory);
  tdm_region_deinit(&oneshot->region);
  if (oneshot->entered) tdm_context_leave(oneshot->context);
  oneshot->context = NULL;
}

static void *take_bytes(tdm_oneshot *oneshot, size_t bytes) {
  void *memory = tdm_region_take(&oneshot->region, bytes + 1, "a submission between devices");
  if (!memory) oneshot->status = TDM_OUT_OF_MEMORY;
  return memory;
}

/* ---- Building -------------------------------------------------------------------------------- */

tdm_oneshot_value tdm_oneshot_take(tdm_oneshot *oneshot, tdm_device *device, tdm_device *partner,
                                   const tdm_spec *spec) {
  tdm_oneshot_value value = {.spec = *spec, .memory = {.device = device}};
  if (oneshot->status != TDM_OK) return value;
  tdm_oneshot_memory *taken = take_bytes(oneshot, sizeof *taken);
  if (!taken) return value;
  const size_t bytes = (size_t)tdm_shape_bytes(&spec->shape, spec->dtype);
  oneshot->status = tdm_memory_take(device, partner, bytes, &taken->memory);
  if (oneshot->status != TDM_OK) return value;
  taken->next = oneshot->memories;
  oneshot->memories = taken;
  value.memory = taken->memory;
  value.memory.bytes = bytes;
  return value;
}

/* Appends a step on queue with room for its addresses and its predecessors. Returns NULL on
 * failure. */
static tdm_oneshot_step *add_step(tdm_oneshot *oneshot, tdm_queue *queue, uint32_t address_count) {
  tdm_oneshot_step *step = take_bytes(oneshot, sizeof *step);
  tdm_address *addresses = take_bytes(oneshot, address_count * sizeof *addresses);
  tdm_oneshot_step **after = take_bytes(oneshot, address_count * sizeof *after);
  if (oneshot->status != TDM_OK) return NULL;
  step->queue = queue;
  step->addresses = addresses;
  step->address_count = address_count;
  step->first_base = oneshot->operand_count;
  step->after = after;
  step->command.id = oneshot->step_count++;
  step->command.signals = true;
  oneshot->operand_count += address_count;
  if (oneshot->last)
    oneshot->last->next = step;
  else
    oneshot->first = step;
  oneshot->last = step;
  return step;
}

static tdm_operand add_operand(tdm_oneshot_step *step, uint32_t index, tdm_address address) {
  step->addresses[index] = address;
  return (tdm_operand){.base = step->first_base + index};
}

static void add_after(tdm_oneshot_step *step, tdm_oneshot_step *made) {
  if (made) step->after[step->after_count++] = made;
}

static tdm_oneshot_value add_hop(tdm_oneshot *oneshot, tdm_queue *queue,
                                 const tdm_oneshot_value *value, const tdm_memory *memory) {
  tdm_oneshot_value there = {.spec = value->spec, .memory = *memory};
  tdm_oneshot_step *step = add_step(oneshot, queue, 2);
  if (!step) return there;
  add_after(step, value->ready);
  step->command.kind = TDM_COMMAND_COPY;
  step->command.copy = (tdm_copy){.from_device = value->memory.device,
                                  .to_device = memory->device,
                                  .from = add_operand(step, 0, value->memory.address),
                                  .to = add_operand(step, 1, memory->address),
                                  .bytes = value->memory.bytes};
  there.ready = step;
  return there;
}

tdm_oneshot_value tdm_oneshot_copy(tdm_oneshot *oneshot, const tdm_oneshot_value *value,
                                   const tdm_memory *memory) {
  tdm_oneshot_value there = {.spec = value->spec, .memory = *memory};
  if (oneshot->status != TDM_OK || value->memory.bytes == 0) return there;
  const tdm_route route = tdm_route_between(value->memory.device, memory->device);
  tdm_oneshot_value here = *value;
  for (uint32_t i = 0; i + 1 < route.count; i++) {
    const tdm_oneshot_value staged =
        tdm_oneshot_take(oneshot, route.hops[i].to, memory->device, &value->spec);
    if (oneshot->status != TDM_OK) return there;
    here = add_hop(oneshot, route.hops[i].queue, &here, &staged.memory);
    if (oneshot->status != TDM_OK) return there;
  }
  return add_hop(oneshot, route.hops[route.count - 1].queue, &here, memory);
}

/* ---- Kernels --------------------------------------------------------------------------------- */

/* Prepares the kernel, which may change the memory requirements in step->command.execute. */
static tdm_status prepare_step(tdm_oneshot *oneshot, tdm_oneshot_step *step, tdm_device *device,
                               const tdm_spec *specs, size_t input_count, size_t output_count) {
  const tdm_kernel *kernel = step->command.execute.kernel;
  tdm_kernel_answer answer = {0};
  if (kernel->prepare) {
    const tdm_kernel_request request = {.attributes = step->command.execute.attributes,
                                        .inputs = specs,
                                        .input_count = input_count,
                                        .outputs = specs + input_count,
                                        .output_count = output_count,
                                        .team_size = device->team_size,
                                        .deterministic = true};
    TDM_TRY(kernel->prepare(&request, &answer));
  }
  step->kernel = kernel;
  step->state = answer.state;
  step->splits = answer.splits;
  step->command.execute.state = answer.state;
  step->command.execute.workspace.base = TDM_OPERAND_ABSENT;
  bool dense = true;
  for (size_t i = 0; i < input_count && i < TDM_KERNEL_FORMATS; i++)
    dense &= answer.input_formats[i] == TDM_FORMAT_DENSE;
  for (size_t i = 0; i < output_count && i < TDM_KERNEL_FORMATS; i++)
    dense &= answer.output_formats[i] == TDM_FORMAT_DENSE;
  if (!dense)
    return tdm_fail(TDM_UNSUPPORTED, "%s of %s requires operands that are not dense",
                    kernel->operation, device->name);
  if (answer.workspace_bytes == 0) return TDM_OK;
  const tdm_spec spec = {.dtype = TDM_UINT8,
                         .shape = {.rank = 1, .dims = {(int64_t)answer.workspace_bytes}}};
  const tdm_oneshot_value workspace = tdm_oneshot_take(oneshot, device, NULL, &spec);
  TDM_TRY(oneshot->status);
  step->command.execute.workspace =
      add_operand(step, (uint32_t)(input_count + output_count), workspace.memory.address);
  step->command.execute.workspace_bytes = answer.workspace_bytes;
  return TDM_OK;
}

static tdm_status fill_execute(tdm_oneshot *oneshot, tdm_oneshot_step *step,
                               const tdm_kernel *kernel, const void *attributes,
                               tdm_oneshot_value *values, size_t input_count, size_t output_count) {
  const size_t count = input_count + output_count;
  tdm_spec *specs = take_bytes(oneshot, count * sizeof *specs);
  tdm_operand *operands = take_bytes(oneshot, count * sizeof *operands);
  TDM_TRY(oneshot->status);
  for (size_t i = 0; i < count; i++) {
    specs[i] = values[i].spec;
    operands[i] = add_operand(step, (uint32_t)i, values[i].memory.address);
    add_after(step, values[i].ready);
  }
  step->command.kind = TDM_COMMAND_EXECUTE;
  step->command.execute =
      (tdm_execute){.kernel = kernel,
                    .attributes = attributes,
                    .specs = specs,
                    .operands = operands,
                    .input_count = (uint16_t)input_count,
                    .output_count = (uint16_t)output_count,
                    .is_empty = tdm_outputs_are_empty(specs + input_count, output_count)};
  for (size_t i = input_count; i < count; i++)
    values[i].ready = step;
  return prepare_step(oneshot, step, values[input_count].memory.device, specs, input_count,
                      output_count);
}

void tdm_oneshot_execute(tdm_oneshot *oneshot, const char *operation, const void *attributes,
                         size_t attribute_bytes, tdm_oneshot_value *operands, size_t input_count,
                         size_t output_count) {
  if (oneshot->status != TDM_OK) return;
  const tdm_oneshot_value *out = &operands[input_count];
  tdm_device *device = out->memory.device;
  const tdm_kernel *kernel =
      tdm_context_find_kernel(oneshot->context, operation, device->ops->executes, out->spec.dtype);
  if (!kernel) {
    oneshot->status = tdm_fail(TDM_UNSUPPORTED, "%s has no %s of %s", device->name, operation,
                               tdm_dtype_name(out->spec.dtype));
    return;
  }
  void *copy = take_bytes(oneshot, attribute_bytes);
  if (!copy) return;
  if (attribute_bytes > 0) memcpy(copy, attributes, attribute_bytes);
  tdm_oneshot_step *step = add_step(oneshot, device->queues[TDM_QUEUE_COMPUTE],
                                    (uint32_t)(input_count + output_count + 1));
  if (!step) return;
  oneshot->status = fill_execute(oneshot, step, kernel, copy, operands, input_count, output_count);
}

/* ---- Running --------------------------------------------------------------------------------- */

typedef struct oneshot_flight {
  tdm_flight flight;
  tdm_program *programs; /* (queue_count of the context), the first program_count used */
  uint32_t program_count;
  tdm_submission *submissions;
  tdm_run_scalars scalars;
  oneshot_wait wait;
} oneshot_flight;

static void settled(tdm_flight *flight) {
  oneshot_wait *wait = flight->user;
  tdm_doorbell *bell = wait->bell;
  atomic_store(&wait->settled, true); /* the flight may be freed from here on */
  tdm_doorbell_ring(bell);
}

static uint32_t program_on(oneshot_flight *made, tdm_queue *queue) {
  for (uint32_t i = 0; i < made->program_count; i++)
    if (made->programs[i].queue == queue) return i;
  made->programs[made->program_count].queue = queue;
  return made->program_count++;
}

/* Returns true if an earlier wait already covers the program's command at this position. */
static bool is_awaited(const tdm_program *program, uint32_t awaited, uint32_t position) {
  for (uint32_t i = 0; i < program->count; i++) {
    const tdm_command *command = &program->commands[i];
    if (command->kind == TDM_COMMAND_WAIT && command->wait.program == awaited &&
        command->wait.position >= position)
      return true;
  }
  return false;
}

/* Appends the step, after waits for the results of other queues. Room was reserved. */
static tdm_status append(tdm_oneshot *oneshot, oneshot_flight *made, tdm_oneshot_step *step) {
  uint32_t *dependencies = take_bytes(oneshot, step->after_count * sizeof *dependencies);
  TDM_TRY(oneshot->status);
  tdm_program *program = &made->programs[step->program];
  for (uint32_t i = 0; i < step->after_count; i++) {
    const tdm_oneshot_step *before = step->after[i];
    dependencies[i] = before->command.id;
    if (before->program == step->program || is_awaited(program, before->program, before->position))
      continue;
    program->commands[program->count++] =
        (tdm_command){.kind = TDM_COMMAND_WAIT,
                      .wait = {.program = before->program, .position = before->position}};
  }
  step->position = program->count;
  step->command.dependencies = dependencies;
  step->command.dependency_count = step->after_count;
  program->commands[program->count++] = step->command;
  for (uint32_t i = 0; i < step->address_count; i++)
    made->flight.bases[step->first_base + i] = step->addresses[i];
  return TDM_OK;
}

/* Allocates every queue's program, with room for its commands and their waits. */
static tdm_status make_programs(tdm_oneshot *oneshot, oneshot_flight *made) {
  const size_t queue_count = tdm_context_queue_count(oneshot->context);
  made->programs = take_bytes(oneshot, queue_count * sizeof *made->programs);
  uint32_t *rooms = take_bytes(oneshot, queue_count * sizeof *rooms);
  TDM_TRY(oneshot->status);
  for (tdm_oneshot_step *step = oneshot->first; step != NULL; step = step->next) {
    step->program = program_on(made, step->queue);
    rooms[step->program] += 1 + step->after_count;
    made->programs[step->program].splits |= step->splits;
  }
  for (uint32_t i = 0; i < made->program_count; i++)
    made->programs[i].commands = take_bytes(oneshot, rooms[i] * sizeof(tdm_command));
  TDM_TRY(oneshot->status);
  made->flight.bases = take_bytes(oneshot, oneshot->operand_count * sizeof(tdm_address));
  TDM_TRY(oneshot->status);
  for (tdm_oneshot_step *step = oneshot->first; step != NULL; step = step->next)
    TDM_TRY(append(oneshot, made, step));
  return TDM_OK;
}

static tdm_status make_flight(tdm_oneshot *oneshot, oneshot_flight *made) {
  TDM_TRY(make_programs(oneshot, made));
  tdm_flight *flight = &made->flight;
  flight->program_bases = take_bytes(oneshot, made->program_count * sizeof(uint64_t));
  flight->failed_ids = take_bytes(oneshot, oneshot->step_count);
  made->submissions = take_bytes(oneshot, made->program_count * sizeof(tdm_submission));
  TDM_TRY(oneshot->status);
  for (uint32_t i = 0; i < made->program_count; i++)
    made->submissions[i].program = i;
  flight->programs = made->programs;
  flight->scalars = &made->scalars;
  flight->settled = settled;
  flight->user = &made->wait;
  tdm_flight_reset(flight, oneshot->step_count);
  return TDM_OK;
}

static tdm_status fly(tdm_oneshot *oneshot, oneshot_flight *made) {
  const uint32_t bell = tdm_context_bell_acquire(oneshot->context);
  made->wait.bell = tdm_context_bell(oneshot->context, bell);
  tdm_status status = tdm_context_submit(oneshot->context, &made->flight, made->submissions,
                                         made->program_count, true);
  if (status == TDM_OK) {
    for (;;) {
      const uint32_t seen = tdm_doorbell_read(made->wait.bell);
      if (atomic_load(&made->wait.settled)) break;
      tdm_doorbell_park(made->wait.bell, seen, -1);
    }
    const tdm_failure *failure = &made->flight.failure;
    if (failure->id != UINT32_MAX) status = tdm_fail(failure->status, "%s", failure->message);
  }
  tdm_context_bell_release(oneshot->context, bell);
  return status;
}

tdm_status tdm_oneshot_run(tdm_oneshot *oneshot) {
  TDM_TRY(oneshot->status);
  if (!oneshot->first) return TDM_OK;
  oneshot_flight made;
  memset(&made, 0, sizeof(made));
  TDM_TRY(make_flight(oneshot, &made));
  return fly(oneshot, &made);
}
