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

/* a_rows F (n, dim), a_indices (n), a_count (), b_rows F (m, dim), b_indices (m), b_count () ->
 * rows F (n+m, dim), indices (n+m), count (): their sum, a's contribution first. No attributes. */
#define TDM_OP_SPARSE_ADD "sparse_add"

/* ---- Products ------------------------------------------------------------------------------ */

/* x F (..., in), weight F (out, in), [bias F (out)] -> F (..., out): x weight^T + bias. */
#define TDM_OP_LINEAR "linear"
/* d_out F (..., out), weight F (out, in) -> d_x F (..., in). */
#define TDM_OP_LINEAR_INPUT_GRADIENT "linear_input_gradient"
/* d_out F (..., out), x F (..., in) -> d_weight F (out, in), d_bias F (out). Always both. */
#define TDM_OP_LINEAR_PARAMETER_GRADIENT "linear_parameter_gradient"

/* One layer of an Elman RNN over a sequence, time first:
 * x F (length, batch, in), [h0 F (batch, hidden)], weight_ih F (hidden, in), weight_hh F (hidden,
 * hidden), bias_ih F (hidden), bias_hh F (hidden) -> y F (length, batch, hidden):
 * y_t = act(x_t weight_ih^T + bias_ih + y_(t-1) weight_hh^T + bias_hh). An absent h0 is zeros. */
#define TDM_OP_RNN "rnn"
/* d_y F (length, batch, hidden), x, y, [h0], weight_ih, weight_hh -> d_x like x, d_h0 (batch,
 * hidden), d_weight_ih, d_weight_hh, d_bias (hidden; the gradient of either bias). */
#define TDM_OP_RNN_GRADIENT "rnn_gradient"
typedef enum tdm_rnn_nonlinearity { TDM_RNN_TANH = 0, TDM_RNN_RELU = 1 } tdm_rnn_nonlinearity;
typedef struct tdm_rnn_attributes {
  int32_t nonlinearity; /* tdm_rnn_nonlinearity */
  int32_t reserved;
} tdm_rnn_attributes;

/* ---- Elementwise: all operands of one shape, no attributes ---------------------------------- */

#define TDM_OP_RELU "relu"                         /* x -> y */
#define TDM_OP_TANH "tanh"                         /* x -> y */
#define TDM_OP_SIGMOID "sigmoid"                   /* x -> y */
#define TDM_OP_RELU_GRADIENT "relu_gradient"       /* d_y, y -> d_x */
#define TDM_OP_TANH_GRADIENT "tanh_gradient"       /* d_y, y -> d_x */
#define TDM_OP_SIGMOID_GRADIENT "sigmoid_gradient" /* d_y, y -> d_x */
/* a, b -> a + b; also for int32 and int64. */
#define TDM_OP_ADD "add"
/* 1 to 16 inputs -> their sum, added in operand order. */
#define TDM_OP_ACCUMULATE "accumulate"
/* x F, s F () -> x * s. */
#define TDM_OP_SCALE "scale"
/* like F (...) -> F (...), every element value; like is not read. */
#define TDM_OP_FILL "fill"
typedef struct tdm_fill_attributes {
  double value;
} tdm_fill_attributes;
/* x of any dtype but the 16-bit ones -> the same as the output's dtype; float to integer
 * truncates toward zero and saturates, NaN to 0; to bool is != 0. */
#define TDM_OP_CAST "cast"

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
  TDM_REDUCTION_NONE = 2
} tdm_reduction;
typedef struct tdm_loss_attributes {
  int32_t reduction; /* tdm_reduction */
  int32_t reserved;
  int64_t ignore_index; /* of cross_entropy; -100 as in PyTorch */
} tdm_loss_attributes;
/* logits F (n, classes), targets ids (n) -> loss F () or (n) for NONE, log_probabilities F (n,
 * classes), divisor F (): the count of targets not ignored for MEAN, else 1. A target outside
 * [0, classes) that is not ignore_index fails, naming it. */
#define TDM_OP_CROSS_ENTROPY "cross_entropy"
/* d_loss F () or (n), log_probabilities, targets, divisor -> d_logits F (n, classes). */
#define TDM_OP_CROSS_ENTROPY_GRADIENT "cross_entropy_gradient"
/* a F, b F of one shape -> loss F (), or of that shape for NONE. */
#define TDM_OP_MSE "mse"
/* d_loss, a, b -> d_a (d_b is its negative: swap a and b). */
#define TDM_OP_MSE_GRADIENT "mse_gradient"

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

/* x F -> F (): sum of squares, in one fixed order. */
#define TDM_OP_SUM_OF_SQUARES "sum_of_squares"
/* sum F (): the sum of squares of all gradients -> factor F (): min(1, max_norm / (sqrt(sum) +
 * 1e-6)), PyTorch's clip_grad_norm_. */
#define TDM_OP_CLIP_FACTOR "clip_factor"
typedef struct tdm_clip_attributes {
  double max_norm;
} tdm_clip_attributes;
/* x F -> =x. Fails, naming the value, when an element is not finite. */
#define TDM_OP_CHECK_FINITE "check_finite"

/* ---- Layout ---------------------------------------------------------------------------------- */

/* x in one format -> the same elements in another: the formats stand in the specs. */
#define TDM_OP_REORDER "reorder"

#endif
