/* The few operations that passes append on their own: constants, sums of adjoints, the check of the
 * loss, reorders. Invariant: their names and attributes are those of devices/kernels.h. */
#include "devices/fused.h"
#include "devices/kernels.h"
#include "graph/ir/ir.h"
#include "graph/ir/records.h"

static tdm_status infer_same(tdm_infer *infer) {
  for (size_t i = 1; i < infer->input_count; i++)
    if (infer->inputs[i].dtype != infer->inputs[0].dtype ||
        infer->inputs[i].shape.rank != infer->inputs[0].shape.rank)
      return tdm_fail(TDM_INVALID_ARGUMENT, "its inputs differ in dtype or rank");
  infer->outputs[0] = infer->inputs[0];
  infer->outputs[0].format = TDM_FORMAT_DENSE;
  return TDM_OK;
}

static tdm_status append_accumulate_gradient(tdm_gradient *gradient) {
  for (size_t i = 0; i < TDM_KERNEL_MAX_INPUTS; i++) /* contributes where there is an input */
    tdm_gradient_set(gradient, i, tdm_gradient_of_output(gradient, 0));
  return TDM_OK;
}

/* The seed of the backward pass: the caller sets the dtype, which no input could tell. */
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

const tdm_operation tdm_operation_fill = {.struct_size = sizeof(tdm_operation),
                                          .name = TDM_OP_FILL,
                                          .attribute_bytes = sizeof(tdm_fill_attributes),
                                          .min_inputs = 1, /* only for its shape and dtype */
                                          .max_inputs = 1,
                                          .output_count = 1,
                                          .infer = infer_fill,
                                          .work = tdm_work_writes,
                                          .precision = TDM_PRECISION_GIVEN};
const tdm_operation tdm_operation_accumulate = {.struct_size = sizeof(tdm_operation),
                                                .name = TDM_OP_ACCUMULATE,
                                                .min_inputs = 1,
                                                .max_inputs = TDM_KERNEL_MAX_INPUTS,
                                                .takes_list = true,
                                                .output_count = 1,
                                                .infer = infer_same,
                                                .gradient = append_accumulate_gradient,
                                                .elementwise = true,
                                                .work = tdm_work_streams,
                                                .precision = TDM_PRECISION_WIDEST};
const tdm_operation tdm_operation_begin_sum = {.struct_size = sizeof(tdm_operation),
                                               .name = TDM_OP_ACCUMULATE,
                                               .min_inputs = 1,
                                               .max_inputs = 1,
                                               .output_count = 1,
                                               .infer = infer_same,
                                               .work = tdm_work_streams,
                                               .precision = TDM_PRECISION_WIDEST};
const tdm_operation tdm_operation_add_incoming = {.struct_size = sizeof(tdm_operation),
                                                  .name = TDM_OP_ACCUMULATE,
                                                  .min_inputs = 2,
                                                  .max_inputs = 2,
                                                  .output_count = 1,
                                                  .overwrites = {1},
                                                  .infer = infer_same,
                                                  .work = tdm_work_streams,
                                                  .precision = TDM_PRECISION_WIDEST};
const tdm_operation tdm_operation_sparse_add = {.struct_size = sizeof(tdm_operation),
                                                .name = TDM_OP_SPARSE_ADD,
                                                .min_inputs = 6,
                                                .max_inputs = 6,
                                                .output_count = 3,
                                                .infer = infer_sparse_add,
                                                .work = tdm_work_streams,
                                                .precision = TDM_PRECISION_WIDEST};
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

/* As many rows are written as there are values. */
static void put_rows_work(const tdm_infer *node, tdm_work *work) {
  work->bytes_read -= tdm_work_bytes(&node->inputs[0]);
  work->bytes_written = tdm_work_bytes(&node->inputs[1]);
}

/* indices -> a log */
const tdm_operation tdm_operation_log_rows = {.struct_size = sizeof(tdm_operation),
                                              .name = TDM_OP_CAST,
                                              .min_inputs = 1,
                                              .max_inputs = 1,
                                              .output_count = 1,
                                              .infer = infer_same,
                                              .work = tdm_work_streams,
                                              .precision = TDM_PRECISION_GIVEN};
const tdm_operation tdm_operation_take_rows = {.struct_size = sizeof(tdm_operation),
                                               .name = TDM_OP_TAKE_ROWS,
                                               .min_inputs = 2,
                                               .max_inputs = 2,
                                               .output_count = 2,
                                               .infer = infer_take_rows,
                                               .work = tdm_work_looks_up,
                                               .precision = TDM_PRECISION_GIVEN};
const tdm_operation tdm_operation_put_rows = {.struct_size = sizeof(tdm_operation),
                                              .name = TDM_OP_PUT_ROWS,
                                              .min_inputs = 3,
                                              .max_inputs = 3,
                                              .output_count = 1,
                                              .overwrites = {1},
                                              .infer = infer_put_rows,
                                              .work = put_rows_work,
                                              .precision = TDM_PRECISION_GIVEN};
const tdm_operation tdm_operation_add_rows = {.struct_size = sizeof(tdm_operation),
                                              .name = TDM_OP_ADD_ROWS,
                                              .min_inputs = 3,
                                              .max_inputs = 3,
                                              .output_count = 1,
                                              .overwrites = {1},
                                              .infer = infer_put_rows,
                                              .work = tdm_work_updates_rows,
                                              .precision = TDM_PRECISION_GIVEN};
/* ---- Kept between runs ---- */

/* Has value that dtype, and may its shape be this one? */
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

const tdm_operation tdm_operation_index_copy = {.struct_size = sizeof(tdm_operation),
                                                .name = TDM_OP_INDEX_COPY,
                                                .min_inputs = 3,
                                                .max_inputs = 3,
                                                .output_count = 1,
                                                .overwrites = {1},
                                                .infer = infer_index_copy,
                                                .has_effects = true,
                                                .work = put_rows_work,
                                                .precision = TDM_PRECISION_GIVEN};
const tdm_operation tdm_operation_keep = {.struct_size = sizeof(tdm_operation),
                                          .name = TDM_OP_CAST,
                                          .min_inputs = 2,
                                          .max_inputs = 2,
                                          .output_count = 1,
                                          .overwrites = {2},
                                          .infer = infer_keep,
                                          .has_effects = true,
                                          .work = tdm_work_moves,
                                          .precision = TDM_PRECISION_GIVEN};
const tdm_operation tdm_operation_check_finite = {.struct_size = sizeof(tdm_operation),
                                                  .name = TDM_OP_CHECK_FINITE,
                                                  .min_inputs = 1,
                                                  .max_inputs = 1,
                                                  .output_count = 1,
                                                  .overwrites = {1},
                                                  .infer = infer_same,
                                                  .work = tdm_work_streams,
                                                  .precision = TDM_PRECISION_GIVEN};
const tdm_operation tdm_operation_reorder = {.struct_size = sizeof(tdm_operation),
                                             .name = TDM_OP_REORDER,
                                             .min_inputs = 1,
                                             .max_inputs = 1,
                                             .output_count = 1,
                                             .infer = infer_same,
                                             .work = tdm_work_streams,
                                             .precision = TDM_PRECISION_GIVEN};

/* Shapes are its members'. */
const tdm_operation tdm_operation_fused = {.struct_size = sizeof(tdm_operation),
                                           .name = TDM_OP_FUSED,
                                           .attribute_bytes = sizeof(tdm_fused_attributes),
                                           .min_inputs = 1,
                                           .max_inputs = TDM_FUSED_INPUTS,
                                           .takes_list = true,
                                           .output_count = 1,
                                           .infer = infer_same,
                                           .work = tdm_work_streams,
                                           .precision = TDM_PRECISION_GIVEN};

/* ---- Observing ---- */

static tdm_status append_observe_gradient(tdm_gradient *gradient) {
  tdm_gradient_set(gradient, 0, tdm_gradient_of_output(gradient, 0));
  return TDM_OK;
}

const tdm_operation tdm_operation_observe = {.struct_size = sizeof(tdm_operation),
                                             .name = "observe",
                                             .min_inputs = 1,
                                             .max_inputs = 1,
                                             .output_count = 1,
                                             .is_view = true,
                                             .infer = infer_same,
                                             .gradient = append_observe_gradient,
                                             .work = tdm_work_streams,
                                             .precision = TDM_PRECISION_GIVEN};

tdm_value tdm_observe(tdm_graph *graph, const char *name, tdm_value value) {
  return tdm_append(graph, &tdm_operation_observe, name, NULL, &value, 1, NULL);
}

/* ---- The list ---- */

#define OF_SEVERAL_DEVICES "passes append it where there are several devices or micro-batches"

#define KEPT "it writes what later runs read, of inference alone; tests/graph/run tries it"

TDM_RECORDS(intrinsic, {.operation = &tdm_operation_fill}, {.operation = &tdm_operation_accumulate},
            {.operation = &tdm_operation_begin_sum}, {.operation = &tdm_operation_add_incoming},
            {.operation = &tdm_operation_sparse_add}, {.operation = &tdm_operation_log_rows},
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
