/* Sums at home and in chains, and the building blocks of all algorithms.
 *
 *   at home    each term crosses to the sum's device, where it is added into one total.
 *   in a chain the first term goes to the second's device, which adds its own and sends the total
 *              on, piece by piece; the last device sends it home. Every link carries the value once
 *              for any number of terms. Summing at home, one link carries all of them.
 *
 * Both add the terms in their order, so they give the same bits. Invariant: a term is overwritten
 * only if no other node reads it. The sum keeps its value, which its readers read. */
#include <string.h>

#include "devices/kernels.h"
#include "graph/collectives/sums.h"
#include "graph/passes/device_sums.h"
#include "graph/passes/parts.h"

/* ---- Building blocks of all algorithms ------------------------------------------------------- */

tdm_insertion tdm_sum_insertion(const tdm_sum *sum, tdm_ir_node *before, int16_t device) {
  return (tdm_insertion){
      .before = before, .name = sum->node->name, .device = device, .role = TDM_ROLE_GRADIENT};
}

/* Returns true if only this sum reads the value, and its memory is not shared. */
static bool is_own(const tdm_graph *graph, uint32_t value) {
  const tdm_ir_value *is = tdm_ir_value_at(graph, value);
  const tdm_ir_node *producer = tdm_producer(graph, value);
  return is->root == value && is->readers == 1 && producer && producer->role == TDM_ROLE_GRADIENT;
}

/* Returns a copy of the term, from any device, in memory of the sum; 0 on failure. */
static uint32_t copy_term(tdm_graph *graph, const tdm_insertion *at, uint32_t term) {
  const uint32_t made = tdm_insert(graph, at, &tdm_operation_begin_sum, NULL, &term, 1);
  if (made) tdm_producer(graph, made)->sum_role = TDM_SUM_BEGIN;
  return made;
}

uint32_t tdm_own_term(tdm_graph *graph, const tdm_insertion *at, uint32_t term) {
  return is_own(graph, term) ? term : copy_term(graph, at, term);
}

uint32_t tdm_begin_total(tdm_graph *graph, const tdm_insertion *at, uint32_t term) {
  const bool is_here = tdm_place_of(graph, term) == at->device;
  return is_here ? tdm_own_term(graph, at, term) : copy_term(graph, at, term);
}

uint32_t tdm_sum_add(tdm_graph *graph, const tdm_insertion *at, const tdm_sum *sum, bool fresh,
                     uint32_t total, uint32_t term, size_t bucket) {
  const uint32_t operands[] = {total, term};
  const tdm_operation *operation = fresh ? &tdm_operation_accumulate : &tdm_operation_add_incoming;
  const uint32_t made = tdm_insert(graph, at, operation, NULL, operands, 2);
  if (!made) return 0;
  tdm_ir_node *node = tdm_producer(graph, made);
  node->sum_role = TDM_SUM_ADD;
  node->sum.collective = (uint8_t)sum->algorithm;
  node->sum.bucket = (uint8_t)(bucket % TDM_BUCKETS);
  return made;
}

tdm_status tdm_take_over(tdm_graph *graph, const tdm_sum *sum, uint32_t made) {
  if (!made) return tdm_graph_status(graph);
  tdm_ir_node *maker = tdm_producer(graph, made);
  tdm_exchange_outputs(graph, maker, sum->node);
  tdm_settle_outputs(graph, maker);
  tdm_remove_node(graph, sum->node);
  return TDM_OK;
}

tdm_status tdm_cut_term(tdm_graph *graph, const tdm_insertion *at, uint32_t value, size_t count,
                        uint32_t *out_pieces) {
  const tdm_ir_value *whole = tdm_ir_value_at(graph, value);
  tdm_parts_attributes attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.count = (int64_t)count;
  const int64_t elements = tdm_shape_count(&whole->spec->shape);
  for (int64_t p = 0; p < attributes.count; p++)
    attributes.sizes[p] = elements * (p + 1) / attributes.count - elements * p / attributes.count;
  const uint32_t first = tdm_insert(graph, at, &tdm_operation_pieces, &attributes, &value, 1);
  for (size_t p = 0; p < count && first; p++)
    out_pieces[p] = first + (uint32_t)p;
  return first ? TDM_OK : tdm_graph_status(graph);
}

uint32_t tdm_view_there(tdm_graph *graph, const tdm_insertion *at, const tdm_shape *shape,
                        uint32_t x) {
  return x ? tdm_insert(graph, at, &tdm_operation_whole, shape, &x, 1) : 0;
}

uint32_t tdm_put_together(tdm_graph *graph, const tdm_insertion *at, const tdm_sum *sum,
                          const uint32_t *pieces, size_t count) {
  tdm_parts_attributes attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.count = (int64_t)count;
  return tdm_view_there(graph, at, tdm_sum_shape(graph, sum),
                        tdm_insert(graph, at, &tdm_operation_concat, &attributes, pieces, count));
}

/* ---- At home --------------------------------------------------------------------------------- */

tdm_status tdm_sum_at_home(tdm_graph *graph, tdm_sum *sum) {
  const tdm_ir_node *node = sum->node;
  const tdm_device_sum_attributes *attributes = node->attributes;
  const tdm_insertion at = tdm_sum_insertion(sum, sum->node, node->device);
  uint32_t total = node->inputs[0];
  if (tdm_place_of(graph, total) != node->device || (!attributes->owned && !is_own(graph, total)))
    total = copy_term(graph, &at, total);
  for (uint32_t i = 1; i < node->input_count && total; i++)
    total = tdm_sum_add(graph, &at, sum, false, total, node->inputs[i], 0);
  return tdm_take_over(graph, sum, total);
}

/* ---- In a chain ------------------------------------------------------------------------------ */

/* Makes the sum of its pieces: in the last term's memory, or joined at home. */
static tdm_status end_chain(tdm_graph *graph, tdm_sum *sum, uint32_t last) {
  const tdm_insertion at = tdm_sum_insertion(sum, sum->node, sum->node->device);
  if (tdm_place_of(graph, last) != sum->node->device)
    return tdm_take_over(graph, sum,
                         tdm_put_together(graph, &at, sum, sum->current, sum->piece_count));
  uint32_t inputs[TDM_BUCKETS + 1] = {last};
  memcpy(inputs + 1, sum->current, sum->piece_count * sizeof *inputs);
  return tdm_take_over(graph, sum,
                       tdm_insert(graph, &at, &tdm_operation_whole, tdm_sum_shape(graph, sum),
                                  inputs, 1 + sum->piece_count));
}

/* Inserts hop j: the device of term j adds its own term to the incoming total; at j = 0 the total
 * begins. */
static tdm_status insert_hop(tdm_graph *graph, tdm_sum *sum, uint32_t j, uint32_t *out_last) {
  uint32_t term = sum->node->inputs[j];
  const tdm_insertion at = tdm_sum_insertion(sum, sum->node, tdm_place_of(graph, term));
  if (j == 0) return tdm_cut_term(graph, &at, term, sum->piece_count, sum->current);
  *out_last = term = tdm_own_term(graph, &at, term);
  if (!term) return tdm_graph_status(graph);
  uint32_t pieces[TDM_BUCKETS];
  TDM_TRY(tdm_cut_term(graph, &at, term, sum->piece_count, pieces));
  for (size_t p = 0; p < sum->piece_count; p++) {
    sum->current[p] = tdm_sum_add(graph, &at, sum, false, pieces[p], sum->current[p], p);
    if (!sum->current[p]) return tdm_graph_status(graph);
  }
  return TDM_OK;
}

tdm_status tdm_sum_in_chain(const tdm_sums *sums, tdm_sum *sum) {
  sum->piece_count = tdm_chain_pieces(sums->graph, sum);
  sum->current = tdm_region_take(sums->region, TDM_BUCKETS * sizeof(uint32_t), "collectives");
  if (!sum->current) return TDM_OUT_OF_MEMORY;
  uint32_t last = 0;
  const uint32_t hops = sum->node->input_count;
  for (uint32_t hop = 0; hop < hops; hop++)
    TDM_TRY(insert_hop(sums->graph, sum, hop, &last));
  return end_chain(sums->graph, sum, last);
}
