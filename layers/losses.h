/* Public part of layers/: losses with PyTorch's arguments and numerics. Included by
 * layers/layers.h. The conventions of functions that build a graph are at the top of
 * graph/building.h.
 *
 * A loss has the dtype of its first operand. It is a scalar, the mean over all its elements, unless
 * options select another reduction. With micro-batches and in a parallel region it is the loss of
 * the whole batch. No gradient flows into targets unless a comment states so. A function `_with`
 * options is the function without this ending and options that may be NULL, which selects all
 * defaults.
 * @code
 * tdm_loss_options options = tdm_loss_options_default();
 * options.label_smoothing = 0.1;
 * tdm_value loss = tdm_cross_entropy_with(graph, "loss", logits, targets, &options);
 * @endcode
 */
#ifndef TANDEM_LAYERS_LOSSES_H
#define TANDEM_LAYERS_LOSSES_H

#include "tandem/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the elements of a loss are combined. */
typedef enum tdm_loss_reduction {
  TDM_LOSS_MEAN, /* Their mean, a scalar. */
  TDM_LOSS_SUM,  /* Their sum, a scalar. */
  TDM_LOSS_NONE, /* They are not combined. */
  /* For the KL divergence only: their sum divided by the size of dimension 0. */
  TDM_LOSS_BATCH_MEAN
} tdm_loss_reduction;

/* Default of ignore_index. */
#define TDM_LOSS_IGNORE_INDEX INT64_C(-100)

/* Options of losses. A loss rejects an option that it does not use, unless the option has its
 * default. */
typedef struct tdm_loss_options {
  size_t struct_size;
  /* How the elements of the loss are combined. Default TDM_LOSS_MEAN. */
  tdm_loss_reduction reduction;
  /* For targets that are classes: a target that is ignored. Default TDM_LOSS_IGNORE_INDEX, -100. */
  int64_t ignore_index;
  /* Weights: an input or state of the dtype of the loss. No gradient flows into it. Default
   * invalid: none. For classes: (classes); a mean is divided by the sum of the targets' weights.
   * For the binary cross-entropy: of the shape of the last dimensions of logits, and the same for
   * all others. */
  tdm_value weight;
  /* For the binary cross-entropy: weights of its positive part, of a shape as weight. Default
   * invalid: none. */
  tdm_value pos_weight;
  /* For the cross-entropy: share of each target that is spread evenly over all classes, 0 to 1.
   * Default 0. */
  double label_smoothing;
  /* For tdm_smooth_l1 and tdm_huber (PyTorch's delta): the difference from which the loss is
   * linear. Positive; 0 makes smooth L1 the L1 loss. Default 1. */
  double beta;
  /* For the KL divergence: true: targets are logarithms of probabilities. Default false. */
  bool log_target;
  /* For losses with a margin; finite. Default TDM_DEFAULT: the value that the loss's comment gives.
   */
  double margin;
  /* Exponent of tdm_multi_margin, 1 or 2, or norm of tdm_triplet_margin, positive. Default
   * TDM_DEFAULT: 1 and 2. */
  double p;
  /* Keeps logarithms and distances away from 0; 0 or more. Default TDM_DEFAULT: the value that the
   * loss's comment gives. */
  double epsilon;
  /* For tdm_triplet_margin: true: use the distance of negative and positive if it is less than that
   * of negative and anchor. Default false. */
  bool swap;
  /* For tdm_gaussian_nll and tdm_poisson_nll: true: include the constant terms. Default false. */
  bool full;
  /* For tdm_poisson_nll: true: the input is the rate. false: it is the rate's logarithm. Default
   * false. */
  bool linear_input;
  /* For tdm_ctc: the class that means no label, 0 to classes - 1. Default 0. */
  int64_t blank;
  /* For tdm_ctc: true: a target that is too long for its steps has the loss 0 instead of infinity.
   * Default false. */
  bool zero_infinity;
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

/* Computes the cross-entropy of softmax(logits) and targets: -log(softmax(logits)[target])
 * (torch.nn.CrossEntropyLoss).
 * @param logits (n, classes), (n, classes, d1, ...) or (classes).
 * @param targets int32 or int64 classes: (n), (n, d1, ...) or (). Or probabilities of logits' shape
 *     and dtype; a mean is then divided by the number of targets. */
TDM_API tdm_value tdm_cross_entropy(tdm_graph *graph, const char *name, tdm_value logits,
                                    tdm_value targets);

/* Computes the cross-entropy, with options reduction, weight, ignore_index and label_smoothing.
 * Otherwise as tdm_cross_entropy. */
TDM_API tdm_value tdm_cross_entropy_with(tdm_graph *graph, const char *name, tdm_value logits,
                                         tdm_value targets, const tdm_loss_options *options);

/* Computes the negative log-likelihood: -log_probabilities[target] (torch.nn.NLLLoss).
 * @param log_probabilities (n, classes), (n, classes, d1, ...) or (classes), for example a result
 *     of tdm_log_softmax.
 * @param targets int32 or int64 classes: (n), (n, d1, ...) or (). */
TDM_API tdm_value tdm_nll(tdm_graph *graph, const char *name, tdm_value log_probabilities,
                          tdm_value targets);

/* Computes the negative log-likelihood, with options reduction, weight and ignore_index. Otherwise
 * as tdm_nll. */
TDM_API tdm_value tdm_nll_with(tdm_graph *graph, const char *name, tdm_value log_probabilities,
                               tdm_value targets, const tdm_loss_options *options);

/* Computes the binary cross-entropy of sigmoid(logits) and targets: -(target log(p) + (1 - target)
 * log(1 - p)) with p = sigmoid(logit) (torch.nn.BCEWithLogitsLoss).
 * @param logits of any shape.
 * @param targets in [0, 1], of the shape of logits. */
TDM_API tdm_value tdm_binary_cross_entropy(tdm_graph *graph, const char *name, tdm_value logits,
                                           tdm_value targets);

/* Computes the binary cross-entropy, with options reduction, weight and pos_weight. Otherwise as
 * tdm_binary_cross_entropy. */
TDM_API tdm_value tdm_binary_cross_entropy_with(tdm_graph *graph, const char *name,
                                                tdm_value logits, tdm_value targets,
                                                const tdm_loss_options *options);

/* Computes the Kullback-Leibler divergence: target (log(target) - log_probability), 0 if target is
 * 0, NaN if it is negative (torch.nn.KLDivLoss). Operands are broadcast. TDM_LOSS_MEAN divides by
 * the number of elements, TDM_LOSS_BATCH_MEAN by the size of dimension 0.
 * @param log_probabilities logarithms of probabilities.
 * @param targets probabilities. */
TDM_API tdm_value tdm_kl_div(tdm_graph *graph, const char *name, tdm_value log_probabilities,
                             tdm_value targets);

/* Computes the Kullback-Leibler divergence, with options reduction and log_target. Otherwise as
 * tdm_kl_div. */
TDM_API tdm_value tdm_kl_div_with(tdm_graph *graph, const char *name, tdm_value log_probabilities,
                                  tdm_value targets, const tdm_loss_options *options);

/* Operands of the following losses are broadcast to one shape as in PyTorch; a target may be a
 * scalar or a row. A warning is logged if the shapes differ and neither is a scalar, as in PyTorch,
 * because (n, 1) and (n) give (n, n). Gradients flow into both operands. */

/* Computes the mean squared error: (a - b)^2 (torch.nn.MSELoss). */
TDM_API tdm_value tdm_mse(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);

/* Computes the squared error, with option reduction. Otherwise as tdm_mse. */
TDM_API tdm_value tdm_mse_with(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                               const tdm_loss_options *options);

/* Computes the mean absolute error: |a - b| (torch.nn.L1Loss). */
TDM_API tdm_value tdm_l1(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);

/* Computes the absolute error, with option reduction. Otherwise as tdm_l1. */
TDM_API tdm_value tdm_l1_with(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                              const tdm_loss_options *options);

/* Computes the smooth L1 loss of d = a - b: d^2 / (2 beta) if |d| < beta, and |d| - beta / 2
 * otherwise (torch.nn.SmoothL1Loss). beta is 1. */
TDM_API tdm_value tdm_smooth_l1(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);

/* Computes the smooth L1 loss, with options reduction and beta. Otherwise as tdm_smooth_l1. */
TDM_API tdm_value tdm_smooth_l1_with(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                                     const tdm_loss_options *options);

/* Computes the Huber loss, which is beta times the smooth L1 loss: d^2 / 2 if |d| < beta, and beta
 * (|d| - beta / 2) otherwise (torch.nn.HuberLoss). beta is 1. */
TDM_API tdm_value tdm_huber(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);

/* Computes the Huber loss, with options reduction and beta. Otherwise as tdm_huber. */
TDM_API tdm_value tdm_huber_with(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                                 const tdm_loss_options *options);

/* ---- Margins --------------------------------------------------------------------------------- */

/* Losses with a margin are 0 for operands that are better than the margin requires. Targets that
 * are 1 or -1 have the dtype of the operand, int32 or int64. */

/* Computes max(0, -target (a - b) + margin), for target 1 if a is to rank above b and -1 otherwise
 * (torch.nn.MarginRankingLoss). Operands are broadcast. margin is 0 by default.
 * @param targets 1 or -1. */
TDM_API tdm_value tdm_margin_ranking(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                                     tdm_value targets);

/* Computes the margin ranking loss, with options reduction and margin. Otherwise as
 * tdm_margin_ranking. */
TDM_API tdm_value tdm_margin_ranking_with(tdm_graph *graph, const char *name, tdm_value a,
                                          tdm_value b, tdm_value targets,
                                          const tdm_loss_options *options);

/* Computes x if the target is 1, and max(0, margin - x) if it is -1 (torch.nn.HingeEmbeddingLoss).
 * margin is 1 by default.
 * @param targets 1 or -1. */
TDM_API tdm_value tdm_hinge_embedding(tdm_graph *graph, const char *name, tdm_value x,
                                      tdm_value targets);

/* Computes the hinge embedding loss, with options reduction and margin. Otherwise as
 * tdm_hinge_embedding. */
TDM_API tdm_value tdm_hinge_embedding_with(tdm_graph *graph, const char *name, tdm_value x,
                                           tdm_value targets, const tdm_loss_options *options);

/* Computes log(1 + e^(-target x)) (torch.nn.SoftMarginLoss).
 * @param targets 1 or -1. */
TDM_API tdm_value tdm_soft_margin(tdm_graph *graph, const char *name, tdm_value x,
                                  tdm_value targets);

/* Computes the soft margin loss, with option reduction. Otherwise as tdm_soft_margin. */
TDM_API tdm_value tdm_soft_margin_with(tdm_graph *graph, const char *name, tdm_value x,
                                       tdm_value targets, const tdm_loss_options *options);

/* Computes, for each row, the sum over all classes c except the target of max(0, margin -
 * scores[target] + scores[c])^p, times weight[target], divided by the number of classes
 * (torch.nn.MultiMarginLoss). By default margin is 1 and p is 1.
 * @param scores (n, classes) or (classes).
 * @param targets int32 or int64 classes: (n) or (). */
TDM_API tdm_value tdm_multi_margin(tdm_graph *graph, const char *name, tdm_value scores,
                                   tdm_value targets);

/* Computes the multi-margin loss, with options reduction, margin, p and weight. Otherwise as
 * tdm_multi_margin. */
TDM_API tdm_value tdm_multi_margin_with(tdm_graph *graph, const char *name, tdm_value scores,
                                        tdm_value targets, const tdm_loss_options *options);

/* Computes, for each row, the sum over its targets t and over all classes c that are no targets of
 * max(0, 1 - scores[t] + scores[c]), divided by the number of classes
 * (torch.nn.MultiLabelMarginLoss). Needs memory of n classes^2 elements.
 * @param scores (n, classes) or (classes).
 * @param targets int32 or int64 of the shape of scores: the target classes of a row, up to the
 *     first negative number. */
TDM_API tdm_value tdm_multilabel_margin(tdm_graph *graph, const char *name, tdm_value scores,
                                        tdm_value targets);

/* Computes the multi-label margin loss, with option reduction. Otherwise as tdm_multilabel_margin.
 */
TDM_API tdm_value tdm_multilabel_margin_with(tdm_graph *graph, const char *name, tdm_value scores,
                                             tdm_value targets, const tdm_loss_options *options);

/* Computes, for each row, the mean over classes of the binary cross-entropy, times weight
 * (torch.nn.MultiLabelSoftMarginLoss).
 * @param logits (..., classes).
 * @param targets in [0, 1], of the shape of logits. */
TDM_API tdm_value tdm_multilabel_soft_margin(tdm_graph *graph, const char *name, tdm_value logits,
                                             tdm_value targets);

/* Computes the multi-label soft margin loss, with options reduction and weight. Otherwise as
 * tdm_multilabel_soft_margin. */
TDM_API tdm_value tdm_multilabel_soft_margin_with(tdm_graph *graph, const char *name,
                                                  tdm_value logits, tdm_value targets,
                                                  const tdm_loss_options *options);

/* ---- Distances ------------------------------------------------------------------------------- */

/* Computes the cosine of a and b along dimension, which is removed: sum(a b) / (max(|a|, epsilon)
 * max(|b|, epsilon)) (torch.nn.CosineSimilarity). Operands are broadcast. Squares of elements may
 * exceed the range of the dtype.
 *
 * A norm that is less than epsilon has no gradient; PyTorch computes one as if epsilon were not
 * there.
 * @param dimension negative: from the end.
 * @param epsilon finite, 0 or more; PyTorch's default is 1e-8. */
TDM_API tdm_value tdm_cosine_similarity(tdm_graph *graph, const char *name, tdm_value a,
                                        tdm_value b, int dimension, double epsilon);

/* Computes the p-norm of a - b + epsilon along the last dimension (torch.nn.PairwiseDistance).
 * Operands are broadcast.
 * @param p positive, or INFINITY; PyTorch's default is 2.
 * @param epsilon finite; PyTorch's default is 1e-6.
 * @param keep true: the last dimension remains with size 1. false: it is removed. */
TDM_API tdm_value tdm_pairwise_distance(tdm_graph *graph, const char *name, tdm_value a,
                                        tdm_value b, double p, double epsilon, bool keep);

/* Computes 1 - cos(a, b) if the target is 1, and max(0, cos(a, b) - margin) if it is -1
 * (torch.nn.CosineEmbeddingLoss). margin is 0 by default. The sum of the squares of a row must be
 * in the range of the dtype: float32 elements up to about 1e18.
 * @param a (n, features) or (features).
 * @param b of a's shape.
 * @param targets (n) or (): 1 or -1. */
TDM_API tdm_value tdm_cosine_embedding(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                                       tdm_value targets);

/* Computes the cosine embedding loss, with options reduction and margin. Otherwise as
 * tdm_cosine_embedding. */
TDM_API tdm_value tdm_cosine_embedding_with(tdm_graph *graph, const char *name, tdm_value a,
                                            tdm_value b, tdm_value targets,
                                            const tdm_loss_options *options);

/* Computes max(0, d(anchor, positive) - d(anchor, negative) + margin), where d is
 * tdm_pairwise_distance with p and epsilon (torch.nn.TripletMarginLoss). By default margin is 1, p
 * is 2 and epsilon is 1e-6. Gradients flow into all three operands.
 * @param anchor (n, features).
 * @param positive (n, features).
 * @param negative (n, features). */
TDM_API tdm_value tdm_triplet_margin(tdm_graph *graph, const char *name, tdm_value anchor,
                                     tdm_value positive, tdm_value negative);

/* Computes the triplet margin loss, with options reduction, margin (above 0), p, epsilon and swap.
 * Source of swap: V. Balntas et al., "Learning shallow convolutional feature descriptors with
 * triplet losses", 2016. Otherwise as tdm_triplet_margin. */
TDM_API tdm_value tdm_triplet_margin_with(tdm_graph *graph, const char *name, tdm_value anchor,
                                          tdm_value positive, tdm_value negative,
                                          const tdm_loss_options *options);

/* ---- Likelihoods ----------------------------------------------------------------------------- */

/* Computes the negative log-likelihood of a normal distribution: (log(v) + (x - target)^2 / v) / 2
 * with v = max(variance, epsilon) (torch.nn.GaussianNLLLoss). Operands are broadcast. epsilon is
 * 1e-6 by default.
 *
 * A variance that is less than epsilon has no gradient; PyTorch computes one as if epsilon were not
 * there.
 * @param x means.
 * @param targets observed values.
 * @param variance of x's shape, or of x's shape without the last dimension: one per row. */
TDM_API tdm_value tdm_gaussian_nll(tdm_graph *graph, const char *name, tdm_value x,
                                   tdm_value targets, tdm_value variance);

/* Computes the negative log-likelihood of a normal distribution, with options reduction, epsilon
 * and full, which adds log(2 pi) / 2. Otherwise as tdm_gaussian_nll. */
TDM_API tdm_value tdm_gaussian_nll_with(tdm_graph *graph, const char *name, tdm_value x,
                                        tdm_value targets, tdm_value variance,
                                        const tdm_loss_options *options);

/* Computes the negative log-likelihood of a Poisson distribution: e^x - target x
 * (torch.nn.PoissonNLLLoss).
 * @param x logarithms of rates.
 * @param targets observed counts. */
TDM_API tdm_value tdm_poisson_nll(tdm_graph *graph, const char *name, tdm_value x,
                                  tdm_value targets);

/* Computes the negative log-likelihood of a Poisson distribution, with options. Otherwise as
 * tdm_poisson_nll.
 * - reduction.
 * - linear_input: x is the rate, and the loss is x - target log(x + epsilon).
 * - epsilon: default 1e-8.
 * - full: adds Stirling's approximation target log(target) - target + log(2 pi target) / 2 if
 *   target is above 1. */
TDM_API tdm_value tdm_poisson_nll_with(tdm_graph *graph, const char *name, tdm_value x,
                                       tdm_value targets, const tdm_loss_options *options);

/* ---- Sequences ------------------------------------------------------------------------------- */

/* Computes the connectionist temporal classification loss: -log of the probability of the targets,
 * summed over all alignments with the steps, with blanks between labels and labels repeated
 * (torch.nn.CTCLoss). Source: A. Graves et al., "Connectionist temporal classification", ICML 2006.
 *
 * Each loss is divided by the number of its labels before the mean is computed. A target that does
 * not fit into its steps has an infinite loss and no gradient. A run with a length or target out of
 * range fails with INVALID_ARGUMENT. The gradient is the derivative with respect to the
 * log-probabilities; PyTorch's also contains the probabilities, a term that vanishes in the
 * gradient before the softmax.
 * @param log_probabilities (steps, n, classes), a result of tdm_log_softmax; or (steps, classes).
 * @param targets (n, labels) int32 or int64, or (labels): classes.
 * @param input_lengths (n), or (): int32 or int64 numbers of steps, 0 to steps.
 * @param target_lengths (n), or (): int32 or int64 numbers of labels that are read, 0 to labels. */
TDM_API tdm_value tdm_ctc(tdm_graph *graph, const char *name, tdm_value log_probabilities,
                          tdm_value targets, tdm_value input_lengths, tdm_value target_lengths);

/* Computes the CTC loss, with options reduction, blank and zero_infinity. Otherwise as tdm_ctc. */
TDM_API tdm_value tdm_ctc_with(tdm_graph *graph, const char *name, tdm_value log_probabilities,
                               tdm_value targets, tdm_value input_lengths, tdm_value target_lengths,
                               const tdm_loss_options *options);

#ifdef __cplusplus
}
#endif
#endif
