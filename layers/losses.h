/* Public part of layers/: losses, with PyTorch's arguments and numbers. A loss has the dtype of
 * what it judges, and is a scalar unless nothing is reduced. In micro-batches, and in a parallel
 * region, it is that of the whole batch. */
#ifndef TANDEM_LAYERS_LOSSES_H
#define TANDEM_LAYERS_LOSSES_H

#include "tandem/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the losses of a batch become: their mean, their sum, themselves. */
typedef enum tdm_loss_reduction {
  TDM_LOSS_MEAN,
  TDM_LOSS_SUM,
  TDM_LOSS_NONE,
  TDM_LOSS_BATCH_MEAN /* of the KL divergence: the sum divided by dimension 0 */
} tdm_loss_reduction;

/* Classes that losses leave out, unless options name another one. */
#define TDM_LOSS_IGNORE_INDEX INT64_C(-100)

/* A loss refuses an option that it does not read, unless that has its default. */
typedef struct tdm_loss_options {
  size_t struct_size;
  tdm_loss_reduction reduction; /* default TDM_LOSS_MEAN */
  int64_t ignore_index;         /* of targets that are classes; default TDM_LOSS_IGNORE_INDEX */
  /* An input, or a state, of what is judged's dtype, that no gradient flows into. Of classes:
   * (classes), and a mean is divided by the weights of its targets. Of the binary cross-entropy: of
   * the shape of the logits' last dimensions, over which it repeats. */
  tdm_value weight;
  tdm_value pos_weight;   /* likewise, of the positive part of the binary cross-entropy */
  double label_smoothing; /* of the cross-entropy: 0 to 1 */
  /* Of smooth L1, and Huber's delta, which is positive: where the loss becomes linear; default 1.
   * Smooth L1 with 0 is L1. */
  double beta;
  bool log_target;    /* of the KL divergence: targets are logarithms of probabilities */
  double margin;      /* default TDM_DEFAULT: each loss's own, as its comment says */
  double p;           /* power of multi-margin, 1 or 2, norm of triplets, positive; default
                         TDM_DEFAULT: 1 and 2 */
  double epsilon;     /* 0 or more: what keeps logarithms and distances apart from 0; default
                         TDM_DEFAULT: the loss's own */
  bool swap;          /* of triplets: by the negative's distance to the positive if it is less */
  bool full;          /* of Gauss's and Poisson's likelihood: with the terms that are constant */
  bool linear_input;  /* of Poisson's: the input is the rate, not its logarithm */
  int64_t blank;      /* of CTC: the class that stands for none */
  bool zero_infinity; /* of CTC: targets that are too long cost nothing */
} tdm_loss_options;
static inline tdm_loss_options tdm_loss_options_default(void) {
  tdm_loss_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_loss_options);
  options.reduction = TDM_LOSS_MEAN;
  options.ignore_index = TDM_LOSS_IGNORE_INDEX;
  options.beta = 1.0;
  options.margin = TDM_DEFAULT;
  options.p = TDM_DEFAULT;
  options.epsilon = TDM_DEFAULT;
  return options;
}

/* logits (n, classes), targets int (n) -> scalar (mean), or as the reduction says; or (n, classes,
 * d1, ...) and (n, d1, ...), or (classes) and (). Or targets of logits' shape and dtype, which are
 * probabilities of classes: a mean is then divided by all targets, and no gradient flows into them.
 */
TDM_API tdm_value tdm_cross_entropy(tdm_graph *graph, const char *name, tdm_value logits,
                                    tdm_value targets);
TDM_API tdm_value tdm_cross_entropy_with(tdm_graph *graph, const char *name, tdm_value logits,
                                         tdm_value targets, const tdm_loss_options *options);
/* The negative log-likelihood: log_probabilities (n, classes), as tdm_log_softmax makes them, or
 * more dimensions, as above. */
TDM_API tdm_value tdm_nll(tdm_graph *graph, const char *name, tdm_value log_probabilities,
                          tdm_value targets);
TDM_API tdm_value tdm_nll_with(tdm_graph *graph, const char *name, tdm_value log_probabilities,
                               tdm_value targets, const tdm_loss_options *options);
/* Of logits and targets in [0, 1], of one shape: PyTorch's binary_cross_entropy_with_logits. No
 * gradient flows into targets. */
TDM_API tdm_value tdm_binary_cross_entropy(tdm_graph *graph, const char *name, tdm_value logits,
                                           tdm_value targets);
TDM_API tdm_value tdm_binary_cross_entropy_with(tdm_graph *graph, const char *name,
                                                tdm_value logits, tdm_value targets,
                                                const tdm_loss_options *options);

/* The Kullback-Leibler divergence of log_probabilities and targets, broadcast, PyTorch's kl_div:
 * of target (log target - log_probability), 0 where target is 0, NaN where it is negative.
 * TDM_LOSS_MEAN divides by all elements, TDM_LOSS_BATCH_MEAN by dimension 0. No gradient flows into
 * targets. */
TDM_API tdm_value tdm_kl_div(tdm_graph *graph, const char *name, tdm_value log_probabilities,
                             tdm_value targets);
TDM_API tdm_value tdm_kl_div_with(tdm_graph *graph, const char *name, tdm_value log_probabilities,
                                  tdm_value targets, const tdm_loss_options *options);

/* Of a and b, which are broadcast to one shape as by PyTorch (a target may be a scalar or a row).
 * As there, a warning is logged if the shapes differ and neither is a scalar, since (n, 1) and (n)
 * give (n, n). Squares of differences; absolute differences; and what is quadratic near 0 and
 * linear beyond, in two scales: huber is beta times smooth_l1. */
TDM_API tdm_value tdm_mse(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);
TDM_API tdm_value tdm_mse_with(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                               const tdm_loss_options *options);
TDM_API tdm_value tdm_l1(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);
TDM_API tdm_value tdm_l1_with(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                              const tdm_loss_options *options);
TDM_API tdm_value tdm_smooth_l1(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);
TDM_API tdm_value tdm_smooth_l1_with(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                                     const tdm_loss_options *options);
TDM_API tdm_value tdm_huber(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);
TDM_API tdm_value tdm_huber_with(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                                 const tdm_loss_options *options);

/* ---- Margins ----------------------------------------------------------------------------------
 */
/* What is better than its margin asks for costs nothing. Targets that are 1 or -1 are of the
 * input's dtype, or int32 or int64; no gradient flows into them. */

/* max(0, -target (a - b) + margin), broadcast: a target of 1 wants a above b; margin 0. */
TDM_API tdm_value tdm_margin_ranking(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                                     tdm_value targets);
TDM_API tdm_value tdm_margin_ranking_with(tdm_graph *graph, const char *name, tdm_value a,
                                          tdm_value b, tdm_value targets,
                                          const tdm_loss_options *options);
/* x where the target is 1, max(0, margin - x) where it is -1; margin 1. */
TDM_API tdm_value tdm_hinge_embedding(tdm_graph *graph, const char *name, tdm_value x,
                                      tdm_value targets);
TDM_API tdm_value tdm_hinge_embedding_with(tdm_graph *graph, const char *name, tdm_value x,
                                           tdm_value targets, const tdm_loss_options *options);
/* log(1 + e^(-target x)). */
TDM_API tdm_value tdm_soft_margin(tdm_graph *graph, const char *name, tdm_value x,
                                  tdm_value targets);
TDM_API tdm_value tdm_soft_margin_with(tdm_graph *graph, const char *name, tdm_value x,
                                       tdm_value targets, const tdm_loss_options *options);
/* scores (n, classes), targets int (n), or (classes) and (): the mean over classes of max(0, margin
 * - scores[target] + scores[class])^p, without the target's own, times weight[target]; margin 1, p
 * 1 or 2. */
TDM_API tdm_value tdm_multi_margin(tdm_graph *graph, const char *name, tdm_value scores,
                                   tdm_value targets);
TDM_API tdm_value tdm_multi_margin_with(tdm_graph *graph, const char *name, tdm_value scores,
                                        tdm_value targets, const tdm_loss_options *options);
/* scores (n, classes) or (classes), targets int of that shape: classes, up to the first that is
 * negative. The sum over targets t and over classes c that are none of max(0, 1 - scores[t] +
 * scores[c]), divided by classes. Takes memory of n classes^2 elements. */
TDM_API tdm_value tdm_multilabel_margin(tdm_graph *graph, const char *name, tdm_value scores,
                                        tdm_value targets);
TDM_API tdm_value tdm_multilabel_margin_with(tdm_graph *graph, const char *name, tdm_value scores,
                                             tdm_value targets, const tdm_loss_options *options);
/* logits and targets in [0, 1] of one shape (..., classes): the mean over classes of the binary
 * cross-entropy, times weight. */
TDM_API tdm_value tdm_multilabel_soft_margin(tdm_graph *graph, const char *name, tdm_value logits,
                                             tdm_value targets);
TDM_API tdm_value tdm_multilabel_soft_margin_with(tdm_graph *graph, const char *name,
                                                  tdm_value logits, tdm_value targets,
                                                  const tdm_loss_options *options);

/* ---- Distances --------------------------------------------------------------------------------
 */

/* The cosine between a and b, broadcast, along dimension, which goes: of each the norm counts as
 * epsilon (0 or more; PyTorch's default is 1e-8) at least, and has no slope there (PyTorch goes on
 * as if it had). No square leaves the range of the dtype. */
TDM_API tdm_value tdm_cosine_similarity(tdm_graph *graph, const char *name, tdm_value a,
                                        tdm_value b, int dimension, double epsilon);
/* The p-norm of a - b + epsilon along the last dimension, which stays as 1 with keep. p is positive
 * or INFINITY; PyTorch's defaults are 2 and 1e-6. */
TDM_API tdm_value tdm_pairwise_distance(tdm_graph *graph, const char *name, tdm_value a,
                                        tdm_value b, double p, double epsilon, bool keep);
/* a, b (n, features), targets (n), or (features) and (): 1 - cosine where the target is 1, max(0,
 * cosine - margin) where it is -1; margin 0. The squares of a row must add up in the range of the
 * dtype: of float32, elements up to about 1e18. */
TDM_API tdm_value tdm_cosine_embedding(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                                       tdm_value targets);
TDM_API tdm_value tdm_cosine_embedding_with(tdm_graph *graph, const char *name, tdm_value a,
                                            tdm_value b, tdm_value targets,
                                            const tdm_loss_options *options);
/* (n, features) each: max(0, distance of anchor and positive - distance of anchor and negative +
 * margin); margin 1, and above 0, epsilon 1e-6 (V. Balntas et al., "Learning shallow convolutional
 * feature descriptors with triplet losses", 2016, for swap). */
TDM_API tdm_value tdm_triplet_margin(tdm_graph *graph, const char *name, tdm_value anchor,
                                     tdm_value positive, tdm_value negative);
TDM_API tdm_value tdm_triplet_margin_with(tdm_graph *graph, const char *name, tdm_value anchor,
                                          tdm_value positive, tdm_value negative,
                                          const tdm_loss_options *options);

/* ---- Likelihoods ------------------------------------------------------------------------------
 */

/* (log var + (x - target)^2 / var) / 2, broadcast, of a var that counts as epsilon at least (1e-6),
 * and has no slope there (PyTorch goes on as if it had). A var of x's shape without the last
 * dimension is one of each row. full: and log(2 pi) / 2. */
TDM_API tdm_value tdm_gaussian_nll(tdm_graph *graph, const char *name, tdm_value x,
                                   tdm_value targets, tdm_value variance);
TDM_API tdm_value tdm_gaussian_nll_with(tdm_graph *graph, const char *name, tdm_value x,
                                        tdm_value targets, tdm_value variance,
                                        const tdm_loss_options *options);
/* e^x - target x; with linear_input x - target log(x + epsilon) (1e-8). full: and Stirling's
 * target log target - target + log(2 pi target) / 2 where the target is above 1. */
TDM_API tdm_value tdm_poisson_nll(tdm_graph *graph, const char *name, tdm_value x,
                                  tdm_value targets);
TDM_API tdm_value tdm_poisson_nll_with(tdm_graph *graph, const char *name, tdm_value x,
                                       tdm_value targets, const tdm_loss_options *options);

/* ---- Sequences --------------------------------------------------------------------------------
 */

/* Connectionist temporal classification (A. Graves et al., ICML 2006): how unlikely the targets
 * are, spread over the steps in any way, with blanks between and labels repeated. log_probabilities
 * (steps, n, classes), as tdm_log_softmax makes them; targets int (n, labels), of which only as
 * many as target_lengths int (n) says are read; input_lengths int (n), 0 to steps. Or all without
 * n. A run with a wrong length or target is INVALID_ARGUMENT.
 * The mean is that of what each sequence's loss is for a label. A target that does not fit into
 * its steps costs infinity, or with zero_infinity nothing, and has no gradient. Log-probabilities
 * get the derivative itself; PyTorch adds the probabilities, of which nothing is left before the
 * softmax. */
TDM_API tdm_value tdm_ctc(tdm_graph *graph, const char *name, tdm_value log_probabilities,
                          tdm_value targets, tdm_value input_lengths, tdm_value target_lengths);
TDM_API tdm_value tdm_ctc_with(tdm_graph *graph, const char *name, tdm_value log_probabilities,
                               tdm_value targets, tdm_value input_lengths, tdm_value target_lengths,
                               const tdm_loss_options *options);

#ifdef __cplusplus
}
#endif
#endif
