/* Draws models: inputs, parameters, a body of layers, and a loss over the unused values. A node
 * that does not fit the present values is not made, and another one is tried. */
#include <stdio.h>
#include <string.h>

#include "tests/random/model_nodes.h"

enum { MOST_ELEMENTS = 1200, TRIES = 12 };

/* ---- Making nodes ---------------------------------------------------------------------------- */

random_node *node_begin(random_model *it, node_kind kind) {
  random_node *made = &it->nodes[it->node_count];
  *made =
      (random_node){.kind = kind, .padding_row = -1, .target = -1, .first_value = it->value_count};
  it->is_hidden[it->value_count] = false;
  return made;
}

int node_add_value(random_model *it, random_node *made, const extent *shape) {
  it->values[it->value_count] = *shape;
  it->value_node[it->value_count] = it->node_count;
  made->value_count++;
  return it->value_count++;
}

int node_add_parameter(random_model *it, random_node *made, const char *name, const extent *shape) {
  random_parameter *declared = &it->parameters[it->parameter_count];
  *declared = (random_parameter){.shape = *shape, .node = it->node_count};
  (void)snprintf(declared->name, sizeof declared->name, "n%d/%s", it->node_count, name);
  made->parameters[made->parameter_count++] = it->parameter_count;
  return it->parameter_count++;
}

bool node_end(random_model *it, random_node *made) {
  bool fits = it->value_count <= MOST_VALUES - 4 && it->parameter_count <= MOST_PARAMETERS - 2;
  for (int i = 0; i < made->value_count; i++)
    fits &= extent_count(&it->values[made->first_value + i], MOST_ROWS) <= MOST_ELEMENTS;
  if (fits) {
    it->node_count++;
    return true;
  }
  it->value_count = made->first_value;
  if (!made->tied) it->parameter_count -= made->parameter_count;
  return false;
}

int pick_value(draw *stream, const random_model *it, int least_rank, int most_rank) {
  for (int i = 0; i < TRIES; i++) {
    int value = draw_below(stream, it->value_count);
    if (draw_one_in(stream, 2)) value = it->value_count - 1 - draw_below(stream, 4);
    if (value < 0 || it->nodes[it->value_node[value]].kind == NODE_IDS) continue;
    if (it->is_hidden[value]) continue;
    if (it->values[value].rank >= least_rank && it->values[value].rank <= most_rank) return value;
  }
  return -1;
}

int pick_dimension(draw *stream, const extent *shape) {
  const int batch = extent_batch(shape);
  if (shape->rank - (batch >= 0) < 1) return -1;
  int dimension = draw_below(stream, shape->rank);
  if (dimension == batch) dimension = dimension + 1 < shape->rank ? dimension + 1 : dimension - 1;
  return dimension;
}

bool extents_equal(const extent *a, const extent *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return false;
  return true;
}

bool extents_broadcast(const extent *a, const extent *b, extent *out) {
  const extent *longer = a->rank >= b->rank ? a : b;
  const extent *shorter = a->rank >= b->rank ? b : a;
  *out = *longer;
  for (int i = 1; i <= shorter->rank; i++) {
    int64_t *one = &out->dims[longer->rank - i];
    const int64_t other = shorter->dims[shorter->rank - i];
    if (*one == 1) *one = other;
    if (other != 1 && other != *one) return false;
  }
  int batches = 0;
  for (int i = 0; i < out->rank; i++)
    batches += out->dims[i] < 0;
  return batches <= 1;
}

/* ---- The ends -------------------------------------------------------------------------------- */

static void draw_input(draw *stream, random_model *it) {
  extent shape = {.rank = draw_between(stream, 2, 4), .dims = {BATCH}};
  if (shape.rank == 4 && draw_one_in(stream, 2)) shape.rank = 2;
  for (int i = 1; i < shape.rank; i++)
    shape.dims[i] = draw_between(stream, 1, shape.rank == 4 ? 5 : 4);
  if (shape.rank == 4) shape.dims[1] = draw_between(stream, 1, 4);
  if (it->moves_rows) rows_turn_input(stream, &shape);
  random_node *made = node_begin(it, NODE_INPUT);
  node_add_value(it, made, &shape);
  (void)node_end(it, made);
}

static void draw_ids(draw *stream, random_model *it) {
  const extent shape = {2, {BATCH, 1 << draw_below(stream, 3)}};
  random_node *made = node_begin(it, NODE_IDS);
  made->count = draw_between(stream, 1, 9);
  node_add_value(it, made, &shape);
  (void)node_end(it, made);
}

static void draw_parameter(draw *stream, random_model *it) {
  extent shape = {.rank = draw_between(stream, 0, 2)};
  for (int i = 0; i < shape.rank; i++)
    shape.dims[i] = draw_between(stream, 1, 4);
  random_node *made = node_begin(it, NODE_PARAMETER);
  node_add_parameter(it, made, "own", &shape);
  node_add_value(it, made, &shape);
  (void)node_end(it, made);
}

static bool is_read(const random_model *it, int value) {
  for (int i = 0; i < it->node_count; i++)
    for (int k = 0; k < it->nodes[i].operand_count; k++)
      if (it->nodes[i].operands[k] == value) return true;
  return false;
}

/* Adds a scalar of value: a loss against something of its shape, or the sum of its elements. */
int term_draw(draw *stream, random_model *it, int value) {
  const extent scalar = {0};
  const int other = pick_value(stream, it, it->values[value].rank, it->values[value].rank);
  const bool alike = other >= 0 && extents_equal(&it->values[other], &it->values[value]);
  random_node *made = node_begin(it, alike && other != value ? NODE_LOSS : NODE_SUM);
  made->which = it->real ? LOSS_MSE : draw_below(stream, LOSS_KINDS);
  made->dimension = -1;
  made->operand_count = made->kind == NODE_LOSS ? 2 : 1;
  made->operands[0] = value;
  made->operands[1] = other;
  const int term = node_add_value(it, made, &scalar);
  (void)node_end(it, made);
  return term;
}

static int add_terms(random_model *it, int a, int b) {
  const extent scalar = {0};
  random_node *made = node_begin(it, NODE_BINARY);
  made->which = BINARY_ADD;
  made->operand_count = 2;
  made->operands[0] = a;
  made->operands[1] = b;
  const int sum = node_add_value(it, made, &scalar);
  (void)node_end(it, made);
  return sum;
}

enum { MOST_TERMS = 4 };

static void draw_loss(draw *stream, random_model *it) {
  it->body_end = it->node_count;
  const int body_values = it->value_count;
  int loss = -1, terms = 0;
  for (int value = body_values - 1; value >= 0 && terms < MOST_TERMS; value--) {
    const node_kind kind = it->nodes[it->value_node[value]].kind;
    const bool is_end = kind != NODE_INPUT && kind != NODE_IDS && !is_read(it, value);
    const bool of_rows = extent_batch(&it->values[value]) >= 0;
    if (!is_end || (!of_rows && !it->moves_rows) || it->is_hidden[value]) continue;
    const int term = term_draw(stream, it, value);
    loss = loss < 0 ? term : add_terms(it, loss, term);
    terms++;
  }
  const int penalty = it->moves_rows && draw_one_in(stream, 2) ? rows_penalty_draw(stream, it) : -1;
  if (penalty >= 0) loss = loss < 0 ? penalty : add_terms(it, loss, penalty);
  it->loss = loss;
}

/* Chooses the values to fetch: floating, computed from rows, and not fed. */
static void draw_outputs(draw *stream, random_model *it) {
  const int wanted = draw_between(stream, 1, MOST_OUTPUTS);
  for (int i = 0; i < 4 * wanted && it->output_count < wanted; i++) {
    const int value = draw_below(stream, it->value_count);
    const random_node *maker = &it->nodes[it->value_node[value]];
    bool fits = maker->kind > NODE_PARAMETER;
    for (int k = 0; k < it->output_count; k++)
      fits &= it->outputs[k] != value;
    if (fits) it->outputs[it->output_count++] = value;
  }
}

static bool has_end(const random_model *it) {
  for (int value = 0; value < it->value_count; value++) {
    const node_kind kind = it->nodes[it->value_node[value]].kind;
    if (kind > NODE_PARAMETER && extent_batch(&it->values[value]) >= 0 && !is_read(it, value))
      return true;
  }
  return false;
}

/* Adds a copy of the input for a loss, if no other value depends on rows. */
static void add_end(random_model *it) {
  random_node *made = node_begin(it, NODE_UNARY);
  made->which = UNARY_NEG;
  made->operand_count = 1; /* operand 0 is the first input */
  node_add_value(it, made, &it->values[0]);
  (void)node_end(it, made);
}

uint32_t model_parts_of(const random_model *it, int value, bool out_values[MOST_VALUES]) {
  uint32_t parameters = 0;
  memset(out_values, 0, MOST_VALUES * sizeof *out_values);
  out_values[value] = true;
  for (int i = it->node_count - 1; i >= 0; i--) {
    const random_node *what = &it->nodes[i];
    bool reached = false;
    for (int k = 0; k < what->value_count; k++)
      reached |= out_values[what->first_value + k];
    if (!reached || what->kind == NODE_GRADIENT) continue;
    const int differentiable = what->kind == NODE_WHERE ? 2 : what->operand_count;
    for (int k = 0; k < differentiable; k++)
      out_values[what->operands[k]] = true;
    for (int k = 0; k < what->parameter_count; k++)
      parameters |= 1u << what->parameters[k];
    if (what->kind == NODE_REAL && what->which >= REAL_LAYER_NORM && what->which != REAL_ATTENTION)
      parameters |= 1u << 31;
  }
  return parameters;
}

bool model_has_states(const random_model *it) {
  bool any = false;
  for (int i = 0; i < it->group_count; i++)
    any |= it->groups[i].momentum != 0;
  return any || it->average_decay != 0;
}

void model_draw(random_model *it, uint64_t seed, int kinds) {
  draw stream = draw_of(seed, 1);
  *it = (random_model){.seed = seed, .wide = draw_one_in(&stream, 2), .group_count = 1};
  it->real = kinds & DRAW_REAL;
  it->wider = kinds & DRAW_WIDER;
  it->moves_rows = kinds & DRAW_ROWS;
  it->of_gradients = kinds & DRAW_GRADIENTS;
  if (it->moves_rows && draw_one_in(&stream, 2))
    it->fixed_rows = draw_between(&stream, 2, MOST_ROWS - 1);
  if (it->moves_rows && draw_one_in(&stream, 4))
    it->average_decay = draw_one_in(&stream, 2) ? 0.5 : -1;
  if (it->real && draw_one_in(&stream, 2)) it->wide = true;
  if (it->wider && !it->real && draw_one_in(&stream, 3)) it->average_decay = 0.5;
  const bool plain = draw_one_in(&stream, 2);
  it->groups[0].rate = 1;
  if (it->real && !plain) it->optimizer = draw_below(&stream, OPTIMIZER_KINDS);
  if (it->moves_rows) it->wide = true;
  if (!plain) it->groups[0].momentum = draw_one_in(&stream, 2) ? 0.5 : 0;
  if (!plain) it->groups[0].weight_decay = draw_one_in(&stream, 2) ? 0.5 : 0;
  it->has_sparse = plain;
  for (int i = draw_between(&stream, 1, 3); i > 0; i--)
    draw_input(&stream, it);
  for (int i = draw_below(&stream, 3); i > 0; i--)
    draw_ids(&stream, it);
  for (int i = draw_below(&stream, 3); i > 0; i--)
    draw_parameter(&stream, it);
  if (it->wider && !it->real) wider_begin_draw(&stream, it);
  const int inputs = it->node_count, wanted = draw_between(&stream, 1, 14);
  for (int i = 0; i < 400 && (it->node_count < inputs + wanted || !has_end(it)); i++)
    if (it->node_count < MOST_BODY && it->value_count < MOST_VALUES - 20) node_draw(&stream, it);
  if (!has_end(it)) add_end(it);
  draw_loss(&stream, it);
  if (it->wider) wider_end_draw(&stream, it);
  draw_outputs(&stream, it);
  if (it->output_count == 0) it->outputs[it->output_count++] = it->loss;
  bool values[MOST_VALUES];
  it->reached = model_parts_of(it, it->loss, values);
}
