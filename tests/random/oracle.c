/* Owns the oracle's state. Executes the nodes forward, backward, and their updates. Invariant:
 * inexact results are detected here or by the rules, and are never compared. */
#include "tests/random/oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 256 << 10, LEAST_EXPONENT = -1000 };

/* Bits of the significand that a sum may take: two fewer than there are, since gradients may be
 * summed in other groups than here. */
static int bits_of(const oracle *it) {
  return it->model->wide ? 51 : 22;
}

/* ---- Exact sums ------------------------------------------------------------------------------ */

/* The exponent of the lowest bit of a number that is not 0. */
static int lowest_bit(double number) {
  int exponent;
  const double fraction = frexp(number, &exponent);
  const int64_t significand = (int64_t)ldexp(fraction, 53);
  return exponent - 53 + __builtin_ctzll((unsigned long long)significand);
}

void exact_add(exact *sum, double term) {
  if (term == 0) return;
  const int lowest = lowest_bit(term);
  if (lowest < sum->lowest) sum->lowest = lowest;
  sum->magnitude += fabs(term);
  sum->sum += term;
}

void exact_add_product(oracle *it, exact *sum, double a, double b) {
  const double term = a * b;
  if (fma(a, b, -term) != 0) it->inexact = true;
  exact_add(sum, term);
}

double exact_settle(oracle *it, const exact *sum) {
  if (sum->lowest < LEAST_EXPONENT || !(sum->magnitude < ldexp(1, bits_of(it) + sum->lowest)))
    it->inexact = true;
  return sum->sum;
}

double exact_divide(oracle *it, const exact *sum, double divisor) {
  int exponent;
  if (frexp(divisor, &exponent) != 0.5) it->inexact = true;
  return exact_settle(it, sum) / divisor;
}

double exact_product(oracle *it, double a, double b) {
  exact product = {0};
  exact_add_product(it, &product, a, b);
  return exact_settle(it, &product);
}

stretch oracle_stretch(const oracle *it, int value, int dimension) {
  const extent *shape = &it->model->values[value];
  stretch lengths = {1, extent_dim(shape, dimension, it->rows), 1};
  for (int i = 0; i < dimension; i++)
    lengths.outer *= extent_dim(shape, i, it->rows);
  for (int i = dimension + 1; i < shape->rank; i++)
    lengths.inner *= extent_dim(shape, i, it->rows);
  return lengths;
}

/* ---- Rules ----------------------------------------------------------------------------------- */

static void forward_input(oracle *it, const random_node *what) {
  (void)it;
  (void)what; /* filled before */
}

static void forward_kept(oracle *it, const random_node *what) {
  const double *kept = it->kept[what - it->model->nodes];
  const int64_t count = oracle_count(it, what->first_value);
  for (int64_t i = 0; i < count; i++)
    it->values[what->first_value][i] = kept ? kept[i] : 0;
}

static void forward_parameter(oracle *it, const random_node *what) {
  const int64_t count = oracle_count(it, what->first_value);
  memcpy(it->values[what->first_value], it->parameters[what->parameters[0]],
         (size_t)count * sizeof(double));
}

static void backward_parameter(oracle *it, const random_node *what) {
  for (int64_t i = 0; i < oracle_count(it, what->first_value); i++)
    exact_add(&it->gradients[what->parameters[0]][i], it->flows[what->first_value][i]);
}

/* Computes the kept value with its rows overwritten. */
static void forward_keep_rows(oracle *it, const random_node *what) {
  double *made = it->values[what->first_value];
  const double *rows = oracle_operand(it, what, 1), *indices = oracle_operand(it, what, 2);
  const int64_t count = extent_count(oracle_extent(it, what, 2), it->rows);
  const int64_t width = extent_count(oracle_extent(it, what, 1), it->rows) / count;
  memcpy(made, oracle_operand(it, what, 0),
         (size_t)oracle_count(it, what->first_value) * sizeof *made);
  for (int64_t i = 0; i < count; i++)
    memcpy(&made[(int64_t)indices[i] * width], &rows[i * width], (size_t)width * sizeof *made);
}

static void forward_gradient(oracle *it, const random_node *what);

const rule oracle_rules[NODE_KINDS] = {
    [NODE_INPUT] = {forward_input, forward_input},
    [NODE_IDS] = {forward_input, forward_input},
    [NODE_INDICES] = {forward_input, forward_input},
    [NODE_KEPT] = {forward_kept, forward_input},
    [NODE_PARAMETER] = {forward_parameter, backward_parameter},
    [NODE_LINEAR] = {forward_linear, backward_linear},
    [NODE_EMBEDDING] = {forward_embedding, backward_embedding},
    [NODE_BAG] = {forward_bag, backward_bag},
    [NODE_UNARY] = {forward_unary, backward_unary},
    [NODE_BINARY] = {forward_binary, backward_binary},
    [NODE_WHERE] = {forward_where, backward_where},
    [NODE_CONCAT] = {forward_move, backward_move},
    [NODE_SPLIT] = {forward_move, backward_move},
    [NODE_RESHAPE] = {forward_move, backward_move},
    [NODE_TRANSPOSE] = {forward_move, backward_move},
    [NODE_SELECT] = {forward_move, backward_move},
    [NODE_OBSERVE] = {forward_move, backward_move},
    [NODE_SUM] = {forward_sum, backward_sum},
    [NODE_MEAN] = {forward_sum, backward_sum},
    [NODE_CUMSUM] = {forward_cumsum, backward_cumsum},
    [NODE_EXTREME] = {forward_extreme, backward_extreme},
    [NODE_MATMUL] = {forward_matmul, backward_matmul},
    [NODE_INTERACTION] = {forward_interaction, backward_interaction},
    [NODE_CONVOLUTION] = {forward_convolution, backward_convolution},
    [NODE_POOL] = {forward_pool, backward_pool},
    [NODE_LOSS] = {forward_loss, backward_loss},
    [NODE_GRADIENT] = {forward_gradient, forward_input},
    [NODE_KEEP] = {forward_input, forward_input},
    [NODE_KEEP_ROWS] = {forward_keep_rows, forward_input},
};

/* ---- The state ------------------------------------------------------------------------------- */

static void *allocate(size_t bytes) {
  void *memory = calloc(1, bytes ? bytes : 1);
  if (!memory) abort();
  return memory;
}

oracle *oracle_create(const random_model *model) {
  oracle *it = allocate(sizeof *it);
  it->model = model;
  for (int i = 0; i < model->parameter_count; i++) {
    const size_t bytes = (size_t)extent_count(&model->parameters[i].shape, 1) * sizeof(double);
    it->parameters[i] = allocate(bytes);
    it->momenta[i] = allocate(bytes);
    it->averages[i] = allocate(bytes);
  }
  return it;
}

/* Values are taken from blocks of at least BLOCK_BYTES: one for all would be tens of megabytes,
 * which take ThreadSanitizer longer than what most models compute. */
typedef struct oracle_block {
  struct oracle_block *next;
  size_t used;
  size_t bytes;
  _Alignas(16) char memory[];
} oracle_block;

static void release_blocks(oracle *it) {
  while (it->blocks) {
    oracle_block *next = it->blocks->next;
    free(it->blocks);
    it->blocks = next;
  }
}

void oracle_release(oracle *it) {
  for (int i = 0; i < it->model->parameter_count; i++) {
    free(it->parameters[i]);
    free(it->momenta[i]);
    free(it->averages[i]);
  }
  release_blocks(it);
  free(it);
}

void oracle_load(oracle *it, uint64_t seed) {
  for (int i = 0; i < it->model->parameter_count; i++)
    model_fill_parameter(it->model, i, seed, it->parameters[i]);
}

void oracle_copy(oracle *it, const oracle *from) {
  for (int i = 0; i < it->model->parameter_count; i++) {
    const size_t bytes = (size_t)extent_count(&it->model->parameters[i].shape, 1) * sizeof(double);
    memcpy(it->parameters[i], from->parameters[i], bytes);
    memcpy(it->momenta[i], from->momenta[i], bytes);
    memcpy(it->averages[i], from->averages[i], bytes);
    it->has_average[i] = from->has_average[i];
  }
}

void oracle_swap_averages(oracle *it) {
  for (int i = 0; i < it->model->parameter_count; i++) {
    if (!it->has_average[i]) continue;
    double *average = it->averages[i];
    it->averages[i] = it->parameters[i];
    it->parameters[i] = average;
  }
}

void oracle_load_parameter(oracle *it, int index, const double *values) {
  memcpy(it->parameters[index], values,
         (size_t)extent_count(&it->model->parameters[index].shape, 1) * sizeof *values);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static void *take(oracle *it, int64_t count, size_t bytes) {
  const size_t wanted = ((size_t)count * bytes + 15) / 16 * 16;
  if (!it->blocks || it->blocks->bytes - it->blocks->used < wanted) {
    const size_t room = wanted > BLOCK_BYTES ? wanted : BLOCK_BYTES;
    oracle_block *added = allocate(sizeof *added + room);
    *added = (oracle_block){.next = it->blocks, .bytes = room};
    it->blocks = added;
  }
  void *memory = it->blocks->memory + it->blocks->used;
  it->blocks->used += wanted;
  return memory;
}

void oracle_run(oracle *it, uint64_t seed, int64_t rows) {
  const random_model *model = it->model;
  it->rows = rows;
  it->inexact = false;
  release_blocks(it);
  for (int i = 0; i < model->node_count; i++) {
    const random_node *what = &model->nodes[i];
    for (int k = 0; k < what->value_count; k++)
      it->values[what->first_value + k] =
          take(it, oracle_count(it, what->first_value + k), sizeof(double));
    if (what->kind <= NODE_INDICES)
      model_fill_input(model, i, seed, rows, it->values[what->first_value]);
    oracle_rules[what->kind].forward(it, what);
  }
}

/* From a scalar through all nodes before `end`. */
static void go_back(oracle *it, int loss, int end) {
  const random_model *model = it->model;
  const int after = end < model->node_count ? model->nodes[end].first_value : model->value_count;
  for (int i = 0; i < after; i++)
    it->adjoints[i] = take(it, oracle_count(it, i), sizeof(exact));
  for (int i = 0; i < model->parameter_count; i++)
    it->gradients[i] = take(it, extent_count(&model->parameters[i].shape, 1), sizeof(exact));
  exact_add(&it->adjoints[loss][0], 1);
  for (int i = end - 1; i >= 0; i--) {
    const random_node *what = &model->nodes[i];
    if (what->kind <= NODE_INDICES) continue;
    for (int k = 0; k < what->value_count; k++) {
      const int value = what->first_value + k;
      it->flows[value] = take(it, oracle_count(it, value), sizeof(double));
      for (int64_t j = 0; j < oracle_count(it, value); j++)
        it->flows[value][j] = exact_settle(it, &it->adjoints[value][j]);
    }
    oracle_rules[what->kind].backward(it, what);
  }
}

static void forward_gradient(oracle *it, const random_node *what) {
  go_back(it, what->operands[0], (int)(what - it->model->nodes));
  const exact *sums =
      what->target >= 0 ? it->gradients[what->target] : it->adjoints[what->operands[1]];
  for (int64_t i = 0; i < oracle_count(it, what->first_value); i++)
    it->values[what->first_value][i] = exact_settle(it, &sums[i]);
}

/* After an update, the average is average_decay times itself, plus the rest times the parameter. */
static void update_average(oracle *it, int index) {
  const double decay = it->model->average_decay;
  double *average = it->averages[index];
  for (int64_t i = 0; i < extent_count(&it->model->parameters[index].shape, 1); i++) {
    exact sum = {0};
    exact_add_product(it, &sum, it->has_average[index] ? decay : 0, average[i]);
    exact_add_product(it, &sum, it->has_average[index] ? 1 - decay : 1, it->parameters[index][i]);
    average[i] = exact_settle(it, &sum);
  }
  it->has_average[index] = true;
}

static void update(oracle *it, int index, const oracle_training *how) {
  double *values = it->parameters[index];
  double *momenta = it->momenta[index];
  const random_group *group = &it->model->groups[it->model->parameters[index].group];
  const bool overridden = how->momentum >= 0 && group->momentum != 0;
  const double momentum = overridden ? how->momentum : group->momentum;
  for (int64_t i = 0; i < extent_count(&it->model->parameters[index].shape, 1); i++) {
    exact gradient = it->gradients[index][i];
    if (group->maximize) gradient.sum = -gradient.sum;
    exact_add_product(it, &gradient, group->weight_decay, values[i]);
    exact step = gradient;
    exact_add_product(it, &gradient, momentum, momenta[i]);
    const double buffer = exact_settle(it, &gradient);
    if (momentum != 0) momenta[i] = buffer; /* a step without momentum keeps PyTorch's buffer */
    exact_add_product(it, &step, momentum, buffer);
    exact value = {0};
    exact_add(&value, values[i]);
    exact_add_product(it, &value, -how->learning_rate * group->rate,
                      group->nesterov ? exact_settle(it, &step) : buffer);
    values[i] = exact_settle(it, &value);
  }
}

void oracle_train(oracle *it, uint64_t seed, int64_t rows, const oracle_training *how) {
  oracle_run(it, seed, rows);
  go_back(it, it->model->loss, it->model->node_count);
  for (int i = 0; i < it->model->parameter_count; i++)
    if ((it->model->reached >> i & 1) && !(how->frozen >> i & 1)) {
      update(it, i, how);
      if (it->model->average_decay != 0) update_average(it, i);
    }
}
