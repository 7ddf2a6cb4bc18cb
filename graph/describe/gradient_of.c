/* Requests gradients as values. Invariant: a requested gradient exists: the loss depends on the
 * value through operations that propagate adjoints, and through no other gradient. */
#include "graph/describe/gradient_of.h"

#include "core/allocate.h"
#include "graph/ir/records.h"
#include "graph/ir/rewriter.h"

/* ---- Operations ------------------------------------------------------------------------------ */

static tdm_status infer_gradient_of(tdm_infer *infer) {
  const tdm_spec *loss = &infer->inputs[TDM_GRADIENT_LOSS];
  const tdm_spec *value = &infer->inputs[TDM_GRADIENT_VALUE];
  char text[TDM_SHAPE_TEXT];
  if (!tdm_dtype_is_floating(loss->dtype) || loss->shape.rank != 0)
    return tdm_fail(TDM_INVALID_ARGUMENT, "the loss is %s %s, and must be a floating number",
                    tdm_dtype_name(loss->dtype), tdm_shape_text(&loss->shape, text, sizeof text));
  if (!tdm_dtype_is_floating(value->dtype))
    return tdm_fail(TDM_INVALID_ARGUMENT, "the value is %s, of which there is no gradient",
                    tdm_dtype_name(value->dtype));
  infer->outputs[0] = *value;
  return TDM_OK;
}

static tdm_status infer_same(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  return TDM_OK;
}

static tdm_status refuse_again(tdm_gradient *gradient) {
  (void)gradient;
  return tdm_fail(TDM_UNSUPPORTED, "a gradient is not differentiated again; what reads it may read "
                                   "tdm_detach of it, as numbers that depend on nothing");
}

const tdm_operation tdm_operation_gradient_of = {.struct_size = sizeof(tdm_operation),
                                                 .name = "gradient_of",
                                                 .min_inputs = 2,
                                                 .max_inputs = 2,
                                                 .output_count = 1,
                                                 .infer = infer_gradient_of,
                                                 .gradient = refuse_again,
                                                 .work = tdm_work_streams,
                                                 .precision = TDM_PRECISION_GIVEN};
const tdm_operation tdm_operation_gradient_view = {.struct_size = sizeof(tdm_operation),
                                                   .name = "gradient_of",
                                                   .min_inputs = 1,
                                                   .max_inputs = 1,
                                                   .output_count = 1,
                                                   .is_view = true,
                                                   .infer = infer_same,
                                                   .gradient = refuse_again,
                                                   .work = tdm_work_streams,
                                                   .precision = TDM_PRECISION_GIVEN};
static const tdm_operation detach = {.struct_size = sizeof(tdm_operation),
                                     .name = "detach",
                                     .min_inputs = 1,
                                     .max_inputs = 1,
                                     .output_count = 1,
                                     .is_view = true,
                                     .infer = infer_same,
                                     .work = tdm_work_streams,
                                     .precision = TDM_PRECISION_GIVEN};

#define OTHERS "it shows what gradients of others make; tests/layers/golden/golden_gradients_test.c"

TDM_RECORDS(gradient_of,
            {.operation = &tdm_operation_gradient_of,
             .functions = "tdm_gradient_of",
             .no_kernel = "the gradients of others make it",
             .no_golden = OTHERS,
             .no_differences = OTHERS},
            {.operation = &tdm_operation_gradient_view,
             .no_golden = OTHERS,
             .no_differences = OTHERS},
            {.operation = &detach, .functions = "tdm_detach", .no_golden = "it is its input"});

/* ---- Asking ---------------------------------------------------------------------------------- */

tdm_ir_node *tdm_first_asking(const tdm_graph *graph) {
  TDM_EACH_NODE(graph, node)
    if (tdm_asks_gradient(node)) return node;
  return NULL;
}

/* Returns true if the operation propagates adjoints in some runs. The run determines which of its
 * two variants is used. */
static bool may_flow_back(const tdm_operation *operation) {
  return tdm_flows_back(operation) ||
         (operation->when_training && tdm_flows_back(operation->when_training));
}

/* Marks each value that depends on `value` through operations that propagate adjoints. */
static void mark_made_of(const tdm_graph *graph, uint32_t value, bool *made) {
  made[value] = true;
  TDM_EACH_NODE(graph, node) {
    bool reads = false;
    for (uint32_t k = 0; k < node->input_count; k++)
      reads |= made[node->inputs[k]] && tdm_reads_elements(node->operation, k);
    if (!reads || !may_flow_back(node->operation)) continue;
    for (uint32_t k = 0; k < node->output_count; k++)
      made[node->first_output + k] |=
          tdm_dtype_is_floating(tdm_ir_value_at(graph, node->first_output + k)->spec->dtype);
  }
}

/* Returns the last gradient through which the loss depends on the value, or NULL. needed (per
 * value) is scratch memory. */
static const tdm_ir_node *gradient_between(const tdm_graph *graph, uint32_t loss, const bool *made,
                                           bool *needed) {
  needed[loss] = true;
  TDM_EACH_NODE_BACKWARD(graph, node) {
    bool between = false;
    for (uint32_t k = 0; k < node->output_count; k++)
      between |= needed[node->first_output + k];
    if (!between) continue;
    if (tdm_asks_gradient(node)) return node;
    for (uint32_t k = 0; k < node->input_count; k++)
      needed[node->inputs[k]] |= made[node->inputs[k]];
  }
  return NULL;
}

static tdm_status check_made(const tdm_graph *graph, uint32_t loss, uint32_t value, bool *marks) {
  bool *needed = marks + graph->values.count;
  mark_made_of(graph, value, marks);
  if (!marks[loss])
    return tdm_fail(TDM_INVALID_ARGUMENT, "the loss %s does not depend on %s",
                    tdm_value_name(graph, loss), tdm_value_name(graph, value));
  const tdm_ir_node *between = gradient_between(graph, loss, marks, needed);
  if (!between) return TDM_OK;
  return tdm_fail(TDM_UNSUPPORTED,
                  "the loss %s depends on %s by way of the gradient %s, and a gradient is not "
                  "differentiated again (tdm_detach of it is no function of anything)",
                  tdm_value_name(graph, loss), tdm_value_name(graph, value), between->name);
}

tdm_value tdm_gradient_of(tdm_graph *graph, const char *name, tdm_value loss, tdm_value value) {
  name = tdm_graph_name(graph, name);
  const tdm_value operands[] = {[TDM_GRADIENT_LOSS] = loss, [TDM_GRADIENT_VALUE] = value};
  const tdm_value made =
      tdm_append(graph, &tdm_operation_gradient_of, name, NULL, operands, 2, NULL);
  if (!tdm_value_is_valid(made)) return made;
  const size_t bytes = 2 * graph->values.count * sizeof(bool);
  bool *marks = tdm_allocate(graph->allocator, bytes, "gradient");
  if (!marks) return tdm_graph_fail_message(graph, TDM_OUT_OF_MEMORY);
  tdm_status status = check_made(graph, loss.index, value.index, marks);
  tdm_release(graph->allocator, marks, bytes);
  if (status == TDM_OK) return made;
  status = tdm_fail_within(status, "gradient_of %s", name);
  return tdm_graph_fail_message(graph, status);
}

tdm_value tdm_detach(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_append(graph, &detach, name, NULL, &x, 1, NULL);
}
