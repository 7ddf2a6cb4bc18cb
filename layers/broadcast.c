/* Broadcasting: the shape of the result, sums of adjoints, and micro-batches. Invariant: shapes are
 * aligned at their last dimension, and only a dimension of 1 or a missing one is repeated. */
#include "layers/common.h"
#include "tandem/layers/layers.h"

tdm_status tdm_shape_broadcast(const tdm_shape *a, const char *a_name, const tdm_shape *b,
                               const char *b_name, tdm_shape *out_shape) {
  tdm_shape found = {.rank = a->rank > b->rank ? a->rank : b->rank};
  for (int i = 0; i < found.rank; i++) {
    const int at_a = i - (found.rank - a->rank), at_b = i - (found.rank - b->rank);
    const tdm_dim left = at_a >= 0 ? a->dims[at_a] : 1, right = at_b >= 0 ? b->dims[at_b] : 1;
    if (left != 1 && right != 1 && !tdm_dim_agree(left, right)) {
      char a_text[TDM_SHAPE_TEXT];
      char b_text[TDM_SHAPE_TEXT];
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s is %s, %s is %s: they cannot be broadcast", a_name,
                      tdm_shape_text(a, a_text, sizeof a_text), b_name,
                      tdm_shape_text(b, b_text, sizeof b_text));
    }
    found.dims[i] = left == 1 ? right : right == 1 ? left : tdm_dim_merge(left, right);
  }
  *out_shape = found;
  return TDM_OK;
}

tdm_status tdm_expect_broadcast(const tdm_infer *infer, size_t a, const char *a_name, size_t b,
                                const char *b_name, tdm_shape *out_shape) {
  return tdm_shape_broadcast(tdm_infer_shape(infer, a), a_name, tdm_infer_shape(infer, b), b_name,
                             out_shape);
}

tdm_value tdm_sum_repeated(tdm_gradient *gradient, tdm_value d, const tdm_shape *operand,
                           int trailing) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const char *name = tdm_gradient_name(gradient);
  const tdm_shape whole = tdm_value_shape(graph, d);
  const int missing = whole.rank - operand->rank;
  int dimensions[TDM_MAX_RANK];
  size_t count = 0;
  bool stay = false;
  for (int i = 0; i < whole.rank - trailing; i++) {
    const bool repeated = i >= missing && operand->dims[i - missing] == 1 && whole.dims[i] != 1;
    if (i < missing || repeated) dimensions[count++] = i;
    stay |= repeated;
  }
  if (count == 0) return d;
  d = tdm_sum(graph, name, d, dimensions, count, stay);
  return stay && missing > 0 ? tdm_reshape(graph, name, d, *operand) : d;
}

void tdm_gradient_set_summed(tdm_gradient *gradient, size_t index, tdm_value d) {
  const tdm_shape operand =
      tdm_value_shape(tdm_gradient_graph(gradient), tdm_gradient_input(gradient, index));
  tdm_gradient_set(gradient, index, tdm_sum_repeated(gradient, d, &operand, 0));
}

/* Returns the size of dimension `from_end` (1: the last), or 1 if the operand lacks it. */
static int64_t size_from_end(const tdm_shape *shape, int from_end) {
  return from_end <= shape->rank ? shape->dims[shape->rank - from_end] : 1;
}

tdm_status tdm_chunk_broadcast(tdm_chunked *chunked) {
  int rows = 0; /* index of the batch's dimension from the end */
  for (size_t i = 0; i < TDM_BROADCAST_INPUTS; i++) {
    const int dimension = tdm_chunked_cut(chunked, i).dimension;
    if (dimension < 0) continue;
    const int from_end = tdm_chunked_shape(chunked, i).rank - dimension;
    if (rows != 0 && rows != from_end)
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "its operands have the rows of the batch in different dimensions");
    rows = from_end;
  }
  for (size_t i = 0; i < TDM_BROADCAST_INPUTS && rows != 0; i++) {
    const tdm_shape shape = tdm_chunked_shape(chunked, i);
    if (shape.rank < 0 || tdm_chunked_cut(chunked, i).dimension >= 0) continue;
    char text[TDM_SHAPE_TEXT];
    if (size_from_end(&shape, rows) != 1)
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "operand %zu is %s, whose dimension beside the rows of the batch is not cut",
                      i, tdm_shape_text(&shape, text, sizeof text));
  }
  return tdm_chunked_each(chunked, NULL);
}
