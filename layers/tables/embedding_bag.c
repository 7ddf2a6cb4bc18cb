/* Bags of a table's rows: sums, means and maxima, with dense and sparse gradients, and the gradient
 * of their scales. Invariant: as for the embedding, operations of one name select the kind of the
 * table's gradient. */
#include "layers/arguments.h"
#include "layers/common.h"
#include "tandem/layers/layers.h"

/* ---- Shapes ---------------------------------------------------------------------------------- */

/* Counts the bags of the ids at input index; offsets, if any, follow them. */
static tdm_status count_bags(const tdm_infer *infer, size_t index, tdm_dim *out_bags) {
  const tdm_embedding_bag_attributes *attributes = infer->attributes;
  const tdm_shape *ids = tdm_infer_shape(infer, index);
  TDM_TRY(tdm_expect_ids(infer, index, "ids"));
  if (!tdm_infer_has(infer, index + 1)) {
    TDM_TRY(tdm_expect_rank(infer, index, "ids without offsets", 2, 2));
    *out_bags = ids->dims[0];
    return TDM_OK;
  }
  TDM_TRY(tdm_expect_rank(infer, index, "ids with offsets", 1, 1));
  TDM_TRY(tdm_expect_ids(infer, index + 1, "offsets"));
  TDM_TRY(tdm_expect_rank(infer, index + 1, "offsets", 1, 1));
  const tdm_dim offsets = tdm_infer_shape(infer, index + 1)->dims[0];
  *out_bags = offsets;
  if (!attributes->ends) return TDM_OK;
  *out_bags = offsets < 0 ? TDM_DIM_UNKNOWN : offsets - 1;
  if (offsets == 0)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "offsets that include the last one must have one element at least");
  return TDM_OK;
}

/* Inputs: rows (shards n, dim) instead of a table, places, [offsets], [scales]. Outputs: y (bags,
 * dim), and for maxima the winners, which have the same shape. */
static tdm_status infer_gathered_bag(tdm_infer *infer) {
  const tdm_shape *weight = tdm_infer_shape(infer, 0);
  tdm_dim bags;
  TDM_TRY(count_bags(infer, 1, &bags));
  if (tdm_infer_has(infer, 3)) {
    tdm_shape shape;
    TDM_TRY(tdm_expect_dtype_of_first(infer, 3, "weight", "scales"));
    TDM_TRY(tdm_expect_one_shape(infer, 1, "ids", 3, "scales", &shape));
  }
  const tdm_shape y = {.rank = 2, .dims = {bags, weight->dims[1]}};
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &y);
  if (infer->output_count > 1) tdm_infer_set(infer, 1, TDM_INT64, &y);
  return TDM_OK;
}

/* Inputs: weight (rows, dim), ids, ...; outputs as above. */
static tdm_status infer_bag(tdm_infer *infer) {
  const tdm_embedding_bag_attributes *attributes = infer->attributes;
  TDM_TRY(tdm_expect_floating(infer, 0, "weight"));
  TDM_TRY(tdm_expect_rank(infer, 0, "weight", 2, 2));
  const tdm_shape *weight = tdm_infer_shape(infer, 0);
  const tdm_shape table = {.rank = 2, .dims = {attributes->rows, weight->dims[1]}};
  TDM_TRY(tdm_expect_shape(infer, 0, "weight", &table));
  return infer_gathered_bag(infer);
}

/* d_y (bags, dim), ids, ... -> d_weight (rows, dim). */
static tdm_status infer_gradient(tdm_infer *infer) {
  const tdm_embedding_bag_attributes *attributes = infer->attributes;
  const tdm_shape table = {.rank = 2,
                           .dims = {attributes->rows, tdm_infer_shape(infer, 0)->dims[1]}};
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &table);
  return TDM_OK;
}

/* d_y (bags, dim), ids, ... -> rows (n, dim), indices (n), count (). */
static tdm_status infer_sparse_gradient(tdm_infer *infer) {
  const int64_t ids = tdm_shape_count(tdm_infer_shape(infer, 1));
  const tdm_dim n = ids < 0 ? TDM_DIM_UNKNOWN : ids;
  const tdm_shape rows = {.rank = 2, .dims = {n, tdm_infer_shape(infer, 0)->dims[1]}};
  const tdm_shape indices = {.rank = 1, .dims = {n}};
  const tdm_shape count = {.rank = 0};
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &rows);
  tdm_infer_set(infer, 1, TDM_INT64, &indices);
  tdm_infer_set(infer, 2, TDM_INT64, &count);
  return TDM_OK;
}

/* d_y, weight, ids, [offsets] -> d_scales like ids. */
static tdm_status infer_scales_gradient(tdm_infer *infer) {
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, tdm_infer_shape(infer, 2));
  return TDM_OK;
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* The fields that all variants share; the fields for their rules follow at each use. */
#define BAG_OPERATION(kernel, least, most, outputs)                                                \
  .struct_size = sizeof(tdm_operation), .name = kernel,                                            \
  .attribute_bytes = sizeof(tdm_embedding_bag_attributes), .min_inputs = least,                    \
  .max_inputs = most, .output_count = outputs, .precision = TDM_PRECISION_GIVEN

/* Counts the work. Only the rows of the table that ids name are read. */
static void scales_gradient_work(const tdm_infer *node, tdm_work *work) {
  tdm_work_read_rows(work, &node->inputs[1], &node->inputs[2]);
}

static const tdm_operation bag_gradient = {
    BAG_OPERATION(TDM_OP_EMBEDDING_BAG_GRADIENT, 2, 5, 1),
    .infer = infer_gradient,
    .work = tdm_work_streams,
};
static const tdm_operation bag_sparse_gradient = {
    BAG_OPERATION(TDM_OP_EMBEDDING_BAG_SPARSE_GRADIENT, 2, 4, 3),
    .infer = infer_sparse_gradient,
    .work = tdm_work_streams,
};
static const tdm_operation bag_scales_gradient = {
    BAG_OPERATION(TDM_OP_EMBEDDING_BAG_SCALES_GRADIENT, 3, 4, 1),
    .infer = infer_scales_gradient,
    .work = scales_gradient_work,
};

static void append_scales_gradient(tdm_gradient *gradient) {
  if (!tdm_value_is_valid(tdm_gradient_input(gradient, 3)) || !tdm_gradient_wanted(gradient, 3))
    return;
  const tdm_value operands[] = {tdm_gradient_of_output(gradient, 0),
                                tdm_gradient_input(gradient, 0), tdm_gradient_input(gradient, 1),
                                tdm_gradient_input(gradient, 2)};
  tdm_gradient_set(gradient, 3,
                   tdm_append(tdm_gradient_graph(gradient), &bag_scales_gradient,
                              tdm_gradient_name(gradient), tdm_gradient_attributes(gradient),
                              operands, 4, NULL));
}

/* Returns the dense gradient of the table. winners: the winners of a maximum, otherwise invalid. */
static tdm_value table_gradient(tdm_gradient *gradient, tdm_value scales, tdm_value winners) {
  const tdm_value operands[] = {tdm_gradient_of_output(gradient, 0),
                                tdm_gradient_input(gradient, 1), tdm_gradient_input(gradient, 2),
                                scales, winners};
  return tdm_append(tdm_gradient_graph(gradient), &bag_gradient, tdm_gradient_name(gradient),
                    tdm_gradient_attributes(gradient), operands, 5, NULL);
}

static void append_table_gradient(tdm_gradient *gradient, tdm_value scales, tdm_value winners) {
  if (tdm_gradient_wanted(gradient, 0))
    tdm_gradient_set(gradient, 0, table_gradient(gradient, scales, winners));
}

/* Appends the sparse gradient: rows (n, dim), indices (n), count (). */
static void append_rows(tdm_gradient *gradient, tdm_value out_sparse[3]) {
  const tdm_value operands[] = {tdm_gradient_of_output(gradient, 0),
                                tdm_gradient_input(gradient, 1), tdm_gradient_input(gradient, 2),
                                tdm_gradient_input(gradient, 3)};
  tdm_append(tdm_gradient_graph(gradient), &bag_sparse_gradient, tdm_gradient_name(gradient),
             tdm_gradient_attributes(gradient), operands, 4, out_sparse);
}

static tdm_status append_gradient(tdm_gradient *gradient) {
  const tdm_embedding_bag_attributes *attributes = tdm_gradient_attributes(gradient);
  if (tdm_gradient_wanted(gradient, 0) && tdm_gradient_rows_pay(gradient, 1, attributes->rows)) {
    tdm_value sparse[3];
    append_rows(gradient, sparse);
    tdm_gradient_add_rows(gradient, 0, sparse[0], sparse[1], sparse[2]);
  } else {
    append_table_gradient(gradient, tdm_gradient_input(gradient, 3), TDM_NO_VALUE);
  }
  append_scales_gradient(gradient);
  return tdm_graph_status(tdm_gradient_graph(gradient));
}

static tdm_status append_max_gradient(tdm_gradient *gradient) {
  append_table_gradient(gradient, TDM_NO_VALUE, tdm_gradient_output(gradient, 1));
  return tdm_graph_status(tdm_gradient_graph(gradient));
}

static tdm_status append_sparse_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  append_scales_gradient(gradient);
  if (!tdm_gradient_wanted(gradient, 0)) return tdm_graph_status(graph);
  tdm_value sparse[3];
  append_rows(gradient, sparse);
  tdm_gradient_set_sparse(gradient, 0, sparse[0], sparse[1], sparse[2]);
  return tdm_graph_status(graph);
}

/* ---- Sharded tables -------------------------------------------------------------------------- */

/* Appends the gradient of the rows that all shards have gathered. The row for padding comes after
 * them and is left out. */
static void append_rows_gradient(tdm_gradient *gradient, tdm_value scales, tdm_value winners) {
  const tdm_embedding_bag_attributes *attributes = tdm_gradient_attributes(gradient);
  if (!tdm_gradient_wanted(gradient, 0)) return;
  tdm_value d_rows = table_gradient(gradient, scales, winners);
  if (attributes->padding_index >= 0) {
    const tdm_dim rows = attributes->rows < 0 ? TDM_DIM_UNKNOWN : attributes->rows - 1;
    const tdm_dim sizes[] = {rows, 1};
    tdm_value parts[2];
    tdm_split(tdm_gradient_graph(gradient), tdm_gradient_name(gradient), d_rows, 0, sizes, 2,
              parts);
    d_rows = parts[0];
  }
  tdm_gradient_set(gradient, 0, d_rows);
}

static tdm_status append_gathered_gradient(tdm_gradient *gradient) {
  append_rows_gradient(gradient, tdm_gradient_input(gradient, 3), TDM_NO_VALUE);
  append_scales_gradient(gradient);
  return tdm_graph_status(tdm_gradient_graph(gradient));
}

static tdm_status append_gathered_max_gradient(tdm_gradient *gradient) {
  append_rows_gradient(gradient, TDM_NO_VALUE, tdm_gradient_output(gradient, 1));
  return tdm_graph_status(tdm_gradient_graph(gradient));
}

static const tdm_operation gathered_bag = {
    BAG_OPERATION(TDM_OP_EMBEDDING_BAG, 2, 4, 1),
    .infer = infer_gathered_bag,
    .gradient = append_gathered_gradient,
    .work = tdm_work_looks_up,
};
static const tdm_operation gathered_bag_of_maxima = {
    BAG_OPERATION(TDM_OP_EMBEDDING_BAG_MAX, 2, 3, 2),
    .layer = TDM_OP_EMBEDDING_BAG,
    .infer = infer_gathered_bag,
    .gradient = append_gathered_max_gradient,
    .work = tdm_work_looks_up,
};

static const tdm_look_up in_shards = {
    .at_owner = &tdm_shard_rows, .at_reader = &gathered_bag, .skips_padding = true};
static const tdm_look_up in_sparse_shards = {
    .at_owner = &tdm_shard_rows_sparse, .at_reader = &gathered_bag, .skips_padding = true};
static const tdm_look_up maxima_in_shards = {
    .at_owner = &tdm_shard_rows, .at_reader = &gathered_bag_of_maxima, .skips_padding = true};

/* ---- In micro-batches ------------------------------------------------------------------------ */

/* Splits bags of fixed length as rows. Bags by offsets cannot be split: a part of the offsets does
 * not determine a part of the ids. */
static tdm_status chunk_bags(tdm_chunked *chunked) {
  const bool by_offsets = tdm_chunked_shape(chunked, 2).rank >= 0;
  const bool cut = tdm_chunked_cut(chunked, 1).dimension != -1 ||
                   (by_offsets && tdm_chunked_cut(chunked, 2).dimension != -1);
  if (by_offsets && cut)
    return tdm_fail(TDM_UNSUPPORTED, "bags given by offsets cannot be cut; ids (bags, length) can");
  return tdm_chunked_rows(chunked, 1, 1);
}

/* ---- The layer ------------------------------------------------------------------------------- */

#define BAG(kernel, most, outputs)                                                                 \
  BAG_OPERATION(kernel, 2, most, outputs), .infer = infer_bag, .chunk = chunk_bags,                \
                                           .work = tdm_work_looks_up

static const tdm_operation bag = {
    BAG(TDM_OP_EMBEDDING_BAG, 4, 1),
    .gradient = append_gradient,
    .look_up = &in_shards,
};
static const tdm_operation bag_with_sparse_gradient = {
    BAG(TDM_OP_EMBEDDING_BAG, 4, 1),
    .gradient = append_sparse_gradient,
    .look_up = &in_sparse_shards,
};
static const tdm_operation bag_of_maxima = {
    BAG(TDM_OP_EMBEDDING_BAG_MAX, 3, 2),
    .layer = TDM_OP_EMBEDDING_BAG,
    .gradient = append_max_gradient,
    .look_up = &maxima_in_shards,
};

TDM_RECORDS(embedding_bag, {.operation = &bag, .functions = "tdm_embedding_bag"},
            {.operation = &bag_with_sparse_gradient}, {.operation = &bag_of_maxima},
            {.operation = &gathered_bag}, {.operation = &gathered_bag_of_maxima},
            {.operation = &bag_gradient}, {.operation = &bag_sparse_gradient},
            {.operation = &bag_scales_gradient});

static tdm_value refuse(tdm_graph *graph, const char *name, const char *why) {
  return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "embedding_bag %s: %s", name, why);
}

/* Returns the reason why options are in conflict, or NULL. */
static const char *fault_of(const tdm_embedding_bag_options *options) {
  const bool has_offsets = tdm_value_is_valid(options->offsets);
  if (options->include_last_offset && !has_offsets) return "there are no offsets to include one";
  if (tdm_value_is_valid(options->scales) && options->mode != TDM_BAG_SUM)
    return "scales are for sums only";
  if (options->sparse && options->mode == TDM_BAG_MAX)
    return "the gradient of maxima cannot be sparse";
  return NULL;
}

/* Returns true if dtypes and shapes of ids, offsets and scales fit together. */
static bool fit_values(tdm_graph *graph, const char *name, tdm_value ids,
                       const tdm_embedding_bag_options *options) {
  static const char layer[] = "embedding_bag";
  const bool has_offsets = tdm_value_is_valid(options->offsets);
  const tdm_shape shape = tdm_value_shape(graph, ids);
  if (!tdm_argument_has_rank(graph, layer, name,
                             has_offsets ? "ids with offsets" : "ids without offsets", ids,
                             has_offsets ? 1 : 2, has_offsets ? 1 : 2))
    return false;
  if (has_offsets &&
      (!tdm_argument_has_integers(graph, layer, name, "offsets", options->offsets) ||
       !tdm_argument_has_rank(graph, layer, name, "offsets", options->offsets, 1, 1)))
    return false;
  return !tdm_value_is_valid(options->scales) ||
         (tdm_argument_has_parameter_dtype(graph, layer, name, "scales", options->scales) &&
          tdm_argument_has_shape(graph, layer, name, "scales", options->scales, &shape));
}

tdm_value tdm_embedding_bag(tdm_graph *graph, const char *name, tdm_value ids, int64_t rows,
                            int64_t dim, const tdm_embedding_bag_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_embedding_bag_options chosen;
  if (!tdm_layer_options(graph, "embedding_bag", name, embedding_bag, options, &chosen) ||
      !tdm_argument_has_integers(graph, "embedding_bag", name, "ids", ids) ||
      !tdm_argument_is_within(graph, "embedding_bag", name, "mode", (int)chosen.mode, -1,
                              TDM_BAG_MEAN, TDM_BAG_MAX) ||
      !fit_values(graph, name, ids, &chosen))
    return TDM_NO_VALUE;
  const char *fault = fault_of(&chosen);
  if (fault) return refuse(graph, name, fault);
  tdm_embedding_bag_attributes attributes = {.rows = rows,
                                             .padding_index = -1,
                                             .mean = chosen.mode == TDM_BAG_MEAN,
                                             .ends = chosen.include_last_offset};
  if (chosen.padding_index != TDM_NO_INDEX) {
    const int64_t padding =
        chosen.padding_index + (chosen.padding_index < 0 && rows > 0 ? rows : 0);
    if (padding < 0 || padding >= rows)
      return tdm_graph_fail(
          graph, TDM_INVALID_ARGUMENT,
          "embedding_bag %s: padding_index is %lld, expected one of its %lld rows", name,
          (long long)chosen.padding_index, (long long)rows);
    attributes.padding_index = padding;
  }
  const tdm_initializer normal = {TDM_INIT_NORMAL, 0.0, 1.0, attributes.padding_index};
  const tdm_value weight =
      tdm_layer_parameter(graph, name, ".weight", tdm_shape_of(2, rows, dim), &normal);
  const tdm_value operands[] = {weight, ids, chosen.offsets, chosen.scales};
  if (chosen.mode == TDM_BAG_MAX)
    return tdm_append(graph, &bag_of_maxima, name, &attributes, operands, 3, NULL);
  return tdm_append(graph, chosen.sparse ? &bag_with_sparse_gradient : &bag, name, &attributes,
                    operands, 4, NULL);
}
