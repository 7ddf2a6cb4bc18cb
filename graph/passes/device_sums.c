/* The operations of device_sums.h. Invariant: the sum has no kernel of its own; the others are
 * views. */
#include "graph/passes/device_sums.h"

#include <string.h>

#include "devices/kernels.h"
#include "graph/ir/ir.h"
#include "graph/ir/records.h"

static tdm_status infer_sum(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  return TDM_OK;
}

static tdm_status infer_all_reduce(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  return TDM_OK;
}

size_t tdm_all_reduce_group(const tdm_graph *graph, const tdm_ir_node *node, int16_t *out_devices) {
  const tdm_all_reduce_attributes *asked = node->attributes;
  const tdm_device *on = tdm_context_device(graph->context, (size_t)node->device);
  size_t count = 0;
  if (on->queues[TDM_QUEUE_SEND]) return 0;
  TDM_EACH_NODE(graph, other) {
    if (!tdm_ir_is_all_reduce(other)) continue;
    const tdm_all_reduce_attributes *attributes = other->attributes;
    if (attributes->number != asked->number) continue;
    size_t at = count++;
    for (; at > 0 && out_devices[at - 1] > other->device; at--)
      out_devices[at] = out_devices[at - 1];
    out_devices[at] = other->device;
  }
  return count;
}

/* Inserts into a list in ascending order, unless the list contains it. */
static size_t insert_device(int16_t *devices, size_t count, int16_t device) {
  size_t at = count;
  while (at > 0 && devices[at - 1] >= device)
    at--;
  if (at < count && devices[at] == device) return count;
  memmove(devices + at + 1, devices + at, (count - at) * sizeof *devices);
  devices[at] = device;
  return count + 1;
}

size_t tdm_exchange_group(const tdm_graph *graph, int16_t *out_devices) {
  size_t count = 0;
  if (tdm_context_rank_count(graph->context) == 1) return 0;
  TDM_EACH_NODE(graph, node) {
    if (!tdm_ir_is_exchange(graph, node)) continue;
    count = insert_device(out_devices, count, tdm_ir_value_at(graph, node->inputs[0])->device);
    count = insert_device(out_devices, count, node->device);
  }
  return count;
}

static tdm_status infer_share(tdm_infer *infer) {
  const tdm_share_attributes *attributes = infer->attributes;
  infer->outputs[0] = infer->inputs[0];
  if (!attributes->gathers) return TDM_OK;
  tdm_dim *rows = &infer->outputs[0].shape.dims[0];
  if (!tdm_dim_is_size(*rows))
    *rows = TDM_DIM_UNKNOWN;
  else if (__builtin_mul_overflow(*rows, attributes->ranks, rows))
    return tdm_fail(TDM_INVALID_ARGUMENT, "the rows of %lld ranks are too many to count",
                    (long long)attributes->ranks);
  return TDM_OK;
}

static size_t count_pieces(const void *attributes) {
  return (size_t)((const tdm_parts_attributes *)attributes)->count;
}

static tdm_status infer_pieces(tdm_infer *infer) {
  const tdm_parts_attributes *attributes = infer->attributes;
  for (size_t i = 0; i < infer->output_count; i++) {
    infer->outputs[i].dtype = infer->inputs[0].dtype;
    infer->outputs[i].shape = tdm_shape_of(1, attributes->sizes[i]);
  }
  return TDM_OK;
}

static tdm_status infer_whole(tdm_infer *infer) {
  infer->outputs[0].dtype = infer->inputs[0].dtype;
  infer->outputs[0].shape = *(const tdm_shape *)infer->attributes;
  return TDM_OK;
}

/* The name is that of the additions that replace it, so creating a session fails if there is no
 * kernel for these. */
const tdm_operation tdm_operation_device_sum = {.struct_size = sizeof(tdm_operation),
                                                .name = TDM_OP_ACCUMULATE,
                                                .attribute_bytes =
                                                    sizeof(tdm_device_sum_attributes),
                                                .min_inputs = 2,
                                                .max_inputs = TDM_KERNEL_MAX_INPUTS,
                                                .takes_list = true,
                                                .output_count = 1,
                                                .infer = infer_sum,
                                                .work = tdm_work_streams,
                                                .precision = TDM_PRECISION_WIDEST};
const tdm_operation tdm_operation_all_reduce = {.struct_size = sizeof(tdm_operation),
                                                .name = "all_reduce",
                                                .attribute_bytes =
                                                    sizeof(tdm_all_reduce_attributes),
                                                .min_inputs = 1,
                                                .max_inputs = 1,
                                                .output_count = 1,
                                                .overwrites = {1},
                                                .has_effects = true,
                                                .infer = infer_all_reduce,
                                                .work = tdm_work_streams,
                                                .precision = TDM_PRECISION_GIVEN};
const tdm_operation tdm_operation_share = {.struct_size = sizeof(tdm_operation),
                                           .name = "share",
                                           .attribute_bytes = sizeof(tdm_share_attributes),
                                           .min_inputs = 1,
                                           .max_inputs = 1,
                                           .output_count = 1,
                                           .has_effects = true,
                                           .infer = infer_share,
                                           .work = tdm_work_streams,
                                           .precision = TDM_PRECISION_GIVEN};
const tdm_operation tdm_operation_pieces = {.struct_size = sizeof(tdm_operation),
                                            .name = "pieces",
                                            .attribute_bytes = sizeof(tdm_parts_attributes),
                                            .min_inputs = 1,
                                            .max_inputs = 1,
                                            .is_view = true,
                                            .infer = infer_pieces,
                                            .count_outputs = count_pieces,
                                            .work = tdm_work_streams,
                                            .precision = TDM_PRECISION_GIVEN};
const tdm_operation tdm_operation_whole = {.struct_size = sizeof(tdm_operation),
                                           .name = "whole",
                                           .attribute_bytes = sizeof(tdm_shape),
                                           .min_inputs = 1,
                                           .max_inputs = TDM_BUCKETS + 1,
                                           .takes_list = true,
                                           .output_count = 1,
                                           .is_view = true,
                                           .infer = infer_whole,
                                           .work = tdm_work_streams,
                                           .precision = TDM_PRECISION_GIVEN};
