/* Draws nodes that only wider models have: those that share parameters, gradients as values, groups
 * of parameters. Invariant: as in model_nodes.c, each node is legal by the library's headers. */
#include "tests/random/model_nodes.h"

enum { MOST_GRADIENTS = 4, MOST_GRADIENTS_OF_GRADIENTS = 8 };

/* ---- Tied parameters ------------------------------------------------------------------------- */

static bool has_table(const random_node *what) {
  return what->kind == NODE_EMBEDDING || what->kind == NODE_BAG;
}

/* One whose parameters another may share; -1: none was found. */
static int pick_shared(draw *stream, const random_model *it) {
  for (int i = 0; i < it->node_count; i++) {
    const random_node *what = &it->nodes[i];
    if ((has_table(what) || what->kind == NODE_LINEAR) && draw_one_in(stream, 2)) return i;
  }
  return -1;
}

static void share(random_node *made, const random_node *with) {
  made->tied = true;
  made->parameter_count = with->parameter_count;
  for (int i = 0; i < with->parameter_count; i++)
    made->parameters[i] = with->parameters[i];
}

/* Adds a linear layer whose weight is shared with another linear layer or with a table. */
static bool draw_tied_linear(draw *stream, random_model *it, const random_node *with) {
  const extent *weight = &it->parameters[with->parameters[0]].shape;
  const int x = pick_value(stream, it, 2, 4);
  if (x < 0 || it->values[x].dims[it->values[x].rank - 1] != weight->dims[1]) return false;
  extent shape = it->values[x];
  shape.dims[shape.rank - 1] = weight->dims[0];
  random_node *made = node_begin(it, NODE_LINEAR);
  made->operands[made->operand_count++] = x;
  share(made, with);
  node_add_value(it, made, &shape);
  return node_end(it, made);
}

/* Adds another look-up in a table. Both look-ups request sparse gradients, or neither does. */
static bool draw_tied_table(draw *stream, random_model *it, const random_node *with) {
  const extent table = it->parameters[with->parameters[0]].shape;
  int ids = -1;
  for (int i = 0; i < it->node_count; i++)
    if (it->nodes[i].kind == NODE_IDS && it->nodes[i].count <= table.dims[0]) ids = i;
  if (ids < 0) return false;
  const extent *of = &it->values[it->nodes[ids].first_value];
  const bool bags = draw_one_in(stream, 2);
  const extent bag = {2, {BATCH, table.dims[1]}};
  const extent rows = {3, {of->dims[0], of->dims[1], table.dims[1]}};
  random_node *made = node_begin(it, bags ? NODE_BAG : NODE_EMBEDDING);
  made->operands[made->operand_count++] = it->nodes[ids].first_value;
  made->which =
      bags ? draw_between(stream, BAG_MEAN, with->flag || it->real ? BAG_SUM : BAG_MAX) : 0;
  made->count = table.dims[0];
  made->flag = with->flag;
  made->padding_row = with->padding_row;
  if (bags && made->which == BAG_MEAN) made->padding_row = -1;
  share(made, with);
  node_add_value(it, made, bags ? &bag : &rows);
  return node_end(it, made);
}

static bool draw_tied(draw *stream, random_model *it) {
  const int with = pick_shared(stream, it);
  if (with < 0) return false;
  const random_node *shared = &it->nodes[with];
  if (shared->kind == NODE_LINEAR || (!shared->flag && draw_one_in(stream, 3)))
    return draw_tied_linear(stream, it, shared);
  return draw_tied_table(stream, it, shared);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* Adds the gradient of a scalar with respect to one of its operands. */
static bool draw_gradient_of(draw *stream, random_model *it, int loss, bool read_on) {
  bool parts[MOST_VALUES];
  const uint32_t parameters = model_parts_of(it, loss, parts);
  random_node *made = node_begin(it, NODE_GRADIENT);
  made->operands[made->operand_count++] = loss;
  made->flag = read_on;
  for (int i = 0; i < 20; i++) {
    if (draw_one_in(stream, 2)) {
      const int target = it->parameter_count > 0 ? draw_below(stream, it->parameter_count) : -1;
      if (target < 0 || !(parameters >> target & 1)) continue;
      made->target = target;
      node_add_value(it, made, &it->parameters[target].shape);
      return node_end(it, made);
    }
    const int value = draw_below(stream, it->value_count);
    const node_kind kind = it->nodes[it->value_node[value]].kind;
    if (!parts[value] || value == loss || kind == NODE_IDS || kind == NODE_GRADIENT) continue;
    made->operands[made->operand_count++] = value;
    node_add_value(it, made, &it->values[value]);
    return node_end(it, made);
  }
  return false;
}

static int count_gradients(const random_model *it) {
  int count = 0;
  for (int i = 0; i < it->node_count; i++)
    count += it->nodes[i].kind == NODE_GRADIENT;
  return count;
}

/* Draws a loss within the body, and a gradient of it that the rest reads. */
bool wider_gradient_draw(draw *stream, random_model *it) {
  const int value = pick_value(stream, it, 0, 4);
  const int most = it->of_gradients ? MOST_GRADIENTS_OF_GRADIENTS : MOST_GRADIENTS;
  if (value < 0 || count_gradients(it) >= most) return false;
  const int loss = term_draw(stream, it, value);
  it->is_hidden[loss] = true;
  return draw_gradient_of(stream, it, loss, true);
}

bool wider_node_draw(draw *stream, random_model *it) {
  return draw_one_in(stream, 2) ? draw_tied(stream, it) : wider_gradient_draw(stream, it);
}

/* ---- Kept from run to run -------------------------------------------------------------------- */

/* Adds an input of a fixed shape that only the writers of kept values read. */
static void add_hidden_input(random_model *it, node_kind kind, int64_t bound, const extent *shape) {
  random_node *made = node_begin(it, kind);
  made->count = bound;
  const int value = node_add_value(it, made, shape);
  if (node_end(it, made)) it->is_hidden[value] = true;
}

/* Adds the indices and the rows with which draw_keeping writes rows of a kept value. */
static void add_rows_inputs(draw *stream, random_model *it, const extent *kept) {
  extent rows = *kept;
  rows.dims[0] = draw_between(stream, 1, (int)kept->dims[0]);
  const extent indices = {1, {rows.dims[0]}};
  add_hidden_input(it, NODE_INDICES, kept->dims[0], &indices);
  add_hidden_input(it, NODE_INPUT, 0, &rows);
}

void wider_begin_draw(draw *stream, random_model *it) {
  for (int i = draw_one_in(stream, 2) ? draw_between(stream, 1, MOST_KEPT) : 0; i > 0; i--) {
    extent shape = {.rank = draw_between(stream, 0, 2)};
    for (int k = 0; k < shape.rank; k++)
      shape.dims[k] = draw_between(stream, 1, MOST_KEPT_SIZE);
    if (it->parameter_count > 0 && draw_one_in(stream, 2)) shape = it->parameters[0].shape;
    random_node *made = node_begin(it, NODE_KEPT);
    const int kept = node_add_value(it, made, &shape);
    if (node_end(it, made)) it->is_hidden[kept] = true; /* no loss depends on it */
    if (shape.rank > 0 && draw_one_in(stream, 2)) add_rows_inputs(stream, it, &shape);
  }
}

static int add_clamp(random_model *it, int value) {
  random_node *made = node_begin(it, NODE_UNARY);
  made->which = UNARY_HARDTANH;
  made->numbers[0] = -8;
  made->numbers[1] = 8;
  made->operands[made->operand_count++] = value;
  const int clamped = node_add_value(it, made, &it->values[value]);
  return node_end(it, made) ? clamped : value;
}

/* Adds a node that reads a kept value and another value. Returns -1 if they do not fit. */
static int draw_reader(draw *stream, random_model *it, int kept) {
  const int other = pick_value(stream, it, 0, 4);
  extent shape;
  if (other < 0 || !extents_broadcast(&it->values[kept], &it->values[other], &shape)) return -1;
  random_node *made = node_begin(it, NODE_BINARY);
  made->which = draw_below(stream, BINARY_KINDS);
  made->operand_count = 2;
  made->operands[0] = kept;
  made->operands[1] = other;
  const int value = node_add_value(it, made, &shape);
  return node_end(it, made) ? value : -1;
}

static void show(random_model *it, int value) {
  if (it->output_count < MOST_OUTPUTS) it->outputs[it->output_count++] = value;
}

/* Writes rows of the kept value `kept` by the inputs that follow it. Returns the value to read in
 * its place: `kept` itself if it has no such inputs. */
static int draw_written(draw *stream, random_model *it, int kept) {
  const int first = it->value_node[kept];
  const random_node *inputs = &it->nodes[first + 1];
  if (inputs[0].kind != NODE_INDICES || inputs[1].kind != NODE_INPUT) return kept;
  int rows = inputs[1].first_value;
  const extent wanted = it->values[rows];
  const int reader = draw_reader(stream, it, rows);
  if (reader >= 0 && extents_equal(&it->values[reader], &wanted)) rows = add_clamp(it, reader);
  if (reader >= 0) it->is_hidden[reader] = true;
  random_node *made = node_begin(it, NODE_KEEP_ROWS);
  made->operand_count = 3;
  made->operands[0] = kept;
  made->operands[1] = rows;
  made->operands[2] = inputs[0].first_value;
  const int written = node_add_value(it, made, &it->values[kept]);
  if (!node_end(it, made)) return kept;
  it->is_hidden[written] = true;
  return written;
}

/* Adds readers of all kept values, then the nodes that write them. */
static void draw_keeping(draw *stream, random_model *it) {
  int next[MOST_KEPT], kept[MOST_KEPT], count = 0;
  for (int i = 0; i < it->body_end && count < MOST_KEPT; i++)
    if (it->nodes[i].kind == NODE_KEPT) kept[count++] = it->nodes[i].first_value;
  for (int i = 0; i < count; i++) {
    next[i] = kept[i];
    const int begins = kept[i];
    for (int k = 0; k < 6 && it->node_count < MOST_NODES - 8; k++) {
      if (kept[i] == begins && draw_one_in(stream, 2)) {
        kept[i] = draw_written(stream, it, begins);
        if (next[i] == begins) next[i] = kept[i];
      }
      const int value = draw_reader(stream, it, draw_one_in(stream, 2) ? next[i] : kept[i]);
      if (value < 0) continue;
      if (extents_equal(&it->values[value], &it->values[kept[i]])) next[i] = value;
      if (draw_one_in(stream, 2)) show(it, value);
      if (draw_one_in(stream, 3)) break;
    }
    if (next[i] != kept[i]) next[i] = add_clamp(it, next[i]);
  }
  for (int i = 0; i < count; i++) {
    random_node *made = node_begin(it, NODE_KEEP);
    made->operand_count = 2;
    made->operands[0] = kept[i];
    made->operands[1] = next[draw_one_in(stream, 4) ? draw_below(stream, count) : i];
    if (extents_equal(&it->values[made->operands[0]], &it->values[made->operands[1]]))
      (void)node_end(it, made);
  }
}

/* ---- The end --------------------------------------------------------------------------------- */

static void draw_groups(draw *stream, random_model *it) {
  it->group_count = draw_between(stream, 1, MOST_GROUPS);
  const bool has_states = !it->has_sparse;
  for (int g = 0; g < it->group_count; g++) {
    random_group *group = &it->groups[g];
    static const double RATES[] = {1, 0.5, 2};
    if (g > 0 && has_states) group->momentum = draw_one_in(stream, 2) ? 0.5 : 0;
    if (g > 0 && has_states) group->weight_decay = draw_one_in(stream, 2) ? 0.5 : 0;
    group->rate = g > 0 ? RATES[draw_below(stream, 3)] : 1;
    group->nesterov = group->momentum != 0 && draw_one_in(stream, 3);
    group->maximize = draw_one_in(stream, 6);
  }
  for (int i = 0; i < it->parameter_count; i++)
    it->parameters[i].group = draw_below(stream, it->group_count);
  if (it->real && draw_one_in(stream, 3)) it->clip_norm = draw_one_in(stream, 2) ? 0.5 : 10;
}

/* Draws a gradient at the end: consumers read plain numbers; others are only fetched. */
static void draw_end_gradient(draw *stream, random_model *it) {
  const bool read_on = draw_one_in(stream, 3);
  if (!draw_gradient_of(stream, it, it->loss, read_on)) return;
  it->is_hidden[it->value_count - 1] = !read_on;
  show(it, it->value_count - 1);
}

void wider_end_draw(draw *stream, random_model *it) {
  for (int i = draw_below(stream, 3); i > 0 && count_gradients(it) < MOST_GRADIENTS; i--)
    draw_end_gradient(stream, it);
  draw_keeping(stream, it);
  draw_groups(stream, it);
}
