/* Operations that update parameters. Part of devices/kernels.h, which describes the notation.
 *
 * An update is a row of a list below and four macros: settings, states, numbers and formula. The
 * kernels of all kinds (formulas.h), the records, the checks of options and the public functions
 * (layers/updates/optimizers.c) and the tests' cases are generated from them.
 *
 * Operands: parameter F, d_parameter F, states... -> =parameter, =states... An update of rows has
 * parameter F (rows, dim), rows F (n, dim), indices int64 (n), count int64 (), states... instead,
 * and changes only the rows that the first `count` indices name. */
#ifndef TANDEM_DEVICES_KERNELS_UPDATES_OPTIMIZERS_H
#define TANDEM_DEVICES_KERNELS_UPDATES_OPTIMIZERS_H

#include <stddef.h>

/* X(name, the setting that the momentum of a run replaces, or none). */

/* Updates with a public function tdm_NAME_with, whose options are the settings. */
#define TDM_OPTIMIZERS(X)                                                                          \
  X(adadelta, none)                                                                                \
  X(adamax, beta1)                                                                                 \
  X(nadam, beta1)                                                                                  \
  X(radam, beta1)                                                                                  \
  X(rmsprop, momentum)

/* All updates of whole parameters. */
#define TDM_UPDATES(X)                                                                             \
  TDM_OPTIMIZERS(X)                                                                                \
  X(adagrad, none)                                                                                 \
  X(adam, beta1)                                                                                   \
  X(average, none)                                                                                 \
  X(sgd, momentum)

/* X(name, the update that is applied to each row). */
#define TDM_ROW_UPDATES(X)                                                                         \
  X(adagrad_sparse, adagrad)                                                                       \
  X(adam_sparse, adam_sparse)                                                                      \
  X(sgd_sparse, sgd)

/* The macros of an update NAME:
 *
 * - TDM_SETTINGS_NAME(S): S(setting, range) for each attribute, a double. Ranges are defined in
 *   layers/updates/optimizers.c.
 * - TDM_STATES_NAME(S): S(state, shape, condition, initial value) in the order of operands.
 *   ELEMENTS: the shape of the parameter; NUMBER: a scalar. The state exists if the condition, an
 *   expression of the attributes `a`, is true. Names are PyTorch's.
 * - TDM_NUMBERS_NAME(N, V): values that all elements of a step share, evaluated in order, in
 *   float64, from the attributes `a`, `learning_rate`, scalar states and numbers before.
 *   N(number, value) defines a number; V(state, value) sets a scalar state.
 * - TDM_FORMULA_NAME: statements that change the parameter and the states of one element `e` by its
 *   gradient and the numbers `n`. `number` is the type of an element: a number or a vector.
 *
 * A run without momentum (scalars->momentum is 0) does not change states that require momentum. */

/* clang-format off */

/* ---- Stochastic gradient descent. The first step with momentum sets the buffer to the gradient,
 * which `initialized` (0, then 1) records. */
#define TDM_SETTINGS_sgd(S)                                                                        \
  S(momentum, NOT_NEGATIVE) S(dampening, FINITE) S(weight_decay, NOT_NEGATIVE) S(nesterov, FLAG)
#define TDM_STATES_sgd(S)                                                                          \
  S(momentum_buffer, ELEMENTS, a->momentum != 0, 0) S(initialized, NUMBER, a->momentum != 0, 0)
#define TDM_NUMBERS_sgd(N, V)                                                                      \
  N(rate, learning_rate) N(decay, a->weight_decay) N(momentum, a->momentum)                        \
  N(fresh, 1.0 - a->dampening) N(nesterov, a->nesterov) N(first, initialized == 0)                 \
  V(initialized, 1)
#define TDM_FORMULA_sgd                                                                            \
  number d = with_decay(e->gradient, e->parameter, n->decay);                                      \
  if (n->momentum != 0) {                                                                          \
    e->momentum_buffer = n->first != 0 ? d : n->momentum * e->momentum_buffer + n->fresh * d;      \
    d = n->nesterov != 0 ? d + n->momentum * e->momentum_buffer : e->momentum_buffer;              \
  }                                                                                                \
  e->parameter -= n->rate * d;

/* ---- Adam and its variants: D. P. Kingma, J. Ba, "Adam: a method for stochastic optimization",
 * ICLR 2015. Decoupled weight decay makes it AdamW (I. Loshchilov, F. Hutter, ICLR 2019); amsgrad
 * divides by the largest average so far (S. J. Reddi et al., ICLR 2018). */
#define TDM_OPTIONS_adam(S)                                                                        \
  S(beta1, DECAY_RATE) S(beta2, DECAY_RATE) S(epsilon, NOT_NEGATIVE)                               \
  S(weight_decay, NOT_NEGATIVE) S(amsgrad, FLAG)
#define TDM_SETTINGS_adam(S) TDM_OPTIONS_adam(S) S(decoupled_weight_decay, FLAG)
#define TDM_STATES_adam(S)                                                                         \
  S(exp_avg, ELEMENTS, 1, 0) S(exp_avg_sq, ELEMENTS, 1, 0)                                         \
  S(max_exp_avg_sq, ELEMENTS, a->amsgrad != 0, 0) S(step, NUMBER, 1, 0)
#define TDM_MOMENT_NUMBERS(N)                                                                      \
  N(beta1, a->beta1) N(keep1, 1.0 - a->beta1) N(beta2, a->beta2) N(keep2, 1.0 - a->beta2)          \
  N(epsilon, a->epsilon)
#define TDM_DECAY_NUMBERS(N)                                                                       \
  N(decay, a->decoupled_weight_decay != 0 ? 0.0 : a->weight_decay)                                 \
  N(shrink, a->decoupled_weight_decay != 0 ? 1.0 - learning_rate * a->weight_decay : 1.0)
#define TDM_NUMBERS_adam(N, V)                                                                     \
  V(step, step + 1) TDM_MOMENT_NUMBERS(N) TDM_DECAY_NUMBERS(N) N(amsgrad, a->amsgrad)              \
  N(of_average, learning_rate / (1.0 - pow(a->beta1, step)))                                       \
  N(root, sqrt(1.0 - pow(a->beta2, step)))
/* Both moments; g is the gradient with weight decay. */
#define TDM_MOMENTS                                                                                \
  e->parameter *= n->shrink;                                                                       \
  const number g = with_decay(e->gradient, e->parameter, n->decay);                                \
  e->exp_avg = e->exp_avg * n->beta1 + g * n->keep1;                                               \
  e->exp_avg_sq = e->exp_avg_sq * n->beta2 + g * g * n->keep2;
#define TDM_FORMULA_adam                                                                           \
  TDM_MOMENTS                                                                                      \
  if (n->amsgrad != 0) e->max_exp_avg_sq = larger_of(e->max_exp_avg_sq, e->exp_avg_sq);            \
  const number most = n->amsgrad != 0 ? e->max_exp_avg_sq : e->exp_avg_sq;                         \
  e->parameter -= n->of_average * (e->exp_avg / (root_of(most) / n->root + n->epsilon));

/* SparseAdam: moments change only in the rows of the gradient, by a share of the difference. */
#define TDM_SETTINGS_adam_sparse(S)                                                                \
  S(beta1, DECAY_RATE) S(beta2, DECAY_RATE) S(epsilon, NOT_NEGATIVE)                               \
  S(weight_decay, ZERO) S(amsgrad, ZERO) S(decoupled_weight_decay, ZERO)
#define TDM_STATES_adam_sparse(S)                                                                  \
  S(exp_avg, ELEMENTS, 1, 0) S(exp_avg_sq, ELEMENTS, 1, 0) S(step, NUMBER, 1, 0)
#define TDM_NUMBERS_adam_sparse(N, V)                                                              \
  V(step, step + 1) TDM_MOMENT_NUMBERS(N)                                                          \
  N(rate, learning_rate / (1.0 - pow(a->beta1, step)) * sqrt(1.0 - pow(a->beta2, step)))
#define TDM_FORMULA_adam_sparse                                                                    \
  const number g = e->gradient;                                                                    \
  e->exp_avg += (g - e->exp_avg) * n->keep1;                                                       \
  e->exp_avg_sq += (g * g - e->exp_avg_sq) * n->keep2;                                             \
  e->parameter -= e->exp_avg / (root_of(e->exp_avg_sq) + n->epsilon) * n->rate;

/* T. Dozat, "Incorporating Nesterov momentum into Adam", 2016. mu_product is the product of the
 * momenta of all steps: `now` and, in the next step, `next`. */
#define TDM_SETTINGS_nadam(S)                                                                      \
  S(beta1, DECAY_RATE) S(beta2, DECAY_RATE) S(epsilon, NOT_NEGATIVE)                               \
  S(weight_decay, NOT_NEGATIVE) S(momentum_decay, NOT_NEGATIVE) S(decoupled_weight_decay, FLAG)
#define TDM_STATES_nadam(S)                                                                        \
  S(exp_avg, ELEMENTS, 1, 0) S(exp_avg_sq, ELEMENTS, 1, 0) S(mu_product, NUMBER, 1, 1)             \
  S(step, NUMBER, 1, 0)
#define TDM_NUMBERS_nadam(N, V)                                                                    \
  V(step, step + 1) TDM_MOMENT_NUMBERS(N) TDM_DECAY_NUMBERS(N)                                     \
  N(now, a->beta1 * (1.0 - 0.5 * pow(0.96, step * a->momentum_decay)))                             \
  N(next, a->beta1 * (1.0 - 0.5 * pow(0.96, (step + 1) * a->momentum_decay)))                      \
  V(mu_product, (real)mu_product * (real)now)                                                      \
  N(of_gradient, learning_rate * (1.0 - now) / (1.0 - mu_product))                                 \
  N(of_average, learning_rate * next / (1.0 - mu_product * next))                                  \
  N(root, sqrt(1.0 - pow(a->beta2, step)))
#define TDM_FORMULA_nadam                                                                          \
  TDM_MOMENTS                                                                                      \
  const number divisor = root_of(e->exp_avg_sq) / n->root + n->epsilon;                            \
  e->parameter -= n->of_average * (e->exp_avg / divisor);                                          \
  e->parameter -= n->of_gradient * (g / divisor);

/* L. Liu et al., "On the variance of the adaptive learning rate and beyond", ICLR 2020. While the
 * estimate of the variance has at most five degrees of freedom, the step is plain. */
#define TDM_SETTINGS_radam(S)                                                                      \
  S(beta1, DECAY_RATE) S(beta2, DECAY_RATE) S(epsilon, NOT_NEGATIVE)                               \
  S(weight_decay, NOT_NEGATIVE) S(decoupled_weight_decay, FLAG)
#define TDM_STATES_radam(S)                                                                        \
  S(exp_avg, ELEMENTS, 1, 0) S(exp_avg_sq, ELEMENTS, 1, 0) S(step, NUMBER, 1, 0)
#define TDM_NUMBERS_radam(N, V)                                                                    \
  V(step, step + 1) TDM_MOMENT_NUMBERS(N) TDM_DECAY_NUMBERS(N)                                     \
  N(power, pow(a->beta2, step)) N(most, 2.0 / (1.0 - a->beta2) - 1.0)                              \
  N(length, most - 2.0 * step * power / (1.0 - power)) N(plain, !(length > 5.0))                   \
  N(rectified, sqrt(1.0 - power) * sqrt((length - 4.0) * (length - 2.0) * most /                   \
                                        ((most - 4.0) * (most - 2.0) * length)))                   \
  N(of_average, learning_rate / (1.0 - pow(a->beta1, step)) * (plain != 0 ? 1.0 : rectified))
#define TDM_FORMULA_radam                                                                          \
  TDM_MOMENTS                                                                                      \
  number change = e->exp_avg;                                                                      \
  if (n->plain == 0) change = change / (root_of(e->exp_avg_sq) + n->epsilon);                      \
  e->parameter -= n->of_average * change;

/* Kingma, Ba, 2015, section 7.1. */
#define TDM_SETTINGS_adamax(S)                                                                     \
  S(beta1, DECAY_RATE) S(beta2, DECAY_RATE) S(epsilon, NOT_NEGATIVE) S(weight_decay, NOT_NEGATIVE)
#define TDM_STATES_adamax(S)                                                                       \
  S(exp_avg, ELEMENTS, 1, 0) S(exp_inf, ELEMENTS, 1, 0) S(step, NUMBER, 1, 0)
#define TDM_NUMBERS_adamax(N, V)                                                                   \
  V(step, step + 1) TDM_MOMENT_NUMBERS(N) N(decay, a->weight_decay)                                \
  N(of_average, learning_rate / (1.0 - pow(a->beta1, step)))
#define TDM_FORMULA_adamax                                                                         \
  const number g = with_decay(e->gradient, e->parameter, n->decay);                                \
  e->exp_avg = e->exp_avg * n->beta1 + g * n->keep1;                                               \
  e->exp_inf = larger_of(e->exp_inf * n->beta2, absolute_of(g) + n->epsilon);                      \
  e->parameter -= n->of_average * (e->exp_avg / e->exp_inf);

/* ---- J. Duchi, E. Hazan, Y. Singer, "Adaptive subgradient methods for online learning and
 * stochastic optimization", JMLR 12, 2011. */
#define TDM_SETTINGS_adagrad(S)                                                                    \
  S(rate_decay, NOT_NEGATIVE) S(weight_decay, NOT_NEGATIVE) S(initial_accumulator, NOT_NEGATIVE)   \
  S(epsilon, NOT_NEGATIVE)
#define TDM_STATES_adagrad(S)                                                                      \
  S(sum, ELEMENTS, 1, a->initial_accumulator) S(step, NUMBER, 1, 0)
#define TDM_NUMBERS_adagrad(N, V)                                                                  \
  N(rate, learning_rate / (1.0 + step * a->rate_decay)) V(step, step + 1)                          \
  N(decay, a->weight_decay) N(epsilon, a->epsilon)
#define TDM_FORMULA_adagrad                                                                        \
  const number g = with_decay(e->gradient, e->parameter, n->decay);                                \
  e->sum += g * g;                                                                                 \
  e->parameter -= n->rate * (g / (root_of(e->sum) + n->epsilon));

/* ---- T. Tieleman, G. Hinton, "Lecture 6.5: rmsprop", 2012; centered: A. Graves, "Generating
 * sequences with recurrent neural networks", arXiv:1308.0850, 2013. */
#define TDM_SETTINGS_rmsprop(S)                                                                    \
  S(alpha, NOT_NEGATIVE) S(epsilon, NOT_NEGATIVE) S(weight_decay, NOT_NEGATIVE)                    \
  S(momentum, NOT_NEGATIVE) S(centered, FLAG)
#define TDM_STATES_rmsprop(S)                                                                      \
  S(square_avg, ELEMENTS, 1, 0) S(grad_avg, ELEMENTS, a->centered != 0, 0)                         \
  S(momentum_buffer, ELEMENTS, a->momentum != 0, 0)
#define TDM_NUMBERS_rmsprop(N, V)                                                                  \
  N(rate, learning_rate) N(alpha, a->alpha) N(keep, 1.0 - a->alpha) N(epsilon, a->epsilon)         \
  N(decay, a->weight_decay) N(momentum, a->momentum) N(centered, a->centered)
#define TDM_FORMULA_rmsprop                                                                        \
  const number g = with_decay(e->gradient, e->parameter, n->decay);                                \
  e->square_avg = e->square_avg * n->alpha + g * g * n->keep;                                      \
  number variance = e->square_avg;                                                                 \
  if (n->centered != 0) {                                                                          \
    e->grad_avg = e->grad_avg * n->alpha + g * n->keep;                                            \
    variance -= e->grad_avg * e->grad_avg;                                                         \
  }                                                                                                \
  number direction = g / (root_of(variance) + n->epsilon);                                         \
  if (n->momentum != 0) direction += e->momentum_buffer * n->momentum;                             \
  e->momentum_buffer = direction;                                                                  \
  e->parameter -= n->rate * direction;

/* ---- M. D. Zeiler, "ADADELTA: an adaptive learning rate method", arXiv:1212.5701, 2012. */
#define TDM_SETTINGS_adadelta(S)                                                                   \
  S(rho, FRACTION) S(epsilon, NOT_NEGATIVE) S(weight_decay, NOT_NEGATIVE)
#define TDM_STATES_adadelta(S) S(square_avg, ELEMENTS, 1, 0) S(acc_delta, ELEMENTS, 1, 0)
#define TDM_NUMBERS_adadelta(N, V)                                                                 \
  N(rate, learning_rate) N(rho, a->rho) N(keep, 1.0 - a->rho) N(epsilon, a->epsilon)               \
  N(decay, a->weight_decay)
#define TDM_FORMULA_adadelta                                                                       \
  const number g = with_decay(e->gradient, e->parameter, n->decay);                                \
  e->square_avg = e->square_avg * n->rho + g * g * n->keep;                                        \
  const number change =                                                                            \
      root_of(e->acc_delta + n->epsilon) / root_of(e->square_avg + n->epsilon) * g;                \
  e->acc_delta = e->acc_delta * n->rho + change * change * n->keep;                                \
  e->parameter -= n->rate * change;

/* ---- The moving average of a parameter: average F, parameter F, n_averaged F () -> =average,
 * =n_averaged (torch.optim.swa_utils). If decay is negative, it is the mean. `share` is that of the
 * new value; interpolation starts at the nearer end, as in torch.lerp, so a share of 1 copies. */
#define TDM_SETTINGS_average(S) S(decay, FINITE)
#define TDM_STATES_average(S) S(n_averaged, NUMBER, 1, 0)
#define TDM_NUMBERS_average(N, V)                                                                  \
  N(share, !(n_averaged > 0.0) ? 1.0                                                               \
           : a->decay < 0.0    ? 1.0 / (n_averaged + 1.0)                                          \
                               : 1.0 - a->decay)                                                   \
  V(n_averaged, n_averaged + 1)
#define TDM_FORMULA_average                                                                        \
  const number d = e->gradient - e->parameter;                                                     \
  e->parameter = n->share < (real)0.5 ? e->parameter + d * n->share                                \
                                      : e->gradient - d * (1 - n->share);

/* ---- Adafactor, whose kernels are not elementwise: of a matrix it keeps the means of squares of
 * rows and columns. parameter F (..., m, n), d_parameter F, row_var F (..., m, 1), col_var F (...,
 * 1, n), step F () -> =parameter and the states. A parameter with less than two dimensions has
 * variance F instead of row_var and col_var (N. Shazeer, M. Stern, "Adafactor: adaptive learning
 * rates with sublinear memory cost", ICML 2018). epsilon1 is the square root of the least mean of
 * squares, epsilon2 the least root mean square of a parameter, d the largest root mean square of
 * an update. */
#define TDM_OP_ADAFACTOR "adafactor"
#define TDM_OPTIONS_adafactor(S)                                                                   \
  S(beta2_decay, NOT_POSITIVE) S(epsilon1, DTYPE_EPSILON) S(epsilon2, NOT_NEGATIVE)                \
  S(d, AT_LEAST_1) S(weight_decay, NOT_NEGATIVE)
#define TDM_SETTINGS_adafactor(S) TDM_OPTIONS_adafactor(S) S(is_matrix, IS_MATRIX)
#define TDM_STATES_adafactor(S)                                                                    \
  S(row_var, ROWS, a->is_matrix != 0, 0) S(col_var, COLUMNS, a->is_matrix != 0, 0)                 \
  S(variance, ELEMENTS, a->is_matrix == 0, 0) S(step, NUMBER, 1, 0)

/* clang-format on */

/* The attributes of each update: its settings. TDM_SETTING_PLACE: the number of a setting among
 * them, from 1, or 0 for none. */
#define TDM_SETTING_FIELD(setting, range) double setting;
#define TDM_ATTRIBUTES(name, momentum)                                                             \
  typedef struct tdm_##name##_attributes {                                                         \
    TDM_SETTINGS_##name(TDM_SETTING_FIELD)                                                         \
  } tdm_##name##_attributes;                                                                       \
  struct tdm_##name##_places {                                                                     \
    double none;                                                                                   \
    TDM_SETTINGS_##name(TDM_SETTING_FIELD)                                                         \
  };
#define TDM_SETTING_PLACE(name, setting)                                                           \
  ((int)(offsetof(struct tdm_##name##_places, setting) / sizeof(double)))
TDM_UPDATES(TDM_ATTRIBUTES)
TDM_ATTRIBUTES(adam_sparse, beta1)
TDM_ATTRIBUTES(adafactor, none)

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
