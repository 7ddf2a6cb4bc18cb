/* Prints plans. Each printer prints what exists: before the pass "schedule" a plan has nodes and no
 * steps. */
#ifndef TANDEM_GRAPH_REPORT_EXPLAIN_H
#define TANDEM_GRAPH_REPORT_EXPLAIN_H

#include "graph/plan/plan.h"

#define TDM_EXPLAIN_TEXT 1024 /* large enough for the members of a fused node */

/* Return "cpu:0" and "upload", and the text for a node's action: an operation's name or "transfer",
 * ... */
const char *tdm_explain_device(const tdm_plan *plan, int16_t device);
const char *tdm_explain_role(tdm_queue_role role);
/* Returns true if large parameters of one of its parallel regions should be in pieces. */
bool tdm_explain_has_pieces(const tdm_plan *plan);
const char *tdm_explain_action(const tdm_ir_node *node);
/* Returns the operations of a fused node's members, "gelu, mul"; otherwise "". */
const char *tdm_explain_members(const tdm_ir_node *node, char *text);
/* Returns "direct", "peer", "staged", "between ranks", "by devices of two ranks" or "same
 * device". */
const char *tdm_explain_route(const tdm_plan *plan, const tdm_ir_node *node);
/* Returns the memory of a transfer: "pinned", "staged", "pageable", "host memory" between devices
 * of the host, or "memory of devices" if neither end is the host. */
const char *tdm_explain_memory(const tdm_plan *plan, const tdm_ir_node *node);
/* Gets the cause of a node: "embedding -> rnn", "gradient of rnn -> embedding". It names what
 * computed the value and its first consumer. Names have any length, so the result is pieces to be
 * concatenated. */
enum { TDM_CAUSE_PIECES = 4 };
void tdm_explain_cause(const tdm_plan *plan, const tdm_ir_node *node,
                       const char *out_pieces[TDM_CAUSE_PIECES]);
/* Returns the same as one string, in the region; NULL if memory is short. */
const char *tdm_explain_cause_in(tdm_region *region, const tdm_plan *plan, const tdm_ir_node *node);
/* Returns the median of a step's latest measured times; negative if not measured. */
double tdm_explain_measured_ns(const tdm_plan *plan, size_t step);

/* Prints in the given format. Fails with INVALID_ARGUMENT if there is no such format. */
tdm_status tdm_explain_print(const tdm_plan *plan, bool nodes_only, tdm_plan_format format,
                             FILE *out) TDM_WARN_UNUSED;
tdm_status tdm_explain_text(const tdm_plan *plan, bool nodes_only, FILE *out) TDM_WARN_UNUSED;
tdm_status tdm_explain_dot(const tdm_plan *plan, FILE *out) TDM_WARN_UNUSED;
tdm_status tdm_explain_json(const tdm_plan *plan, bool nodes_only, FILE *out) TDM_WARN_UNUSED;

#endif
