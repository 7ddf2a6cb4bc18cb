/* Draws what moves the rows of a batch, mixes them, or reduces over them, along any dimension: what
 * a batch that is cut may have to refuse. Invariant: as in model_nodes.c, of the whole batch all of
 * it is legal by the library's headers. */
#include "tests/random/model_nodes.h"

void rows_turn_input(draw *stream, extent *shape) {
  const int to = draw_one_in(stream, 2) ? draw_below(stream, shape->rank) : 0;
  shape->dims[0] = shape->dims[to];
  shape->dims[to] = BATCH;
}

static random_node *begin_at(random_model *it, node_kind kind, int x, int dimension) {
  random_node *made = node_begin(it, kind);
  made->operands[made->operand_count++] = x;
  made->dimension = dimension;
  return made;
}

static int pick_any(draw *stream, const random_model *it, int x) {
  const int batch = extent_batch(&it->values[x]);
  return batch >= 0 && draw_one_in(stream, 2) ? batch : draw_below(stream, it->values[x].rank);
}

/* Returns true for models that split few rows, so that more of them can be divided. */
static bool keeps_rows(const random_model *it) {
  return it->seed % 2;
}

static void remove_dimension(extent *shape, int dimension) {
  shape->rank--;
  for (int i = dimension; i < shape->rank; i++)
    shape->dims[i] = shape->dims[i + 1];
}

/* ---- Moves ----------------------------------------------------------------------------------- */

/* Draws a concatenation of a few similar values along a dimension, also along the batch. */
bool rows_joined_draw(draw *stream, random_model *it) {
  const int x = pick_value(stream, it, 1, MOST_RANK);
  if (x < 0) return false;
  random_node *made = begin_at(it, NODE_CONCAT, x, pick_any(stream, it, x));
  extent shape = it->values[x];
  int64_t *size = &shape.dims[made->dimension];
  for (int i = draw_between(stream, 1, 3); i > 0; i--) {
    const int other = pick_value(stream, it, shape.rank, shape.rank);
    extent like = it->values[other < 0 ? x : other];
    const int64_t more = like.dims[made->dimension];
    like.dims[made->dimension] = it->values[x].dims[made->dimension];
    if (other < 0 || !extents_equal(&like, &it->values[x]) || (more < 0) != (*size < 0)) continue;
    made->operands[made->operand_count++] = other;
    *size += more;
  }
  node_add_value(it, made, &shape);
  return node_end(it, made);
}

/* Equal parts of a dimension. */
static bool draw_parts(draw *stream, random_model *it) {
  const int x = pick_value(stream, it, 1, MOST_RANK);
  if (x < 0) return false;
  random_node *made = begin_at(it, NODE_SPLIT, x, pick_any(stream, it, x));
  const int64_t size = it->values[x].dims[made->dimension], count = draw_between(stream, 2, 4);
  if (size % count != 0) return false;
  made->flag = true;
  extent shape = it->values[x];
  shape.dims[made->dimension] /= count;
  for (int i = 0; i < count; i++)
    node_add_value(it, made, &shape);
  return node_end(it, made);
}

static int64_t draw_factor(draw *stream, int64_t of) {
  for (int i = 0; i < 6; i++) {
    const int64_t factor = draw_between(stream, 1, 6);
    if (of % factor == 0) return factor;
  }
  return 1;
}

/* Draws another shape with the same number of elements, with the batch at any dimension. */
static bool draw_shape(draw *stream, random_model *it) {
  const int x = pick_value(stream, it, 1, MOST_RANK);
  if (x < 0) return false;
  int64_t left = 1;
  for (int i = 0; i < it->values[x].rank; i++)
    left *= it->values[x].dims[i];
  const bool has_batch = left < 0;
  if (has_batch) left = -left;
  extent shape = {.rank = draw_between(stream, 1, MOST_RANK)};
  for (int i = 0; i < shape.rank; i++) {
    shape.dims[i] = i + 1 < shape.rank ? draw_factor(stream, left) : left;
    left /= shape.dims[i];
  }
  const int batch = draw_one_in(stream, 2) ? 0 : draw_below(stream, shape.rank);
  if (has_batch) shape.dims[batch] = -shape.dims[batch];
  random_node *made = begin_at(it, NODE_RESHAPE, x, 0);
  made->flag = true;
  node_add_value(it, made, &shape);
  return node_end(it, made);
}

static bool draw_turned(draw *stream, random_model *it) {
  const int x = pick_value(stream, it, 2, MOST_RANK);
  if (x < 0) return false;
  extent shape = it->values[x];
  random_node *made = begin_at(it, NODE_TRANSPOSE, x, pick_any(stream, it, x));
  made->other = draw_below(stream, shape.rank);
  if (made->other == made->dimension) return false;
  shape.dims[made->dimension] = it->values[x].dims[made->other];
  shape.dims[made->other] = it->values[x].dims[made->dimension];
  node_add_value(it, made, &shape);
  return node_end(it, made);
}

static bool draw_one(draw *stream, random_model *it) {
  const int x = pick_value(stream, it, 1, MOST_RANK);
  if (x < 0) return false;
  extent shape = it->values[x];
  random_node *made = begin_at(it, NODE_SELECT, x, pick_any(stream, it, x));
  const int64_t size = shape.dims[made->dimension];
  made->count = size < 0 ? 0 : draw_below(stream, (int)size);
  remove_dimension(&shape, made->dimension);
  node_add_value(it, made, &shape);
  return node_end(it, made);
}

/* Some in a row of a dimension that is a size. */
static bool draw_slice(draw *stream, random_model *it) {
  const int x = pick_value(stream, it, 1, MOST_RANK);
  if (x < 0) return false;
  extent shape = it->values[x];
  random_node *made = begin_at(it, NODE_ROWS, x, pick_any(stream, it, x));
  int64_t *size = &shape.dims[made->dimension];
  if (*size < 0) *size = -*size * it->fixed_rows;
  if (*size == 0) return false;
  const int most = (int)*size - 1;
  made->which = ROWS_SLICE;
  made->kernel[0] = draw_below(stream, most + 1);
  made->kernel[1] = draw_between(stream, (int)made->kernel[0] + 1, most + 1);
  made->stride[0] = draw_one_in(stream, 3) ? 2 : 1;
  *size = (made->kernel[1] - made->kernel[0] + made->stride[0] - 1) / made->stride[0];
  node_add_value(it, made, &shape);
  return node_end(it, made);
}

/* ---- Along a dimension ----------------------------------------------------------------------- */

static bool draw_along(draw *stream, random_model *it) {
  static const int KEEPING[] = {ROWS_CENTRE, ROWS_SCALE, ROWS_SUM,
                                ROWS_MEAN,   ROWS_NORM,  ROWS_VARIANCE};
  int which = draw_below(stream, ROWS_SLICE);
  if (keeps_rows(it)) which = KEEPING[draw_below(stream, sizeof KEEPING / sizeof *KEEPING)];
  const bool wants_images = which >= ROWS_INSTANCE && which <= ROWS_POOL;
  const int x = pick_value(stream, it, wants_images ? 3 : 1, wants_images ? 3 : MOST_RANK);
  if (x < 0) return false;
  extent shape = it->values[x];
  const int dimension = pick_any(stream, it, x);
  random_node *made = begin_at(it, NODE_ROWS, x, dimension);
  made->which = which;
  if (which == ROWS_WINDOW) {
    const extent weight = {3, {draw_between(stream, 1, 3), shape.dims[1], 3}};
    if (shape.dims[1] < 1) return false;
    node_add_parameter(it, made, "it.weight", &weight);
    shape.dims[1] = weight.dims[0];
  }
  if (wants_images && shape.dims[1] < 1) return false;
  if (which == ROWS_INSTANCE && shape.dims[2] == 1) return false; /* one value has no variance */
  if (which >= ROWS_SUM && which < ROWS_STACK) {
    made->flag = draw_one_in(stream, 3);
    if (made->flag)
      shape.dims[dimension] = 1;
    else
      remove_dimension(&shape, dimension);
  }
  if (which == ROWS_STACK) {
    if (shape.rank == MOST_RANK) return false;
    for (int i = shape.rank++; i > dimension; i--)
      shape.dims[i] = shape.dims[i - 1];
    shape.dims[dimension] = 2;
  }
  if (which == ROWS_REPEAT) shape.dims[dimension] *= 2;
  node_add_value(it, made, &shape);
  return node_end(it, made);
}

int rows_penalty_draw(draw *stream, random_model *it) {
  for (int i = 0; i < it->body_end; i++) {
    const random_node *what = &it->nodes[i];
    if (what->kind == NODE_PARAMETER && draw_one_in(stream, 2)) {
      const int value = what->first_value;
      random_node *made = begin_at(it, NODE_UNARY, value, 0);
      made->which = UNARY_SQUARE;
      const int square = node_add_value(it, made, &it->values[value]);
      return node_end(it, made) ? term_draw(stream, it, square) : -1;
    }
  }
  return -1;
}

void rows_node_draw(draw *stream, random_model *it) {
  static bool (*const DRAWS[])(draw *, random_model *) = {
      rows_joined_draw, rows_joined_draw, draw_parts,  draw_parts,  draw_shape,
      draw_shape,       draw_shape,       draw_turned, draw_turned, draw_one,
      draw_slice,       draw_along,       draw_along,  draw_along,
  };
  static bool (*const KEEPING[])(draw *, random_model *) = {draw_turned, rows_joined_draw,
                                                            draw_along, draw_along};
  if (keeps_rows(it) && !draw_one_in(stream, 8))
    (void)KEEPING[draw_below(stream, (int)(sizeof KEEPING / sizeof *KEEPING))](stream, it);
  else
    (void)DRAWS[draw_below(stream, (int)(sizeof DRAWS / sizeof *DRAWS))](stream, it);
}
