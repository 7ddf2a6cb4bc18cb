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
  double learning_rate; /* what gradients are times, before they are taken off */
  double momentum;      /* how much of the sum of gradients so far is kept; 0: there is none */
  double dampening;     /* the share of a gradient that does not enter that sum */
  double weight_decay;  /* times the parameter, added to its gradient */
  bool nesterov;        /* needs momentum and no dampening */
} tdm_sgd_options;
TDM_API tdm_optimizer tdm_sgd(double learning_rate);
TDM_API tdm_optimizer tdm_sgd_with(const tdm_sgd_options *options);

/* D. P. Kingma, J. Ba, "Adam: a method for stochastic optimization", ICLR 2015; adamw: I.
 * Loshchilov, F. Hutter, "Decoupled weight decay regularization", ICLR 2019. */
typedef struct tdm_adam_options {
  double learning_rate; /* 0: 1e-3 */
  double beta1;         /* 0: 0.9 */
  double beta2;         /* 0: 0.999 */
  double epsilon;       /* 0: 1e-8 */
  double weight_decay;  /* adamw: 0 means none, tdm_adamw's own default is 1e-2 */
  bool amsgrad;         /* by the largest mean of squares so far; not of sparse_adam */
} tdm_adam_options;
TDM_API tdm_optimizer tdm_adam(double learning_rate);
TDM_API tdm_optimizer tdm_adam_with(const tdm_adam_options *options);
TDM_API tdm_optimizer tdm_adamw(double learning_rate);
TDM_API tdm_optimizer tdm_adamw_with(const tdm_adam_options *options);
/* PyTorch's SparseAdam for sparse gradients; dense ones are refused, as there. */
TDM_API tdm_optimizer tdm_sparse_adam(double learning_rate);
TDM_API tdm_optimizer tdm_sparse_adam_with(const tdm_adam_options *options);

/* Adam with Nesterov's momentum (T. Dozat, "Incorporating Nesterov momentum into Adam", 2016). */
typedef struct tdm_nadam_options {
  double learning_rate; /* 0: 2e-3 */
  double beta1;         /* 0: 0.9 */
  double beta2;         /* 0: 0.999 */
  double epsilon;       /* 0: 1e-8 */
  double weight_decay;
  double momentum_decay;       /* 0: 4e-3 */
  bool decoupled_weight_decay; /* of the parameter itself, as AdamW's */
} tdm_nadam_options;
TDM_API tdm_optimizer tdm_nadam(double learning_rate);
TDM_API tdm_optimizer tdm_nadam_with(const tdm_nadam_options *options);

/* Adam, rectified: without adaptive rates as long as too few steps tell the variance (L. Liu et
 * al., "On the variance of the adaptive learning rate and beyond", ICLR 2020). */
typedef struct tdm_radam_options {
  double learning_rate; /* 0: 1e-3 */
  double beta1;         /* 0: 0.9 */
  double beta2;         /* 0: 0.999 */
  double epsilon;       /* 0: 1e-8 */
  double weight_decay;
  bool decoupled_weight_decay; /* of the parameter itself, as AdamW's */
} tdm_radam_options;
TDM_API tdm_optimizer tdm_radam(double learning_rate);
TDM_API tdm_optimizer tdm_radam_with(const tdm_radam_options *options);

/* Adam by the largest gradient instead of the mean of squares. */
typedef struct tdm_adamax_options {
  double learning_rate; /* 0: 2e-3 */
  double beta1;         /* 0: 0.9 */
  double beta2;         /* 0: 0.999 */
  double epsilon;       /* 0: 1e-8 */
  double weight_decay;
} tdm_adamax_options;
TDM_API tdm_optimizer tdm_adamax(double learning_rate);
TDM_API tdm_optimizer tdm_adamax_with(const tdm_adamax_options *options);

/* M. D. Zeiler, "ADADELTA: an adaptive learning rate method", arXiv:1212.5701, 2012. */
typedef struct tdm_adadelta_options {
  double learning_rate; /* 0: 1 */
  double rho;           /* 0: 0.9 */
  double epsilon;       /* 0: 1e-6 */
  double weight_decay;
} tdm_adadelta_options;
TDM_API tdm_optimizer tdm_adadelta(double learning_rate);
TDM_API tdm_optimizer tdm_adadelta_with(const tdm_adadelta_options *options);

/* Of a matrix only means of squares of rows and of columns are kept (N. Shazeer, M. Stern,
 * "Adafactor: adaptive learning rates with sublinear memory cost", ICML 2018). Each shard of a
 * sharded table is a matrix of its own: its states load on as many shards. */
typedef struct tdm_adafactor_options {
  double learning_rate; /* 0: 1e-2; the largest, and at step s no more than 1 / sqrt(s) */
  double beta2_decay;   /* negative; 0: -0.8 */
  double epsilon1;      /* 0: what the parameter's dtype rounds by (PyTorch's None) */
  double epsilon2;      /* 0: 1e-3 */
  double d;             /* 0: 1; the update's root of mean squares is at most this */
  double weight_decay;
} tdm_adafactor_options;
TDM_API tdm_optimizer tdm_adafactor(double learning_rate);
TDM_API tdm_optimizer tdm_adafactor_with(const tdm_adafactor_options *options);

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

/* Divides by the root of a moving mean of squares (T. Tieleman, G. Hinton, lecture 6.5 of "Neural
 * networks for machine learning", 2012). */
typedef struct tdm_rmsprop_options {
  double learning_rate; /* 0: 1e-2 */
  double alpha;         /* 0: 0.99 */
  double epsilon;       /* 0: 1e-8 */
  double weight_decay;
  double momentum; /* 0: none */
  bool centered;   /* by an estimate of the variance instead of the mean of squares */
} tdm_rmsprop_options;
TDM_API tdm_optimizer tdm_rmsprop(double learning_rate);
TDM_API tdm_optimizer tdm_rmsprop_with(const tdm_rmsprop_options *options);

#ifdef __cplusplus
}
#endif
#endif
