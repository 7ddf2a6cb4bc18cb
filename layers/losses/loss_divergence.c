/* Losses of probabilities given as logarithms: the Kullback-Leibler divergence, and the
 * cross-entropy whose targets are class probabilities. Invariant: both are one operation, in which
 * targets and weight have no gradient. */
#include "layers/losses/loss.h"
#include "tandem/layers/layers.h"

static const tdm_shape scalar = {.rank = 0};

static tdm_status infer_divergence(tdm_infer *infer) {
  tdm_shape shape;
  TDM_TRY(tdm_expect_floating(infer, 0, "log-probabilities"));
  TDM_TRY(tdm_expect_dtype_of_first(infer, 1, "log-probabilities", "targets"));
  TDM_TRY(tdm_expect_one_shape(infer, 0, "log-probabilities", 1, "targets", &shape));
  TDM_TRY(tdm_loss_expect_last(infer, 2, "log-probabilities", "weight", &shape));
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, tdm_loss_reduces(infer) ? &scalar : &shape);
  return TDM_OK;
}

/* d_loss, log_probabilities, targets, [weight] -> d_log_probabilities. */
static const tdm_operation divergence_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_DIVERGENCE_GRADIENT,
    .attribute_bytes = sizeof(tdm_loss_attributes),
    .min_inputs = 3,
    .max_inputs = 4,
    .output_count = 1,
    .infer = tdm_infer_like_second,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

static tdm_status append_divergence_gradient(tdm_gradient *gradient) {
  TDM_TRY(tdm_gradient_refuse(gradient, 1, "targets"));
  TDM_TRY(tdm_gradient_refuse(gradient, 2, "weight"));
  if (!tdm_gradient_wanted(gradient, 0)) return TDM_OK;
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const tdm_value operands[] = {tdm_gradient_of_output(gradient, 0),
                                tdm_gradient_input(gradient, 0), tdm_gradient_input(gradient, 1),
                                tdm_gradient_input(gradient, 2)};
  tdm_gradient_set(gradient, 0,
                   tdm_append(graph, &divergence_gradient, tdm_gradient_name(gradient),
                              tdm_gradient_attributes(gradient), operands, 4, NULL));
  return tdm_graph_status(graph);
}

static const tdm_operation divergence_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_DIVERGENCE,
    .attribute_bytes = sizeof(tdm_loss_attributes),
    .min_inputs = 2,
    .max_inputs = 3,
    .output_count = 1,
    .infer = infer_divergence,
    .gradient = append_divergence_gradient,
    .chunk = tdm_loss_chunk_elements,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_FLOAT32,
};

TDM_RECORDS(loss_divergence, {.operation = &divergence_operation, .functions = "tdm_kl_div"},
            {.operation = &divergence_gradient});

tdm_value tdm_loss_of_probabilities(tdm_graph *graph, const char *name, tdm_value logits,
                                    tdm_value targets, const tdm_loss_options *chosen) {
  const int classes = 1;
  tdm_loss_attributes attributes = tdm_loss_attributes_of(chosen);
  attributes.ignore_index = 0; /* unused */
  if (chosen->reduction == TDM_LOSS_MEAN) attributes.reduction = TDM_REDUCTION_BATCH_MEAN;
  const tdm_value operands[] = {tdm_log_softmax(graph, name, logits, 1), targets, chosen->weight};
  const tdm_value loss =
      tdm_append(graph, &divergence_operation, name, &attributes, operands, 3, NULL);
  return chosen->reduction == TDM_LOSS_NONE ? tdm_sum(graph, name, loss, &classes, 1, false) : loss;
}

tdm_value tdm_kl_div_with(tdm_graph *graph, const char *name, tdm_value log_probabilities,
                          tdm_value targets, const tdm_loss_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_loss_options chosen;
  if (!tdm_loss_options_read(graph, "kl_div", name, options, TDM_LOSS_USES_LOG_TARGET, &chosen))
    return TDM_NO_VALUE;
  tdm_loss_attributes attributes = tdm_loss_attributes_of(&chosen);
  attributes.logarithms = chosen.log_target;
  attributes.entropy = true;
  tdm_value operands[] = {log_probabilities, targets};
  if (!tdm_loss_broadcast(graph, "kl_div", name, operands)) return TDM_NO_VALUE;
  return tdm_append(graph, &divergence_operation, name, &attributes, operands, 2, NULL);
}

tdm_value tdm_kl_div(tdm_graph *graph, const char *name, tdm_value log_probabilities,
                     tdm_value targets) {
  return tdm_kl_div_with(graph, name, log_probabilities, targets, NULL);
}
