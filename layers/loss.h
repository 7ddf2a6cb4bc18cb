/* What losses share: options, attributes, and computing means in micro-batches. */
#ifndef TANDEM_LAYERS_LOSS_H
#define TANDEM_LAYERS_LOSS_H

#include "layers/common.h"
#include "tandem/layers/losses.h"

/* The options that a loss has a use for, besides the reduction. */
enum {
  TDM_LOSS_USES_CLASSES = 1, /* ignore_index */
  TDM_LOSS_USES_WEIGHT = 2,
  TDM_LOSS_USES_POS_WEIGHT = 4,
  TDM_LOSS_USES_SMOOTHING = 8,
  TDM_LOSS_USES_BETA = 16,
  TDM_LOSS_USES_LOG_TARGET = 32, /* and the batch's mean */
  TDM_LOSS_USES_MARGIN = 64,
  TDM_LOSS_USES_P = 128,
  TDM_LOSS_USES_EPSILON = 256,
  TDM_LOSS_USES_SWAP = 512,
  TDM_LOSS_USES_FULL = 1024,
  TDM_LOSS_USES_LINEAR_INPUT = 2048,
  TDM_LOSS_USES_BLANK = 4096, /* and zero_infinity */
};

/* Copies options (may be NULL); false, with the graph's error, for what is wrong or of no use. */
bool tdm_loss_options_read(tdm_graph *graph, const char *loss, const char *name,
                           const tdm_loss_options *options, unsigned uses,
                           tdm_loss_options *out_options);
/* Reduction, ignore_index and smoothing; the rest zeros. */
tdm_loss_attributes tdm_loss_attributes_of(const tdm_loss_options *options);

/* The margin, or the loss's own where it is TDM_DEFAULT. */
static inline double tdm_loss_margin(const tdm_loss_options *options, double otherwise) {
  return options->margin != TDM_DEFAULT ? options->margin : otherwise;
}

/* What a loss that is put together of operations makes of its elements: their mean or sum, or
 * themselves. In micro-batches and parallel regions these operations are the whole batch's. */
tdm_value tdm_loss_reduce(tdm_graph *graph, const char *name, tdm_value elements,
                          tdm_loss_reduction reduction);
/* max(0, x): at 0 the whole adjoint passes, as through PyTorch's clamp_min. */
tdm_value tdm_loss_above_zero(tdm_graph *graph, const char *name, tdm_value x);
/* x, or, where it is of another dtype than like, that cast. */
tdm_value tdm_loss_cast_like(tdm_graph *graph, const char *name, tdm_value x, tdm_value like);

static inline bool tdm_loss_reduces(const tdm_infer *infer) {
  const tdm_loss_attributes *attributes = infer->attributes;
  return attributes->reduction != TDM_REDUCTION_NONE;
}

/* What the sum over all parts of a batch is divided by for the mean. */
typedef tdm_value (*tdm_loss_divisor)(tdm_chunked *chunked);
/* A rule `chunk`: sums of the parts, added, and divided where the node's attributes
 * (tdm_loss_attributes) ask for the mean. */
tdm_status tdm_loss_chunk(tdm_chunked *chunked, tdm_loss_divisor divisor) TDM_WARN_UNUSED;

/* The binary cross-entropy of each label: logits, targets, [weight]. */
extern const tdm_operation tdm_operation_multilabel_soft_margin;

/* A rule `chunk` for a loss of one value an element. */
tdm_status tdm_loss_chunk_elements(tdm_chunked *chunked) TDM_WARN_UNUSED;
/* Operand index, what, has the dtype of operand 0, first, and the last dimensions of shape, or is
 * not there. */
tdm_status tdm_loss_expect_last(const tdm_infer *infer, size_t index, const char *first,
                                const char *what, const tdm_shape *shape) TDM_WARN_UNUSED;
/* The cross-entropy of logits (n, classes) with targets (n, classes) that are probabilities. */
tdm_value tdm_loss_of_probabilities(tdm_graph *graph, const char *name, tdm_value logits,
                                    tdm_value targets, const tdm_loss_options *chosen);

/* Repeats both values of a loss to the shape that they are broadcast to, as PyTorch's losses do; a
 * value of equal shape stays as it is. Logs a warning if the values differ in shape and neither is
 * a scalar. False, with the graph's error, if they cannot be broadcast. */
bool tdm_loss_broadcast(tdm_graph *graph, const char *loss, const char *name, tdm_value values[2]);

/* Why golden data does not reach what only micro-batches append. */
#define TDM_LOSS_IN_PARTS "tests/layers/losses_in_parts_test.c compares it with the whole batch"

#endif
