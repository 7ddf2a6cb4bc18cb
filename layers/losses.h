/* Public part of layers/: losses, with PyTorch's arguments and numbers. A loss has the dtype of
 * what it judges, and is a scalar unless nothing is reduced. In micro-batches the mean is that of
 * the whole batch. */
#ifndef TANDEM_LAYERS_LOSSES_H
#define TANDEM_LAYERS_LOSSES_H

#include "tandem/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tdm_loss_reduction {
  TDM_LOSS_MEAN,
  TDM_LOSS_SUM,
  TDM_LOSS_NONE,
  TDM_LOSS_BATCH_MEAN /* of the KL divergence: the sum divided by dimension 0 */
} tdm_loss_reduction;

/* A loss refuses what it has no use for. */
typedef struct tdm_loss_options {
  size_t struct_size;
  tdm_loss_reduction reduction;
  bool has_ignore_index;
  int64_t ignore_index; /* of targets that are classes; -100 where has_ignore_index is false */
  /* An input, or a state, of what is judged's dtype, that no gradient flows into. Of classes:
   * (classes), and a mean is divided by the weights of its targets. Of the binary cross-entropy: of
   * the shape of the logits' last dimensions, over which it repeats. */
  tdm_value weight;
  tdm_value pos_weight;   /* likewise, of the positive part of the binary cross-entropy */
  double label_smoothing; /* of the cross-entropy: 0 to 1 */
  double beta;            /* of smooth L1, and Huber's delta: where it becomes linear; 0: 1 */
  bool log_target;        /* of the KL divergence: targets are logarithms of probabilities */
} tdm_loss_options;

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

/* The Kullback-Leibler divergence of log_probabilities and targets of one shape, PyTorch's kl_div:
 * of target (log target - log_probability), 0 where target is 0. TDM_LOSS_MEAN divides by all
 * elements, TDM_LOSS_BATCH_MEAN by dimension 0. No gradient flows into targets. */
TDM_API tdm_value tdm_kl_div(tdm_graph *graph, const char *name, tdm_value log_probabilities,
                             tdm_value targets);
TDM_API tdm_value tdm_kl_div_with(tdm_graph *graph, const char *name, tdm_value log_probabilities,
                                  tdm_value targets, const tdm_loss_options *options);

/* Of a and b of one shape: squares of differences; absolute differences; and what is quadratic
 * near 0 and linear beyond, in two scales: huber is beta times smooth_l1. */
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

#ifdef __cplusplus
}
#endif
#endif
