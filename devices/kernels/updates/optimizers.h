/* Operations that update parameters. Part of devices/kernels.h, which describes the notation. */
#ifndef TANDEM_DEVICES_KERNELS_UPDATES_OPTIMIZERS_H
#define TANDEM_DEVICES_KERNELS_UPDATES_OPTIMIZERS_H

#include <stdint.h>

/* The learning rate is scalars->learning_rate of the run; where scalars->has_momentum, its momentum
 * stands for that of the attributes, and for beta1. A run whose momentum is 0 leaves buffers of
 * momentum, and `initialized`, as they are. Persistent states start as zeros. */

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

/* Moments of the gradient. parameter F, d_parameter F, exp_avg F, exp_avg_sq F, [max_exp_avg_sq F
 * if amsgrad], step F () -> =parameter and the states that are there. `decoupled` makes it AdamW.
 */
#define TDM_OP_ADAM "adam"
/* parameter F, d_parameter F, exp_avg F, exp_avg_sq F, mu_product F (), step F () -> =parameter and
 * the states; mu_product starts as 1 (Dozat, "Incorporating Nesterov momentum into Adam", 2016). */
#define TDM_OP_NADAM "nadam"
/* parameter F, d_parameter F, exp_avg F, exp_avg_sq F, step F () -> =parameter and the states (Liu
 * et al., "On the variance of the adaptive learning rate and beyond", ICLR 2020). */
#define TDM_OP_RADAM "radam"
/* parameter F, d_parameter F, exp_avg F, exp_inf F, step F () -> =parameter and the states (Kingma,
 * Ba, 2015, section 7.1). */
#define TDM_OP_ADAMAX "adamax"
/* parameter F (rows, dim), rows F (n, dim), indices, count, exp_avg F (rows, dim), exp_avg_sq,
 * step F () -> =parameter, =exp_avg, =exp_avg_sq, =step: PyTorch's SparseAdam. */
#define TDM_OP_ADAM_SPARSE "adam_sparse"
typedef struct tdm_adam_attributes {
  double beta1;
  double beta2;
  double epsilon;
  double weight_decay;
  double momentum_decay; /* of nadam */
  int64_t decoupled;
  int64_t amsgrad; /* of adam: by the largest exp_avg_sq so far */
} tdm_adam_attributes;

/* parameter F, d_parameter F, sum F, step F () -> =parameter, =sum, =step (Duchi, Hazan, Singer,
 * "Adaptive subgradient methods", JMLR 2011). */
#define TDM_OP_ADAGRAD "adagrad"
/* parameter F (rows, dim), rows F (n, dim), indices, count, sum F (rows, dim), step F () ->
 * =parameter, =sum, =step: only the named rows change; no weight decay. */
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

/* parameter F, d_parameter F, square_avg F, acc_delta F -> =parameter, =square_avg, =acc_delta
 * (Zeiler, "ADADELTA: an adaptive learning rate method", arXiv:1212.5701, 2012). */
#define TDM_OP_ADADELTA "adadelta"
typedef struct tdm_adadelta_attributes {
  double rho;
  double epsilon;
  double weight_decay;
} tdm_adadelta_attributes;

/* parameter F (..., m, n), d_parameter F, row_var F (..., m, 1), col_var F (..., 1, n), step F ()
 * -> =parameter and the states. For a parameter of less than two dimensions: parameter,
 * d_parameter, variance F (like the parameter), step (Shazeer, Stern, "Adafactor: adaptive learning
 * rates with sublinear memory cost", ICML 2018). */
#define TDM_OP_ADAFACTOR "adafactor"
typedef struct tdm_adafactor_attributes {
  double beta2_decay;
  double epsilon1; /* the square root of what a mean of squares is at least */
  double epsilon2; /* what the parameter's root of mean squares is at least */
  double clip;     /* of the update's root of mean squares: PyTorch's d */
  double weight_decay;
} tdm_adafactor_attributes;

/* average F, parameter F, n_averaged F () -> =average, =n_averaged: decay average + (1 - decay)
 * parameter (torch.optim.swa_utils); if decay is negative, the mean. */
#define TDM_OP_AVERAGE "average"
typedef struct tdm_average_attributes {
  double decay;
} tdm_average_attributes;

/* x F -> sum F (), sum float64 (): of squares, in one fixed order. The second is finite also where
 * squares leave the range of F. */
#define TDM_OP_SUM_OF_SQUARES "sum_of_squares"
/* sum float64 (): the sum of squares of all gradients -> factor F (), factor float64 (): min(1,
 * max_norm / (sqrt(sum) + 1e-6)), PyTorch's clip_grad_norm_. */
#define TDM_OP_CLIP_FACTOR "clip_factor"
typedef struct tdm_clip_attributes {
  double max_norm;
} tdm_clip_attributes;
/* x F -> =x. NOT_FINITE, naming the value, when an element is not. */
#define TDM_OP_CHECK_FINITE "check_finite"

#endif
