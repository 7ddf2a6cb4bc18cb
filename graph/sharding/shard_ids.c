/* Operations on ids of sharded tables. Invariant: they compute integers and have no gradient. */
#include "graph/ir/records.h"
#include "graph/sharding/sharding.h"

static tdm_status infer_shard_ids(tdm_infer *infer) {
  const int64_t count = tdm_shape_count(&infer->inputs[0].shape);
  const tdm_dim n = count < 0 ? TDM_DIM_UNKNOWN : count;
  for (size_t i = 0; i < infer->output_count; i++)
    infer->outputs[i] = (tdm_spec){TDM_INT64, TDM_FORMAT_DENSE, tdm_shape_of(1, n)};
  return TDM_OK;
}

static tdm_status infer_shard_places(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  infer->outputs[0].dtype = TDM_INT64;
  return TDM_OK;
}

const tdm_operation tdm_operation_shard_ids = {.struct_size = sizeof(tdm_operation),
                                               .name = TDM_OP_SHARD_IDS,
                                               .attribute_bytes = sizeof(tdm_shard_ids_attributes),
                                               .min_inputs = 1,
                                               .max_inputs = 1,
                                               .output_count = 2,
                                               .infer = infer_shard_ids,
                                               .work = tdm_work_streams,
                                               .precision = TDM_PRECISION_GIVEN};
const tdm_operation tdm_operation_shard_places = {.struct_size = sizeof(tdm_operation),
                                                  .name = TDM_OP_SHARD_PLACES,
                                                  .attribute_bytes =
                                                      sizeof(tdm_shard_places_attributes),
                                                  .min_inputs = 1,
                                                  .max_inputs = 1,
                                                  .output_count = 1,
                                                  .infer = infer_shard_places,
                                                  .work = tdm_work_streams,
                                                  .precision = TDM_PRECISION_GIVEN};

#define OF_SHARDS "a pass appends it where a table lies in shards"

TDM_RECORDS(shard, {.operation = &tdm_operation_shard_ids, .no_golden = OF_SHARDS},
            {.operation = &tdm_operation_shard_places, .no_golden = OF_SHARDS});
