/* Updates of parameters, and moving averages of the updated parameters (B. T. Polyak, A. B.
 * Juditsky, "Acceleration of stochastic approximation by averaging", 1992), as
 * torch.optim.swa_utils. Invariant: an average is a state of the optimizer that belongs to a
 * parameter, so checkpoints contain it. It is written after the update, in the update phase, so a
 * step counts for both or for neither. */
#include "layers/common.h"

/* Inputs: average, parameter, n_averaged (). The outputs overwrite average and n_averaged. */
static const tdm_operation average = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_AVERAGE,
    .attribute_bytes = sizeof(tdm_average_attributes),
    .min_inputs = 3,
    .max_inputs = 3,
    .output_count = 2,
    .overwrites = {1, 3},
    .infer = tdm_infer_update,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_FLOAT32,
};

TDM_RECORDS(average, {.operation = &average});

void tdm_append_update(tdm_update *update, size_t index, const tdm_operation *operation,
                       const void *attributes, const tdm_value *operands, size_t count) {
  tdm_graph *graph = tdm_update_graph(update);
  const char *name = tdm_update_name(update, index);
  const double decay = tdm_update_optimizer(update)->average_decay;
  const tdm_value updated = tdm_append(graph, operation, name, attributes, operands, count, NULL);
  if (decay == TDM_AVERAGE_NONE) return;
  const tdm_average_attributes averaging = {.decay = decay};
  const tdm_value states[] = {tdm_optimizer_state(update, index, TDM_AVERAGE_STATE, false), updated,
                              tdm_optimizer_state(update, index, "n_averaged", true)};
  tdm_append(graph, &average, name, &averaging, states, 3, NULL);
}
