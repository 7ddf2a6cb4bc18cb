/* Embedding: rows of a table by id, with a dense or a sparse gradient. Invariant: both variants
 * share a forward kernel. Two operations of one name select the kind of gradient. */
#include "layers/common.h"
#include "tandem/layers/layers.h"

static tdm_status infer_embedding(tdm_infer *infer) {
  const tdm_embedding_attributes *attributes = infer->attributes;
  TDM_TRY(tdm_expect_floating(infer, 0, "weight"));
  TDM_TRY(tdm_expect_rank(infer, 0, "weight", 2, 2));
  TDM_TRY(tdm_expect_ids(infer, 1, "ids"));
  TDM_TRY(tdm_expect_rank(infer, 1, "ids", 0, TDM_MAX_RANK - 1));
  const tdm_shape *weight = tdm_infer_shape(infer, 0);
  const tdm_shape table = {.rank = 2, .dims = {attributes->rows, weight->dims[1]}};
  TDM_TRY(tdm_expect_shape(infer, 0, "weight", &table));
  tdm_shape out = *tdm_infer_shape(infer, 1);
  out.dims[out.rank++] = weight->dims[1];
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &out);
  return TDM_OK;
}

/* d_out (..., dim), ids (...) -> d_weight (rows, dim). */
static tdm_status infer_gradient(tdm_infer *infer) {
  const tdm_embedding_attributes *attributes = infer->attributes;
  tdm_shape d_out = *tdm_infer_shape(infer, 0);
  const tdm_shape table = {.rank = 2, .dims = {attributes->rows, *tdm_shape_last(&d_out)}};
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &table);
  return TDM_OK;
}

/* d_out (..., dim), ids (...) -> rows (n, dim), indices (n), count (). */
static tdm_status infer_sparse_gradient(tdm_infer *infer) {
  tdm_shape d_out = *tdm_infer_shape(infer, 0);
  const int64_t ids = tdm_shape_count(tdm_infer_shape(infer, 1));
  const tdm_dim n = ids < 0 ? TDM_DIM_UNKNOWN : ids;
  const tdm_shape rows = {.rank = 2, .dims = {n, *tdm_shape_last(&d_out)}};
  const tdm_shape indices = {.rank = 1, .dims = {n}};
  const tdm_shape count = {.rank = 0};
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &rows);
  tdm_infer_set(infer, 1, TDM_INT64, &indices);
  tdm_infer_set(infer, 2, TDM_INT64, &count);
  return TDM_OK;
}

static const tdm_operation embedding_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_EMBEDDING_GRADIENT,
    .attribute_bytes = sizeof(tdm_embedding_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = infer_gradient,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

static const tdm_operation embedding_sparse_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_EMBEDDING_SPARSE_GRADIENT,
    .attribute_bytes = sizeof(tdm_embedding_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 3,
    .infer = infer_sparse_gradient,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

/* Appends the gradient of a table for the ids in input `ids`. It is dense, with as many rows as the
 * attributes have, or it is sparse: out_sparse receives rows (n, dim), indices (n) and count (). */
static tdm_value append_of(tdm_gradient *gradient, const tdm_operation *operation, size_t ids,
                           tdm_value *out_sparse) {
  const tdm_value operands[] = {tdm_gradient_of_output(gradient, 0),
                                tdm_gradient_input(gradient, ids)};
  return tdm_append(tdm_gradient_graph(gradient), operation, tdm_gradient_name(gradient),
                    tdm_gradient_attributes(gradient), operands, 2, out_sparse);
}

/* Adds the rows to the table's gradient from earlier micro-batches if they are few. Returns false
 * if they are not. */
static bool add_few_rows(tdm_gradient *gradient, size_t ids) {
  const tdm_embedding_attributes *attributes = tdm_gradient_attributes(gradient);
  if (!tdm_gradient_rows_pay(gradient, ids, attributes->rows)) return false;
  tdm_value sparse[3];
  append_of(gradient, &embedding_sparse_gradient, ids, sparse);
  tdm_gradient_add_rows(gradient, 0, sparse[0], sparse[1], sparse[2]);
  return true;
}

static tdm_status append_gradient(tdm_gradient *gradient) {
  if (!add_few_rows(gradient, 1))
    tdm_gradient_set(gradient, 0, append_of(gradient, &embedding_gradient, 1, NULL));
  return tdm_graph_status(tdm_gradient_graph(gradient));
}

static tdm_status append_sparse_gradient(tdm_gradient *gradient) {
  tdm_value sparse[3];
  append_of(gradient, &embedding_sparse_gradient, 1, sparse);
  tdm_gradient_set_sparse(gradient, 0, sparse[0], sparse[1], sparse[2]);
  return tdm_graph_status(tdm_gradient_graph(gradient));
}

/* ---- Where the table lies in shards ---------------------------------------------------------- */

/* shard (rows, dim), taken (n), summed (n) -> rows (n, dim), taken. */
static tdm_status infer_shard_rows(tdm_infer *infer) {
  tdm_shape rows = *tdm_infer_shape(infer, 0);
  rows.dims[0] = tdm_infer_shape(infer, 1)->dims[0];
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &rows);
  tdm_infer_set(infer, 1, TDM_INT64, tdm_infer_shape(infer, 1));
  return TDM_OK;
}

/* Appends the gradient of a table with one extra row for ids of other shards, then removes that
 * row. */
static tdm_status append_shard_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const tdm_embedding_attributes *attributes = tdm_gradient_attributes(gradient);
  if (add_few_rows(gradient, 2)) return tdm_graph_status(graph);
  const tdm_dim sizes[] = {attributes->rows - 1, 1};
  tdm_value parts[2];
  tdm_split(graph, tdm_gradient_name(gradient), append_of(gradient, &embedding_gradient, 2, NULL),
            0, sizes, 2, parts);
  tdm_gradient_set(gradient, 0, parts[0]);
  return tdm_graph_status(graph);
}

static tdm_status append_sparse_shard_gradient(tdm_gradient *gradient) {
  tdm_value sparse[3];
  append_of(gradient, &embedding_sparse_gradient, 2, sparse);
  tdm_gradient_set_sparse(gradient, 0, sparse[0], sparse[1], sparse[2]);
  return tdm_graph_status(tdm_gradient_graph(gradient));
}

#define SHARD_ROWS                                                                                 \
  .struct_size = sizeof(tdm_operation), .name = TDM_OP_TAKE_ROWS,                                  \
  .attribute_bytes = sizeof(tdm_embedding_attributes), .min_inputs = 3, .max_inputs = 3,           \
  .output_count = 2, .infer = infer_shard_rows, .work = tdm_work_looks_up,                         \
  .precision = TDM_PRECISION_GIVEN

const tdm_operation tdm_shard_rows = {SHARD_ROWS, .gradient = append_shard_gradient};
const tdm_operation tdm_shard_rows_sparse = {SHARD_ROWS, .gradient = append_sparse_shard_gradient};

/* rows (shards n, dim), places (...) -> (..., dim): each row is read at most once. */
static tdm_status infer_gathered(tdm_infer *infer) {
  tdm_shape out = *tdm_infer_shape(infer, 1);
  out.dims[out.rank++] = tdm_infer_shape(infer, 0)->dims[1];
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &out);
  return TDM_OK;
}

static tdm_status append_dense_gradient(tdm_gradient *gradient) {
  tdm_gradient_set(gradient, 0, append_of(gradient, &embedding_gradient, 1, NULL));
  return tdm_graph_status(tdm_gradient_graph(gradient));
}

static const tdm_operation gathered_embedding = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_EMBEDDING,
    .attribute_bytes = sizeof(tdm_embedding_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = infer_gathered,
    .gradient = append_dense_gradient,
    .work = tdm_work_looks_up,
    .precision = TDM_PRECISION_GIVEN,
};

static const tdm_look_up in_shards = {.at_owner = &tdm_shard_rows,
                                      .at_reader = &gathered_embedding};
static const tdm_look_up in_sparse_shards = {.at_owner = &tdm_shard_rows_sparse,
                                             .at_reader = &gathered_embedding};

/* ---- The layer ------------------------------------------------------------------------------- */

/* Returns true unless there is a padding row, whose gradient is 0 instead of the sum of its
 * adjoints. */
static bool picks_rows(const void *attributes) {
  return ((const tdm_embedding_attributes *)attributes)->padding_index < 0;
}

static const tdm_operation embedding = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_EMBEDDING,
    .attribute_bytes = sizeof(tdm_embedding_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = infer_embedding,
    .gradient = append_gradient,
    .picks_rows = picks_rows,
    .work = tdm_work_looks_up,
    .precision = TDM_PRECISION_GIVEN,
    .look_up = &in_shards,
};

static const tdm_operation embedding_with_sparse_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_EMBEDDING,
    .attribute_bytes = sizeof(tdm_embedding_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = infer_embedding,
    .gradient = append_sparse_gradient,
    .work = tdm_work_looks_up,
    .precision = TDM_PRECISION_GIVEN,
    .look_up = &in_sparse_shards,
};

#define OF_SHARDS "a pass puts it where a table lies in shards"

TDM_RECORDS(embedding, {.operation = &embedding, .functions = "tdm_embedding"},
            {.operation = &embedding_with_sparse_gradient}, {.operation = &embedding_gradient},
            {.operation = &embedding_sparse_gradient}, {.operation = &gathered_embedding},
            {.operation = &tdm_shard_rows, .no_golden = OF_SHARDS, .no_differences = OF_SHARDS},
            {.operation = &tdm_shard_rows_sparse,
             .no_golden = OF_SHARDS,
             .no_differences = OF_SHARDS});

tdm_value tdm_embedding(tdm_graph *graph, const char *name, tdm_value ids, int64_t rows,
                        int64_t dim) {
  return tdm_embedding_with(graph, name, ids, rows, dim, NULL);
}

tdm_value tdm_embedding_with(tdm_graph *graph, const char *name, tdm_value ids, int64_t rows,
                             int64_t dim, const tdm_embedding_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_embedding_options chosen;
  if (!tdm_layer_options(graph, "embedding", name, embedding, options, &chosen) ||
      !tdm_layer_accepts(graph, "embedding", name, ids))
    return TDM_NO_VALUE;
  tdm_embedding_attributes attributes = {.rows = rows, .padding_index = -1};
  if (chosen.padding_index != TDM_NO_INDEX) {
    const int64_t padding =
        chosen.padding_index + (chosen.padding_index < 0 && rows > 0 ? rows : 0);
    if (padding < 0 || padding >= rows)
      return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                            "embedding %s: padding index %lld is outside its %lld rows", name,
                            (long long)chosen.padding_index, (long long)rows);
    attributes.padding_index = padding;
  }
  if (!tdm_layer_is_size(graph, "embedding", name, "rows", rows) ||
      !tdm_layer_is_size(graph, "embedding", name, "dim", dim))
    return TDM_NO_VALUE;
  const tdm_initializer normal = {TDM_INIT_NORMAL, 0.0, 1.0, attributes.padding_index};
  const tdm_value weight =
      tdm_layer_parameter(graph, name, ".weight", tdm_shape_of(2, rows, dim), &normal);
  const tdm_value operands[] = {weight, ids};
  return tdm_append(graph, chosen.sparse ? &embedding_with_sparse_gradient : &embedding, name,
                    &attributes, operands, 2, NULL);
}
