/* Records of operations (tdm_operation): lists of them, and rules that compute the work of a node
 * from concrete shapes. Any thread. */
#ifndef TANDEM_GRAPH_IR_RECORDS_H
#define TANDEM_GRAPH_IR_RECORDS_H

#include "tandem/graph/graph.h"

/* ---- Lists ----------------------------------------------------------------------------------- */

/* An operation of the library with notes for tests (layers/records.h). */
typedef struct tdm_record {
  const tdm_operation *operation; /* NULL: end of the list */
  const char *functions;          /* public functions that append it, "tdm_max tdm_min"; NULL: used
                                   * only by gradients, optimizers and passes */
  const char *no_kernel;          /* why no kind of device has a kernel; NULL: all have */
  const char *no_golden;          /* why no golden data covers it; NULL: covered */
  const char *no_differences;     /* why finite differences do not check its gradient; NULL: they
                                   * do */
} tdm_record;

/* Defines tdm_FAMILY_records, the list of a source file's records. */
#define TDM_RECORDS(family, ...)                                                                   \
  extern const tdm_record tdm_##family##_records[];                                                \
  const tdm_record tdm_##family##_records[] = {__VA_ARGS__, {.operation = NULL}}

/* ---- Tables in shards ------------------------------------------------------------------------ */

/* The operations that replace a node that reads a sharded table (input 0) by ids (input 1, n of
 * them). Its attributes begin like tdm_embedding_attributes. */
typedef struct tdm_look_up {
  /* On each shard's device: shard (rows, dim) and the outputs of shard_ids -> rows (n, dim), zeros
   * for rows of other shards, and a copy of the ids used. Attributes: tdm_embedding_attributes of a
   * table with one additional row, the padding. */
  const tdm_operation *at_owner;
  /* Replaces the node: reads the rows of all shards, (shards n, dim), by their places. */
  const tdm_operation *at_reader;
  bool skips_padding; /* never reads the row of the padding, whose place is after all rows */
} tdm_look_up;

/* ---- Work ------------------------------------------------------------------------------------ */

/* Each operand is read or written once, and no products are summed. */
void tdm_work_streams(const tdm_infer *node, tdm_work *work);
/* Sets the work of a node that writes its outputs and reads nothing. */
void tdm_work_writes(const tdm_infer *node, tdm_work *work);
/* Sets the work of a node that reads as many bytes as it writes. */
void tdm_work_moves(const tdm_infer *node, tdm_work *work);
/* Sets the work of a look-up: table (rows, dim), ids, ... It reads only the rows that ids name. */
void tdm_work_looks_up(const tdm_infer *node, tdm_work *work);
/* table, rows (n, dim), indices, ... -> =table, ...: n rows of each overwritten table are read and
 * written. If there are several outputs, the last one is a count of steps. */
void tdm_work_updates_rows(const tdm_infer *node, tdm_work *work);

/* Counts only the rows of an operand `table` that ids name. */
void tdm_work_read_rows(tdm_work *work, const tdm_spec *table, const tdm_spec *ids);
/* Returns the number of elements, 0 for an absent operand. */
static inline double tdm_work_count(const tdm_spec *spec) {
  return spec->dtype == TDM_DTYPE_NONE ? 0 : (double)tdm_shape_count(&spec->shape);
}
static inline double tdm_work_bytes(const tdm_spec *spec) {
  return tdm_work_count(spec) * (double)tdm_dtype_bytes(spec->dtype);
}
/* Returns the last dimension, 1 for a scalar. */
static inline double tdm_work_width(const tdm_spec *spec) {
  return spec->shape.rank > 0 ? (double)spec->shape.dims[spec->shape.rank - 1] : 1;
}

#endif
