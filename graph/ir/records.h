/* What the records of operations (tdm_operation) share: how they are listed, and rules of how much
 * work a node is, which read concrete shapes alone. Any thread. */
#ifndef TANDEM_GRAPH_IR_RECORDS_H
#define TANDEM_GRAPH_IR_RECORDS_H

#include "tandem/graph/graph.h"

/* ---- Lists ---- */

/* An operation of the library, for whoever goes through all of them (layers/records.h). */
typedef struct tdm_record {
  const tdm_operation *operation; /* NULL: behind the last */
  const char *functions;          /* "tdm_max tdm_min": the public ones that it is there for; NULL:
                                     gradients, optimizers' and passes' own */
  const char *no_kernel;          /* why no kind has a kernel of it; NULL: all have */
  const char *no_golden;          /* why no golden data reaches it; NULL: some case does */
  const char *no_differences;     /* why no finite differences check its gradient; NULL: they do */
} tdm_record;

/* Lists the records of one source, as tdm_FAMILY_records. */
#define TDM_RECORDS(family, ...)                                                                   \
  extern const tdm_record tdm_##family##_records[];                                                \
  const tdm_record tdm_##family##_records[] = {__VA_ARGS__, {.operation = NULL}}

/* ---- Tables in shards ---- */

/* What stands for a node whose table (input 0) lies in shards, and which reads it by ids (input 1,
 * n of them); its attributes begin as tdm_embedding_attributes do. */
typedef struct tdm_look_up {
  /* At each shard's home: shard (rows, dim), and what shard_ids makes -> rows (n, dim), zeros for
   * those of other shards; and a copy of the ids taken. Attributes: tdm_embedding_attributes of a
   * table of one row more, which is its padding. */
  const tdm_operation *at_owner;
  /* In the node's place: reads the rows of all shards, (shards n, dim), by their places. */
  const tdm_operation *at_reader;
  bool skips_padding; /* it does not read the padding's row, whose place is behind all rows */
} tdm_look_up;

/* ---- Work ---- */

/* Every operand passes once, and no products are summed. */
void tdm_work_streams(const tdm_infer *node, tdm_work *work);
/* Outputs are written, and nothing is read. */
void tdm_work_writes(const tdm_infer *node, tdm_work *work);
/* As much is read as is written. */
void tdm_work_moves(const tdm_infer *node, tdm_work *work);
/* table (rows, dim), ids, ...: of the table only the rows that ids name are read. */
void tdm_work_looks_up(const tdm_infer *node, tdm_work *work);
/* table, rows (n, dim), indices, ... -> =table, ...: n rows of every table that is overwritten are
 * read and written; the last output, where there are several, is a count of steps. */
void tdm_work_updates_rows(const tdm_infer *node, tdm_work *work);

/* Of a table that is an operand only the rows that ids name are read. */
void tdm_work_read_rows(tdm_work *work, const tdm_spec *table, const tdm_spec *ids);
/* Elements; 0 of an absent operand. */
static inline double tdm_work_count(const tdm_spec *spec) {
  return spec->dtype == TDM_DTYPE_NONE ? 0 : (double)tdm_shape_count(&spec->shape);
}
static inline double tdm_work_bytes(const tdm_spec *spec) {
  return tdm_work_count(spec) * (double)tdm_dtype_bytes(spec->dtype);
}
/* The last dimension; 1 of a number. */
static inline double tdm_work_width(const tdm_spec *spec) {
  return spec->shape.rank > 0 ? (double)spec->shape.dims[spec->shape.rank - 1] : 1;
}

#endif
