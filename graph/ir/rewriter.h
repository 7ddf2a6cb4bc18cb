/* The verbs with which a graph is changed: insert, clone, move and remove nodes, change what they
 * read. Walking is TDM_EACH_NODE (ir.h).
 * Invariant: the order stays linked and counted, and every value knows how many inputs are it.
 * Where a node is made, and on whose behalf, is said by who makes it: nothing of that is kept in
 * the graph, but for what a rule is lent while it is asked. */
#ifndef TANDEM_GRAPH_IR_REWRITER_H
#define TANDEM_GRAPH_IR_REWRITER_H

#include "graph/ir/ir.h"

#define TDM_HOST_DEVICE 0 /* cpu:0 is the context's first device */

/* Where a node is made, and as what. */
typedef struct tdm_insertion {
  tdm_ir_node *before; /* it stands right before this one; NULL: behind all */
  const char *name;    /* the path of what it is made for, which outlives the graph */
  const char *wanted_device;
  int16_t device; /* or TDM_NO_DEVICE */
  uint16_t parallel_region;
  uint16_t replica; /* as in tdm_ir_node */
  uint16_t micro;
  uint8_t role; /* tdm_node_role */
  uint8_t update_group;
  uint32_t described; /* as in tdm_ir_node */
  bool updates;       /* what is inserted may overwrite persistent values */
  bool evaluates;     /* as in tdm_ir_node */
} tdm_insertion;

/* Inserts a node with outputs by the operation's shape rule; attributes are copied. Answers its
 * first output; 0, with the graph's error, on failure or where the graph has one. */
uint32_t tdm_insert(tdm_graph *graph, const tdm_insertion *at, const tdm_operation *operation,
                    const void *attributes, const uint32_t *inputs, size_t input_count);
/* Inserts a node like another (its links, inputs and outputs are not looked at), with outputs by
 * its operation's shape rule. out_node may be NULL. */
tdm_status tdm_insert_like(tdm_graph *graph, tdm_ir_node *before, const tdm_ir_node *like,
                           const uint32_t *inputs, tdm_ir_node **out_node) TDM_WARN_UNUSED;
/* The same with these outputs, which no rule is asked for. NULL when memory is short. */
tdm_ir_node *tdm_insert_as(tdm_graph *graph, tdm_ir_node *before, const tdm_ir_node *like,
                           const uint32_t *inputs, const tdm_spec *outputs);

/* Lends an insertion to the rule of an operation or optimizer that is asked now: tdm_append inserts
 * there until it is taken back. */
void tdm_lend_insertion(tdm_graph *graph, const tdm_insertion *at);
void tdm_take_insertion_back(tdm_graph *graph);

/* Moves a node right before another one; NULL: behind all. */
void tdm_move_node(tdm_graph *graph, tdm_ir_node *node, tdm_ir_node *before);
/* Moves what rewrites values that outlast the run behind all others, in its order. */
void tdm_move_updates_behind(tdm_graph *graph);
/* Sorts the nodes before `end` (NULL: all) by their ranks (per node, below rank_count); those of
 * one rank keep their order. */
tdm_status tdm_sort_nodes(tdm_graph *graph, const tdm_ir_node *end, const uint32_t *ranks,
                          size_t rank_count) TDM_WARN_UNUSED;
/* Takes a node out of the graph: it reads nothing any more. Its outputs stay values that nothing
 * makes, for those who still look at their shapes. */
void tdm_remove_node(tdm_graph *graph, tdm_ir_node *node);
/* Makes `value` (0: none) the node's input k. */
void tdm_set_input(tdm_graph *graph, tdm_ir_node *node, uint32_t k, uint32_t value);
/* Exchanges the outputs of two nodes of one output each. */
void tdm_exchange_outputs(tdm_graph *graph, tdm_ir_node *a, tdm_ir_node *b);
/* Replaces every value v below count by by[v], unless that is 0: where it is read, shown or
 * delivered. */
void tdm_replace_values(tdm_graph *graph, const uint32_t *by, size_t count);
/* Sets root, offset and bytes of a node's outputs from views, overwrites and specs. */
void tdm_settle_outputs(tdm_graph *graph, const tdm_ir_node *node);

/* The first node of that role, in order; NULL: there is none. */
static inline tdm_ir_node *tdm_first_of_role(const tdm_graph *graph, tdm_node_role role) {
  TDM_EACH_NODE(graph, node) {
    if (node->role == role) return node;
  }
  return NULL;
}
/* The node that makes a value; NULL: none does. */
static inline tdm_ir_node *tdm_producer(const tdm_graph *graph, uint32_t value) {
  const uint32_t producer = tdm_ir_value_at(graph, value)->producer;
  return producer ? tdm_ir_node_at(graph, producer) : NULL;
}
/* What messages and copies call a value: its producer's path, or its own name. */
const char *tdm_value_name(const tdm_graph *graph, uint32_t value);
/* Is the parallel region another one, or inside it? */
bool tdm_is_in_region(const tdm_graph *graph, uint16_t region, uint16_t outer);

#endif
