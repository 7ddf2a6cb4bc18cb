/* Ids of a table in shards: the rows that each shard takes, and the places of the rows that all
 * shards took. Invariant: every id belongs to a shard, or fails. */
#include "core/status.h"
#include "devices/kernels/cpu/family.h"
#include "devices/kernels/tables/lookup.h"

typedef struct shard_ids_state {
  tdm_shard_ids_attributes attributes;
  int64_t count; /* ids */
  bool wide;
  bool splits;
} shard_ids_state;

typedef struct shard_places_state {
  tdm_shard_places_attributes attributes;
  int64_t count; /* ids */
  int64_t rows;  /* rows of the table */
  bool wide;
  bool splits;
} shard_places_state;

enum { GRAIN = 4096 };

static tdm_status shard_ids_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  shard_ids_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->attributes = *(const tdm_shard_ids_attributes *)request->attributes;
  state->count = count_of(&request->inputs[0]);
  state->wide = request->inputs[0].dtype == TDM_INT64;
  state->splits = answer->splits = tdm_cpu_splits(request, (double)state->count);
  return TDM_OK;
}

static tdm_status shard_ids_part(const tdm_kernel_call *call, int64_t begin, int64_t end) {
  const shard_ids_state *state = call->state;
  const tdm_shard_ids_attributes *shard = &state->attributes;
  const tdm_cpu_ids ids = {call->inputs[0], state->count, state->wide};
  int64_t *taken = call->outputs[0];  /* (count) */
  int64_t *summed = call->outputs[1]; /* (count) */
  for (int64_t i = begin; i < end; i++) {
    const int64_t id = tdm_cpu_id(&ids, i), row = id - shard->first;
    const bool own = (uint64_t)row < (uint64_t)shard->rows;
    taken[i] = own ? row : -1;
    summed[i] = own && id != shard->padding_index ? row : shard->rows;
  }
  return TDM_OK;
}

static tdm_status shard_ids_execute(const tdm_kernel_call *call) {
  const shard_ids_state *state = call->state;
  const tdm_cpu_ids ids = {call->inputs[0], state->count, state->wide};
  TDM_TRY(tdm_cpu_ids_check(&ids, state->attributes.table_rows));
  return tdm_cpu_run_parts(call, shard_ids_part, state->splits, state->count, GRAIN);
}

static tdm_status shard_places_prepare(const tdm_kernel_request *request,
                                       tdm_kernel_answer *answer) {
  shard_places_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->attributes = *(const tdm_shard_places_attributes *)request->attributes;
  state->count = count_of(&request->inputs[0]);
  state->rows = state->attributes.ends[state->attributes.count - 1];
  state->wide = request->inputs[0].dtype == TDM_INT64;
  state->splits = answer->splits = tdm_cpu_splits(request, 4.0 * (double)state->count);
  return TDM_OK;
}

static tdm_status shard_places_part(const tdm_kernel_call *call, int64_t begin, int64_t end) {
  const shard_places_state *state = call->state;
  const tdm_shard_places_attributes *shards = &state->attributes;
  const tdm_cpu_ids ids = {call->inputs[0], state->count, state->wide};
  int64_t *places = call->outputs[0]; /* (count) */
  for (int64_t i = begin; i < end; i++) {
    const int64_t id = tdm_cpu_id(&ids, i);
    int64_t shard = 0;
    for (int64_t s = 0; s + 1 < shards->count; s++)
      shard += id >= shards->ends[s];
    places[i] =
        id == shards->padding_index ? shards->count * state->count : shard * state->count + i;
  }
  return TDM_OK;
}

static tdm_status shard_places_execute(const tdm_kernel_call *call) {
  const shard_places_state *state = call->state;
  const tdm_cpu_ids ids = {call->inputs[0], state->count, state->wide};
  TDM_TRY(tdm_cpu_ids_check(&ids, state->rows));
  return tdm_cpu_run_parts(call, shard_places_part, state->splits, state->count, GRAIN);
}

KERNELS(shards, KERNEL_OF(TDM_INT64, TDM_OP_SHARD_IDS, shard_ids_prepare, shard_ids_execute, NULL),
        KERNEL_OF(TDM_INT64, TDM_OP_SHARD_PLACES, shard_places_prepare, shard_places_execute, NULL))
