/* Printing plans. Each printer takes what exists: before the pass "schedule" a plan has nodes and
 * no steps. */
#ifndef TANDEM_GRAPH_REPORT_EXPLAIN_H
#define TANDEM_GRAPH_REPORT_EXPLAIN_H

#include "graph/plan/plan.h"

#define TDM_EXPLAIN_TEXT 1024 /* of as many members as a fused node has */

/* "cpu:0" and "upload"; how a node's work is called: an operation's name or "transfer", ... */
const char *tdm_explain_device(const tdm_plan *plan, int16_t device);
const char *tdm_explain_role(tdm_queue_role role);
/* Shall large parameters of one of its parallel regions lie in pieces? */
bool tdm_explain_has_pieces(const tdm_plan *plan);
const char *tdm_explain_action(const tdm_ir_node *node);
/* Of a fused node the operations of its members, "gelu, mul"; else "". */
const char *tdm_explain_members(const tdm_ir_node *node, char *text);
/* "direct", "peer", "staged", "between ranks", "by devices of two ranks" or "same device". */
const char *tdm_explain_route(const tdm_plan *plan, const tdm_ir_node *node);
/* Through which memory a transfer goes: "pinned", "staged", "pageable", "host memory" between
 * devices of the host, "memory of devices" where neither end is the host's. */
const char *tdm_explain_memory(const tdm_plan *plan, const tdm_ir_node *node);
/* "embedding -> rnn", "gradient of rnn -> embedding": what made the value and who asked first.
 * Names may be as long as they like, so these are the pieces, which go behind one another. */
enum { TDM_CAUSE_PIECES = 4 };
void tdm_explain_cause(const tdm_plan *plan, const tdm_ir_node *node,
                       const char *out_pieces[TDM_CAUSE_PIECES]);
/* The same in one, in the region; NULL where memory is short. */
const char *tdm_explain_cause_in(tdm_region *region, const tdm_plan *plan, const tdm_ir_node *node);
/* Median of the latest measured times of a step; negative when not measured. */
double tdm_explain_measured_ns(const tdm_plan *plan, size_t step);

/* In one of these formats; INVALID_ARGUMENT where there is no such. */
tdm_status tdm_explain_print(const tdm_plan *plan, bool nodes_only, tdm_plan_format format,
                             FILE *out) TDM_WARN_UNUSED;
tdm_status tdm_explain_text(const tdm_plan *plan, bool nodes_only, FILE *out) TDM_WARN_UNUSED;
tdm_status tdm_explain_dot(const tdm_plan *plan, FILE *out) TDM_WARN_UNUSED;
tdm_status tdm_explain_json(const tdm_plan *plan, bool nodes_only, FILE *out) TDM_WARN_UNUSED;

#endif
