/* A trial is a flight of up to three programs. The target's device reads the target and touches
 * other memory. The source's device writes the source (before that, if it is to be stale). The
 * queue of the route copies. So the copy begins as in a plan, with the worker awake at its queue.
 * Invariant: the calling thread waits for the end, so everything that the flight refers to may be
 * on its stack. */
#include "devices/links/trial.h"

#include <assert.h>

#include "devices/context/context.h"
#include "devices/context/route.h"

enum { MOST_PROGRAMS = TDM_TRIAL_MOST_PROGRAMS, MOST_COMMANDS = 3 };

/* Command ids, each with its own times, including the waits of programs; and bases of operands. */
enum {
  READ_TARGET,
  TOUCH_BETWEEN,
  WRITE_SOURCE,
  LEAVE_SOURCE,
  COPY,
  FIRST_WAIT,
  COMMANDS = FIRST_WAIT + MOST_PROGRAMS
};
enum { FROM_BASE, TO_BASE, BETWEEN_BASE, BASES };
enum { LINE = 64 }; /* bytes of a cache line */

typedef struct touch {
  size_t bytes;
  bool writes;
  tdm_spec spec;
  tdm_operand operand;
} touch;

typedef struct flying {
  tdm_command commands[MOST_PROGRAMS][MOST_COMMANDS];
  tdm_program programs[MOST_PROGRAMS];
  uint32_t program_count;
  touch touches[COMMANDS];
} flying;

/* ---- Kernels that touch memory --------------------------------------------------------------- */

/* Touches one byte of every cache line, because lines are transferred whole. */
static tdm_status touch_memory(const tdm_kernel_call *call) {
  const touch *asked = call->attributes;
  volatile char *memory = call->outputs[0]; /* (bytes) */
  for (size_t i = 0; i < asked->bytes; i += LINE) {
    if (asked->writes) {
      memory[i] = (char)i;
    } else {
      (void)memory[i];
    }
  }
  return TDM_OK;
}

static const tdm_kernel touch_kernel = {.struct_size = sizeof(tdm_kernel),
                                        .operation = "touch",
                                        .executes = "cpu",
                                        .execute = touch_memory};

/* ---- Programs -------------------------------------------------------------------------------- */

static tdm_program *add_program(flying *made, tdm_queue *queue) {
  tdm_program *program = &made->programs[made->program_count];
  *program = (tdm_program){.queue = queue, .commands = made->commands[made->program_count]};
  if (made->program_count++ == 0) return program;
  const tdm_program *before = program - 1;
  program->commands[program->count++] =
      (tdm_command){.kind = TDM_COMMAND_WAIT,
                    .id = FIRST_WAIT + made->program_count - 1,
                    .wait = {.program = made->program_count - 2, .position = before->count - 1}};
  return program;
}

static void add_touch(flying *made, tdm_program *program, uint32_t id, uint32_t base, size_t bytes,
                      bool writes) {
  touch *asked = &made->touches[id];
  *asked = (touch){
      .bytes = bytes,
      .writes = writes,
      .spec = {.dtype = TDM_UINT8, .shape = tdm_shape_of(1, (int64_t)bytes)},
      .operand = {.base = base},
  };
  program->commands[program->count++] =
      (tdm_command){.kind = TDM_COMMAND_EXECUTE,
                    .signals = true,
                    .id = id,
                    .execute = {.kernel = &touch_kernel,
                                .attributes = asked,
                                .specs = &asked->spec,
                                .operands = &asked->operand,
                                .output_count = 1,
                                .workspace = {.base = TDM_OPERAND_ABSENT}}};
}

static void use_target(const tdm_link_trial *trial, flying *made) {
  tdm_device *to = trial->to_device;
  if (!to->host_addressable) return;
  tdm_program *program = add_program(made, to->queues[TDM_QUEUE_COMPUTE]);
  add_touch(made, program, READ_TARGET, TO_BASE, trial->bytes, false);
  if (trial->between_bytes > 0)
    add_touch(made, program, TOUCH_BETWEEN, BETWEEN_BASE, trial->between_bytes, true);
}

static void write_source(const tdm_link_trial *trial, flying *made) {
  tdm_device *from = trial->from_device;
  if (!from->host_addressable) return;
  tdm_program *program = add_program(made, from->queues[TDM_QUEUE_COMPUTE]);
  add_touch(made, program, WRITE_SOURCE, FROM_BASE, trial->bytes, true);
  if (trial->stale && trial->between_bytes > 0)
    add_touch(made, program, LEAVE_SOURCE, BETWEEN_BASE, trial->between_bytes, false);
}

static void make_programs(const tdm_link_trial *trial, flying *made) {
  if (trial->stale) write_source(trial, made);
  use_target(trial, made);
  if (!trial->stale) write_source(trial, made);
  tdm_program *program = add_program(made, tdm_direct_queue(trial->from_device, trial->to_device));
  program->commands[program->count++] = (tdm_command){.kind = TDM_COMMAND_COPY,
                                                      .signals = true,
                                                      .id = COPY,
                                                      .copy = {.from_device = trial->from_device,
                                                               .to_device = trial->to_device,
                                                               .from = {.base = FROM_BASE},
                                                               .to = {.base = TO_BASE},
                                                               .bytes = trial->bytes}};
}

/* ---- Running --------------------------------------------------------------------------------- */

typedef struct ending {
  tdm_doorbell *bell;
  _Atomic bool settled;
} ending;

static void trial_settled(tdm_flight *flight) {
  ending *end = flight->user;
  tdm_doorbell *bell = end->bell;
  atomic_store(&end->settled, true); /* the flight may be freed from here on */
  tdm_doorbell_ring(bell);
}

/* Waits like a thread that waits for a run. */
static void await_settled(tdm_context *context, ending *end) {
  tdm_attendance wait = {.has_cores = false};
  while (!atomic_load(&end->settled) && tdm_context_attend(context, &wait))
    continue;
  tdm_context_attend_leave(context, &wait);
  for (;;) {
    const uint32_t seen = tdm_doorbell_read(end->bell);
    if (atomic_load(&end->settled)) break;
    tdm_doorbell_park(end->bell, seen, -1);
  }
  tdm_context_attend_end(context, &wait);
}

tdm_status tdm_trial_fly(tdm_context *context, tdm_flight *flight, uint32_t program_count,
                         uint32_t id_count) {
  uint64_t program_bases[TDM_TRIAL_MOST_PROGRAMS] = {0};
  tdm_submission submissions[TDM_TRIAL_MOST_PROGRAMS] = {{.program = 0}};
  for (uint32_t i = 1; i < program_count; i++)
    submissions[i].program = i;
  const tdm_run_scalars scalars = {0};
  const uint32_t bell = tdm_context_bell_acquire(context);
  ending end = {.bell = tdm_context_bell(context, bell)};
  flight->program_bases = program_bases;
  flight->scalars = &scalars;
  flight->settled = trial_settled;
  flight->user = &end;
  tdm_flight_reset(flight, id_count);
  tdm_status status = tdm_context_submit(context, flight, submissions, program_count, false);
  if (status == TDM_OK) {
    await_settled(context, &end);
    if (flight->failure.id != UINT32_MAX)
      status = tdm_fail(flight->failure.status, "%s", flight->failure.message);
  }
  tdm_context_bell_release(context, bell);
  return status;
}

double tdm_trial_ns(uint64_t begin_ns, uint64_t end_ns) {
  return end_ns > begin_ns ? (double)(end_ns - begin_ns) : 1;
}

tdm_status tdm_link_trial_run(const tdm_link_trial *trial, double *out_ns) {
  flying made = {.program_count = 0};
  assert((trial->from | trial->to) % LINE == 0); /* copies of plans are aligned in the same way */
  make_programs(trial, &made);
  tdm_address bases[BASES] = {trial->from, trial->to, trial->between};
  uint8_t failed_ids[COMMANDS] = {0};
  tdm_command_times times[COMMANDS] = {{0}};
  tdm_flight flight = {
      .programs = made.programs, .bases = bases, .failed_ids = failed_ids, .times = times};
  const tdm_status status =
      tdm_trial_fly(trial->to_device->context, &flight, made.program_count, COMMANDS);
  *out_ns = tdm_trial_ns(times[COPY].begin_ns, times[COPY].end_ns);
  return status;
}
