/* The pairwise dot interaction of DLRM (Naumov et al., "Deep learning recommendation model for
 * personalization and recommendation systems", 2019). Invariant: samples are independent. */
#include "layers/common.h"
#include "tandem/layers/layers.h"

static tdm_status infer_interaction(tdm_infer *infer) {
  const tdm_dot_interaction_attributes *attributes = infer->attributes;
  TDM_TRY(tdm_expect_floating(infer, 0, "x"));
  TDM_TRY(tdm_expect_rank(infer, 0, "x", 3, 3));
  const tdm_shape *x = tdm_infer_shape(infer, 0);
  const int64_t vectors = x->dims[1];
  if (vectors < 0 || vectors > TDM_MAX_INTERACTING) {
    char text[TDM_SHAPE_TEXT];
    return tdm_fail(TDM_INVALID_ARGUMENT, "x is %s: its vectors must be a number up to %d",
                    tdm_shape_text(x, text, sizeof text), TDM_MAX_INTERACTING);
  }
  const int64_t pairs = vectors * (vectors - 1) / 2 + attributes->self * vectors;
  const tdm_shape y = {.rank = 2, .dims = {x->dims[0], pairs}};
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &y);
  return TDM_OK;
}

/* Counts a product of two vectors for each pair in y. */
static void interaction_work(const tdm_infer *node, tdm_work *work) {
  work->flops = 2 * tdm_work_count(&node->outputs[0]) * tdm_work_width(&node->inputs[0]);
}

/* Counts, for each pair, a contribution to the gradients of both vectors. */
static void gradient_work(const tdm_infer *node, tdm_work *work) {
  work->flops = 4 * tdm_work_count(&node->inputs[0]) * tdm_work_width(&node->inputs[1]);
}

static const tdm_operation interaction_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_DOT_INTERACTION_GRADIENT,
    .attribute_bytes = sizeof(tdm_dot_interaction_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = tdm_infer_like_second,
    .work = gradient_work,
    .precision = TDM_PRECISION_GIVEN,
};

/* The vectors of a sample and their elements must stay in one part. */
static tdm_status chunk_interaction(tdm_chunked *chunked) {
  return tdm_chunked_rows(chunked, tdm_chunked_cut(chunked, 0).dimension == 2 ? 2 : 1, 0);
}

static const tdm_operation interaction = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_DOT_INTERACTION,
    .attribute_bytes = sizeof(tdm_dot_interaction_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = infer_interaction,
    .gradient_operation = &interaction_gradient,
    .gradient_reads = TDM_READS_X,
    .chunk = chunk_interaction,
    .work = interaction_work,
    .precision = TDM_PRECISION_LOWER,
};

TDM_RECORDS(interaction, {.operation = &interaction, .functions = "tdm_dot_interaction"},
            {.operation = &interaction_gradient});

tdm_value tdm_dot_interaction(tdm_graph *graph, const char *name, tdm_value x, bool with_self) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "dot_interaction", name, x)) return TDM_NO_VALUE;
  const tdm_dot_interaction_attributes attributes = {.self = with_self};
  return tdm_append(graph, &interaction, name, &attributes, &x, 1, NULL);
}
