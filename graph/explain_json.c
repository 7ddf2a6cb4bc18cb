/* A plan as JSON: {"training", "traffic", "commands": [...]}; times in ns, sizes in bytes. */
#include <jansson.h>

#include "graph/explain.h"

static json_t *shape_json(const tdm_shape *shape) {
  json_t *list = json_array();
  for (int i = 0; i < shape->rank; i++)
    json_array_append_new(list, json_integer(shape->dims[i]));
  return list;
}

static json_t *node_json(const tdm_plan *plan, const tdm_ir_node *node) {
  const tdm_ir_value *value = tdm_ir_value_at(&plan->graph, node->first_output);
  json_t *object = json_object();
  json_object_set_new(object, "name", json_string(node->name));
  json_object_set_new(object, "action", json_string(tdm_explain_action(node)));
  json_object_set_new(object, "device", json_string(tdm_explain_device(plan, node->device)));
  json_object_set_new(object, "dtype", json_string(tdm_dtype_name(value->spec.dtype)));
  json_object_set_new(object, "shape", shape_json(&value->spec.shape));
  if (tdm_reads_in_place(&plan->graph, node, 1)) {
    const tdm_ir_value *term = tdm_ir_value_at(&plan->graph, tdm_ir_inputs(&plan->graph, node)[1]);
    json_object_set_new(object, "reads_in_place", json_integer((json_int_t)term->bytes));
    json_object_set_new(object, "reads_from", json_string(tdm_explain_device(plan, term->device)));
  }
  if (node->operation) {
    char members[TDM_EXPLAIN_TEXT];
    if (*tdm_explain_members(node, members))
      json_object_set_new(object, "members", json_string(members));
    return object;
  }
  char cause[TDM_EXPLAIN_TEXT];
  json_object_set_new(object, "cause", json_string(tdm_explain_cause(plan, node, cause)));
  json_object_set_new(object, "bytes", json_integer((json_int_t)value->bytes));
  json_object_set_new(object, "route", json_string(tdm_explain_route(plan, node)));
  const tdm_host_memory memory = tdm_plan_host_memory(plan, node);
  json_object_set_new(object, "memory", json_string(tdm_host_memory_name(memory)));
  json_object_set_new(object, "pageable", json_boolean(memory == TDM_HOST_PAGEABLE));
  json_object_set_new(object, "predicted_ns", json_real(tdm_plan_predict_ns(plan, node)));
  tdm_link_estimate link;
  tdm_plan_link(plan, node, &link);
  json_object_set_new(object, "prediction", json_string(tdm_link_origin_name(link.origin)));
  return object;
}

static json_t *step_json(const tdm_plan *plan, size_t index) {
  const tdm_schedule *schedule = &plan->lowered.schedule;
  const tdm_step *step = &schedule->steps[index];
  const tdm_queue *queue = plan->lowered.queues[step->queue];
  json_t *object = node_json(plan, tdm_ir_node_at(&plan->graph, plan->lowered.sources[index].node));
  json_object_set_new(object, "id", json_integer((json_int_t)index));
  json_object_set_new(object, "queue_device", json_string(queue->device->name));
  json_object_set_new(object, "queue", json_string(tdm_explain_role(queue->role)));
  json_object_set_new(object, "update", json_boolean(step->phase == TDM_PHASE_UPDATE));
  const double measured_ns = tdm_explain_measured_ns(plan, index);
  if (measured_ns >= 0) json_object_set_new(object, "measured_ns", json_real(measured_ns));
  json_t *waits = json_array();
  for (uint32_t k = 0; k < step->wait_count; k++)
    json_array_append_new(waits, json_integer(schedule->waits[step->first_wait + k].step));
  json_object_set_new(object, "waits", waits);
  return object;
}

static json_t *traffic_json(const tdm_traffic *traffic) {
  json_t *object = json_object();
  const struct {
    const char *name;
    uint64_t value;
  } counts[] = {{"edge_transfers", traffic->edge_transfers},
                {"edge_bytes", traffic->edge_bytes},
                {"boundary_transfers", traffic->boundary_transfers},
                {"boundary_bytes", traffic->boundary_bytes},
                {"refresh_transfers", traffic->refresh_transfers},
                {"refresh_bytes", traffic->refresh_bytes}};
  for (size_t i = 0; i < TDM_COUNT_OF(counts); i++)
    json_object_set_new(object, counts[i].name, json_integer((json_int_t)counts[i].value));
  return object;
}

tdm_status tdm_explain_json(const tdm_plan *plan, bool nodes_only, FILE *out) {
  json_t *commands = json_array();
  const size_t count = nodes_only ? plan->graph.order.count : plan->lowered.schedule.step_count;
  for (size_t i = 0; i < count; i++)
    json_array_append_new(
        commands, nodes_only
                      ? node_json(plan, tdm_ir_node_at(&plan->graph, plan->graph.order.items[i]))
                      : step_json(plan, i));
  json_t *root = json_object();
  json_object_set_new(root, "training", json_boolean(plan->training));
  json_object_set_new(root, "traffic", traffic_json(&plan->traffic));
  json_object_set_new(root, "touched_bytes", json_real(plan->touched_bytes));
  json_object_set_new(root, "commands", commands);
  const int failed = root ? json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : 1;
  json_decref(root);
  fputc('\n', out);
  return failed ? tdm_fail(TDM_OUT_OF_MEMORY, "the plan as JSON") : TDM_OK;
}
