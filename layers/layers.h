/* Public part of layers/: layers, losses and optimizers, with PyTorch's shapes, parameter names,
 * defaults, initialisation and numerics. A layer declares parameters and appends operations
 * (graph/graph.h); it knows no device. All functions: one thread (the graph's); an invalid value
 * in gives an invalid value out, the first error sticks to the graph. */
#ifndef TANDEM_LAYERS_LAYERS_H
#define TANDEM_LAYERS_LAYERS_H

#include "graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Layers with parameters ----------------------------------------------------------------- */

typedef struct tdm_embedding_options {
  size_t struct_size;
  bool has_padding_index;
  int64_t padding_index; /* negative: from the end; its row starts as zeros and is never trained */
  bool sparse;           /* gradients as rows: for sgd (plain) and sparse_adam only */
} tdm_embedding_options;

/* ids int32 or int64 (...) -> (..., dim). name.weight (rows, dim), normal(0, 1). */
TDM_API tdm_value tdm_embedding(tdm_graph *graph, const char *name, tdm_value ids, int64_t rows,
                                int64_t dim);
TDM_API tdm_value tdm_embedding_with(tdm_graph *graph, const char *name, tdm_value ids,
                                     int64_t rows, int64_t dim,
                                     const tdm_embedding_options *options);

/* x (..., in) -> (..., out). name.weight (out, in), name.bias (out): uniform within 1/sqrt(in). */
TDM_API tdm_value tdm_linear(tdm_graph *graph, const char *name, tdm_value x, int64_t out_features);
TDM_API tdm_value tdm_linear_without_bias(tdm_graph *graph, const char *name, tdm_value x,
                                          int64_t out_features);

typedef struct tdm_rnn_options {
  size_t struct_size;
  int layers;       /* 0: 1 */
  bool relu;        /* else tanh */
  bool batch_first; /* x and y are (batch, length, ...) */
  tdm_value h0;     /* (layers, batch, hidden); invalid: zeros */
} tdm_rnn_options;

/* x (length, batch, in) -> y (length, batch, hidden) of the last layer; out_h_n, unless NULL, gets
 * each layer's last step (layers values of (batch, hidden)). name.weight_ih_l0 (hidden, in),
 * name.weight_hh_l0 (hidden, hidden), name.bias_ih_l0, name.bias_hh_l0 (hidden), ..._l1 ...:
 * uniform within 1/sqrt(hidden). options may be NULL. */
TDM_API tdm_value tdm_rnn(tdm_graph *graph, const char *name, tdm_value x, int64_t hidden,
                          const tdm_rnn_options *options, tdm_value *out_h_n);

/* ---- Functions ------------------------------------------------------------------------------- */

TDM_API tdm_value tdm_relu(tdm_graph *graph, const char *name, tdm_value x);
TDM_API tdm_value tdm_tanh(tdm_graph *graph, const char *name, tdm_value x);
TDM_API tdm_value tdm_sigmoid(tdm_graph *graph, const char *name, tdm_value x);
TDM_API tdm_value tdm_add(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);
/* shape: sizes, names, and at most one TDM_INFER. */
TDM_API tdm_value tdm_reshape(tdm_graph *graph, const char *name, tdm_value x, tdm_shape shape);
/* x without dimension (negative: from the end), at index (negative: from the end). */
TDM_API tdm_value tdm_select(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                             int64_t index);
/* The last step of (length, batch, ...): tdm_select of dimension 0 at -1. */
TDM_API tdm_value tdm_last_step(tdm_graph *graph, const char *name, tdm_value x);
/* (a, b, ...) -> (b, a, ...). */
TDM_API tdm_value tdm_swap_first_dimensions(tdm_graph *graph, const char *name, tdm_value x);
TDM_API tdm_value tdm_softmax(tdm_graph *graph, const char *name, tdm_value x, int dimension);
TDM_API tdm_value tdm_log_softmax(tdm_graph *graph, const char *name, tdm_value x, int dimension);
/* x as dtype; differentiable between floating dtypes. */
TDM_API tdm_value tdm_cast(tdm_graph *graph, const char *name, tdm_value x, tdm_dtype dtype);

/* ---- Losses ---------------------------------------------------------------------------------- */

typedef enum tdm_loss_reduction { TDM_LOSS_MEAN, TDM_LOSS_SUM, TDM_LOSS_NONE } tdm_loss_reduction;

typedef struct tdm_loss_options {
  size_t struct_size;
  tdm_loss_reduction reduction;
  bool has_ignore_index;
  int64_t ignore_index; /* of cross-entropy; -100 where has_ignore_index is false */
} tdm_loss_options;

/* logits (n, classes), targets int (n) -> scalar (mean), or as the reduction says. */
TDM_API tdm_value tdm_cross_entropy(tdm_graph *graph, const char *name, tdm_value logits,
                                    tdm_value targets);
TDM_API tdm_value tdm_cross_entropy_with(tdm_graph *graph, const char *name, tdm_value logits,
                                         tdm_value targets, const tdm_loss_options *options);
TDM_API tdm_value tdm_mse(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);
TDM_API tdm_value tdm_mse_with(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                               const tdm_loss_options *options);

/* ---- Optimizers: values; set clip_norm in what they answer ----------------------------------- */

typedef struct tdm_sgd_options {
  double learning_rate;
  double momentum;
  double dampening;
  double weight_decay;
  bool nesterov; /* needs momentum and no dampening */
} tdm_sgd_options;
TDM_API tdm_optimizer tdm_sgd(double learning_rate);
TDM_API tdm_optimizer tdm_sgd_with(const tdm_sgd_options *options);

typedef struct tdm_adam_options {
  double learning_rate; /* 0: 1e-3 */
  double beta1;         /* 0: 0.9 */
  double beta2;         /* 0: 0.999 */
  double epsilon;       /* 0: 1e-8 */
  double weight_decay;  /* adamw: 0 means none, tdm_adamw's own default is 1e-2 */
} tdm_adam_options;
TDM_API tdm_optimizer tdm_adam(double learning_rate);
TDM_API tdm_optimizer tdm_adam_with(const tdm_adam_options *options);
TDM_API tdm_optimizer tdm_adamw(double learning_rate);
TDM_API tdm_optimizer tdm_adamw_with(const tdm_adam_options *options);
/* PyTorch's SparseAdam for sparse gradients; dense ones are refused, as there. */
TDM_API tdm_optimizer tdm_sparse_adam(double learning_rate);
TDM_API tdm_optimizer tdm_sparse_adam_with(const tdm_adam_options *options);

#ifdef __cplusplus
}
#endif
#endif
