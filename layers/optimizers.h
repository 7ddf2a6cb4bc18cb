/* Public part of layers/: optimizers with the options, defaults and numerics of torch.optim, in the
 * forms that update one tensor after the other.
 *
 * An optimizer is a value. Its function cannot fail: tdm_session_create checks the settings, and
 * reports those that are out of range. The fields clip_value, clip_norm, maximize and average_decay
 * of the returned tdm_optimizer may be set afterwards.
 * @code
 * tdm_adam_options options = tdm_adam_options_default();
 * options.learning_rate = 3e-4;
 * tdm_optimizer optimizer = tdm_adam_with(&options);
 * optimizer.clip_norm = 1.0;
 * @endcode
 * Each function exists twice: with the learning rate and defaults otherwise, and `_with` options,
 * where NULL selects all defaults. Learning rates, epsilons and weight decays are finite and 0 or
 * more. In formulas, p is the parameter, g its gradient, and lr the learning rate. m, v and u are
 * states that begin with 0, and s is the number of the step from 1. First weight_decay p is added
 * to g. If the decay is decoupled, lr weight_decay p is subtracted from p instead.
 *
 * States in stores and checkpoints have the names "optimizer/PARAMETER/NAME" with PyTorch's NAME
 * ("exp_avg", ...). Optimizers that keep squares of gradients require these to be in the range of
 * the dtype: float32 gradients up to 1e19. */
#ifndef TANDEM_LAYERS_OPTIMIZERS_H
#define TANDEM_LAYERS_OPTIMIZERS_H

#include "tandem/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Options of tdm_sgd_with. */
typedef struct tdm_sgd_options {
  size_t struct_size;
  double learning_rate; /* Learning rate. Default 1e-3. */
  /* Factor of the previous update direction, finite and 0 or more. Default 0: no momentum. */
  double momentum;
  /* Share of a gradient that does not enter the update direction. Default 0. */
  double dampening;
  double weight_decay; /* Default 0. */
  /* true: Nesterov momentum; requires momentum and no dampening. Default false. */
  bool nesterov;
} tdm_sgd_options;
static inline tdm_sgd_options tdm_sgd_options_default(void) {
  tdm_sgd_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_sgd_options);
  options.learning_rate = 1e-3;
  return options;
}

/* Returns stochastic gradient descent: p = p - lr g (torch.optim.SGD). With momentum: m = momentum
 * m + (1 - dampening) g, where the first m is g, and p = p - lr m; with nesterov, p = p - lr (g +
 * momentum m). Accepts sparse gradients if momentum and weight decay are 0. */
TDM_API tdm_optimizer tdm_sgd(double learning_rate);

/* Returns stochastic gradient descent, with options. Otherwise as tdm_sgd. */
TDM_API tdm_optimizer tdm_sgd_with(const tdm_sgd_options *options);

/* Options of tdm_adam_with, tdm_adamw_with and tdm_sparse_adam_with. */
typedef struct tdm_adam_options {
  size_t struct_size;
  double learning_rate; /* Learning rate. Default 1e-3. */
  double beta1;         /* Decay rate of the mean of gradients, in [0, 1). Default 0.9. */
  double beta2;         /* Decay rate of the mean of squares, in [0, 1). Default 0.999. */
  double epsilon;       /* Added to the divisor. Default 1e-8. */
  double weight_decay;  /* Default 0; 1e-2 in tdm_adamw_options_default(). */
  /* true: divide by the largest mean of squares so far. Not for tdm_sparse_adam_with. Default
   * false. */
  bool amsgrad;
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

/* Returns the default options of tdm_adamw_with: those of tdm_adam_options_default() with a weight
 * decay of 1e-2. */
static inline tdm_adam_options tdm_adamw_options_default(void) {
  tdm_adam_options options = tdm_adam_options_default();
  options.weight_decay = 1e-2;
  return options;
}

/* Returns Adam (torch.optim.Adam). Source: D. P. Kingma, J. Ba, "Adam: a method for stochastic
 * optimization", ICLR 2015.
 * @code{.unparsed}
 * m = beta1 m + (1 - beta1) g
 * v = beta2 v + (1 - beta2) g^2
 * p = p - lr m' / (sqrt(v') + epsilon)   with m' = m / (1 - beta1^s), v' = v / (1 - beta2^s)
 * @endcode
 */
TDM_API tdm_optimizer tdm_adam(double learning_rate);

/* Returns Adam, with options. Otherwise as tdm_adam. */
TDM_API tdm_optimizer tdm_adam_with(const tdm_adam_options *options);

/* Returns AdamW: Adam with decoupled weight decay, 1e-2 by default (torch.optim.AdamW). Source: I.
 * Loshchilov, F. Hutter, "Decoupled weight decay regularization", ICLR 2019. */
TDM_API tdm_optimizer tdm_adamw(double learning_rate);

/* Returns AdamW, with options made by tdm_adamw_options_default(). Otherwise as tdm_adamw. */
TDM_API tdm_optimizer tdm_adamw_with(const tdm_adam_options *options);

/* Returns Adam for sparse gradients, which updates only rows that have a gradient
 * (torch.optim.SparseAdam). Dense gradients are an error. */
TDM_API tdm_optimizer tdm_sparse_adam(double learning_rate);

/* Returns Adam for sparse gradients, with options. Otherwise as tdm_sparse_adam. Creating a session
 * fails with INVALID_ARGUMENT if weight_decay is not 0 or amsgrad is true. */
TDM_API tdm_optimizer tdm_sparse_adam_with(const tdm_adam_options *options);

/* Options of tdm_nadam_with. */
typedef struct tdm_nadam_options {
  size_t struct_size;
  double learning_rate; /* Learning rate. Default 2e-3. */
  double beta1;         /* Decay rate of the mean of gradients, in [0, 1). Default 0.9. */
  double beta2;         /* Decay rate of the mean of squares, in [0, 1). Default 0.999. */
  double epsilon;       /* Added to the divisor. Default 1e-8. */
  double weight_decay;  /* Default 0. */
  /* How quickly beta1 approaches its value, finite and 0 or more. Default 4e-3. */
  double momentum_decay;
  bool decoupled_weight_decay; /* true: weight decay as AdamW's. Default false. */
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

/* Returns NAdam: Adam with Nesterov momentum (torch.optim.NAdam). Source: T. Dozat, "Incorporating
 * Nesterov momentum into Adam", 2016. */
TDM_API tdm_optimizer tdm_nadam(double learning_rate);

/* Returns NAdam, with options. Otherwise as tdm_nadam. */
TDM_API tdm_optimizer tdm_nadam_with(const tdm_nadam_options *options);

/* Options of tdm_radam_with. */
typedef struct tdm_radam_options {
  size_t struct_size;
  double learning_rate;        /* Learning rate. Default 1e-3. */
  double beta1;                /* Decay rate of the mean of gradients, in [0, 1). Default 0.9. */
  double beta2;                /* Decay rate of the mean of squares, in [0, 1). Default 0.999. */
  double epsilon;              /* Added to the divisor. Default 1e-8. */
  double weight_decay;         /* Default 0. */
  bool decoupled_weight_decay; /* true: weight decay as AdamW's. Default false. */
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

/* Returns RAdam: Adam without division by v in the first steps, in which the variance of v is too
 * large (torch.optim.RAdam). Source: L. Liu et al., "On the variance of the adaptive learning rate
 * and beyond", ICLR 2020. */
TDM_API tdm_optimizer tdm_radam(double learning_rate);

/* Returns RAdam, with options. Otherwise as tdm_radam. */
TDM_API tdm_optimizer tdm_radam_with(const tdm_radam_options *options);

/* Options of tdm_adamax_with. */
typedef struct tdm_adamax_options {
  size_t struct_size;
  double learning_rate; /* Learning rate. Default 2e-3. */
  double beta1;         /* Decay rate of the mean of gradients, in [0, 1). Default 0.9. */
  double beta2;         /* Decay rate of the largest gradient, in [0, 1). Default 0.999. */
  double epsilon;       /* Added to absolute gradients. Default 1e-8. */
  double weight_decay;  /* Default 0. */
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

/* Returns Adamax: Adam that divides by v = max(beta2 v, |g| + epsilon), the largest gradient,
 * instead of the root of the mean of squares (torch.optim.Adamax). */
TDM_API tdm_optimizer tdm_adamax(double learning_rate);

/* Returns Adamax, with options. Otherwise as tdm_adamax. */
TDM_API tdm_optimizer tdm_adamax_with(const tdm_adamax_options *options);

/* Options of tdm_adadelta_with. */
typedef struct tdm_adadelta_options {
  size_t struct_size;
  double learning_rate; /* Learning rate. Default 1. */
  double rho;           /* Decay rate of the means of squares, in [0, 1]. Default 0.9. */
  double epsilon;       /* Added to the means of squares. Default 1e-6. */
  double weight_decay;  /* Default 0. */
} tdm_adadelta_options;
static inline tdm_adadelta_options tdm_adadelta_options_default(void) {
  tdm_adadelta_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_adadelta_options);
  options.learning_rate = 1.0;
  options.rho = 0.9;
  options.epsilon = 1e-6;
  return options;
}

/* Returns Adadelta (torch.optim.Adadelta). Source: M. D. Zeiler, "ADADELTA: an adaptive learning
 * rate method", arXiv:1212.5701, 2012.
 * @code{.unparsed}
 * v = rho v + (1 - rho) g^2
 * d = g sqrt(u + epsilon) / sqrt(v + epsilon)
 * u = rho u + (1 - rho) d^2
 * p = p - lr d
 * @endcode
 */
TDM_API tdm_optimizer tdm_adadelta(double learning_rate);

/* Returns Adadelta, with options. Otherwise as tdm_adadelta. */
TDM_API tdm_optimizer tdm_adadelta_with(const tdm_adadelta_options *options);

/* Options of tdm_adafactor_with. */
typedef struct tdm_adafactor_options {
  size_t struct_size;
  /* Largest learning rate; at step s it is at most 1 / sqrt(s). Default 1e-2. */
  double learning_rate;
  /* Exponent by which the decay rate of the means of squares grows, 1 - s^beta2_decay; 0 or less.
   * Default -0.8. */
  double beta2_decay;
  /* Lower bound of the mean of squares. Default TDM_DEFAULT: the machine epsilon of the parameter's
   * dtype, PyTorch's None. */
  double epsilon1;
  /* Lower bound of the parameter's root mean square, by which the update is scaled. Default 1e-3.
   */
  double epsilon2;
  double d;            /* Maximum root mean square of the update, 1 or more. Default 1. */
  double weight_decay; /* Decoupled. Default 0. */
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

/* Returns Adafactor, which keeps means of squares of the rows and of the columns of a matrix only,
 * instead of one per element (torch.optim.Adafactor). Source: N. Shazeer, M. Stern, "Adafactor:
 * adaptive learning rates with sublinear memory cost", ICML 2018. Each shard of a sharded table is
 * a matrix of its own, so its states can be loaded only into the same number of shards. */
TDM_API tdm_optimizer tdm_adafactor(double learning_rate);

/* Returns Adafactor, with options. Otherwise as tdm_adafactor. */
TDM_API tdm_optimizer tdm_adafactor_with(const tdm_adafactor_options *options);

/* Options of tdm_adagrad_with. */
typedef struct tdm_adagrad_options {
  size_t struct_size;
  double learning_rate; /* Learning rate. Default 1e-2. */
  /* The rate of the step with number t, from 0, is divided by 1 + rate_decay t; finite and 0 or
   * more. Default 0. */
  double rate_decay;
  double weight_decay; /* Default 0. */
  /* Initial value of the sums of squares, finite and 0 or more. Default 0. */
  double initial_accumulator;
  double epsilon; /* Added to the divisor. Default 1e-10. */
} tdm_adagrad_options;
static inline tdm_adagrad_options tdm_adagrad_options_default(void) {
  tdm_adagrad_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_adagrad_options);
  options.learning_rate = 1e-2;
  options.epsilon = 1e-10;
  return options;
}

/* Returns Adagrad: v = v + g^2 and p = p - lr g / (sqrt(v) + epsilon) (torch.optim.Adagrad).
 * Accepts sparse gradients if the weight decay is 0: rows that no id names keep their values and
 * sums. */
TDM_API tdm_optimizer tdm_adagrad(double learning_rate);

/* Returns Adagrad, with options. Otherwise as tdm_adagrad. */
TDM_API tdm_optimizer tdm_adagrad_with(const tdm_adagrad_options *options);

/* Options of tdm_rmsprop_with. */
typedef struct tdm_rmsprop_options {
  size_t struct_size;
  double learning_rate; /* Learning rate. Default 1e-2. */
  double alpha;         /* Decay rate of the mean of squares, finite and 0 or more. Default 0.99. */
  double epsilon;       /* Added to the divisor. Default 1e-8. */
  double weight_decay;  /* Default 0. */
  /* Factor of the previous update direction, finite and 0 or more. Default 0. */
  double momentum;
  /* true: divide by the root of an estimate of the variance, the mean of squares minus the squared
   * mean. Default false. */
  bool centered;
} tdm_rmsprop_options;
static inline tdm_rmsprop_options tdm_rmsprop_options_default(void) {
  tdm_rmsprop_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_rmsprop_options);
  options.learning_rate = 1e-2;
  options.alpha = 0.99;
  options.epsilon = 1e-8;
  return options;
}

/* Returns RMSprop: v = alpha v + (1 - alpha) g^2 and p = p - lr g / (sqrt(v) + epsilon)
 * (torch.optim.RMSprop). Source: T. Tieleman, G. Hinton, lecture 6.5 of "Neural networks for
 * machine learning", 2012. */
TDM_API tdm_optimizer tdm_rmsprop(double learning_rate);

/* Returns RMSprop, with options. Otherwise as tdm_rmsprop. */
TDM_API tdm_optimizer tdm_rmsprop_with(const tdm_rmsprop_options *options);

#ifdef __cplusplus
}
#endif
#endif
