/* Matrix products with broadcasting, and transposition of two dimensions. Invariant: a gradient is
 * again a product with one operand transposed, summed over broadcast dimensions. */
#include <string.h>

#include "layers/common.h"
#include "tandem/layers/layers.h"

/* ---- Product --------------------------------------------------------------------------------- */

static tdm_status refuse_shapes(const tdm_infer *infer) {
  char a[TDM_SHAPE_TEXT];
  char b[TDM_SHAPE_TEXT];
  return tdm_fail(TDM_INVALID_ARGUMENT, "a %s and b %s cannot be multiplied",
                  tdm_shape_text(tdm_infer_shape(infer, 0), a, sizeof a),
                  tdm_shape_text(tdm_infer_shape(infer, 1), b, sizeof b));
}

/* Returns dimension i in a shape of `rank` dimensions that ends with `shape`, or 1 if `shape` lacks
 * it. */
static tdm_dim leading(const tdm_shape *shape, int rank, int i) {
  const int at = i - (rank - shape->rank);
  return at >= 0 ? shape->dims[at] : 1;
}

static tdm_status infer_matmul(tdm_infer *infer) {
  const tdm_matmul_attributes *attributes = infer->attributes;
  TDM_TRY(tdm_expect_floating(infer, 0, "a"));
  TDM_TRY(tdm_expect_dtype_of_first(infer, 1, "a", "b"));
  TDM_TRY(tdm_expect_rank(infer, 0, "a", 2, TDM_MAX_RANK));
  TDM_TRY(tdm_expect_rank(infer, 1, "b", 2, TDM_MAX_RANK));
  const tdm_shape *a = tdm_infer_shape(infer, 0), *b = tdm_infer_shape(infer, 1);
  const tdm_dim *of_a = a->dims + a->rank - 2, *of_b = b->dims + b->rank - 2;
  const int a_rows = attributes->transpose_a != 0, b_rows = attributes->transpose_b != 0;
  if (!tdm_dim_agree(of_a[1 - a_rows], of_b[b_rows])) return refuse_shapes(infer);
  tdm_shape y = {.rank = a->rank > b->rank ? a->rank : b->rank};
  for (int i = 0; i < y.rank - 2; i++) {
    const tdm_dim left = leading(a, y.rank, i), right = leading(b, y.rank, i);
    if (left != 1 && right != 1 && !tdm_dim_agree(left, right)) return refuse_shapes(infer);
    y.dims[i] = left == 1 ? right : right == 1 ? left : tdm_dim_merge(left, right);
  }
  y.dims[y.rank - 2] = of_a[a_rows];
  y.dims[y.rank - 1] = of_b[1 - b_rows];
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &y);
  return TDM_OK;
}

/* Counts, for each element of the result, as many products as the common dimension has elements. */
static void matmul_work(const tdm_infer *node, tdm_work *work) {
  const tdm_matmul_attributes *attributes = node->attributes;
  const tdm_shape *a = tdm_infer_shape(node, 0);
  const double terms = (double)a->dims[a->rank - (attributes->transpose_a ? 2 : 1)];
  work->flops = 2 * tdm_work_count(&node->outputs[0]) * terms;
}

static tdm_status append_matmul_gradient(tdm_gradient *gradient);

static const tdm_operation matmul_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_MATMUL,
    .attribute_bytes = sizeof(tdm_matmul_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = infer_matmul,
    .gradient = append_matmul_gradient,
    .work = matmul_work,
    .precision = TDM_PRECISION_LOWER,
};

static tdm_value multiply(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                          bool transpose_a, bool transpose_b) {
  const tdm_matmul_attributes attributes = {.transpose_a = transpose_a, .transpose_b = transpose_b};
  const tdm_value operands[] = {a, b};
  return tdm_append(graph, &matmul_operation, name, &attributes, operands, 2, NULL);
}

/* Returns a view of x with all dimensions except the last merged into one. */
static tdm_value as_rows(tdm_gradient *gradient, tdm_value x) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const tdm_shape shape = tdm_value_shape(graph, x);
  const int8_t sources[] = {-1, (int8_t)(shape.rank - 1)};
  return tdm_reshape_from(graph, tdm_gradient_name(gradient), x,
                          tdm_shape_of(2, TDM_INFER, shape.dims[shape.rank - 1]), sources);
}

/* Appends the gradient of a forward node, which never transposes: d_a = d_y b^T, d_b = a^T d_y. */
static tdm_status append_matmul_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const char *name = tdm_gradient_name(gradient);
  const tdm_value a = tdm_gradient_input(gradient, 0), b = tdm_gradient_input(gradient, 1);
  const tdm_value d_y = tdm_gradient_of_output(gradient, 0);
  const tdm_shape a_shape = tdm_value_shape(graph, a), b_shape = tdm_value_shape(graph, b);
  if (tdm_gradient_wanted(gradient, 0)) {
    const tdm_value d_a = multiply(graph, name, d_y, b, false, true);
    tdm_gradient_set(gradient, 0, tdm_sum_repeated(gradient, d_a, &a_shape, 2));
  }
  if (tdm_gradient_wanted(gradient, 1) &&
      b_shape.rank == 2) { /* the rows of all batches in one product */
    const tdm_value rows = as_rows(gradient, a), d_rows = as_rows(gradient, d_y);
    tdm_gradient_set(gradient, 1, multiply(graph, name, rows, d_rows, true, false));
  } else if (tdm_gradient_wanted(gradient, 1)) {
    const tdm_value d_b = multiply(graph, name, a, d_y, true, false);
    tdm_gradient_set(gradient, 1, tdm_sum_repeated(gradient, d_b, &b_shape, 2));
  }
  return tdm_graph_status(graph);
}

tdm_value tdm_matmul(tdm_graph *graph, const char *name, tdm_value a, tdm_value b) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "matmul", name, a) || !tdm_layer_accepts(graph, "matmul", name, b))
    return TDM_NO_VALUE;
  return multiply(graph, name, a, b, false, false);
}

/* ---- Exchange of two dimensions -------------------------------------------------------------- */

static tdm_status infer_transpose(tdm_infer *infer) {
  const tdm_transpose_attributes *attributes = infer->attributes;
  const tdm_dtype dtype = infer->inputs[0].dtype;
  const tdm_shape *x = tdm_infer_shape(infer, 0);
  tdm_shape y = *x;
  y.dims[attributes->first] = x->dims[attributes->second];
  y.dims[attributes->second] = x->dims[attributes->first];
  tdm_infer_set(infer, 0, dtype, &y);
  return TDM_OK;
}

static tdm_status append_transpose_gradient(tdm_gradient *gradient);

static const tdm_operation transpose_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_TRANSPOSE,
    .attribute_bytes = sizeof(tdm_transpose_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = infer_transpose,
    .gradient = append_transpose_gradient,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

TDM_RECORDS(matmul,
            {.operation = &matmul_operation,
             .functions = "tdm_matmul tdm_einsum tdm_bilinear tdm_bilinear_without_bias"},
            {.operation = &transpose_operation, .functions = "tdm_transpose"});

static tdm_status append_transpose_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const tdm_value d_y = tdm_gradient_of_output(gradient, 0);
  tdm_gradient_set(gradient, 0,
                   tdm_append(graph, &transpose_operation, tdm_gradient_name(gradient),
                              tdm_gradient_attributes(gradient), &d_y, 1, NULL));
  return tdm_graph_status(graph);
}

tdm_value tdm_transpose(tdm_graph *graph, const char *name, tdm_value x, int first, int second) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "transpose", name, x)) return TDM_NO_VALUE;
  const tdm_shape shape = tdm_value_shape(graph, x);
  const int a = tdm_layer_dimension(graph, "transpose", name, &shape, first);
  const int b = tdm_layer_dimension(graph, "transpose", name, &shape, second);
  if (a < 0 || b < 0) return TDM_NO_VALUE;
  if (a == b) return x;
  const tdm_transpose_attributes attributes = {.first = a < b ? a : b, .second = a < b ? b : a};
  return tdm_append(graph, &transpose_operation, name, &attributes, &x, 1, NULL);
}
