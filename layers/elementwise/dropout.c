/* Dropout (Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting",
 * 2014). Invariant: outside training it is a view and has no cost. Its gradient draws the same
 * random numbers again, so no mask is stored. */
#include <stddef.h>
#include <string.h>

#include "layers/common.h"
#include "tandem/layers/layers.h"

/* The operation is its own gradient, applied to d_y. */
static const tdm_operation dropout_in_training = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_DROPOUT,
    .attribute_bytes = sizeof(tdm_dropout_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = tdm_infer_floating_like_first,
    .gradient_operation = &dropout_in_training,
    .chunk_at = 1 + offsetof(tdm_dropout_attributes, chunk),
    .elementwise = true,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

static tdm_status pass_on(tdm_gradient *gradient) {
  tdm_gradient_set(gradient, 0, tdm_gradient_of_output(gradient, 0));
  return TDM_OK;
}

static const tdm_operation dropout_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_DROPOUT,
    .attribute_bytes = sizeof(tdm_dropout_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .is_view = true,
    .infer = tdm_infer_floating_like_first,
    .gradient = pass_on,
    .when_training = &dropout_in_training,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

TDM_RECORDS(dropout, {.operation = &dropout_operation, .functions = "tdm_dropout"},
            {.operation = &dropout_in_training});

tdm_value tdm_dropout(tdm_graph *graph, const char *name, tdm_value x, double p) {
  name = tdm_graph_name(graph, name);
  if (!(p >= 0 && p <= 1))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "dropout %s: its probability is %g, and must lie between 0 and 1", name,
                          p);
  tdm_dropout_attributes attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.p = p;
  attributes.stream = tdm_graph_stream(graph, name);
  return tdm_append(graph, &dropout_operation, name, &attributes, &x, 1, NULL);
}
