/* Programs, commands and points of a group of copies. A kernel on cpu:0 holds all queues back: the
 * first command of a held flight's first program, and what every other program waits for first. */
#include "bench/transfer/flight.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_STRANDS = MOST_HOPS + 1, SPINS_BEFORE_YIELD = 64, PAUSE_NS = 20000 };

/* The work of one queue. */
typedef struct strand {
  size_t hops[MOST_HOPS]; /* indices into the group (hop_count) */
  size_t hop_count;
  bool counted;
  tdm_command *commands;
  bool stamps;         /* commands of the queue itself note the times */
  uint32_t last_point; /* position after which timing ends */
  uint64_t first_ns;   /* times at which timing began and ended; 0: not yet seen */
  uint64_t last_ns;
  uint64_t *stamped[2]; /* attributes of the commands that note them */
} strand;

typedef struct holder {
  _Atomic bool *released;
} holder;

struct copy_flight {
  tdm_context *context;
  const group *group;
  tdm_flight flight;
  strand strands[MOST_STRANDS]; /* one for each program; the first of a held flight is cpu:0's
                                 * queue */
  tdm_program programs[MOST_STRANDS];
  tdm_submission submissions[MOST_STRANDS];
  uint64_t program_bases[MOST_STRANDS];
  size_t strand_count;
  tdm_address bases[2 * MOST_HOPS]; /* source and destination address of each hop */
  uint8_t *failed_ids;
  uint32_t id_count;
  tdm_run_scalars scalars;
  holder hold;
  _Atomic bool released;
  _Atomic bool settled;
};

static tdm_status hold_back(const tdm_kernel_call *call) {
  const holder *hold = call->attributes;
  while (!atomic_load_explicit(hold->released, memory_order_acquire))
    (void)sched_yield();
  return TDM_OK;
}

static const tdm_kernel hold_kernel = {.struct_size = sizeof(tdm_kernel),
                                       .operation = "bench_hold",
                                       .executes = "cpu",
                                       .dtype = TDM_INT64,
                                       .execute = hold_back};

/* Notes the time: on queues of the host, whose thread may share a core with the one that waits. */
static tdm_status stamp(const tdm_kernel_call *call) {
  uint64_t *const *ns = call->attributes;
  **ns = tdm_time_ns();
  return TDM_OK;
}

static const tdm_kernel stamp_kernel = {.struct_size = sizeof(tdm_kernel),
                                        .operation = "bench_stamp",
                                        .executes = "cpu",
                                        .dtype = TDM_INT64,
                                        .execute = stamp};

static void settled(tdm_flight *flight) {
  copy_flight *mine = flight->user;
  /* `mine` may be freed after this */
  atomic_store_explicit(&mine->settled, true, memory_order_release);
}

/* ---- Making ---------------------------------------------------------------------------------- */

static void sort_hops(copy_flight *mine, bool held) {
  if (held) {
    mine->programs[0].queue = tdm_context_device(mine->context, 0)->queues[TDM_QUEUE_COMPUTE];
    mine->strand_count = 1;
  }
  for (size_t i = 0; i < mine->group->hop_count; i++) {
    size_t at = 0;
    while (at < mine->strand_count && mine->programs[at].queue != mine->group->hops[i].queue)
      at++;
    if (at == mine->strand_count) {
      mine->programs[at].queue = mine->group->hops[i].queue;
      mine->strand_count++;
    }
    strand *found = &mine->strands[at];
    found->hops[found->hop_count++] = i;
    found->counted |= mine->group->hops[i].counted;
  }
}

static void append_copy(copy_flight *mine, tdm_program *program, size_t index, size_t bytes) {
  const hop *copied = &mine->group->hops[index];
  program->commands[program->count++] =
      (tdm_command){.kind = TDM_COMMAND_COPY,
                    .id = mine->id_count++,
                    .copy = {.from_device = copied->from,
                             .to_device = copied->to,
                             .from = {.base = (uint32_t)(2 * index)},
                             .to = {.base = (uint32_t)(2 * index + 1)},
                             .bytes = bytes}};
}

static tdm_command execute(copy_flight *mine, const tdm_kernel *kernel, const void *attributes) {
  return (tdm_command){.kind = TDM_COMMAND_EXECUTE,
                       .signals = true,
                       .id = mine->id_count++,
                       .execute = {.kernel = kernel,
                                   .attributes = attributes,
                                   .workspace = {.base = TDM_OPERAND_ABSENT}}};
}

/* Returns the first command of a held program. */
static tdm_command first_command(copy_flight *mine, size_t at) {
  if (at == 0) return execute(mine, &hold_kernel, &mine->hold);
  return (tdm_command){.kind = TDM_COMMAND_WAIT, .wait = {.program = 0}};
}

/* Timing begins (0) or ends (1) after what the program has so far. */
static void mark(copy_flight *mine, size_t at, int which) {
  strand *one = &mine->strands[at];
  tdm_program *program = &mine->programs[at];
  if (one->stamps)
    program->commands[program->count++] = execute(mine, &stamp_kernel, &one->stamped[which]);
  if (which == 0 || program->count == 0) return;
  one->last_point = program->count - 1;
  program->commands[one->last_point].signals = true;
}

static tdm_status write_program(copy_flight *mine, size_t at, const copy_counts *counts) {
  strand *one = &mine->strands[at];
  tdm_program *program = &mine->programs[at];
  one->stamps = one->counted && counts->held &&
                strcmp(program->queue->device->ops->executes, hold_kernel.executes) == 0;
  const int warm_ups = one->stamps ? counts->warm_ups : 0;
  const int needed = warm_ups + counts->timed;
  const int rounds = one->counted ? needed : 2 * (counts->warm_ups + counts->timed);
  one->commands = calloc(3 + (size_t)rounds * one->hop_count, sizeof *one->commands);
  if (!one->commands) return tdm_fail(TDM_OUT_OF_MEMORY, "the commands of %d copies", rounds);
  program->commands = one->commands;
  one->stamped[0] = &one->first_ns;
  one->stamped[1] = &one->last_ns;
  if (counts->held) one->commands[program->count++] = first_command(mine, at);
  for (int round = 0; round < rounds; round++) {
    if (round == warm_ups) mark(mine, at, 0);
    for (size_t i = 0; i < one->hop_count; i++)
      append_copy(mine, program, one->hops[i], counts->bytes);
    if (round + 1 == needed) mark(mine, at, 1);
  }
  return TDM_OK;
}

tdm_status copy_flight_create(tdm_context *context, const group *one, const hop_ends *ends,
                              const copy_counts *counts, copy_flight **out_flight) {
  *out_flight = NULL;
  copy_flight *mine = calloc(1, sizeof *mine);
  if (!mine) return tdm_fail(TDM_OUT_OF_MEMORY, "a flight of copies");
  mine->context = context;
  mine->group = one;
  mine->hold.released = &mine->released;
  for (size_t i = 0; i < one->hop_count; i++) {
    mine->bases[2 * i] = ends[i].from.memory.address;
    mine->bases[2 * i + 1] = ends[i].to.memory.address;
  }
  sort_hops(mine, counts->held);
  tdm_status status = TDM_OK;
  for (size_t at = 0; status == TDM_OK && at < mine->strand_count; at++)
    status = write_program(mine, at, counts);
  mine->failed_ids = calloc(mine->id_count ? mine->id_count : 1, 1);
  if (status == TDM_OK && !mine->failed_ids) status = tdm_fail(TDM_OUT_OF_MEMORY, "a flight");
  if (status != TDM_OK) {
    copy_flight_destroy(mine);
    return status;
  }
  mine->flight = (tdm_flight){.programs = mine->programs,
                              .program_bases = mine->program_bases,
                              .bases = mine->bases,
                              .scalars = &mine->scalars,
                              .failed_ids = mine->failed_ids,
                              .settled = settled,
                              .user = mine};
  *out_flight = mine;
  return TDM_OK;
}

void copy_flight_destroy(copy_flight *flight) {
  if (!flight) return;
  for (size_t at = 0; at < flight->strand_count; at++)
    free(flight->strands[at].commands);
  free(flight->failed_ids);
  free(flight);
}

/* ---- Running --------------------------------------------------------------------------------- */

static bool see(const copy_flight *mine, size_t at, uint32_t position, uint64_t *seen_ns) {
  if (*seen_ns != 0) return true;
  if (!tdm_queue_reached(mine->programs[at].queue, mine->program_bases[at] + position))
    return false;
  *seen_ns = tdm_time_ns();
  return true;
}

/* Looks at every counted queue once that does not note its times itself; true when all of these
 * have been seen to end. */
static bool look(copy_flight *mine) {
  bool all = true;
  for (size_t at = 0; at < mine->strand_count; at++) {
    strand *one = &mine->strands[at];
    if (!one->counted || one->stamps) continue;
    all &= see(mine, at, one->last_point, &one->last_ns);
  }
  return all;
}

static void relax(int *spins) {
  if (++*spins % SPINS_BEFORE_YIELD != 0) {
    tdm_spin_pause();
  } else {
    (void)sched_yield();
  }
}

static tdm_status submit(copy_flight *mine) {
  for (size_t at = 0; at < mine->strand_count; at++) {
    mine->strands[at].first_ns = mine->strands[at].last_ns = 0;
    mine->submissions[at] = (tdm_submission){.program = (uint32_t)at};
  }
  atomic_store(&mine->released, false);
  atomic_store(&mine->settled, false);
  tdm_flight_reset(&mine->flight, mine->id_count);
  return tdm_context_submit(mine->context, &mine->flight, mine->submissions, mine->strand_count,
                            false);
}

/* Leaves the core to copying threads, because no time is measured any more. */
static tdm_status settle(copy_flight *mine) {
  const struct timespec pause = {0, PAUSE_NS};
  while (!atomic_load_explicit(&mine->settled, memory_order_acquire))
    (void)nanosleep(&pause, NULL);
  if (mine->flight.failure.id == UINT32_MAX) return TDM_OK;
  return tdm_fail(mine->flight.failure.status, "%s", mine->flight.failure.message);
}

/* Lets what was submitted begin. */
static void let_go(copy_flight *mine) {
  const uint64_t now_ns = tdm_time_ns();
  for (size_t at = 0; at < mine->strand_count; at++)
    if (!mine->strands[at].stamps) mine->strands[at].first_ns = now_ns;
  atomic_store_explicit(&mine->released, true, memory_order_release);
}

tdm_status copy_flight_run(copy_flight *flight, double *out_ns) {
  TDM_TRY(submit(flight));
  let_go(flight);
  for (int spins = 0; !look(flight);)
    relax(&spins);
  TDM_TRY(settle(flight));
  for (size_t at = 0; at < flight->strand_count; at++) {
    const strand *one = &flight->strands[at];
    for (size_t i = 0; i < one->hop_count; i++) {
      const size_t index = one->hops[i];
      out_ns[index] =
          flight->group->hops[index].counted ? (double)(one->last_ns - one->first_ns) : 0;
    }
  }
  return TDM_OK;
}

tdm_status copy_flight_run_whole(copy_flight *flight, double *out_ns) {
  const uint64_t began_ns = tdm_time_ns();
  TDM_TRY(submit(flight));
  for (int spins = 0; !look(flight);)
    relax(&spins);
  *out_ns = (double)(tdm_time_ns() - began_ns);
  return settle(flight);
}
