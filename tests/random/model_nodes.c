/* Draws one node of a model's body. Invariant: each node is legal by the library's headers, so a
 * refusal is a defect. */
#include "tests/random/model_nodes.h"

static bool draw_linear(draw *stream, random_model *it) {
  const int x = pick_value(stream, it, 2, 4);
  if (x < 0 || it->values[x].dims[it->values[x].rank - 1] < 0) return false;
  extent shape = it->values[x];
  const extent weight = {2, {draw_between(stream, 1, 5), shape.dims[shape.rank - 1]}};
  const extent bias = {1, {weight.dims[0]}};
  shape.dims[shape.rank - 1] = weight.dims[0];
  random_node *made = node_begin(it, NODE_LINEAR);
  made->operands[made->operand_count++] = x;
  node_add_parameter(it, made, "it.weight", &weight);
  if (!draw_one_in(stream, 3)) node_add_parameter(it, made, "it.bias", &bias);
  node_add_value(it, made, &shape);
  return node_end(it, made);
}

static int pick_ids(draw *stream, const random_model *it) {
  for (int i = 0; i < it->node_count; i++)
    if (it->nodes[i].kind == NODE_IDS && draw_one_in(stream, 2)) return i;
  return -1;
}

static bool draw_embedding(draw *stream, random_model *it) {
  const int ids = pick_ids(stream, it);
  if (ids < 0) return false;
  const extent *of = &it->values[it->nodes[ids].first_value];
  const extent table = {2,
                        {it->nodes[ids].count + draw_below(stream, 3), draw_between(stream, 1, 4)}};
  const extent shape = {3, {of->dims[0], of->dims[1], table.dims[1]}};
  random_node *made = node_begin(it, NODE_EMBEDDING);
  made->operands[made->operand_count++] = it->nodes[ids].first_value;
  made->count = table.dims[0];
  made->flag = it->has_sparse && draw_one_in(stream, 2);
  if (draw_one_in(stream, 3)) made->padding_row = draw_below(stream, (int)table.dims[0]);
  node_add_parameter(it, made, "it.weight", &table);
  node_add_value(it, made, &shape);
  return node_end(it, made);
}

static bool draw_bag(draw *stream, random_model *it) {
  const int ids = pick_ids(stream, it);
  if (ids < 0) return false;
  const extent *of = &it->values[it->nodes[ids].first_value];
  const extent table = {2,
                        {it->nodes[ids].count + draw_below(stream, 3), draw_between(stream, 1, 4)}};
  const extent shape = {2, {BATCH, table.dims[1]}};
  random_node *made = node_begin(it, NODE_BAG);
  made->operands[made->operand_count++] = it->nodes[ids].first_value;
  made->which = draw_between(stream, BAG_MEAN, BAG_MAX);
  made->count = table.dims[0];
  made->flag = it->has_sparse && made->which != BAG_MAX && draw_one_in(stream, 2);
  if (made->which != BAG_MEAN && draw_one_in(stream, 3))
    made->padding_row = draw_below(stream, (int)table.dims[0]);
  const int scales = pick_value(stream, it, 2, 2);
  if (made->which == BAG_SUM && scales >= 0 && extents_equal(&it->values[scales], of))
    made->operands[made->operand_count++] = scales;
  node_add_parameter(it, made, "it.weight", &table);
  node_add_value(it, made, &shape);
  return node_end(it, made);
}

static bool draw_unary(draw *stream, random_model *it) {
  static const double NUMBERS[][2] = {{0.5, 0}, {2, 0}, {-1, 1}, {1, -2}, {0, 1}};
  const int x = pick_value(stream, it, 0, 4);
  if (x < 0) return false;
  random_node *made = node_begin(it, NODE_UNARY);
  made->which = draw_below(stream, UNARY_KINDS);
  if (draw_one_in(stream, 2)) made->which = UNARY_HARDTANH;
  if (made->which == UNARY_CLAMP || made->which == UNARY_HARDTANH) {
    made->numbers[0] = draw_between(stream, -4, 0);
    made->numbers[1] = draw_between(stream, 1, 4);
  }
  if (made->which == UNARY_LEAKY) made->numbers[0] = 0.5;
  if (made->which == UNARY_AFFINE) {
    const int which = draw_below(stream, 5);
    made->numbers[0] = NUMBERS[which][0];
    made->numbers[1] = NUMBERS[which][1];
  }
  made->operands[made->operand_count++] = x;
  node_add_value(it, made, &it->values[x]);
  return node_end(it, made);
}

static bool draw_binary(draw *stream, random_model *it) {
  const int a = pick_value(stream, it, 0, 4), b = pick_value(stream, it, 0, 4);
  extent shape;
  if (a < 0 || b < 0 || !extents_broadcast(&it->values[a], &it->values[b], &shape)) return false;
  random_node *made = node_begin(it, NODE_BINARY);
  made->which = draw_below(stream, BINARY_KINDS);
  made->operands[made->operand_count++] = a;
  made->operands[made->operand_count++] = b;
  node_add_value(it, made, &shape);
  return node_end(it, made);
}

static bool draw_where(draw *stream, random_model *it) {
  const int a = pick_value(stream, it, 0, 4);
  if (a < 0) return false;
  const extent shape = it->values[a];
  random_node *made = node_begin(it, NODE_WHERE);
  made->which = draw_below(stream, 6);
  made->operands[made->operand_count++] = a;
  for (int i = 0; i < 3; i++) {
    const int other = pick_value(stream, it, 0, 4);
    extent both;
    const bool fits = other >= 0 && extents_broadcast(&shape, &it->values[other], &both) &&
                      extents_equal(&both, &shape);
    made->operands[made->operand_count++] = fits ? other : a;
  }
  node_add_value(it, made, &shape);
  return node_end(it, made);
}

static bool draw_concat(draw *stream, random_model *it) {
  const int a = pick_value(stream, it, 1, 4);
  const int dimension = a < 0 ? -1 : pick_dimension(stream, &it->values[a]);
  if (dimension < 0) return false;
  random_node *made = node_begin(it, NODE_CONCAT);
  made->dimension = dimension;
  extent shape = it->values[a];
  made->operands[made->operand_count++] = a;
  for (int i = draw_below(stream, MOST_OPERANDS); i > 0; i--) {
    const int other = pick_value(stream, it, shape.rank, shape.rank);
    if (other < 0) continue;
    extent like = it->values[other];
    like.dims[dimension] = shape.dims[dimension];
    if (it->values[other].dims[dimension] < 0 || !extents_equal(&like, &shape)) continue;
    made->operands[made->operand_count++] = other;
  }
  shape.dims[dimension] = 0;
  for (int i = 0; i < made->operand_count; i++)
    shape.dims[dimension] += it->values[made->operands[i]].dims[dimension];
  node_add_value(it, made, &shape);
  return node_end(it, made);
}

static bool draw_split(draw *stream, random_model *it) {
  const int x = pick_value(stream, it, 1, 4);
  const int dimension = x < 0 ? -1 : pick_dimension(stream, &it->values[x]);
  if (dimension < 0) return false;
  random_node *made = node_begin(it, NODE_SPLIT);
  made->dimension = dimension;
  made->operands[made->operand_count++] = x;
  extent shape = it->values[x];
  int64_t left = shape.dims[dimension];
  while (left > 0 && made->value_count < 4) {
    shape.dims[dimension] = made->value_count == 3 ? left : draw_between(stream, 1, (int)left);
    left -= shape.dims[dimension];
    node_add_value(it, made, &shape);
  }
  return node_end(it, made);
}

static bool draw_reshape(draw *stream, random_model *it) {
  const int x = pick_value(stream, it, 1, 4);
  if (x < 0) return false;
  const extent *from = &it->values[x];
  const int first = extent_batch(from) == 0 ? 1 : 0;
  if (extent_batch(from) > 0) return false;
  extent shape = {.rank = first, .dims = {from->dims[0]}};
  int64_t left = 1;
  for (int i = first; i < from->rank; i++)
    left *= from->dims[i];
  while (shape.rank < MOST_RANK - 1 && !draw_one_in(stream, 3)) {
    const int factor = draw_between(stream, 1, 4);
    if (left % factor != 0) continue;
    shape.dims[shape.rank++] = factor;
    left /= factor;
  }
  shape.dims[shape.rank++] = left;
  random_node *made = node_begin(it, NODE_RESHAPE);
  made->operands[made->operand_count++] = x;
  made->flag = draw_one_in(stream, 2); /* the batch is left to be inferred */
  node_add_value(it, made, &shape);
  return node_end(it, made);
}

static bool draw_transpose(draw *stream, random_model *it) {
  const int x = pick_value(stream, it, 2, 4);
  if (x < 0) return false;
  extent shape = it->values[x];
  const int first = draw_below(stream, shape.rank), second = draw_below(stream, shape.rank);
  const bool moves_batch = shape.dims[first] < 0 || shape.dims[second] < 0;
  if (first == second || (moves_batch && first + second != 1)) return false;
  const int64_t kept = shape.dims[first];
  shape.dims[first] = shape.dims[second];
  shape.dims[second] = kept;
  random_node *made = node_begin(it, NODE_TRANSPOSE);
  made->operands[made->operand_count++] = x;
  made->dimension = first;
  made->other = second;
  node_add_value(it, made, &shape);
  return node_end(it, made);
}

static bool draw_select(draw *stream, random_model *it) {
  const int x = pick_value(stream, it, 1, 4);
  const int dimension = x < 0 ? -1 : pick_dimension(stream, &it->values[x]);
  if (dimension < 0) return false;
  extent shape = it->values[x];
  random_node *made = node_begin(it, NODE_SELECT);
  made->operands[made->operand_count++] = x;
  made->dimension = dimension;
  made->count = draw_below(stream, (int)shape.dims[dimension]);
  shape.rank--;
  for (int i = dimension; i < shape.rank; i++)
    shape.dims[i] = shape.dims[i + 1];
  node_add_value(it, made, &shape);
  return node_end(it, made);
}

static bool draw_observe(draw *stream, random_model *it) {
  const int x = pick_value(stream, it, 0, 4);
  if (x < 0) return false;
  random_node *made = node_begin(it, NODE_OBSERVE);
  made->operands[made->operand_count++] = x;
  node_add_value(it, made, &it->values[x]);
  return node_end(it, made);
}

/* A sum, a mean or an extreme along a dimension, or cumulative sums. */
static bool draw_reduction(draw *stream, random_model *it) {
  static const node_kind KINDS[] = {NODE_SUM, NODE_MEAN, NODE_CUMSUM, NODE_EXTREME};
  const int x = pick_value(stream, it, 1, 4);
  const int dimension = x < 0 ? -1 : pick_dimension(stream, &it->values[x]);
  if (dimension < 0) return false;
  extent shape = it->values[x];
  const int64_t length = shape.dims[dimension];
  random_node *made = node_begin(it, KINDS[draw_below(stream, 4)]);
  if (made->kind == NODE_MEAN && (length & (length - 1)) != 0) return false;
  made->operands[made->operand_count++] = x;
  made->dimension = dimension;
  made->flag = made->kind != NODE_CUMSUM && draw_one_in(stream, 2);
  if (made->kind != NODE_CUMSUM) {
    shape.rank--;
    for (int i = dimension; i < shape.rank; i++)
      shape.dims[i] = shape.dims[i + 1];
  }
  node_add_value(it, made, &shape);
  return node_end(it, made);
}

static bool draw_matmul(draw *stream, random_model *it) {
  const int a = pick_value(stream, it, 2, 3), b = pick_value(stream, it, 2, 3);
  if (a < 0 || b < 0) return false;
  const extent *left = &it->values[a], *right = &it->values[b];
  const int64_t k = left->dims[left->rank - 1];
  if (k < 0 || k != right->dims[right->rank - 2]) return false;
  if (right->dims[right->rank - 1] < 0) return false;
  if (left->rank == 3 && right->rank == 3 && left->dims[0] != right->dims[0]) return false;
  if (left->dims[left->rank - 2] < 0 && right->rank == 3) return false;
  extent shape = {.rank = left->rank > right->rank ? left->rank : right->rank};
  if (shape.rank == 3) shape.dims[0] = left->rank == 3 ? left->dims[0] : right->dims[0];
  shape.dims[shape.rank - 2] = left->dims[left->rank - 2];
  shape.dims[shape.rank - 1] = right->dims[right->rank - 1];
  random_node *made = node_begin(it, NODE_MATMUL);
  made->operands[made->operand_count++] = a;
  made->operands[made->operand_count++] = b;
  node_add_value(it, made, &shape);
  return node_end(it, made);
}

static bool draw_interaction(draw *stream, random_model *it) {
  const int x = pick_value(stream, it, 3, 3);
  if (x < 0 || it->values[x].dims[0] != BATCH) return false;
  const int64_t vectors = it->values[x].dims[1];
  if (vectors < 2) return false;
  random_node *made = node_begin(it, NODE_INTERACTION);
  made->operands[made->operand_count++] = x;
  made->flag = draw_one_in(stream, 2);
  const extent shape = {2, {BATCH, vectors * (vectors + (made->flag ? 1 : -1)) / 2}};
  node_add_value(it, made, &shape);
  return node_end(it, made);
}

/* Draws a window and fills in the result's size; false: it does not fit. */
static bool draw_window(draw *stream, random_node *made, const extent *x, extent *out, bool pools) {
  for (int i = 0; i < 2; i++) {
    made->kernel[i] = draw_between(stream, 1, 3);
    if (made->which == POOL_AVERAGE && pools) made->kernel[i] = draw_between(stream, 1, 2);
    made->stride[i] = draw_between(stream, 1, 2);
    made->dilation[i] = pools ? 1 : draw_between(stream, 1, 2);
    made->padding[i] = draw_between(stream, 0, pools ? (int)made->kernel[i] / 2 : 2);
    const int64_t reach = made->dilation[i] * (made->kernel[i] - 1) + 1;
    const int64_t room = x->dims[2 + i] + 2 * made->padding[i] - reach;
    if (room < 0) return false;
    out->dims[2 + i] = room / made->stride[i] + 1;
  }
  return true;
}

static bool draw_convolution(draw *stream, random_model *it) {
  const int x = pick_value(stream, it, 4, 4);
  if (x < 0 || it->values[x].dims[0] != BATCH) return false;
  const extent from = it->values[x];
  random_node *made = node_begin(it, NODE_CONVOLUTION);
  made->operands[made->operand_count++] = x;
  made->groups = draw_between(stream, 1, 2);
  extent shape = {4, {BATCH, draw_between(stream, 1, 4)}};
  if (from.dims[1] % made->groups != 0 || shape.dims[1] % made->groups != 0) made->groups = 1;
  if (!draw_window(stream, made, &from, &shape, false)) return false;
  const extent weight = {
      4, {shape.dims[1], from.dims[1] / made->groups, made->kernel[0], made->kernel[1]}};
  const extent bias = {1, {shape.dims[1]}};
  node_add_parameter(it, made, "it.weight", &weight);
  if (!draw_one_in(stream, 3)) node_add_parameter(it, made, "it.bias", &bias);
  node_add_value(it, made, &shape);
  return node_end(it, made);
}

static bool draw_pool(draw *stream, random_model *it) {
  const int x = pick_value(stream, it, 4, 4);
  if (x < 0 || it->values[x].dims[0] != BATCH) return false;
  const extent from = it->values[x];
  random_node *made = node_begin(it, NODE_POOL);
  made->operands[made->operand_count++] = x;
  made->which = draw_between(stream, POOL_MAX, POOL_AVERAGE);
  extent shape = {4, {BATCH, from.dims[1]}};
  if (!draw_window(stream, made, &from, &shape, true)) return false;
  node_add_value(it, made, &shape);
  return node_end(it, made);
}

static bool draw_real(draw *stream, random_model *it) {
  const int which = draw_below(stream, REAL_KINDS);
  const bool of_sequences = which >= REAL_LSTM;
  const int x = pick_value(stream, it, of_sequences ? 3 : 1, of_sequences ? 3 : 4);
  const int dimension = x < 0 ? -1 : pick_dimension(stream, &it->values[x]);
  if (dimension < 0) return false;
  extent shape = it->values[x];
  if (of_sequences && shape.dims[0] != BATCH) return false;
  if (which == REAL_LAYER_NORM && shape.dims[shape.rank - 1] < 0) return false;
  random_node *made = node_begin(it, NODE_REAL);
  made->which = which;
  made->dimension = dimension;
  made->operands[made->operand_count++] = x;
  if (which >= REAL_LSTM && which <= REAL_RNN) shape.dims[2] = draw_between(stream, 1, 5);
  if (which == REAL_VARIANCE) {
    shape.rank--;
    for (int i = dimension; i < shape.rank; i++)
      shape.dims[i] = shape.dims[i + 1];
  }
  node_add_value(it, made, &shape);
  return node_end(it, made);
}

/* Draws layers without jumps and kinks, at which rounding would show. */
void real_node_draw(draw *stream, random_model *it) {
  static bool (*const DRAWS[])(draw *, random_model *) = {
      draw_linear,      draw_linear,  draw_embedding, draw_binary, draw_concat,
      draw_split,       draw_reshape, draw_transpose, draw_select, draw_observe,
      draw_reduction,   draw_matmul,  draw_real,      draw_real,   draw_real,
      draw_convolution, draw_real,    draw_real,      draw_pool,   draw_bag,
  };
  const random_model before = *it;
  if (!DRAWS[draw_below(stream, (int)(sizeof DRAWS / sizeof *DRAWS))](stream, it)) return;
  const random_node *made = &it->nodes[it->node_count - 1];
  const bool bends = made->kind == NODE_EXTREME ||
                     (made->kind == NODE_BINARY && made->which >= BINARY_MAXIMUM) ||
                     (made->kind == NODE_POOL && made->which == POOL_MAX) ||
                     (made->kind == NODE_BAG && made->which == BAG_MAX);
  if (bends) *it = before;
}

/* Draws nodes that use gradients as values, and concatenations of them with each other and with all
 * other values. */
static void gradients_node_draw(draw *stream, random_model *it) {
  if (draw_one_in(stream, 2))
    (void)wider_gradient_draw(stream, it);
  else if (draw_one_in(stream, 2))
    (void)draw_concat(stream, it);
  else
    (void)rows_joined_draw(stream, it);
}

void node_draw(draw *stream, random_model *it) {
  if (it->of_gradients && draw_one_in(stream, 2)) {
    gradients_node_draw(stream, it);
    return;
  }
  if (it->wider && draw_one_in(stream, 4)) {
    (void)wider_node_draw(stream, it);
    return;
  }
  if (it->moves_rows && !draw_one_in(stream, 3)) {
    rows_node_draw(stream, it);
    return;
  }
  if (it->real) {
    real_node_draw(stream, it);
    return;
  }
  static bool (*const DRAWS[])(draw *, random_model *) = {
      draw_linear,      draw_linear,    draw_linear, draw_embedding,   draw_embedding,
      draw_bag,         draw_unary,     draw_unary,  draw_unary,       draw_binary,
      draw_binary,      draw_where,     draw_concat, draw_concat,      draw_split,
      draw_reshape,     draw_transpose, draw_select, draw_observe,     draw_reduction,
      draw_reduction,   draw_matmul,    draw_matmul, draw_interaction, draw_convolution,
      draw_convolution, draw_pool,
  };
  (void)DRAWS[draw_below(stream, (int)(sizeof DRAWS / sizeof *DRAWS))](stream, it);
}
