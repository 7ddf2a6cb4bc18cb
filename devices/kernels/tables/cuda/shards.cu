/* Ids of a table in shards: the rows that each shard takes, and the places of the rows that all
 * shards took. Invariant: an id outside the table is reported, and no shard takes it. */
#include "devices/kernels/cuda/report.h"
#include "devices/kernels/tables/lookup.h"

struct shard_ids_state {
  tdm_shard_ids_attributes attributes;
  int64_t count; /* ids */
  bool wide;
};

struct shard_places_state {
  tdm_shard_places_attributes attributes;
  int64_t count; /* ids */
  int64_t rows;  /* rows of the table */
  bool wide;
};

/* ids, taken, summed: (count). */
static __global__ void shard_ids(const void *ids, bool wide, tdm_shard_ids_attributes shard,
                                 int64_t *taken, int64_t *summed, int64_t count) {
  EACH_ELEMENT(i, count) {
    const int64_t id = id_at(ids, wide, i);
    const int64_t row = is_inside(id, shard.table_rows) ? id - shard.first : -1;
    const bool own = is_inside(row, shard.rows);
    taken[i] = own ? row : -1;
    summed[i] = own && id != shard.padding_index ? row : shard.rows;
  }
}

static tdm_status shard_ids_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  shard_ids_state *state = state_create<shard_ids_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->attributes = *attributes_of<tdm_shard_ids_attributes>(request);
  state->count = count_of(&request->inputs[0]);
  state->wide = request->inputs[0].dtype == TDM_INT64;
  answer->workspace_bytes = report_workspace_bytes(state->count);
  return TDM_OK;
}

static tdm_status shard_ids_run(const tdm_kernel_call *call) {
  const shard_ids_state *state = state_of<shard_ids_state>(call);
  const id_list ids = {call->inputs[0], state->count, state->wide};
  TDM_TRY(tdm_cuda_ids_check(call, &ids, state->attributes.table_rows,
                             static_cast<int64_t *>(call->workspace)));
  return kernel_launch(call, "shard_ids", shard_ids, blocks_for(state->count), BLOCK, ids.data,
                       state->wide, state->attributes, output_of<int64_t>(call, 0),
                       output_of<int64_t>(call, 1), state->count);
}

/* ids, places: (count). */
static __global__ void shard_places(const void *ids, bool wide, tdm_shard_places_attributes shards,
                                    int64_t *places, int64_t count) {
  EACH_ELEMENT(i, count) {
    const int64_t id = id_at(ids, wide, i);
    int64_t shard = 0;
    for (int64_t s = 0; s + 1 < shards.count; s++)
      shard += id >= shards.ends[s];
    places[i] = id == shards.padding_index ? shards.count * count : shard * count + i;
  }
}

static tdm_status shard_places_prepare(const tdm_kernel_request *request,
                                       tdm_kernel_answer *answer) {
  shard_places_state *state = state_create<shard_places_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->attributes = *attributes_of<tdm_shard_places_attributes>(request);
  state->count = count_of(&request->inputs[0]);
  state->rows = state->attributes.ends[state->attributes.count - 1];
  state->wide = request->inputs[0].dtype == TDM_INT64;
  answer->workspace_bytes = report_workspace_bytes(state->count);
  return TDM_OK;
}

static tdm_status shard_places_run(const tdm_kernel_call *call) {
  const shard_places_state *state = state_of<shard_places_state>(call);
  const id_list ids = {call->inputs[0], state->count, state->wide};
  TDM_TRY(tdm_cuda_ids_check(call, &ids, state->rows, static_cast<int64_t *>(call->workspace)));
  return kernel_launch(call, "shard_places", shard_places, blocks_for(state->count), BLOCK,
                       ids.data, state->wide, state->attributes, output_of<int64_t>(call, 0),
                       state->count);
}

TYPED_KERNELS(shards, KERNEL_OF(TDM_INT64, TDM_OP_SHARD_IDS, shard_ids_prepare, shard_ids_run, 0),
              KERNEL_OF(TDM_INT64, TDM_OP_SHARD_PLACES, shard_places_prepare, shard_places_run, 0))
