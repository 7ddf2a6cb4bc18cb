/* Work rules that several operations share. Invariant: work is initially one pass over each
 * operand, and a rule changes only what differs from that. */
#include "graph/ir/records.h"

void tdm_work_streams(const tdm_infer *node, tdm_work *work) {
  (void)node;
  work->flops = 0;
}

void tdm_work_writes(const tdm_infer *node, tdm_work *work) {
  (void)node;
  work->bytes_read = 0;
}

void tdm_work_moves(const tdm_infer *node, tdm_work *work) {
  (void)node;
  work->bytes_read = work->bytes_written;
}

void tdm_work_read_rows(tdm_work *work, const tdm_spec *table, const tdm_spec *ids) {
  const double row_bytes = tdm_work_width(table) * (double)tdm_dtype_bytes(table->dtype);
  work->bytes_read += tdm_work_count(ids) * row_bytes - tdm_work_bytes(table);
}

void tdm_work_looks_up(const tdm_infer *node, tdm_work *work) {
  tdm_work_read_rows(work, &node->inputs[0], &node->inputs[1]);
}

void tdm_work_updates_rows(const tdm_infer *node, tdm_work *work) {
  const double rows = tdm_work_bytes(&node->inputs[1]);
  const double tables = node->output_count > 1 ? (double)node->output_count - 1 : 1;
  work->bytes_read = rows + tdm_work_bytes(&node->inputs[2]) + tables * rows;
  work->bytes_written = tables * rows;
}
