/* Fused nodes: all members are computed tile by tile, each by the execute_part of its own kernel.
 * Results that only members read stay in tiles that the first caches hold. Invariant: a member
 * receives the same operands as in a node of its own, for a tile's elements. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "core/status.h"
#include "core/untold.h"
#include "devices/kernels/cpu/family.h"
#include "devices/kernels/elementwise/fused.h"

#define GRAIN 4096
#define TILE_BYTES 4096
#define CACHE_LINE 64

typedef struct fused_state {
  int64_t count;
  int64_t tile; /* elements */
  bool splits;
  /* For each member: the tile that holds its result, if the result stays inside, and the bytes of
   * an element. */
  uint8_t tile_of[TDM_FUSED_MEMBERS];
  uint8_t element_bytes[TDM_FUSED_MEMBERS];
} fused_state;

/* One execution; holds its first error. */
typedef struct fused_run {
  const tdm_kernel_call *call;
  _Atomic int failed;
  tdm_status status;
  char message[TDM_MESSAGE_BYTES];
} fused_run;

/* ---- Preparing ------------------------------------------------------------------------------- */

static int64_t last_reader(const tdm_fused_attributes *program, int64_t member) {
  int64_t last = member;
  for (int64_t m = member + 1; m < program->member_count; m++)
    for (int k = 0; k < program->members[m].input_count; k++)
      if (program->members[m].inputs[k] == TDM_FUSED_INPUTS + member) last = m;
  return last;
}

/* Chooses a tile for each result. A tile is free again after the last member that reads it. */
static void choose_tiles(const tdm_fused_attributes *program, fused_state *state) {
  int64_t busy_until[TDM_FUSED_MEMBERS] = {0};
  for (int64_t m = 0; m < program->member_count; m++) {
    if (program->members[m].output != 0) continue;
    uint8_t tile = 0;
    while (busy_until[tile] >= m && busy_until[tile] > 0)
      tile++;
    busy_until[tile] = last_reader(program, m);
    state->tile_of[m] = tile;
  }
}

/* Sets the bytes of an element of each member; returns the largest. */
static size_t find_widths(const tdm_fused_attributes *program, fused_state *state) {
  size_t widest = 1;
  for (int64_t m = 0; m < program->member_count; m++) {
    const tdm_fused_member *member = &program->members[m];
    const size_t bytes = tdm_dtype_bytes(member->specs[member->input_count].dtype);
    state->element_bytes[m] = (uint8_t)bytes;
    widest = bytes > widest ? bytes : widest;
  }
  return widest;
}

static tdm_status fused_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_fused_attributes *program = request->attributes;
  fused_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->outputs[0]);
  const size_t widest = find_widths(program, state);
  state->tile = (int64_t)(TILE_BYTES / widest);
  const double operands = (double)(request->input_count + request->output_count);
  const double bytes = (double)state->count * operands * (double)widest;
  state->splits = tdm_cpu_splits(request, bytes / 20.0);
  for (int64_t m = 0; m < program->member_count; m++)
    state->splits |= program->members[m].splits != 0;
  answer->splits = state->splits;
  choose_tiles(program, state);
  return TDM_OK;
}

/* ---- Executing ------------------------------------------------------------------------------- */

/* Calls of the members, whose operands inside are moved from tile to tile. */
typedef struct member_call {
  tdm_kernel_call call;
  const void *inputs[TDM_FUSED_INPUTS];
  void *outputs[1];
} member_call;

typedef struct fused_calls {
  _Alignas(CACHE_LINE) unsigned char tiles[TDM_FUSED_MEMBERS][TILE_BYTES];
  member_call members[TDM_FUSED_MEMBERS];
} fused_calls;

/* Returns the address that element 0 would have if element `first` were at the beginning of the
 * tile. */
static void *address_of_first(unsigned char *tile, int64_t first, size_t element_bytes) {
  return (void *)((uintptr_t)tile - (uintptr_t)first * element_bytes);
}

static void begin_calls(const tdm_kernel_call *call, fused_calls *calls) {
  const tdm_fused_attributes *program = call->attributes;
  for (int64_t m = 0; m < program->member_count; m++) {
    const tdm_fused_member *member = &program->members[m];
    member_call *own = &calls->members[m];
    own->call = (tdm_kernel_call){.attributes = member->attributes,
                                  .state = member->state,
                                  .input_specs = member->specs,
                                  .output_specs = member->specs + member->input_count,
                                  .inputs = own->inputs,
                                  .outputs = own->outputs,
                                  .scalars = call->scalars};
    for (int k = 0; k < member->input_count; k++)
      own->inputs[k] =
          member->inputs[k] < TDM_FUSED_INPUTS ? call->inputs[member->inputs[k]] : NULL;
    if (member->output != 0) own->outputs[0] = call->outputs[member->output - 1];
  }
}

/* Operands inside, for the tile that begins with element first. */
static void move_calls(const tdm_kernel_call *call, int64_t first, fused_calls *calls) {
  const tdm_fused_attributes *program = call->attributes;
  const fused_state *state = call->state;
  for (int64_t m = 0; m < program->member_count; m++) {
    const tdm_fused_member *member = &program->members[m];
    member_call *own = &calls->members[m];
    if (member->output == 0)
      own->outputs[0] =
          address_of_first(calls->tiles[state->tile_of[m]], first, state->element_bytes[m]);
    for (int k = 0; k < member->input_count; k++)
      if (member->inputs[k] >= TDM_FUSED_INPUTS && member->inputs[k] != TDM_FUSED_ABSENT)
        own->inputs[k] = calls->members[member->inputs[k] - TDM_FUSED_INPUTS].outputs[0];
  }
}

static void note_failure(fused_run *run, int64_t member, tdm_status status) {
  const tdm_fused_attributes *program = run->call->attributes;
  if (atomic_exchange(&run->failed, 1) != 0) return;
  run->status = tdm_fail_within(status, "member %d, %s", (int)member + 1,
                                program->members[member].kernel->operation);
  (void)snprintf(run->message, sizeof run->message, "%s", tdm_last_message());
}

static void fused_range(void *user, int64_t begin, int64_t end) {
  fused_run *run = user;
  const tdm_kernel_call *call = run->call;
  const tdm_fused_attributes *program = call->attributes;
  const fused_state *state = call->state;
  fused_calls calls;
  begin_calls(call, &calls);
  for (int64_t first = begin; first < end; first += state->tile) {
    const int64_t last = lesser_of(first + state->tile, end);
    move_calls(call, first, &calls);
    for (int64_t m = 0; m < program->member_count; m++) {
      const uint32_t told = tdm_told_count();
      const tdm_status status =
          program->members[m].kernel->execute_part(&calls.members[m].call, first, last);
      if (status == TDM_OK) continue;
      note_failure(run, m, tdm_fail_untold(status, told));
      return;
    }
  }
}

static tdm_status fused_execute(const tdm_kernel_call *call) {
  const fused_state *state = call->state;
  fused_run run;
  run.call = call;
  run.status = TDM_OK;
  atomic_init(&run.failed, 0);
  tdm_team_run(state->splits ? call->team : NULL, state->count, GRAIN, fused_range, &run);
  if (atomic_load(&run.failed) == 0) return TDM_OK;
  return tdm_fail(run.status, "%s", run.message);
}

/* Accepts members of any dtypes, independent of the first result's dtype. */
KERNELS(fused, KERNEL_OF_FLOATS(TDM_OP_FUSED, fused_prepare, fused_execute))
