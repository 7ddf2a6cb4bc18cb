/* Predicts a kernel's time on a described processor from the work that its operation reports.
 * Invariant: an operation that reports none is refused, not estimated. */
#include <math.h>

#include "devices/kernels/elementwise/fused.h"
#include "graph/forecast/costs.h"

/* ---- Work ------------------------------------------------------------------------------------ */

static bool says_work(const tdm_operation *operation) {
  return TDM_OPERATION_HAS(operation, work) && operation->work;
}

/* Returns the operation of the node, or of a member of it, that reports no work; NULL: all do. */
static const tdm_operation *silent_of(const tdm_ir_node *node) {
  if (!says_work(node->operation)) return node->operation;
  if (node->operation != &tdm_operation_fused) return NULL;
  const tdm_fused_attributes *program = node->attributes;
  for (int64_t m = 0; m < program->member_count; m++)
    if (!says_work(program->members[m].operation)) return program->members[m].operation;
  return NULL;
}

/* Fills the input of a rule: specs, with room for all operands, and every operand once. */
static tdm_infer describe(const tdm_graph *graph, const tdm_ir_node *node, tdm_spec *specs,
                          tdm_work *work) {
  *work = (tdm_work){0};
  const uint32_t *inputs = node->inputs;
  for (uint32_t k = 0; k < node->input_count; k++) {
    specs[k] = inputs[k] ? *tdm_ir_value_at(graph, inputs[k])->spec : (tdm_spec){0};
    if (inputs[k]) work->bytes_read += (double)tdm_ir_value_at(graph, inputs[k])->bytes;
  }
  tdm_spec *outputs = specs + node->input_count;
  for (uint32_t k = 0; k < node->output_count; k++) {
    const tdm_ir_value *value = tdm_ir_value_at(graph, node->first_output + k);
    outputs[k] = *value->spec;
    work->bytes_written += (double)value->bytes;
  }
  return (tdm_infer){.attributes = node->attributes,
                     .inputs = specs,
                     .input_count = node->input_count,
                     .outputs = outputs,
                     .output_count = node->output_count};
}

tdm_status tdm_work_of(const tdm_graph *graph, const tdm_ir_node *node, tdm_work *out_work) {
  tdm_spec specs[TDM_KERNEL_MAX_INPUTS + TDM_KERNEL_MAX_OUTPUTS];
  const tdm_operation *silent = node->operation ? silent_of(node) : NULL;
  if (silent)
    return tdm_fail(TDM_UNSUPPORTED,
                    "%s: nothing is known of how much work %s is; measure it (tdm_costs_learn)",
                    node->name, silent->name);
  const tdm_infer described = describe(graph, node, specs, out_work);
  if (node->operation) node->operation->work(&described, out_work);
  return TDM_OK;
}

/* ---- Time ------------------------------------------------------------------------------------ */

tdm_status tdm_roofline_ns(const tdm_machine_processor *processor, const tdm_graph *graph,
                           const tdm_ir_node *node, double *out_ns) {
  tdm_work work;
  TDM_TRY(tdm_work_of(graph, node, &work));
  double computing_ns = 0;
  if (work.flops > 0) {
    const tdm_dtype dtype = tdm_ir_value_at(graph, node->first_output)->spec->dtype;
    const double rate = processor->flops_per_ns[dtype];
    if (!(rate > 0))
      return tdm_fail(TDM_UNSUPPORTED, "%s: %s is described without flops_per_second of %s",
                      node->name, processor->model, tdm_dtype_name(dtype));
    computing_ns = work.flops / rate;
  }
  const double bytes = work.bytes_read + work.bytes_written;
  *out_ns = processor->launch_ns + fmax(computing_ns, bytes / processor->memory_bytes_per_ns);
  return TDM_OK;
}
