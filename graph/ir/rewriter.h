/* Functions that change a graph: insert, clone, move and remove nodes, and change their inputs.
 * TDM_EACH_NODE (ir.h) iterates over nodes.
 * Invariant: the order stays linked and counted, and each value counts the inputs that read it. The
 * caller states where and for which node it inserts. The graph stores none of this, except the
 * insertion that is lent to a rule while it runs. */
#ifndef TANDEM_GRAPH_IR_REWRITER_H
#define TANDEM_GRAPH_IR_REWRITER_H

#include "graph/ir/ir.h"

#define TDM_HOST_DEVICE 0 /* cpu:0 is the context's first device */

/* Where a node is inserted, and with which properties. */
typedef struct tdm_insertion {
  tdm_ir_node *before; /* inserted directly before this node; NULL: last */
  const char *name;    /* path of the node that it belongs to; outlives the graph */
  int16_t device;      /* index of the device, or TDM_NO_DEVICE */
  uint16_t wanted;     /* this and the next fields: see tdm_ir_node */
  tdm_node_part part;
  uint8_t role;
  uint8_t update_group;
  uint32_t described;
  bool updates; /* the node may overwrite persistent values */
  bool evaluates;
} tdm_insertion;

/* Inserts a node with outputs by the operation's shape rule; attributes are copied. Returns its
 * first output, or 0 if the graph has an error, before or because of the call. */
uint32_t tdm_insert(tdm_graph *graph, const tdm_insertion *at, const tdm_operation *operation,
                    const void *attributes, const uint32_t *inputs, size_t input_count);
/* Inserts a copy of a node with other inputs, and with outputs by its operation's shape rule.
 * Links, inputs and outputs of `like` are ignored. out_node may be NULL. */
tdm_status tdm_insert_like(tdm_graph *graph, tdm_ir_node *before, const tdm_ir_node *like,
                           const uint32_t *inputs, tdm_ir_node **out_node) TDM_WARN_UNUSED;
/* Inserts a node with the given outputs and calls no rule. Returns NULL if memory is exhausted. */
tdm_ir_node *tdm_insert_as(tdm_graph *graph, tdm_ir_node *before, const tdm_ir_node *like,
                           const uint32_t *inputs, const tdm_spec *outputs);

/* Sets where tdm_append inserts while the rule of an operation or optimizer runs. Ends with
 * tdm_take_insertion_back. */
void tdm_lend_insertion(tdm_graph *graph, const tdm_insertion *at);
void tdm_take_insertion_back(tdm_graph *graph);

/* Moves a node directly before another one; NULL: to the end. */
void tdm_move_node(tdm_graph *graph, tdm_ir_node *node, tdm_ir_node *before);
/* Moves all nodes that overwrite persistent values to the end, in their order. */
void tdm_move_updates_behind(tdm_graph *graph);
/* Sorts the nodes before `end` (NULL: all) by their ranks (per node, below rank_count). The sort is
 * stable. */
tdm_status tdm_sort_nodes(tdm_graph *graph, const tdm_ir_node *end, const uint32_t *ranks,
                          size_t rank_count) TDM_WARN_UNUSED;
/* Removes a node and its inputs. Its outputs stay as values without a producer, because their
 * shapes may still be read. */
void tdm_remove_node(tdm_graph *graph, tdm_ir_node *node);
/* Sets input k of the node to `value` (0: none). */
void tdm_set_input(tdm_graph *graph, tdm_ir_node *node, uint32_t k, uint32_t value);
/* Swaps the outputs of two nodes of one output each. */
void tdm_exchange_outputs(tdm_graph *graph, tdm_ir_node *a, tdm_ir_node *b);
/* Replaces each value v below count by by[v], unless that is 0, in inputs, outputs and
 * deliveries. */
void tdm_replace_values(tdm_graph *graph, const uint32_t *by, size_t count);
/* Sets root, offset and bytes of a node's outputs from its views, overwrites and specs. */
void tdm_settle_outputs(tdm_graph *graph, const tdm_ir_node *node);

/* Returns the first node of that role in order, or NULL. */
static inline tdm_ir_node *tdm_first_of_role(const tdm_graph *graph, tdm_node_role role) {
  TDM_EACH_NODE(graph, node)
    if (node->role == role) return node;
  return NULL;
}
/* Returns the node that produces a value, or NULL. */
static inline tdm_ir_node *tdm_producer(const tdm_graph *graph, uint32_t value) {
  const uint32_t producer = tdm_ir_value_at(graph, value)->producer;
  return producer ? tdm_ir_node_at(graph, producer) : NULL;
}
/* Returns the name of a value in messages and copies: its producer's path, or its own name. */
const char *tdm_value_name(const tdm_graph *graph, uint32_t value);
/* Returns true if the parallel region is `outer` or inside it. */
bool tdm_is_in_region(const tdm_graph *graph, uint16_t region, uint16_t outer);

#endif
