/* Computes a random model by plain loops on its description: values, gradients, updates of sgd.
 * Shares no code with the library. It also determines whether every order of summation has the same
 * bits. For each sum it records the magnitudes of the terms and their lowest binary place. If they
 * do not fit the dtype together, the run is `inexact` and is not compared. */
#ifndef TANDEM_TESTS_RANDOM_ORACLE_H
#define TANDEM_TESTS_RANDOM_ORACLE_H

#include "tests/random/model.h"

/* A sum in the making; all zeros: nothing yet. */
typedef struct exact {
  double sum;
  double magnitude;
  int lowest; /* every term is a multiple of 2 to the power of it */
} exact;

typedef struct oracle {
  const random_model *model;
  double *parameters[MOST_PARAMETERS];
  double *momenta[MOST_PARAMETERS];
  double *averages[MOST_PARAMETERS];
  bool has_average[MOST_PARAMETERS]; /* from the first update on */
  const double *kept[MOST_NODES];    /* values of NODE_KEPT in sequences; NULL: zeros */
  /* The latest run: */
  int64_t rows;
  bool inexact;
  double *values[MOST_VALUES];
  exact *adjoints[MOST_VALUES];
  double *flows[MOST_VALUES]; /* adjoints, when complete */
  exact *gradients[MOST_PARAMETERS];
  /* Memory of the latest run. */
  struct oracle_block *blocks; /* memory for values, newest first; a run begins with none */
} oracle;

oracle *oracle_create(const random_model *it);
void oracle_release(oracle *it);
/* Parameters from this seed; momenta stay, as when a store loads. */
void oracle_load(oracle *it, uint64_t seed);
void oracle_load_parameter(oracle *it, int index, const double *values);
/* Evaluates everything. */
void oracle_run(oracle *it, uint64_t seed, int64_t rows);
/* How a session trains: its learning rate, its momentum (negative: each group's own), and a bit for
 * each parameter that it does not train. */
typedef struct oracle_training {
  double learning_rate;
  double momentum;
  uint32_t frozen;
} oracle_training;

/* Evaluates everything, then computes gradients and updates parameters, momenta and averages;
 * values stay as they were before the updates. */
void oracle_train(oracle *it, uint64_t seed, int64_t rows, const oracle_training *how);
/* Exchanges the parameters that have an average with their averages; called twice, changes nothing.
 */
void oracle_swap_averages(oracle *it);
/* Copies parameters, momenta and averages. */
void oracle_copy(oracle *it, const oracle *from);

/* ---- For the rules of nodes ------------------------------------------------------------------ */

typedef struct rule {
  void (*forward)(oracle *it, const random_node *what);
  void (*backward)(oracle *it, const random_node *what);
} rule;
extern const rule oracle_rules[NODE_KINDS];

void exact_add(exact *sum, double term);
void exact_add_product(oracle *it, exact *sum, double a, double b);
double exact_settle(oracle *it, const exact *sum);
/* Returns the sum divided by divisor. A divisor that is no power of two makes the result
 * inexact. */
double exact_divide(oracle *it, const exact *sum, double divisor);
/* Returns one product by itself. */
double exact_product(oracle *it, double a, double b);

static inline const double *oracle_operand(const oracle *it, const random_node *what, int index) {
  return it->values[what->operands[index]];
}
static inline const extent *oracle_extent(const oracle *it, const random_node *what, int index) {
  return &it->model->values[what->operands[index]];
}
static inline int64_t oracle_count(const oracle *it, int value) {
  return extent_count(&it->model->values[value], it->rows);
}
/* Elements before, along and after a dimension: the shape as (outer, length, inner). */
typedef struct stretch {
  int64_t outer, length, inner;
} stretch;
stretch oracle_stretch(const oracle *it, int value, int dimension);

void forward_linear(oracle *it, const random_node *what);
void backward_linear(oracle *it, const random_node *what);
void forward_matmul(oracle *it, const random_node *what);
void backward_matmul(oracle *it, const random_node *what);
void forward_interaction(oracle *it, const random_node *what);
void backward_interaction(oracle *it, const random_node *what);
void forward_embedding(oracle *it, const random_node *what);
void backward_embedding(oracle *it, const random_node *what);
void forward_bag(oracle *it, const random_node *what);
void backward_bag(oracle *it, const random_node *what);
void forward_convolution(oracle *it, const random_node *what);
void backward_convolution(oracle *it, const random_node *what);
void forward_pool(oracle *it, const random_node *what);
void backward_pool(oracle *it, const random_node *what);
void forward_unary(oracle *it, const random_node *what);
void backward_unary(oracle *it, const random_node *what);
void forward_binary(oracle *it, const random_node *what);
void backward_binary(oracle *it, const random_node *what);
void forward_where(oracle *it, const random_node *what);
void backward_where(oracle *it, const random_node *what);
void forward_move(oracle *it, const random_node *what);
void backward_move(oracle *it, const random_node *what);
void forward_sum(oracle *it, const random_node *what);
void backward_sum(oracle *it, const random_node *what);
void forward_cumsum(oracle *it, const random_node *what);
void backward_cumsum(oracle *it, const random_node *what);
void forward_extreme(oracle *it, const random_node *what);
void backward_extreme(oracle *it, const random_node *what);
void forward_loss(oracle *it, const random_node *what);
void backward_loss(oracle *it, const random_node *what);

#endif
