/* The names of the library's operations and their attribute structs: the one place where layers
 * and backends meet. Operands stand as name (shape), inputs -> outputs; "=" marks an output that
 * overwrites an input in place; [x] is optional. F is float32 or float64, the same for all F
 * operands of a node; ids are int32 or int64. Formulas and conventions are PyTorch's.
 *
 * Every attribute struct is plain data without padding that matters: zero it before filling, it is
 * compared and hashed by its bytes. */
#ifndef TANDEM_DEVICES_KERNELS_H
#define TANDEM_DEVICES_KERNELS_H

#include <stdint.h>

#include "devices/move_kernels.h"      /* what moves elements */
#include "devices/pointwise_kernels.h" /* what works element by element */
#include "tandem/devices/devices.h"

/* ---- Lookup -------------------------------------------------------------------------------- */

/* weight F (rows, dim), ids (...) -> F (..., dim). An id outside [0, rows) fails, naming it. */
#define TDM_OP_EMBEDDING "embedding"
/* d_out F (..., dim), ids (...) -> d_weight F (rows, dim), zero where no id points and at padding;
 * contributions to a row are summed in the order of ids. */
#define TDM_OP_EMBEDDING_GRADIENT "embedding_gradient"
/* d_out F (..., dim), ids (...) -> rows F (n, dim), indices int64 (n), count int64 (): n ids give
 * the distinct ids in ascending order in the first count entries, each row the sum of its
 * duplicates in the order of ids; padding left out. The rest of indices is -1, of rows 0. */
#define TDM_OP_EMBEDDING_SPARSE_GRADIENT "embedding_sparse_gradient"
typedef struct tdm_embedding_attributes {
  int64_t rows;
  int64_t padding_index; /* -1: none; its row gets no gradient */
} tdm_embedding_attributes;

/* weight F (rows, dim), ids (bags, length) or (n), [offsets ids: where each bag of (n) begins, and
 * with `ends` where the last one ends], [scales F like ids] -> y F (bags, dim): each bag's rows,
 * the padding left out, summed (each times its scale) or, if `mean`, averaged; zeros for an empty
 * bag. Offsets begin with 0 and ascend up to n; ids behind the last end are in no bag. An id or an
 * offset that is not legal fails, naming it. */
#define TDM_OP_EMBEDDING_BAG "embedding_bag"
/* The same operands without scales -> y F (bags, dim): the largest of each column, winners int64
 * (bags, dim): its position among all ids, the first of equals; -1 for an empty bag. */
#define TDM_OP_EMBEDDING_BAG_MAX "embedding_bag_max"
/* d_y F (bags, dim), ids, [offsets], [scales], [winners] -> d_weight F (rows, dim). */
#define TDM_OP_EMBEDDING_BAG_GRADIENT "embedding_bag_gradient"
/* d_y, ids, [offsets], [scales] -> rows F (n, dim), indices int64 (n), count int64 (), as
 * embedding_sparse_gradient has them. */
#define TDM_OP_EMBEDDING_BAG_SPARSE_GRADIENT "embedding_bag_sparse_gradient"
/* d_y, weight, ids, [offsets] -> d_scales F like ids; 0 at padding. */
#define TDM_OP_EMBEDDING_BAG_SCALES_GRADIENT "embedding_bag_scales_gradient"
typedef struct tdm_embedding_bag_attributes {
  int64_t rows;
  int64_t padding_index; /* -1: none */
  int64_t mean;          /* 0 or 1 */
  int64_t ends;          /* 1: offsets has one entry more than there are bags */
} tdm_embedding_bag_attributes;

/* a_rows F (n, dim), a_indices (n), a_count (), b_rows F (m, dim), b_indices (m), b_count () ->
 * rows F (n+m, dim), indices (n+m), count (): their sum, a's contribution first. No attributes. */
#define TDM_OP_SPARSE_ADD "sparse_add"

/* table F (rows, dim), indices int64 (n) -> F (n, dim), int64 (n): the rows named, zeros where an
 * index is -1; and the indices. No attributes. */
#define TDM_OP_TAKE_ROWS "take_rows"
/* table F (rows, dim), values F (n, dim), indices int64 (n) -> =table with those rows; an index of
 * -1 is passed over, the others are distinct. No attributes. */
#define TDM_OP_PUT_ROWS "put_rows"
/* The same -> =table with the values added to those rows. No attributes. */
#define TDM_OP_ADD_ROWS "add_rows"
/* whole (rows, ...), values (n, ...), indices ids (n) -> =whole with those rows, of any dtype;
 * indices are distinct, and one outside [0, rows) fails, naming it. No attributes. */
#define TDM_OP_INDEX_COPY "index_copy"

/* ---- Products ------------------------------------------------------------------------------ */

/* x F (..., in), weight F (out, in), [bias F (out)] -> F (..., out): x weight^T + bias. */
#define TDM_OP_LINEAR "linear"
/* d_out F (..., out), weight F (out, in) -> d_x F (..., in). */
#define TDM_OP_LINEAR_INPUT_GRADIENT "linear_input_gradient"
/* d_out F (..., out), x F (..., in) -> d_weight F (out, in), d_bias F (out). Always both. */
#define TDM_OP_LINEAR_PARAMETER_GRADIENT "linear_parameter_gradient"

/* a F (..., m, k), b F (..., k, n) -> F (..., m, n), batch by batch; leading dimensions are brought
 * to one rank from the left with 1, and those of 1 are repeated. A transposed operand lies as
 * (..., k, m) or (..., n, k); never both. */
#define TDM_OP_MATMUL "matmul"
typedef struct tdm_matmul_attributes {
  int64_t transpose_a; /* 0 or 1 */
  int64_t transpose_b;
} tdm_matmul_attributes;

/* x F (batch, vectors, dim) -> F (batch, pairs): the products of vectors i and j < i (with `self`
 * j <= i), i after i, j ascending. */
#define TDM_OP_DOT_INTERACTION "dot_interaction"
/* d_y F (batch, pairs), x -> d_x. */
#define TDM_OP_DOT_INTERACTION_GRADIENT "dot_interaction_gradient"
#define TDM_MAX_INTERACTING 256 /* vectors */
typedef struct tdm_dot_interaction_attributes {
  int64_t self; /* 0 or 1 */
} tdm_dot_interaction_attributes;

/* Scaled dot-product attention (Vaswani et al., "Attention is all you need", 2017), head by head:
 * q F (batch, queries, heads dim), k F (batch, keys, heads dim), v F (batch, keys, heads width),
 * [padding bool (batch, keys): true is left out], [mask, bool: true is left out, or F: added to the
 * scaled products, (queries, keys) or (batch, heads, queries, keys)] -> y F (batch, queries, heads
 * width), log_sums F (batch, heads, queries): of the exponentials. With `causal` query i sees the
 * keys up to i. A query that sees no key has y 0 and log_sum infinite. */
#define TDM_OP_ATTENTION "attention"
/* The same, with probabilities dropped as TDM_OP_DROPOUT drops the elements of a (batch, heads,
 * queries, keys). */
#define TDM_OP_ATTENTION_DROPOUT "attention_dropout"
/* d_y, q, k, v, y, log_sums, [padding], [mask] -> d_q, d_k, d_v; drops by p. */
#define TDM_OP_ATTENTION_GRADIENT "attention_gradient"
typedef struct tdm_attention_attributes {
  int64_t heads;
  int64_t causal;
  double scale; /* of the products */
  double p;     /* of dropping; attention itself drops nothing */
  uint64_t stream;
  tdm_chunk chunk; /* of y's batch */
} tdm_attention_attributes;

/* ---- Recurrent layers ------------------------------------------------------------------------ */

/* One layer of a recurrent network over a sequence in one direction, time first; G is 1 (rnn), 4
 * (lstm) or 3 (gru), and weights and biases hold their gates one after the other:
 * x F (length, batch, in), weight_ih F (G hidden, in), weight_hh F (G hidden, hidden), [bias_ih F
 * (G hidden)], [bias_hh F (G hidden)], [h0 F (batch, hidden)], [c0 F (batch, hidden), of lstm],
 * [lengths ids (batch)] -> y F (length, batch, hidden), h_n F (batch, hidden), of lstm c_n F
 * (batch, hidden). With a = x_t weight_ih^T + bias_ih and b = h weight_hh^T + bias_hh, gate by
 * gate: rnn:  h = act(a + b)                                    (J. L. Elman, 1990) lstm: i, f, g,
 * o = sigmoid, sigmoid, tanh, sigmoid of a + b; c = f c + i g; h = o tanh(c) (Hochreiter,
 * Schmidhuber, 1997) gru:  r, z = sigmoid of a + b; n = tanh(a_n + r b_n); h = n + z (h - n)  (Cho
 * et al., 2014) Absent states are zeros. Row i has lengths[i] steps, 0 to length, all where lengths
 * is absent: behind them y is zeros and the states stay. A length outside fails, naming it. */
#define TDM_OP_RNN "rnn"
#define TDM_OP_LSTM "lstm"
#define TDM_OP_GRU "gru"
/* The same, and what gradients need: -> ..., gates F (length, batch, 4 hidden): i, f, g, o, or r,
 * z, n, b_n; of lstm also cells F (length, batch, hidden): every c. Zeros behind a row's steps. */
#define TDM_OP_LSTM_TRAINING "lstm_training"
#define TDM_OP_GRU_TRAINING "gru_training"
/* x, y, weight_ih, weight_hh, [d_y], [d_h_n], [d_c_n], [h0], [c0], [gates], [cells], [lengths] ->
 * d_weight_ih, d_weight_hh, d_bias_ih, d_bias_hh, d_h0 (batch, hidden), of lstm d_c0 (batch,
 * hidden), with input_gradient d_x. An absent adjoint is zeros. */
#define TDM_OP_RNN_GRADIENT "rnn_gradient"
#define TDM_OP_LSTM_GRADIENT "lstm_gradient"
#define TDM_OP_GRU_GRADIENT "gru_gradient"
typedef enum tdm_cell {
  TDM_CELL_TANH = 0, /* of rnn */
  TDM_CELL_RELU = 1, /* of rnn */
  TDM_CELL_LSTM = 2,
  TDM_CELL_GRU = 3
} tdm_cell;
typedef struct tdm_recurrent_attributes {
  int32_t cell;           /* tdm_cell */
  int32_t reverse;        /* 1: from each row's last step to the first */
  int32_t input_gradient; /* of the gradients only: 1: d_x is wanted */
  int32_t reserved;
} tdm_recurrent_attributes;
/* G of the comment above. */
static inline int64_t tdm_cell_gates(int32_t cell) {
  return cell == TDM_CELL_LSTM ? 4 : cell == TDM_CELL_GRU ? 3 : 1;
}

/* ---- Shape ---------------------------------------------------------------------------------- */

/* x -> the same elements under another shape; a view, no kernel. Dimensions as for tdm_reshape. */
#define TDM_OP_RESHAPE "reshape"
typedef struct tdm_reshape_attributes {
  int64_t rank;
  int64_t dims[8];
} tdm_reshape_attributes;
/* x (..., d, ...) -> x without `dimension`, at index; also int32, int64. */
#define TDM_OP_SELECT "select"
/* d_out -> d_x: d_out at index, zero elsewhere; `size` is that dimension's extent in x. */
#define TDM_OP_SELECT_GRADIENT "select_gradient"
typedef struct tdm_select_attributes {
  int64_t dimension; /* already >= 0 */
  int64_t index;     /* may be negative: from the end */
  int64_t size;      /* of the gradient only */
} tdm_select_attributes;
/* x (a, b, ...) -> (b, a, ...): the first two dimensions exchanged; any dtype of 4 or 8 bytes. */
#define TDM_OP_SWAP_FIRST_DIMENSIONS "swap_first_dimensions"

/* x -> x with the dimensions first < second exchanged; dtypes as above. */
#define TDM_OP_TRANSPOSE "transpose"
typedef struct tdm_transpose_attributes {
  int64_t first; /* already >= 0 */
  int64_t second;
} tdm_transpose_attributes;

/* x (..., n, ...) -> `count` parts, part i with sizes[i] of dimension; any dtype. */
#define TDM_OP_SPLIT "split"
/* `count` parts -> x, one after the other along dimension. */
#define TDM_OP_CONCAT "concat"
#define TDM_MAX_PARTS 64
typedef struct tdm_parts_attributes {
  int64_t dimension; /* already >= 0 */
  int64_t count;     /* at most TDM_MAX_PARTS */
  int64_t sizes[TDM_MAX_PARTS];
} tdm_parts_attributes;

/* ids (...) of a table of `table_rows` rows, of which a shard has `rows` from `first` on -> taken
 * int64 (n): each id's row of the shard, -1 where it is another's, as take_rows reads them; summed
 * int64 (n): the same, `rows` where it is another's or the padding: ids whose gradient is that of a
 * table with one row more, which is its padding. An id outside the table fails, naming it. */
#define TDM_OP_SHARD_IDS "shard_ids"
typedef struct tdm_shard_ids_attributes {
  int64_t table_rows;
  int64_t first;
  int64_t rows;
  int64_t padding_index; /* of the table; -1: none */
} tdm_shard_ids_attributes;
/* ids (...) of a table in `count` shards, s of which has rows ends[s - 1] <= id < ends[s] -> places
 * int64 (...): where the row of id i of n lies among what all shards have taken, (count n) rows:
 * s n + i; count n where it is the padding. An id outside the table fails, naming it. */
#define TDM_OP_SHARD_PLACES "shard_places"
typedef struct tdm_shard_places_attributes {
  int64_t padding_index; /* -1: none */
  int64_t count;
  int64_t ends[TDM_MAX_PARTS];
} tdm_shard_places_attributes;

/* x F -> F: element i is 0 with probability p, else x / (1 - p); of a run's (seed, step), `stream`
 * and the place of i in the whole value, of which this may be a chunk. Its own gradient. Word i % 4
 * of Philox's block i / 4 decides: its upper 24 bits below p 2^24 mean 0. */
#define TDM_OP_DROPOUT "dropout"
typedef struct tdm_dropout_attributes {
  double p;
  uint64_t stream;
  tdm_chunk chunk;
} tdm_dropout_attributes;

/* ---- Reductions ------------------------------------------------------------------------------ */

/* x F -> F: summed over the dimensions of the mask (bit i: dimension i), which stay as 1 if `keep`;
 * divided by their count for the mean. At most two groups of neighbouring dimensions. */
#define TDM_OP_REDUCE "reduce"
/* d_out -> d_x F (dims): every element of x gets its sum's, divided likewise. */
#define TDM_OP_REDUCE_GRADIENT "reduce_gradient"
typedef struct tdm_reduce_attributes {
  int64_t mask;
  int64_t keep;
  int64_t mean;
  int64_t terms;   /* of the mean: divided by these instead, unless 0 */
  int64_t rank;    /* of x; of the gradient only */
  int64_t dims[8]; /* of x; of the gradient only */
} tdm_reduce_attributes;

/* x F -> values F, indices int64: the largest along the dimension, or the least if `least`, and
 * where it is; the dimension stays as 1 if `keep`. Of equals the first; a NaN is beyond all. */
#define TDM_OP_EXTREME "extreme"
/* d_values, indices -> d_x F. */
#define TDM_OP_EXTREME_GRADIENT "extreme_gradient"
/* x F -> y F like x: the sums of all up to each element along the dimension, or from each element
 * on if `reverse`. */
#define TDM_OP_CUMSUM "cumsum"
/* x F -> y F: the product along the dimension, which stays as 1 if `keep`. */
#define TDM_OP_PROD "prod"
/* d_y, x -> d_x: d_y times the product of all others. */
#define TDM_OP_PROD_GRADIENT "prod_gradient"
typedef struct tdm_dimension_attributes {
  int64_t dimension;
  int64_t keep;    /* of extreme, its gradient, and prod */
  int64_t least;   /* of extreme */
  int64_t reverse; /* of cumsum */
  int64_t size;    /* of extreme_gradient: x's dimension */
} tdm_dimension_attributes;

/* ---- Convolution and pooling ------------------------------------------------------------------
 */
/* Images are (n, channels, height, width), or (n, channels, width): then element 0 of the pairs
 * below, which is that of the height, is 1, 1, 0, 1. */

/* x F (n, in, h, w), weight F (out, in / groups, kh, kw), [bias F (out)] -> F (n, out, h', w'):
 * cross-correlation, group by group of channels. */
#define TDM_OP_CONVOLUTION "convolution"
/* d_y, weight -> d_x F (n, in, input). */
#define TDM_OP_CONVOLUTION_INPUT_GRADIENT "convolution_input_gradient"
/* d_y, x -> d_weight F (out, in / groups, kernel), d_bias F (out). Always both. */
#define TDM_OP_CONVOLUTION_PARAMETER_GRADIENT "convolution_parameter_gradient"
typedef struct tdm_convolution_attributes {
  int64_t stride[2];
  int64_t padding[2];
  int64_t dilation[2];
  int64_t groups;
  int64_t kernel[2]; /* of the weight's gradient only */
  int64_t input[2];  /* x's height and width; of the input's gradient only */
} tdm_convolution_attributes;

/* x F -> y F, indices int32 like y: where in its plane (h, w) the largest element of each window
 * is, the first of equals; padding is never taken. */
#define TDM_OP_MAX_POOL "max_pool"
/* d_y, indices -> d_x F (n, channels, input). */
#define TDM_OP_MAX_POOL_GRADIENT "max_pool_gradient"
/* x F -> y F: the sum of each window, divided. */
#define TDM_OP_AVERAGE_POOL "average_pool"
/* d_y -> d_x F (n, channels, input). */
#define TDM_OP_AVERAGE_POOL_GRADIENT "average_pool_gradient"
typedef struct tdm_pool_attributes {
  int64_t kernel[2];
  int64_t stride[2];
  int64_t padding[2];
  int64_t dilation[2];   /* of max_pool only */
  int64_t adaptive;      /* 1: windows share out x as evenly as may be; the four above are unused */
  int64_t output[2];     /* y's height and width */
  int64_t count_padding; /* of average_pool: padding counts in the divisor */
  int64_t divisor;       /* of average_pool: instead of the window's count; 0: that */
  int64_t ceil;          /* a last window may reach beyond the padding */
  int64_t input[2];      /* x's height and width; of the gradients only */
} tdm_pool_attributes;

/* ---- Normalisation --------------------------------------------------------------------------- */

/* x F (..., normalized), [weight F (normalized)], [bias F (normalized)] -> y F like x, mean F
 * (...), inverse F (...): y = (x - mean) inverse weight + bias over the last `rank` dimensions,
 * inverse = 1 / sqrt(variance + epsilon) (Ba, Kiros, Hinton, "Layer normalization", 2016). If
 * `uncentered`, mean is 0, and the variance is that from 0 (Zhang, Sennrich, "Root mean square
 * layer normalization", 2019). */
#define TDM_OP_LAYER_NORM "layer_norm"
/* d_y, x, mean, inverse, [weight] -> d_x. */
#define TDM_OP_LAYER_NORM_GRADIENT "layer_norm_gradient"
/* d_y, x, mean, inverse -> d_weight (normalized), d_bias (normalized). Always both. */
#define TDM_OP_LAYER_NORM_PARAMETER_GRADIENT "layer_norm_parameter_gradient"
typedef struct tdm_layer_norm_attributes {
  double epsilon;
  int64_t rank;       /* of what is normalized */
  int64_t uncentered; /* 0 or 1 */
} tdm_layer_norm_attributes;

/* x F (n, channels, ...), running_mean F (channels), running_var F (channels), [weight F
 * (channels)], [bias F (channels)] -> y F: (x - running_mean) / sqrt(running_var + epsilon) weight
 * + bias (Ioffe, Szegedy, "Batch normalization", 2015). */
#define TDM_OP_BATCH_NORM "batch_norm"
/* The same operands, of which the running ones are not read -> y, mean (channels), inverse
 * (channels), variance (channels): by the batch's own mean, and its variance, which is divided by
 * the count of elements for y and inverse, by one less in the output. Without elements: 0,
 * 1 / sqrt(epsilon), 0. */
#define TDM_OP_BATCH_NORM_TRAINING "batch_norm_training"
/* d_y, x, mean, inverse, [weight] -> d_x, d_weight (channels), d_bias (channels). */
#define TDM_OP_BATCH_NORM_GRADIENT "batch_norm_gradient"
/* running_mean F (channels), running_var, batches int64 (), mean, variance -> =running_mean,
 * =running_var, =batches: moved by momentum toward the batch's; momentum below 0: their average
 * over all batches. */
#define TDM_OP_BATCH_NORM_STATISTICS "batch_norm_statistics"
typedef struct tdm_batch_norm_attributes {
  double epsilon;
  double momentum;
} tdm_batch_norm_attributes;

/* ---- Softmax and losses ---------------------------------------------------------------------- */

/* x F -> F of the same shape, along `dimension`. */
#define TDM_OP_SOFTMAX "softmax"
#define TDM_OP_LOG_SOFTMAX "log_softmax"
#define TDM_OP_SOFTMAX_GRADIENT "softmax_gradient"         /* d_y, y -> d_x */
#define TDM_OP_LOG_SOFTMAX_GRADIENT "log_softmax_gradient" /* d_y, y -> d_x */
typedef struct tdm_softmax_attributes {
  int64_t dimension; /* already >= 0 */
} tdm_softmax_attributes;

typedef enum tdm_reduction {
  TDM_REDUCTION_MEAN = 0,
  TDM_REDUCTION_SUM = 1,
  TDM_REDUCTION_NONE = 2,
  TDM_REDUCTION_BATCH_MEAN = 3 /* of divergence: the sum divided by dimension 0 */
} tdm_reduction;
typedef struct tdm_loss_attributes {
  int32_t reduction;    /* tdm_reduction */
  int32_t dtype;        /* of count_targets' result: TDM_FLOAT32 or TDM_FLOAT64 */
  int64_t ignore_index; /* of class targets; -100 as in PyTorch */
  int64_t classes;      /* of nll's gradient */
  double smoothing;     /* of nll and divergence */
  double beta;          /* of smooth_l1 */
  double scale;         /* of smooth_l1 */
  int64_t logarithms;   /* of divergence: targets are logarithms of probabilities */
  int64_t entropy;      /* of divergence: that of the targets is taken off */
} tdm_loss_attributes;
/* logits F (n, classes), targets ids (n) -> loss F () or (n) for NONE, log_probabilities F (n,
 * classes), divisor F (): the count of targets not ignored for MEAN, else 1. A target outside
 * [0, classes) that is not ignore_index fails, naming it. */
#define TDM_OP_CROSS_ENTROPY "cross_entropy"
/* d_loss F () or (n), log_probabilities, targets, divisor -> d_logits F (n, classes). */
#define TDM_OP_CROSS_ENTROPY_GRADIENT "cross_entropy_gradient"
/* targets ids (n), [weight F (classes)] -> F (): how many are not ignore_index, or the sum of their
 * weights. */
#define TDM_OP_COUNT_TARGETS "count_targets"
/* log_probabilities F (n, classes), targets ids (n), [weight F (classes)] -> loss F () or (n) for
 * NONE, divisor F (): as count_targets for MEAN, else 1. A row's loss is -(1 - smoothing) weight[t]
 * log p[t] - smoothing / classes sum of weight[c] log p[c]; 0 where the target is ignored (Szegedy
 * et al., "Rethinking the Inception architecture", 2016, for smoothing). Targets as for
 * cross_entropy. */
#define TDM_OP_NLL "nll"
/* d_loss F () or (n), targets, divisor, [weight] -> d_log_probabilities F (n, classes). */
#define TDM_OP_NLL_GRADIENT "nll_gradient"
/* a F, b F of one shape -> loss F (), or of that shape for NONE. */
#define TDM_OP_MSE "mse"
/* d_loss, a, b -> d_a (d_b is its negative: swap a and b). */
#define TDM_OP_MSE_GRADIENT "mse_gradient"
/* a F, b F of one shape -> loss, as mse: of d = a - b scale times d^2 / (2 beta) where |d| < beta,
 * else |d| - beta / 2. */
#define TDM_OP_SMOOTH_L1 "smooth_l1"
/* d_loss, a, b -> d_a, as mse_gradient. */
#define TDM_OP_SMOOTH_L1_GRADIENT "smooth_l1_gradient"
/* logits x F, targets t F of one shape, [weight w F], [pos_weight q F] -> loss, as mse: of w ((1 -
 * t) x + (1 + (q - 1) t) log(1 + exp(-x))). The shapes of w and q are the last dimensions of x's,
 * over which they repeat. */
#define TDM_OP_BINARY_CROSS_ENTROPY "binary_cross_entropy"
/* d_loss, logits, targets, [weight], [pos_weight] -> d_logits. */
#define TDM_OP_BINARY_CROSS_ENTROPY_GRADIENT "binary_cross_entropy_gradient"
/* log_probabilities x F, targets t F of one shape, [weight w F] -> loss, as mse, or for BATCH_MEAN:
 * of w (h - p x) with p = (1 - smoothing) t + smoothing / classes, or exp(t) of logarithms, and h =
 * p log p (0 for p = 0) with entropy, else 0: the Kullback-Leibler divergence with, the
 * cross-entropy without (S. Kullback, R. A. Leibler, "On information and sufficiency", 1951).
 * classes is the last dimension; the shape of w is x's last dimensions, over which it repeats. */
#define TDM_OP_DIVERGENCE "divergence"
/* d_loss, log_probabilities, targets, [weight] -> d_log_probabilities. */
#define TDM_OP_DIVERGENCE_GRADIENT "divergence_gradient"

/* ---- Optimizers ------------------------------------------------------------------------------ */
/* The learning rate is scalars->learning_rate of the run. Persistent states start as zeros. */

/* parameter F, d_parameter F, [momentum_buffer F], [initialized F ()] -> =parameter,
 * [=momentum_buffer], [=initialized]. With momentum the first step sets the buffer to the gradient
 * (PyTorch's rule), which `initialized` (0, then 1) records. */
#define TDM_OP_SGD "sgd"
/* parameter F (rows, dim), rows F (n, dim), indices int64 (n), count int64 () -> =parameter; plain
 * SGD without momentum or decay on the rows named. */
#define TDM_OP_SGD_SPARSE "sgd_sparse"
typedef struct tdm_sgd_attributes {
  double momentum;
  double dampening;
  double weight_decay;
  int64_t nesterov;
} tdm_sgd_attributes;

/* parameter F, d_parameter F, exp_avg F, exp_avg_sq F, step F () -> =parameter, =exp_avg,
 * =exp_avg_sq, =step. `decoupled` makes it AdamW. */
#define TDM_OP_ADAM "adam"
/* parameter F (rows, dim), rows F (n, dim), indices, count, exp_avg F (rows, dim), exp_avg_sq,
 * step F () -> =parameter, =exp_avg, =exp_avg_sq, =step: PyTorch's SparseAdam. */
#define TDM_OP_ADAM_SPARSE "adam_sparse"
typedef struct tdm_adam_attributes {
  double beta1;
  double beta2;
  double epsilon;
  double weight_decay;
  int64_t decoupled;
} tdm_adam_attributes;

/* parameter F, d_parameter F, sum F, step F () -> =parameter, =sum, =step (Duchi, Hazan, Singer,
 * "Adaptive subgradient methods", JMLR 2011). */
#define TDM_OP_ADAGRAD "adagrad"
/* parameter F (rows, dim), rows F (n, dim), indices, count, sum F (rows, dim), step F () ->
 * =parameter, =sum, =step: the rows named alone; no weight decay. */
#define TDM_OP_ADAGRAD_SPARSE "adagrad_sparse"
typedef struct tdm_adagrad_attributes {
  double rate_decay; /* the rate is divided by 1 + rate_decay (step - 1) */
  double weight_decay;
  double epsilon;
} tdm_adagrad_attributes;

/* parameter F, d_parameter F, square_avg F, [grad_avg F if centered], [momentum_buffer F if
 * momentum] -> =parameter and the states that are there; none stands for an absent one (Tieleman,
 * Hinton, "Lecture 6.5: rmsprop", 2012; centered: Graves, arXiv:1308.0850). */
#define TDM_OP_RMSPROP "rmsprop"
typedef struct tdm_rmsprop_attributes {
  double alpha;
  double epsilon;
  double weight_decay;
  double momentum;
  int64_t centered;
} tdm_rmsprop_attributes;

/* x F -> F (): sum of squares, in one fixed order. */
#define TDM_OP_SUM_OF_SQUARES "sum_of_squares"
/* sum F (): the sum of squares of all gradients -> factor F (): min(1, max_norm / (sqrt(sum) +
 * 1e-6)), PyTorch's clip_grad_norm_. */
#define TDM_OP_CLIP_FACTOR "clip_factor"
typedef struct tdm_clip_attributes {
  double max_norm;
} tdm_clip_attributes;
/* x F -> =x. NOT_FINITE, naming the value, when an element is not. */
#define TDM_OP_CHECK_FINITE "check_finite"

/* ---- Layout ---------------------------------------------------------------------------------- */

/* x in one format -> the same elements in another: the formats stand in the specs. */
#define TDM_OP_REORDER "reorder"

#endif
