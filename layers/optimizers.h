/* Public part of layers/: optimizers, with the options, defaults and numerics of torch.optim, in
 * the forms that update one tensor after the other. Each is a value, made without errors: creating
 * the session checks its settings, and names what is wrong. Set clip_norm in what they answer. */
#ifndef TANDEM_LAYERS_OPTIMIZERS_H
#define TANDEM_LAYERS_OPTIMIZERS_H

#include "tandem/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

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

typedef struct tdm_adagrad_options {
  double learning_rate; /* 0: 1e-2 */
  double rate_decay;    /* of step s, from 0 on: the rate is divided by 1 + rate_decay s */
  double weight_decay;
  double initial_accumulator; /* what the sums of squares begin with */
  double epsilon;             /* 0: 1e-10 */
} tdm_adagrad_options;
/* For dense gradients, and without weight decay for sparse ones: rows that no id names keep their
 * values and sums. */
TDM_API tdm_optimizer tdm_adagrad(double learning_rate);
TDM_API tdm_optimizer tdm_adagrad_with(const tdm_adagrad_options *options);

typedef struct tdm_rmsprop_options {
  double learning_rate; /* 0: 1e-2 */
  double alpha;         /* 0: 0.99 */
  double epsilon;       /* 0: 1e-8 */
  double weight_decay;
  double momentum;
  bool centered; /* by an estimate of the variance instead of the mean of squares */
} tdm_rmsprop_options;
TDM_API tdm_optimizer tdm_rmsprop(double learning_rate);
TDM_API tdm_optimizer tdm_rmsprop_with(const tdm_rmsprop_options *options);

#ifdef __cplusplus
}
#endif
#endif
