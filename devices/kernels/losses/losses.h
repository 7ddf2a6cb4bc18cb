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
  int64_t entropy;      /* divergence: 1 subtracts the entropy of the targets, 0 does not */
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
/* ---- Losses of elements: x F, t F of one shape, [weight F], [pos_weight F] -> loss F (), or of
 * that shape for NONE. NAME_gradient: d_loss, x, t, [weight], [pos_weight] -> d_x. Weights have the
 * last dimensions of x, over which they repeat. The kernels of all kinds, the records and the
 * tests' cases are generated from the lists and from the two macros of each loss.
 *
 * X(name, operands, names of x and t in messages, number of weights). Operands: PAIR if t has the
 * gradient -d_x; TARGETS if t has no gradient. */

/* Losses with the public functions tdm_NAME and tdm_NAME_with, whose only option is the reduction.
 */
#define TDM_LOSSES(X) X(mse, PAIR, "a", "b", 0)

#define TDM_ELEMENT_LOSSES(X)                                                                      \
  TDM_LOSSES(X)                                                                                    \
  X(binary_cross_entropy, TARGETS, "logits", "targets", 2)                                         \
  X(divergence, TARGETS, "log-probabilities", "targets", 1)                                        \
  X(smooth_l1, PAIR, "a", "b", 0)

/* TDM_LOSS_NAME and TDM_SLOPE_NAME return the loss of an element and its derivative by x. `number`
 * is the type of an element: a number or a vector; every(r) has the real r everywhere. `o` are the
 * attributes: beta, scale, kept = 1 - smoothing, spread = smoothing / classes, where classes is the
 * last dimension, logarithms, entropy. WEIGHT is the element's weight; POSITIVE(t) is 1 +
 * (pos_weight - 1) t, without weights of positive targets 1. */

/* clang-format off */
#define TDM_LOSS_mse return (x - t) * (x - t);
#define TDM_SLOPE_mse return (x - t) * 2;

/* Smooth L1, L1 (beta 0) and Huber (scale beta). */
#define TDM_LOSS_smooth_l1                                                                         \
  const number d = absolute_of(x - t);                                                             \
  const number near = d * d * (real)0.5 / o->beta, far = d - o->beta * (real)0.5;                  \
  return choose(d < every(o->beta), near, far) * o->scale;
#define TDM_SLOPE_smooth_l1                                                                        \
  const number d = x - t;                                                                          \
  const number sign = choose(d > every(0), every(1), choose(d < every(0), every(-1), d));          \
  return choose(absolute_of(d) < every(o->beta), d / o->beta, sign) * o->scale;

/* w ((1 - t) x + (1 + (q - 1) t) log(1 + exp(-x))). */
#define TDM_LOSS_binary_cross_entropy                                                              \
  const number beyond = choose(x < every(0), -x, every(0));                                        \
  const number softplus = log1p_of_fraction(exp_of(-absolute_of(x))) + beyond; /* of -x */         \
  const number positive = POSITIVE(t);                                                             \
  return ((1 - t) * x + positive * softplus) * WEIGHT;
#define TDM_SLOPE_binary_cross_entropy                                                             \
  const number positive = POSITIVE(t);                                                             \
  return ((1 - t) - positive * sigmoid_of(-x)) * WEIGHT;

/* w (h - p x). Here p = (1 - smoothing) t + smoothing / classes, or exp(t) if targets are
 * logarithms. h = p log p (0 for p = 0) with entropy, else 0. With entropy it is the
 * Kullback-Leibler divergence, without it the cross-entropy (S. Kullback, R. A. Leibler, "On
 * information and sufficiency", 1951). BATCH_MEAN divides by dimension 0. */
#define TDM_PROBABILITY(t) (o->logarithms ? exp_of(t) : o->kept * t + o->spread)
#define TDM_LOSS_divergence                                                                        \
  const number p = TDM_PROBABILITY(t);                                                             \
  number loss = -p * x;                                                                            \
  if (o->entropy && o->logarithms) loss = p * (t - x);                                             \
  if (o->entropy && !o->logarithms) ADD_ENTROPY(loss, p);                                          \
  return loss * WEIGHT;
#define TDM_SLOPE_divergence return -TDM_PROBABILITY(t) * WEIGHT;
/* clang-format on */

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
