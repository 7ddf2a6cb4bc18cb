/* Public part of layers/: optimizers, with the options, defaults and numerics of torch.optim, in
 * the forms that update one tensor after the other. Each is a value, made without errors: creating
 * the session checks its settings, and names what is wrong. Set clip_value, clip_norm and maximize
 * in the returned value. States in stores and checkpoints are called "optimizer/PARAMETER/" and
 * what PyTorch calls them (exp_avg, ...). */
#ifndef TANDEM_LAYERS_OPTIMIZERS_H
#define TANDEM_LAYERS_OPTIMIZERS_H

#include "tandem/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Stochastic gradient descent, with momentum if wanted, Nesterov's too. */
typedef struct tdm_sgd_options {
  size_t struct_size;   /* set by its initializer */
  double learning_rate; /* what gradients are times, before they are taken off; default 1e-3 */
  double momentum;      /* how much of the sum of gradients so far is kept; 0: there is none */
  double dampening;     /* the share of a gradient that does not enter that sum */
  double weight_decay;  /* times the parameter, added to its gradient */
  bool nesterov;        /* needs momentum and no dampening */
} tdm_sgd_options;
static inline tdm_sgd_options tdm_sgd_options_default(void) {
  tdm_sgd_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_sgd_options);
  options.learning_rate = 1e-3;
  return options;
}
TDM_API tdm_optimizer tdm_sgd(double learning_rate);
TDM_API tdm_optimizer tdm_sgd_with(const tdm_sgd_options *options);

/* D. P. Kingma, J. Ba, "Adam: a method for stochastic optimization", ICLR 2015; adamw: I.
 * Loshchilov, F. Hutter, "Decoupled weight decay regularization", ICLR 2019. */
typedef struct tdm_adam_options {
  size_t struct_size;   /* set by its initializer */
  double learning_rate; /* default 1e-3 */
  double beta1;         /* default 0.9 */
  double beta2;         /* default 0.999 */
  double epsilon;       /* default 1e-8 */
  double weight_decay;  /* default 0; of tdm_adamw_options_default() 1e-2 */
  bool amsgrad;         /* by the largest mean of squares so far; not of sparse_adam */
} tdm_adam_options;
static inline tdm_adam_options tdm_adam_options_default(void) {
  tdm_adam_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_adam_options);
  options.learning_rate = 1e-3;
  options.beta1 = 0.9;
  options.beta2 = 0.999;
  options.epsilon = 1e-8;
  return options;
}
/* The same with AdamW's weight decay of 1e-2: for tdm_adamw_with. */
static inline tdm_adam_options tdm_adamw_options_default(void) {
  tdm_adam_options options = tdm_adam_options_default();
  options.weight_decay = 1e-2;
  return options;
}
TDM_API tdm_optimizer tdm_adam(double learning_rate);
TDM_API tdm_optimizer tdm_adam_with(const tdm_adam_options *options);
TDM_API tdm_optimizer tdm_adamw(double learning_rate);
TDM_API tdm_optimizer tdm_adamw_with(const tdm_adam_options *options);
/* PyTorch's SparseAdam for sparse gradients; dense ones are refused, as there. */
TDM_API tdm_optimizer tdm_sparse_adam(double learning_rate);
TDM_API tdm_optimizer tdm_sparse_adam_with(const tdm_adam_options *options);

/* Adam with Nesterov's momentum (T. Dozat, "Incorporating Nesterov momentum into Adam", 2016). */
typedef struct tdm_nadam_options {
  size_t struct_size;   /* set by its initializer */
  double learning_rate; /* default 2e-3 */
  double beta1;         /* default 0.9 */
  double beta2;         /* default 0.999 */
  double epsilon;       /* default 1e-8 */
  double weight_decay;
  double momentum_decay;       /* default 4e-3 */
  bool decoupled_weight_decay; /* of the parameter itself, as AdamW's */
} tdm_nadam_options;
static inline tdm_nadam_options tdm_nadam_options_default(void) {
  tdm_nadam_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_nadam_options);
  options.learning_rate = 2e-3;
  options.beta1 = 0.9;
  options.beta2 = 0.999;
  options.epsilon = 1e-8;
  options.momentum_decay = 4e-3;
  return options;
}
TDM_API tdm_optimizer tdm_nadam(double learning_rate);
TDM_API tdm_optimizer tdm_nadam_with(const tdm_nadam_options *options);

/* Adam, rectified: without adaptive rates as long as too few steps tell the variance (L. Liu et
 * al., "On the variance of the adaptive learning rate and beyond", ICLR 2020). */
typedef struct tdm_radam_options {
  size_t struct_size;   /* set by its initializer */
  double learning_rate; /* default 1e-3 */
  double beta1;         /* default 0.9 */
  double beta2;         /* default 0.999 */
  double epsilon;       /* default 1e-8 */
  double weight_decay;
  bool decoupled_weight_decay; /* of the parameter itself, as AdamW's */
} tdm_radam_options;
static inline tdm_radam_options tdm_radam_options_default(void) {
  tdm_radam_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_radam_options);
  options.learning_rate = 1e-3;
  options.beta1 = 0.9;
  options.beta2 = 0.999;
  options.epsilon = 1e-8;
  return options;
}
TDM_API tdm_optimizer tdm_radam(double learning_rate);
TDM_API tdm_optimizer tdm_radam_with(const tdm_radam_options *options);

/* Adam by the largest gradient instead of the mean of squares. */
typedef struct tdm_adamax_options {
  size_t struct_size;   /* set by its initializer */
  double learning_rate; /* default 2e-3 */
  double beta1;         /* default 0.9 */
  double beta2;         /* default 0.999 */
  double epsilon;       /* default 1e-8 */
  double weight_decay;
} tdm_adamax_options;
static inline tdm_adamax_options tdm_adamax_options_default(void) {
  tdm_adamax_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_adamax_options);
  options.learning_rate = 2e-3;
  options.beta1 = 0.9;
  options.beta2 = 0.999;
  options.epsilon = 1e-8;
  return options;
}
TDM_API tdm_optimizer tdm_adamax(double learning_rate);
TDM_API tdm_optimizer tdm_adamax_with(const tdm_adamax_options *options);

/* M. D. Zeiler, "ADADELTA: an adaptive learning rate method", arXiv:1212.5701, 2012. */
typedef struct tdm_adadelta_options {
  size_t struct_size;   /* set by its initializer */
  double learning_rate; /* default 1 */
  double rho;           /* default 0.9 */
  double epsilon;       /* default 1e-6 */
  double weight_decay;
} tdm_adadelta_options;
static inline tdm_adadelta_options tdm_adadelta_options_default(void) {
  tdm_adadelta_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_adadelta_options);
  options.learning_rate = 1.0;
  options.rho = 0.9;
  options.epsilon = 1e-6;
  return options;
}
TDM_API tdm_optimizer tdm_adadelta(double learning_rate);
TDM_API tdm_optimizer tdm_adadelta_with(const tdm_adadelta_options *options);

/* Of a matrix only means of squares of rows and of columns are kept (N. Shazeer, M. Stern,
 * "Adafactor: adaptive learning rates with sublinear memory cost", ICML 2018). Each shard of a
 * sharded table is a matrix of its own: its states load on as many shards. As in the other
 * optimizers that keep them, squares of gradients must be in the range of the dtype: of float32,
 * gradients up to 1e19. */
typedef struct tdm_adafactor_options {
  size_t struct_size;   /* set by its initializer */
  double learning_rate; /* the largest, and at step s no more than 1 / sqrt(s); default 1e-2 */
  double beta2_decay;   /* 0 or less; default -0.8 */
  double epsilon1; /* default TDM_DEFAULT: what the parameter's dtype rounds by (PyTorch's None) */
  double epsilon2; /* default 1e-3 */
  double d;        /* 1 or more: the update's root of mean squares is at most this; default 1 */
  double weight_decay;
} tdm_adafactor_options;
static inline tdm_adafactor_options tdm_adafactor_options_default(void) {
  tdm_adafactor_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_adafactor_options);
  options.learning_rate = 1e-2;
  options.beta2_decay = -0.8;
  options.epsilon1 = TDM_DEFAULT;
  options.epsilon2 = 1e-3;
  options.d = 1.0;
  return options;
}
TDM_API tdm_optimizer tdm_adafactor(double learning_rate);
TDM_API tdm_optimizer tdm_adafactor_with(const tdm_adafactor_options *options);

typedef struct tdm_adagrad_options {
  size_t struct_size;   /* set by its initializer */
  double learning_rate; /* default 1e-2 */
  double rate_decay;    /* of step s, from 0 on: the rate is divided by 1 + rate_decay s */
  double weight_decay;
  double initial_accumulator; /* what the sums of squares begin with */
  double epsilon;             /* default 1e-10 */
} tdm_adagrad_options;
static inline tdm_adagrad_options tdm_adagrad_options_default(void) {
  tdm_adagrad_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_adagrad_options);
  options.learning_rate = 1e-2;
  options.epsilon = 1e-10;
  return options;
}
/* For dense gradients, and without weight decay for sparse ones: rows that no id names keep their
 * values and sums. */
TDM_API tdm_optimizer tdm_adagrad(double learning_rate);
TDM_API tdm_optimizer tdm_adagrad_with(const tdm_adagrad_options *options);

/* Divides by the root of a moving mean of squares (T. Tieleman, G. Hinton, lecture 6.5 of "Neural
 * networks for machine learning", 2012). */
typedef struct tdm_rmsprop_options {
  size_t struct_size;   /* set by its initializer */
  double learning_rate; /* default 1e-2 */
  double alpha;         /* default 0.99 */
  double epsilon;       /* default 1e-8 */
  double weight_decay;
  double momentum; /* default 0 */
  bool centered;   /* by an estimate of the variance instead of the mean of squares */
} tdm_rmsprop_options;
static inline tdm_rmsprop_options tdm_rmsprop_options_default(void) {
  tdm_rmsprop_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_rmsprop_options);
  options.learning_rate = 1e-2;
  options.alpha = 0.99;
  options.epsilon = 1e-8;
  return options;
}
TDM_API tdm_optimizer tdm_rmsprop(double learning_rate);
TDM_API tdm_optimizer tdm_rmsprop_with(const tdm_rmsprop_options *options);

#ifdef __cplusplus
}
#endif
#endif
