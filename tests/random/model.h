/* A random model as plain numbers: nodes, the values they make, parameters. The library's side
 * (build.c) and the oracle (oracle.h) read it, and share nothing else. All values are small
 * integers or have few binary places, so that sums are exact in any order. */
#ifndef TANDEM_TESTS_RANDOM_MODEL_H
#define TANDEM_TESTS_RANDOM_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/random/draw.h"

enum {
  MOST_RANK = 4,
  MOST_NODES = 52,
  MOST_BODY = 32,
  MOST_VALUES = 96,
  MOST_OPERANDS = 5,
  MOST_PARAMETERS = 32,
  MOST_OUTPUTS = 4,
  MOST_ROWS = 9,
  MOST_GROUPS = 3,
  MOST_KEPT = 2,
  MOST_KEPT_SIZE = 4, /* largest size of each dimension of a kept value */
  BATCH = -1,         /* a dimension: the rows of a run; -2: twice as many, and so on */
};

typedef struct extent {
  int rank;
  int64_t dims[MOST_RANK]; /* negative in at most one place */
} extent;

typedef enum node_kind {
  NODE_INPUT,     /* numbers */
  NODE_IDS,       /* int64, below `count` */
  NODE_INDICES,   /* int64, below `count`, distinct */
  NODE_KEPT,      /* from run to run of a sequence */
  NODE_PARAMETER, /* a parameter by itself */
  NODE_LINEAR,
  NODE_EMBEDDING,
  NODE_BAG,
  NODE_UNARY,
  NODE_BINARY,
  NODE_WHERE, /* a where c relation d, otherwise b */
  NODE_CONCAT,
  NODE_SPLIT,
  NODE_RESHAPE,
  NODE_TRANSPOSE,
  NODE_SELECT,
  NODE_OBSERVE,
  NODE_SUM,
  NODE_MEAN,
  NODE_CUMSUM,
  NODE_EXTREME,
  NODE_MATMUL,
  NODE_INTERACTION,
  NODE_CONVOLUTION,
  NODE_POOL,
  NODE_LOSS,
  NODE_REAL,      /* functions whose results for integers are not integers; no oracle */
  NODE_ROWS,      /* operations along a dimension, which may be the batch; no oracle */
  NODE_GRADIENT,  /* gradient of scalar operand 0 by operand 1 or `target`; not differentiable */
  NODE_KEEP,      /* operand 0, kept, is operand 1 from the next run on */
  NODE_KEEP_ROWS, /* operand 0, kept, with rows operand 1 written at indices operand 2 */
  NODE_KINDS
} node_kind;

enum { UNARY_RELU, UNARY_ABS, UNARY_NEG, UNARY_SQUARE, UNARY_CUBE, UNARY_CLAMP, UNARY_HARDTANH };
enum { UNARY_RELU6 = UNARY_HARDTANH + 1, UNARY_LEAKY, UNARY_AFFINE, UNARY_KINDS };
enum { BINARY_ADD, BINARY_SUB, BINARY_MUL, BINARY_MAXIMUM, BINARY_MINIMUM, BINARY_KINDS };
enum { BAG_MEAN, BAG_SUM, BAG_MAX };
enum { POOL_MAX, POOL_AVERAGE };
enum { REAL_TANH, REAL_SIGMOID, REAL_GELU, REAL_SILU, REAL_ELU, REAL_SOFTPLUS, REAL_SOFTMAX };
enum { REAL_LOG_SOFTMAX = REAL_SOFTMAX + 1, REAL_VARIANCE, REAL_DROPOUT, REAL_LAYER_NORM };
enum {
  REAL_LSTM = REAL_LAYER_NORM + 1,
  REAL_GRU,
  REAL_RNN,
  REAL_ATTENTION,
  REAL_HEADS,
  REAL_KINDS
};
/* Operations with as many elements as the operand, then those without the dimension, then others.
 */
enum { ROWS_FLIP, ROWS_SORT, ROWS_GATHER, ROWS_SHIFT, ROWS_PLACES, ROWS_INSTANCE, ROWS_WINDOW };
enum { ROWS_POOL = ROWS_WINDOW + 1, ROWS_CENTRE, ROWS_LESS_MOST, ROWS_LESS_LOG_SUM, ROWS_SCALE };
enum { ROWS_SOFTMAX = ROWS_SCALE + 1, ROWS_CUMSUM, ROWS_SUM, ROWS_MEAN, ROWS_MOST, ROWS_NORM };
enum { ROWS_LARGEST = ROWS_NORM + 1, ROWS_VARIANCE, ROWS_LOG_SUM, ROWS_STACK, ROWS_REPEAT };
enum { ROWS_SLICE = ROWS_REPEAT + 1, ROWS_KINDS };
enum {
  OPTIMIZER_SGD,
  OPTIMIZER_ADAM,
  OPTIMIZER_ADAGRAD,
  OPTIMIZER_RMSPROP,
  OPTIMIZER_NADAM,
  OPTIMIZER_ADAFACTOR,
  OPTIMIZER_KINDS
};
enum { LOSS_MSE, LOSS_L1, LOSS_SMOOTH_L1, LOSS_HUBER, LOSS_KINDS };

typedef struct random_node {
  node_kind kind;
  int which; /* function of UNARY, BINARY, BAG, POOL, LOSS; relation of WHERE */
  int operand_count;
  int operands[MOST_OPERANDS]; /* values */
  int first_value;
  int value_count;
  int parameter_count;
  int parameters[2]; /* weight, bias */
  int dimension;     /* that is cut, joined, summed, selected, exchanged with `other` */
  int other;
  bool flag;           /* keep; minimum; with self; sparse; a gradient that is read on */
  int64_t count;       /* rows of a table, or ids' bound; the index selected; padding row or -1 */
  int64_t padding_row; /* padding row of a table; -1: none */
  double numbers[2];   /* attributes of CLAMP, HARDTANH, AFFINE */
  int64_t kernel[2], stride[2], padding[2], dilation[2];
  int64_t groups;
  int target; /* parameter of a GRADIENT; -1: operand 1 */
  bool tied;  /* its parameters are those of nodes before it */
} random_node;

typedef struct random_parameter {
  char name[24]; /* in the store */
  extent shape;
  int64_t zero_row; /* never trained, 0; -1: none */
  int node;         /* that declares it first */
  int group;        /* group of optimizers */
} random_parameter;

/* Options for updating some parameters. */
typedef struct random_group {
  double momentum; /* 0: plain sgd */
  double weight_decay;
  double rate; /* factor of the session's learning rate */
  bool nesterov, maximize;
} random_group;

typedef struct random_model {
  uint64_t seed;
  bool wide;  /* float64 */
  bool real;  /* smooth layers only; compared with one device, not with the oracle */
  bool wider; /* with gradients as values, tied parameters, groups of them, shards, hand-overs */
  bool moves_rows;    /* real, and along the batch, too */
  bool of_gradients;  /* moves rows; mostly gradients as values and concatenations */
  int64_t fixed_rows; /* rows of a real model whose batch is a fixed size; otherwise 0 */
  random_node nodes[MOST_NODES];
  int node_count;
  extent values[MOST_VALUES];
  int value_node[MOST_VALUES];
  bool is_hidden[MOST_VALUES]; /* a value of the whole batch that only gradients read */
  int value_count;
  random_parameter parameters[MOST_PARAMETERS];
  int parameter_count;
  int outputs[MOST_OUTPUTS]; /* values */
  int output_count;
  int loss;     /* value */
  int body_end; /* nodes from here on make the loss */
  bool has_sparse;
  uint32_t reached; /* a bit a parameter: by a gradient of the loss; 31: one of a NODE_REAL */
  int optimizer;    /* OPTIMIZER_SGD unless it is real */
  random_group groups[MOST_GROUPS]; /* the first is the session's own optimizer */
  int group_count;
  double clip_norm;     /* 0: none; of real ones */
  double average_decay; /* 0: no averages of parameters; TDM_AVERAGE_MEAN only without an oracle */
} random_model;

enum { DRAW_REAL = 1, DRAW_WIDER = 2, DRAW_ROWS = 4, DRAW_GRADIENTS = 8 };

/* kinds: DRAW_REAL: smooth layers, to be compared with the same model on one device; DRAW_WIDER;
 * DRAW_ROWS, with both: nodes that move rows and reduce over them; DRAW_GRADIENTS, with all three:
 * mostly gradients as values and concatenations of them. */
void model_draw(random_model *it, uint64_t seed, int kinds);
/* Returns a bit for each node that a run needs which fetches these outputs (a bit each). */
uint64_t model_needed(const random_model *it, int node_count, uint32_t outputs);
/* Returns true if the output depends on a kept value, so that only runs of sequences fetch it. */
bool model_output_is_kept(const random_model *it, int output);
/* Returns the NODE_KEPT that node `keeper`, a NODE_KEEP or NODE_KEEP_ROWS, writes. */
int model_kept_by(const random_model *it, int keeper);
/* Returns true if optimizers have states: some group has a momentum, or averages are kept. */
bool model_has_states(const random_model *it);
/* A bit a parameter by which the value is made, as far as a gradient flows back, and out_values
 * those by which it is; 31: one of a NODE_REAL. */
uint32_t model_parts_of(const random_model *it, int value, bool out_values[MOST_VALUES]);
/* Writes a description of the model from which it can be rebuilt by hand. */
void model_print(const random_model *it, FILE *out);

/* The shape's elements in a run of that many rows, and its concrete dimensions. */
int64_t extent_count(const extent *shape, int64_t rows);
int64_t extent_dim(const extent *shape, int dimension, int64_t rows);
/* Returns the dimension of the rows, or -1. */
int extent_batch(const extent *shape);

/* Fills the feed of this node for a run of this seed; always integers. */
void model_fill_input(const random_model *it, int node, uint64_t seed, int64_t rows,
                      double *out_values);
/* Fresh values of a parameter. */
void model_fill_parameter(const random_model *it, int parameter, uint64_t seed, double *out_values);

#endif
