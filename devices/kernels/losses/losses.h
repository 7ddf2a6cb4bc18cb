/* Operations: losses. Part of devices/kernels.h, which describes the notation. */
#ifndef TANDEM_DEVICES_KERNELS_LOSSES_LOSSES_H
#define TANDEM_DEVICES_KERNELS_LOSSES_LOSSES_H

#include <stdint.h>

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
 * the loss of w (h - p x). Here p = (1 - smoothing) t + smoothing / classes, or exp(t) if targets
 * are logarithms. h = p log p (0 for p = 0) with entropy, else 0. With entropy it is the
 * Kullback-Leibler divergence, without it the cross-entropy (S. Kullback, R. A. Leibler, "On
 * information and sufficiency", 1951). classes is the last dimension; the shape of w is x's last
 * dimensions, over which it repeats. */
#define TDM_OP_DIVERGENCE "divergence"
/* d_loss, log_probabilities, targets, [weight] -> d_log_probabilities. */
#define TDM_OP_DIVERGENCE_GRADIENT "divergence_gradient"

/* The logarithm of the probability 0, where it must be finite. */
#define TDM_NO_PATH (-1e30)
/* emissions F (steps, batch, places), bars F (batch, places) -> paths F (steps, batch, places): the
 * logarithm of the sum over all paths that end in a place. A path begins in one of the first two
 * places. In each step it stays, moves by one, or skips one place if the bar of the place is 0
 * (TDM_NO_PATH: it may not skip). The summand of a path is the product of e to the emissions on its
 * way. Values are at least TDM_NO_PATH (Graves et al., "Connectionist temporal classification",
 * ICML 2006). */
#define TDM_OP_CTC_PATHS "ctc_paths"
/* d_paths, bars, paths -> d_emissions F (steps, batch, places). */
#define TDM_OP_CTC_PATHS_GRADIENT "ctc_paths_gradient"

#endif
