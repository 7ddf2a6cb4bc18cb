/* Operations that only passes append: constants, sums of adjoints, the check of the loss, reorders.
 * Invariant: names and attributes are those of devices/kernels.h. */
#include "devices/kernels/elementwise/fused.h"
#include "devices/kernels.h"
#include "graph/ir/ir.h"
#include "graph/ir/records.h"

/* An operation with `least` to `most` inputs; further fields follow. */
#define INTRINSIC(operation, least, most, outputs, shapes, cost, class, ...)                       \
  {                                                                                                \
    .struct_size = sizeof(tdm_operation), .name = operation, .min_inputs = least,                  \
    .max_inputs = most, .output_count = outputs, .infer = shapes, .work = cost,                    \
    .precision = TDM_PRECISION_##class, __VA_ARGS__                                                \
  }

static tdm_status infer_same(tdm_infer *infer) {
  for (size_t i = 1; i < infer->input_count; i++)
    if (infer->inputs[i].dtype != infer->inputs[0].dtype ||
        infer->inputs[i].shape.rank != infer->inputs[0].shape.rank)
      return tdm_fail(TDM_INVALID_ARGUMENT, "its inputs differ in dtype or rank");
  infer->outputs[0] = infer->inputs[0];
  return TDM_OK;
}

static tdm_status append_accumulate_gradient(tdm_gradient *gradient) {
  for (size_t i = 0; i < TDM_KERNEL_MAX_INPUTS; i++) /* ignored for absent inputs */
    tdm_gradient_set(gradient, i, tdm_gradient_of_output(gradient, 0));
  return TDM_OK;
}

/* The initial value of the backward pass. The caller sets the dtype, because no input determines
 * it. */
static tdm_status infer_fill(tdm_infer *infer) {
  infer->outputs[0].dtype = infer->inputs[0].dtype;
  infer->outputs[0].shape = infer->inputs[0].shape;
  return TDM_OK;
}

/* a_rows, a_indices, a_count, b_rows, b_indices, b_count -> rows, indices, count */
static tdm_status infer_sparse_add(tdm_infer *infer) {
  const tdm_dim a = infer->inputs[0].shape.dims[0];
  const tdm_dim b = infer->inputs[3].shape.dims[0];
  const tdm_dim both = tdm_dim_is_size(a) && tdm_dim_is_size(b) ? a + b : TDM_DIM_UNKNOWN;
  for (size_t i = 0; i < 3; i++)
    infer->outputs[i] = infer->inputs[i];
  infer->outputs[0].shape.dims[0] = both;
  infer->outputs[1].shape.dims[0] = both;
  return TDM_OK;
}

/* The input is used only for its shape and dtype. */
const tdm_operation tdm_operation_fill =
    INTRINSIC(TDM_OP_FILL, 1, 1, 1, infer_fill, tdm_work_writes, GIVEN,
              .attribute_bytes = sizeof(tdm_fill_attributes), .shape_inputs = 1u << 0);
const tdm_operation tdm_operation_accumulate =
    INTRINSIC(TDM_OP_ACCUMULATE, 1, TDM_KERNEL_MAX_INPUTS, 1, infer_same, tdm_work_streams, WIDEST,
              .takes_list = true, .gradient = append_accumulate_gradient, .elementwise = true);
const tdm_operation tdm_operation_begin_sum =
    INTRINSIC(TDM_OP_ACCUMULATE, 1, 1, 1, infer_same, tdm_work_streams, WIDEST);
const tdm_operation tdm_operation_add_incoming =
    INTRINSIC(TDM_OP_ACCUMULATE, 2, 2, 1, infer_same, tdm_work_streams, WIDEST, .overwrites = {1});
const tdm_operation tdm_operation_sparse_add =
    INTRINSIC(TDM_OP_SPARSE_ADD, 6, 6, 3, infer_sparse_add, tdm_work_streams, WIDEST);

/* table (rows, dim), indices (n) -> (n, dim), indices (n) */
static tdm_status infer_take_rows(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  infer->outputs[0].shape.dims[0] = infer->inputs[1].shape.dims[0];
  infer->outputs[1] = infer->inputs[1];
  return TDM_OK;
}

/* table, values, indices -> =table */
static tdm_status infer_put_rows(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  return TDM_OK;
}

/* Writes as many rows as there are values. */
static void put_rows_work(const tdm_infer *node, tdm_work *work) {
  work->bytes_read -= tdm_work_bytes(&node->inputs[0]);
  work->bytes_written = tdm_work_bytes(&node->inputs[1]);
}

/* indices -> a log */
const tdm_operation tdm_operation_log_rows =
    INTRINSIC(TDM_OP_CAST, 1, 1, 1, infer_same, tdm_work_streams, GIVEN);
const tdm_operation tdm_operation_take_rows =
    INTRINSIC(TDM_OP_TAKE_ROWS, 2, 2, 2, infer_take_rows, tdm_work_looks_up, GIVEN);
const tdm_operation tdm_operation_put_rows =
    INTRINSIC(TDM_OP_PUT_ROWS, 3, 3, 1, infer_put_rows, put_rows_work, GIVEN, .overwrites = {1});
const tdm_operation tdm_operation_add_rows = INTRINSIC(
    TDM_OP_ADD_ROWS, 3, 3, 1, infer_put_rows, tdm_work_updates_rows, GIVEN, .overwrites = {1});

/* ---- Kept between runs ----------------------------------------------------------------------- */

/* Fails unless value has that dtype and its shape agrees. */
static tdm_status expect_kept(const tdm_spec *value, const tdm_spec *wanted, const char *what) {
  bool fits = value->dtype == wanted->dtype && value->shape.rank == wanted->shape.rank;
  for (int i = 0; fits && i < wanted->shape.rank; i++)
    fits = tdm_dim_agree(value->shape.dims[i], wanted->shape.dims[i]);
  if (fits) return TDM_OK;
  char has[TDM_SHAPE_TEXT], wants[TDM_SHAPE_TEXT];
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s is %s %s, and must be %s %s", what,
                  tdm_dtype_name(value->dtype), tdm_shape_text(&value->shape, has, sizeof has),
                  tdm_dtype_name(wanted->dtype),
                  tdm_shape_text(&wanted->shape, wants, sizeof wants));
}

/* whole, rows, indices -> =whole */
static tdm_status infer_index_copy(tdm_infer *infer) {
  const tdm_spec *indices = &infer->inputs[2];
  const bool wide = indices->dtype != TDM_INT32;
  if (infer->inputs[0].shape.rank == 0)
    return tdm_fail(TDM_INVALID_ARGUMENT, "what is kept is a scalar and has no rows");
  tdm_spec wanted = {.dtype = wide ? TDM_INT64 : TDM_INT32,
                     .shape = {.rank = 1, .dims = {TDM_DIM_UNKNOWN}}};
  TDM_TRY(expect_kept(indices, &wanted, "indices"));
  wanted = infer->inputs[0];
  wanted.shape.dims[0] = indices->shape.dims[0];
  TDM_TRY(expect_kept(&infer->inputs[1], &wanted, "rows"));
  infer->outputs[0] = infer->inputs[0];
  return TDM_OK;
}

/* value, whole -> =whole */
static tdm_status infer_keep(tdm_infer *infer) {
  TDM_TRY(expect_kept(&infer->inputs[0], &infer->inputs[1], "what is to be kept"));
  infer->outputs[0] = infer->inputs[1];
  return TDM_OK;
}

const tdm_operation tdm_operation_index_copy =
    INTRINSIC(TDM_OP_INDEX_COPY, 3, 3, 1, infer_index_copy, put_rows_work, GIVEN, .overwrites = {1},
              .has_effects = true, .layer = "keep_rows");
const tdm_operation tdm_operation_keep =
    INTRINSIC(TDM_OP_CAST, 2, 2, 1, infer_keep, tdm_work_moves, GIVEN, .overwrites = {2},
              .has_effects = true, .layer = "keep");
/* Only reads; its output is not written and has no consumer. */
const tdm_operation tdm_operation_check_finite = INTRINSIC(
    TDM_OP_CHECK_FINITE, 1, 1, 1, infer_same, tdm_work_streams, GIVEN, .has_effects = true);
const tdm_operation tdm_operation_reorder =
    INTRINSIC(TDM_OP_REORDER, 1, 1, 1, infer_same, tdm_work_streams, GIVEN);

/* Its shape is that of its members. */
const tdm_operation tdm_operation_fused =
    INTRINSIC(TDM_OP_FUSED, 1, TDM_FUSED_INPUTS, 1, infer_same, tdm_work_streams, GIVEN,
              .attribute_bytes = sizeof(tdm_fused_attributes), .takes_list = true);

/* ---- Observing ------------------------------------------------------------------------------- */

static tdm_status append_observe_gradient(tdm_gradient *gradient) {
  tdm_gradient_set(gradient, 0, tdm_gradient_of_output(gradient, 0));
  return TDM_OK;
}

const tdm_operation tdm_operation_observe =
    INTRINSIC("observe", 1, 1, 1, infer_same, tdm_work_streams, GIVEN, .is_view = true,
              .gradient = append_observe_gradient);

tdm_value tdm_observe(tdm_graph *graph, const char *name, tdm_value value) {
  return tdm_append(graph, &tdm_operation_observe, name, NULL, &value, 1, NULL);
}

/* ---- The list -------------------------------------------------------------------------------- */

#define OF_SEVERAL_DEVICES "passes append it where there are several devices or micro-batches"

#define KEPT "it writes what later runs read, of inference alone; tests/graph/run tries it"

TDM_RECORDS(intrinsic,
            {.operation = &tdm_operation_fill,
             .functions = "tdm_full_like tdm_zeros_like tdm_ones_like"},
            {.operation = &tdm_operation_accumulate}, {.operation = &tdm_operation_begin_sum},
            {.operation = &tdm_operation_add_incoming}, {.operation = &tdm_operation_sparse_add},
            {.operation = &tdm_operation_log_rows},
            {.operation = &tdm_operation_take_rows, .no_golden = OF_SEVERAL_DEVICES},
            {.operation = &tdm_operation_put_rows, .no_golden = OF_SEVERAL_DEVICES},
            {.operation = &tdm_operation_add_rows, .no_golden = OF_SEVERAL_DEVICES},
            {.operation = &tdm_operation_index_copy,
             .functions = "tdm_keep_rows",
             .no_golden = KEPT,
             .no_differences = KEPT},
            {.operation = &tdm_operation_keep, .functions = "tdm_keep", .no_differences = KEPT},
            {.operation = &tdm_operation_check_finite, .no_golden = "it computes nothing"},
            {.operation = &tdm_operation_reorder,
             .no_kernel = "all kernels read dense values",
             .no_golden = "all kernels read dense values"},
            {.operation = &tdm_operation_fused},
            {.operation = &tdm_operation_observe,
             .no_golden = "it is its input",
             .no_differences = "it is its input"});
