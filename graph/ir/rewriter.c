/* Functions that change nodes and their order. Invariant: those of rewriter.h hold after each
 * call. */
#include "graph/ir/rewriter.h"

#include <string.h>

/* ---- The order ------------------------------------------------------------------------------- */

static void link_node(tdm_graph *graph, tdm_ir_node *node, tdm_ir_node *before) {
  tdm_node_order *order = &graph->order;
  node->next = before;
  node->previous = before ? before->previous : order->last;
  *(node->previous ? &node->previous->next : &order->first) = node;
  *(before ? &before->previous : &order->last) = node;
  order->count++;
}

static void unlink_node(tdm_graph *graph, tdm_ir_node *node) {
  tdm_node_order *order = &graph->order;
  *(node->previous ? &node->previous->next : &order->first) = node->next;
  *(node->next ? &node->next->previous : &order->last) = node->previous;
  order->count--;
}

void tdm_move_node(tdm_graph *graph, tdm_ir_node *node, tdm_ir_node *before) {
  if (node == before) return;
  unlink_node(graph, node);
  link_node(graph, node, before);
}

typedef struct chain {
  tdm_ir_node *first;
  tdm_ir_node *last;
} chain;

/* Inserts a chain after `before` (NULL: first). */
static void join_chain(tdm_graph *graph, tdm_ir_node *before, const chain *links) {
  links->first->previous = before;
  *(before ? &before->next : &graph->order.first) = links->first;
}

tdm_status tdm_sort_nodes(tdm_graph *graph, const tdm_ir_node *end, const uint32_t *ranks,
                          size_t rank_count) {
  const size_t bytes = (rank_count + 1) * sizeof(chain);
  chain *chains = tdm_allocate(graph->allocator, bytes, "order");
  if (!chains) return TDM_OUT_OF_MEMORY;
  TDM_EACH_NODE(graph, node) {
    if (node == end) break;
    chain *links = &chains[ranks[node->index]];
    node->previous = links->last;
    *(links->last ? &links->last->next : &links->first) = node;
    links->last = node;
  }
  tdm_ir_node *behind = (tdm_ir_node *)end;
  tdm_ir_node *last = NULL;
  for (size_t r = 0; r < rank_count; r++) {
    if (!chains[r].first) continue;
    join_chain(graph, last, &chains[r]);
    last = chains[r].last;
  }
  if (last) last->next = behind;
  *(behind ? &behind->previous : &graph->order.last) = last;
  tdm_release(graph->allocator, chains, bytes);
  return TDM_OK;
}

void tdm_move_updates_behind(tdm_graph *graph) {
  const tdm_ir_node *last = graph->order.last;
  TDM_EACH_NODE(graph, node) {
    const bool is_last = node == last;
    if (node->role == TDM_ROLE_UPDATE) tdm_move_node(graph, node, NULL);
    if (is_last) break; /* the following nodes were moved */
  }
}

/* ---- What nodes read ------------------------------------------------------------------------- */

void tdm_set_input(tdm_graph *graph, tdm_ir_node *node, uint32_t k, uint32_t value) {
  uint32_t *input = (uint32_t *)&node->inputs[k];
  tdm_ir_value_at(graph, *input)->readers--;
  tdm_ir_value_at(graph, value)->readers++;
  *input = value;
}

void tdm_remove_node(tdm_graph *graph, tdm_ir_node *node) {
  for (uint32_t k = 0; k < node->input_count; k++)
    tdm_set_input(graph, node, k, 0);
  unlink_node(graph, node);
}

void tdm_exchange_outputs(tdm_graph *graph, tdm_ir_node *a, tdm_ir_node *b) {
  const uint32_t output = a->first_output;
  a->first_output = b->first_output;
  b->first_output = output;
  tdm_ir_value_at(graph, a->first_output)->producer = a->index;
  tdm_ir_value_at(graph, b->first_output)->producer = b->index;
}

void tdm_replace_values(tdm_graph *graph, const uint32_t *by, size_t count) {
  TDM_EACH_NODE(graph, node) {
    for (uint32_t k = 0; k < node->input_count; k++)
      if (node->inputs[k] < count && by[node->inputs[k]])
        tdm_set_input(graph, node, k, by[node->inputs[k]]);
  }
  for (size_t v = 1; v < graph->values.count; v++) {
    tdm_ir_value *value = tdm_ir_value_at(graph, v);
    if (value->root < count && by[value->root]) value->root = by[value->root];
  }
  for (size_t i = 0; i < graph->planned->deliveries.count; i++) {
    uint32_t *value = &graph->planned->deliveries.items[i].value;
    if (*value < count && by[*value]) *value = by[*value];
  }
}

/* ---- Outputs --------------------------------------------------------------------------------- */

static void settle_view(tdm_graph *graph, const tdm_ir_node *node) {
  const tdm_ir_value *source = tdm_ir_value_at(graph, node->inputs[0]);
  uint64_t offset = source->offset;
  for (uint16_t i = 0; i < node->output_count; i++) {
    tdm_ir_value *value = tdm_ir_value_at(graph, node->first_output + i);
    value->root = source->root;
    value->offset = offset;
    offset += value->bytes;
  }
}

void tdm_settle_outputs(tdm_graph *graph, const tdm_ir_node *node) {
  const tdm_operation *operation = node->operation;
  if (!operation) return;
  if (operation->is_view) {
    settle_view(graph, node);
    return;
  }
  for (uint16_t i = 0; i < node->output_count; i++) {
    if (!operation->overwrites[i]) continue;
    const tdm_ir_value *same = tdm_ir_value_at(graph, node->inputs[operation->overwrites[i] - 1]);
    tdm_ir_value *value = tdm_ir_value_at(graph, node->first_output + i);
    value->root = same->root;
    value->offset = same->offset;
    value->bytes = same->bytes;
  }
}

/* ---- Inserting ------------------------------------------------------------------------------- */

static uint32_t *copy_inputs(tdm_graph *graph, const uint32_t *inputs, size_t count) {
  uint32_t *copy = tdm_region_take(&graph->region, count * sizeof *copy, "graph");
  for (size_t k = 0; copy && k < count; k++) {
    copy[k] = inputs[k];
    tdm_ir_value_at(graph, inputs[k])->readers++;
  }
  return copy;
}

tdm_ir_node *tdm_insert_as(tdm_graph *graph, tdm_ir_node *before, const tdm_ir_node *like,
                           const uint32_t *inputs, const tdm_spec *outputs) {
  if (tdm_ir_reserve_nodes(graph, 1) != TDM_OK ||
      tdm_ir_reserve_values(graph, like->output_count) != TDM_OK)
    return NULL;
  const tdm_spec *specs[TDM_KERNEL_MAX_OUTPUTS];
  for (uint16_t i = 0; i < like->output_count; i++)
    if (!(specs[i] = tdm_ir_share_spec(graph, &outputs[i]))) return NULL;
  const uint32_t *copy = copy_inputs(graph, inputs, like->input_count);
  if (!copy) return NULL;
  const uint32_t index = (uint32_t)graph->nodes.count++;
  tdm_ir_node *node = tdm_ir_node_at(graph, index);
  *node = *like;
  node->index = index;
  node->inputs = copy;
  node->first_output = (uint32_t)graph->values.count;
  for (uint16_t i = 0; i < node->output_count; i++) {
    const tdm_ir_value value = {
        .spec = specs[i], .producer = index, .device = node->device, .kind = TDM_VALUE_NODE};
    tdm_ir_add_value(graph, &value); /* capacity was reserved above */
  }
  link_node(graph, node, before);
  tdm_settle_outputs(graph, node);
  return node;
}

tdm_status tdm_insert_like(tdm_graph *graph, tdm_ir_node *before, const tdm_ir_node *like,
                           const uint32_t *inputs, tdm_ir_node **out_node) {
  tdm_spec specs[TDM_KERNEL_MAX_OUTPUTS];
  TDM_TRY(tdm_ir_infer(graph, like->operation, like->name, like->attributes, inputs,
                       like->input_count, specs));
  tdm_ir_node *node = tdm_insert_as(graph, before, like, inputs, specs);
  if (out_node) *out_node = node;
  return node ? TDM_OK : TDM_OUT_OF_MEMORY;
}

uint32_t tdm_insert(tdm_graph *graph, const tdm_insertion *at, const tdm_operation *operation,
                    const void *attributes, const uint32_t *inputs, size_t input_count) {
  if (graph->status != TDM_OK) return 0;
  const tdm_ir_node like = {.operation = operation,
                            .attributes =
                                tdm_ir_copy_bytes(graph, attributes, operation->attribute_bytes),
                            .name = at->name,
                            .wanted = at->wanted,
                            .input_count = (uint8_t)input_count,
                            .output_count = (uint8_t)tdm_ir_output_count(operation, attributes),
                            .device = at->device,
                            .role = at->role,
                            .part = at->part,
                            .update_group = at->update_group,
                            .evaluates = at->evaluates,
                            .described = at->described};
  tdm_ir_node *node = NULL;
  tdm_status status = TDM_OUT_OF_MEMORY;
  if (like.attributes || operation->attribute_bytes == 0)
    status = tdm_insert_like(graph, at->before, &like, inputs, &node);
  if (status != TDM_OK) tdm_graph_fail_message(graph, status);
  return status == TDM_OK ? node->first_output : 0;
}

void tdm_lend_insertion(tdm_graph *graph, const tdm_insertion *at) {
  graph->lent = at;
}

void tdm_take_insertion_back(tdm_graph *graph) {
  graph->lent = NULL;
}

/* ---- Asking ---------------------------------------------------------------------------------- */

const char *tdm_value_name(const tdm_graph *graph, uint32_t value) {
  const tdm_ir_node *producer = tdm_producer(graph, value);
  return producer ? producer->name : tdm_ir_value_at(graph, value)->name;
}

bool tdm_is_in_region(const tdm_graph *graph, uint16_t region, uint16_t outer) {
  while (region && region != outer)
    region = graph->parallel_regions.items[region].parent;
  return region == outer;
}
