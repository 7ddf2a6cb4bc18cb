/* Code that losses share: options, attributes, and means in micro-batches. */
#ifndef TANDEM_LAYERS_LOSSES_LOSS_H
#define TANDEM_LAYERS_LOSSES_LOSS_H

#include "layers/common.h"
#include "tandem/layers/losses.h"

/* The options that a loss uses besides the reduction. */
enum {
  TDM_LOSS_USES_CLASSES = 1, /* ignore_index */
  TDM_LOSS_USES_WEIGHT = 2,
  TDM_LOSS_USES_POS_WEIGHT = 4,
  TDM_LOSS_USES_SMOOTHING = 8,
  TDM_LOSS_USES_BETA = 16,
  TDM_LOSS_USES_LOG_TARGET = 32, /* uses log_target and the mean over the batch */
  TDM_LOSS_USES_MARGIN = 64,
  TDM_LOSS_USES_P = 128,
  TDM_LOSS_USES_EPSILON = 256,
  TDM_LOSS_USES_SWAP = 512,
  TDM_LOSS_USES_FULL = 1024,
  TDM_LOSS_USES_LINEAR_INPUT = 2048,
  TDM_LOSS_USES_BLANK = 4096, /* uses blank and zero_infinity */
};

/* Copies options (may be NULL). Returns false with the graph's error if an option is illegal or
 * unused by the loss. */
bool tdm_loss_options_read(tdm_graph *graph, const char *loss, const char *name,
                           const tdm_loss_options *options, unsigned uses,
                           tdm_loss_options *out_options);
/* Returns attributes with reduction, ignore_index and smoothing set, and zeros otherwise. */
tdm_loss_attributes tdm_loss_attributes_of(const tdm_loss_options *options);

/* Returns the margin, or the loss's default `otherwise` if it is TDM_DEFAULT. */
static inline double tdm_loss_margin(const tdm_loss_options *options, double otherwise) {
  return options->margin != TDM_DEFAULT ? options->margin : otherwise;
}

/* Reduces the elements of a composed loss: their mean, their sum, or the elements themselves. In
 * micro-batches and parallel regions the reduction is over the whole batch. */
tdm_value tdm_loss_reduce(tdm_graph *graph, const char *name, tdm_value elements,
                          tdm_loss_reduction reduction);
/* Returns max(0, x). At 0 the whole adjoint passes, as in PyTorch's clamp_min. */
tdm_value tdm_loss_above_zero(tdm_graph *graph, const char *name, tdm_value x);
/* Returns x, cast to the dtype of like if they differ. */
tdm_value tdm_loss_cast_like(tdm_graph *graph, const char *name, tdm_value x, tdm_value like);

static inline bool tdm_loss_reduces(const tdm_infer *infer) {
  const tdm_loss_attributes *attributes = infer->attributes;
  return attributes->reduction != TDM_REDUCTION_NONE;
}

/* Returns the divisor of the sum over all parts of a batch, for the mean. */
typedef tdm_value (*tdm_loss_divisor)(tdm_chunked *chunked);
/* A rule `chunk`: adds the sums of the parts, and divides if the node's attributes
 * (tdm_loss_attributes) require the mean. */
tdm_status tdm_loss_chunk(tdm_chunked *chunked, tdm_loss_divisor divisor) TDM_WARN_UNUSED;

/* The binary cross-entropy of each label: logits, targets, [weight]. */
extern const tdm_operation tdm_operation_multilabel_soft_margin;

/* The rule `chunk` of an elementwise loss. */
tdm_status tdm_loss_chunk_elements(tdm_chunked *chunked) TDM_WARN_UNUSED;
/* Fails unless operand index, called what, is missing or has the dtype of operand 0, called first,
 * and the last dimensions of shape. */
tdm_status tdm_loss_expect_last(const tdm_infer *infer, size_t index, const char *first,
                                const char *what, const tdm_shape *shape) TDM_WARN_UNUSED;
/* Returns the cross-entropy of logits (n, classes) and targets (n, classes) of probabilities. */
tdm_value tdm_loss_of_probabilities(tdm_graph *graph, const char *name, tdm_value logits,
                                    tdm_value targets, const tdm_loss_options *chosen);

/* Repeats both values of a loss to their broadcast shape, as PyTorch's losses do. A value that has
 * it stays unchanged. Logs a warning if the shapes differ and neither value is a scalar. Returns
 * false with the graph's error if they cannot be broadcast. */
bool tdm_loss_broadcast(tdm_graph *graph, const char *loss, const char *name, tdm_value values[2]);

/* The reason why no golden data covers operations that only micro-batches append. */
#define TDM_LOSS_IN_PARTS "tests/layers/losses_in_parts_test.c compares it with the whole batch"

#endif
