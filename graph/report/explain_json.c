/* Prints a plan as JSON: {"training", "passes", "traffic", "network", "common_subexpressions",
 * "shards", "pieces", "device_sums", "touched_bytes", "memory", "sources", "commands": [...]};
 * times in ns, sizes in bytes. Commands read and produce values, which have numbers. Sources are
 * values that no command produces. */
#include "core/json_writer.h"
#include "devices/contract/red_zones.h"
#include "graph/report/explain.h"
#include "graph/report/memory_use.h"

static void put_shape(tdm_json_writer *json, const tdm_shape *shape) {
  tdm_json_open(json, "shape", '[');
  for (int i = 0; i < shape->rank; i++)
    tdm_json_put_integer(json, NULL, shape->dims[i]);
  tdm_json_close(json, ']');
}

static void put_transfer(tdm_json_writer *json, const tdm_plan *plan, const tdm_ir_node *node) {
  const tdm_ir_value *value = tdm_ir_value_at(&plan->graph, node->first_output);
  const char *cause[TDM_CAUSE_PIECES];
  tdm_explain_cause(plan, node, cause);
  tdm_json_put_pieces(json, "cause", cause, TDM_CAUSE_PIECES);
  tdm_json_put_integer(json, "bytes", (int64_t)value->bytes);
  tdm_json_put_string(json, "route", tdm_explain_route(plan, node));
  const tdm_host_memory memory = tdm_plan_host_memory(plan, node);
  tdm_json_put_string(json, "memory", tdm_explain_memory(plan, node));
  tdm_json_put_bool(json, "pageable", memory == TDM_HOST_PAGEABLE);
  tdm_json_put_real(json, "predicted_ns", tdm_plan_predict_ns(plan, node));
  tdm_link_estimate link;
  tdm_plan_link(plan, node, &link);
  tdm_json_put_string(json, "prediction", tdm_link_origin_name(link.origin));
}

static void put_values(tdm_json_writer *json, const tdm_ir_node *node) {
  tdm_json_open(json, "reads", '[');
  for (uint32_t k = 0; k < node->input_count; k++)
    if (node->inputs[k]) tdm_json_put_integer(json, NULL, node->inputs[k]);
  tdm_json_close(json, ']');
  tdm_json_open(json, "makes", '[');
  for (uint32_t k = 0; k < node->output_count; k++)
    tdm_json_put_integer(json, NULL, node->first_output + k);
  tdm_json_close(json, ']');
}

/* Writes the members of a node, inside its object. */
static void put_node(tdm_json_writer *json, const tdm_plan *plan, const tdm_ir_node *node) {
  const tdm_ir_value *value = tdm_ir_value_at(&plan->graph, node->first_output);
  tdm_json_put_string(json, "name", node->name);
  tdm_json_put_string(json, "action", tdm_explain_action(node));
  const tdm_collective collective = (tdm_collective)tdm_ir_collective(node);
  if (collective) tdm_json_put_string(json, "sum", tdm_collective_name(collective));
  tdm_json_put_string(json, "device", tdm_explain_device(plan, node->device));
  tdm_json_put_string(json, "dtype", tdm_dtype_name(value->spec->dtype));
  put_shape(json, &value->spec->shape);
  tdm_json_put_integer(json, "output_bytes", (int64_t)value->bytes);
  put_values(json, node);
  if (tdm_reads_in_place(&plan->graph, node, 1)) {
    const tdm_ir_value *term = tdm_ir_value_at(&plan->graph, node->inputs[1]);
    tdm_json_put_integer(json, "reads_in_place", (int64_t)term->bytes);
    tdm_json_put_string(json, "reads_from", tdm_explain_device(plan, term->device));
  }
  if (!node->operation) {
    put_transfer(json, plan, node);
    return;
  }
  char members[TDM_EXPLAIN_TEXT];
  if (*tdm_explain_members(node, members)) tdm_json_put_string(json, "members", members);
}

/* Writes the steps whose end the step's queue waits for, of its own run or of the preceding one. */
static void put_waits(tdm_json_writer *json, const char *key, const tdm_schedule *schedule,
                      const tdm_step *step, bool previous) {
  tdm_json_open(json, key, '[');
  for (uint32_t k = 0; k < step->wait_count; k++) {
    const tdm_step_wait *wait = &schedule->waits[step->first_wait + k];
    if (wait->previous == previous) tdm_json_put_integer(json, NULL, wait->step);
  }
  tdm_json_close(json, ']');
}

static void put_step(tdm_json_writer *json, const tdm_plan *plan, size_t index) {
  const tdm_schedule *schedule = &plan->lowered.schedule;
  const tdm_step *step = &schedule->steps[index];
  const tdm_queue *queue = plan->lowered.queues[step->queue];
  put_node(json, plan, tdm_ir_node_at(&plan->graph, plan->lowered.sources[index].node));
  tdm_json_put_integer(json, "id", (int64_t)index);
  tdm_json_put_string(json, "queue_device", queue->device->name);
  tdm_json_put_string(json, "queue", tdm_explain_role(queue->role));
  tdm_json_put_bool(json, "update", step->phase == TDM_PHASE_UPDATE);
  if (!tdm_plan_is_usual(plan, tdm_ir_node_at(&plan->graph, plan->lowered.sources[index].node)))
    tdm_json_put_bool(json, "usual", false); /* a run skips it after another run of the same plan */
  const double measured_ns = tdm_explain_measured_ns(plan, index);
  if (measured_ns >= 0) tdm_json_put_real(json, "measured_ns", measured_ns);
  put_waits(json, "waits", schedule, step, false);
  if (schedule->depth > 1) put_waits(json, "waits_of_the_run_before", schedule, step, true);
}

typedef struct named_count {
  const char *name;
  uint64_t value;
} named_count;

static void put_counts(tdm_json_writer *json, const char *key, const named_count *counts,
                       size_t count) {
  tdm_json_open(json, key, '{');
  for (size_t i = 0; i < count; i++)
    tdm_json_put_integer(json, counts[i].name, (int64_t)counts[i].value);
  tdm_json_close(json, '}');
}

static void put_traffic(tdm_json_writer *json, const tdm_traffic *traffic) {
  const named_count counts[] = {{"edge_transfers", traffic->edge_transfers},
                                {"edge_bytes", traffic->edge_bytes},
                                {"boundary_transfers", traffic->boundary_transfers},
                                {"boundary_bytes", traffic->boundary_bytes},
                                {"refresh_transfers", traffic->refresh_transfers},
                                {"refresh_bytes", traffic->refresh_bytes}};
  put_counts(json, "traffic", counts, TDM_COUNT_OF(counts));
}

/* Writes the traffic between this rank and the others. */
static void put_network(tdm_json_writer *json, const tdm_network_traffic *network) {
  const named_count counts[] = {{"sent_messages", network->sent_messages},
                                {"sent_bytes", network->sent_bytes},
                                {"received_messages", network->received_messages},
                                {"received_bytes", network->received_bytes},
                                {"reduced_sums", network->reduced_sums},
                                {"reduced_bytes", network->reduced_bytes},
                                {"exchanges", network->exchanges},
                                {"exchanged_bytes", network->exchanged_bytes},
                                {"device_sums", network->device_sums},
                                {"device_bytes", network->device_bytes}};
  put_counts(json, "network", counts, TDM_COUNT_OF(counts));
}

static void put_common(tdm_json_writer *json, const tdm_common_savings *common) {
  tdm_json_open(json, "common_subexpressions", '{');
  tdm_json_put_integer(json, "nodes", (int64_t)common->nodes);
  tdm_json_put_integer(json, "bytes", (int64_t)common->bytes);
  tdm_json_close(json, '}');
}

static void put_sums(tdm_json_writer *json, const tdm_collective_choice *sums) {
  tdm_json_open(json, "device_sums", '{');
  tdm_json_put_integer(json, "sums", (int64_t)sums->sums);
  tdm_json_put_integer(json, "bytes", (int64_t)sums->bytes);
  tdm_json_put_integer(json, "updated_by_every_device", (int64_t)sums->own_updates);
  tdm_json_put_string(json, "algorithm", tdm_collective_name(sums->algorithm));
  tdm_json_put_string(json, "reason", sums->reason);
  tdm_json_put_integer(json, "all_reduced_by_devices",
                       sums->algorithm == TDM_COLLECTIVE_ALL_REDUCE ? (int64_t)sums->on_devices
                                                                    : 0);
  tdm_json_put_string(json, "engine", sums->engine);
  tdm_json_put_string(json, "engine_absence", sums->engine_absence);
  tdm_json_open(json, "predicted_ns", '{');
  for (int algorithm = TDM_COLLECTIVE_HOME; algorithm < TDM_COLLECTIVE_COUNT; algorithm++)
    tdm_json_put_real(json, tdm_collective_name((tdm_collective)algorithm),
                      sums->predicted_ns[algorithm]);
  tdm_json_close(json, '}');
  tdm_json_close(json, '}');
}

static void put_shards(tdm_json_writer *json, const tdm_shard_traffic *shards) {
  tdm_json_open(json, "shards", '{');
  tdm_json_put_integer(json, "look_ups", (int64_t)shards->look_ups);
  tdm_json_put_integer(json, "id_bytes", (int64_t)shards->id_bytes);
  tdm_json_put_integer(json, "row_bytes", (int64_t)shards->row_bytes);
  tdm_json_put_integer(json, "padded_bytes", (int64_t)shards->padded_bytes);
  tdm_json_put_integer(json, "dropped_bytes", 0);
  tdm_json_close(json, '}');
}

/* Writes the parameters of parallel regions that are in pieces, or the reason why none is. */
static void put_pieces(tdm_json_writer *json, const tdm_plan *plan) {
  tdm_json_open(json, "pieces", '{');
  tdm_json_put_integer(json, "parameters", (int64_t)plan->shards.gathered);
  if (plan->whole_reason) tdm_json_put_string(json, "whole", plan->whole_reason);
  tdm_json_close(json, '}');
}

static void put_memory(tdm_json_writer *json, const tdm_plan *plan) {
  tdm_context *context = plan->graph.context;
  tdm_json_open(json, "memory", '[');
  for (size_t d = 0; d < tdm_device_count(context); d++) {
    const tdm_device *device = tdm_context_device(context, d);
    tdm_memory_use use;
    tdm_plan_memory_use(plan, device, &use);
    tdm_json_open(json, NULL, '{');
    tdm_json_put_string(json, "device", device->name);
    tdm_json_put_integer(json, "parameters_bytes", (int64_t)use.parameters_bytes);
    tdm_json_put_integer(json, "copies_bytes", (int64_t)use.copies_bytes);
    tdm_json_put_integer(json, "activations_bytes", (int64_t)use.activations_bytes);
    tdm_json_put_integer(json, "outputs_bytes", (int64_t)use.outputs_bytes);
    tdm_json_close(json, '}');
  }
  tdm_json_close(json, ']');
}

static void put_sources(tdm_json_writer *json, const tdm_graph *graph) {
  tdm_json_open(json, "sources", '[');
  for (uint32_t v = 1; v < graph->values.count; v++) {
    const tdm_ir_value *value = tdm_ir_value_at(graph, v);
    if (value->producer || !value->name) continue;
    tdm_json_open(json, NULL, '{');
    tdm_json_put_integer(json, "value", v);
    tdm_json_put_string(json, "name", value->name);
    tdm_json_close(json, '}');
  }
  tdm_json_close(json, ']');
}

static void put_nodes(tdm_json_writer *json, const tdm_plan *plan) {
  TDM_EACH_NODE(&plan->graph, node) {
    tdm_json_open(json, NULL, '{');
    put_node(json, plan, node);
    tdm_json_close(json, '}');
  }
}

static void put_steps(tdm_json_writer *json, const tdm_plan *plan) {
  for (size_t i = 0; i < plan->lowered.schedule.step_count; i++) {
    tdm_json_open(json, NULL, '{');
    put_step(json, plan, i);
    tdm_json_close(json, '}');
  }
}

static void put_passes(tdm_json_writer *json, const tdm_plan *plan) {
  tdm_json_open(json, "passes", '[');
  for (size_t i = 0; i < tdm_pass_count; i++) {
    tdm_json_open(json, NULL, '{');
    tdm_json_put_string(json, "name", tdm_passes[i].name);
    tdm_json_put_bool(json, "applied", plan->pass_times[i].applied);
    tdm_json_put_integer(json, "ns", (int64_t)plan->pass_times[i].ns);
    tdm_json_close(json, '}');
  }
  tdm_json_close(json, ']');
}

tdm_status tdm_explain_json(const tdm_plan *plan, bool nodes_only, FILE *out) {
  tdm_json_writer json;
  tdm_json_writer_init(&json, tdm_json_write_stream, out);
  tdm_json_open(&json, NULL, '{');
  tdm_json_put_bool(&json, "training", plan->training);
  put_passes(&json, plan);
  put_traffic(&json, &plan->traffic);
  if (!nodes_only && tdm_context_rank_count(plan->graph.context) > 1)
    put_network(&json, &plan->network);
  put_common(&json, &plan->common);
  if (plan->shards.look_ups > 0) put_shards(&json, &plan->shards);
  if (tdm_explain_has_pieces(plan)) put_pieces(&json, plan);
  if (plan->sums.sums > 0) put_sums(&json, &plan->sums);
  tdm_json_put_integer(&json, "touched_bytes", (int64_t)plan->touched_bytes);
  if (tdm_context_red_zones(plan->graph.context)) tdm_json_put_bool(&json, "red_zones", true);
  if (!nodes_only) put_memory(&json, plan);
  put_sources(&json, &plan->graph);
  tdm_json_open(&json, "commands", '[');
  if (nodes_only)
    put_nodes(&json, plan);
  else
    put_steps(&json, plan);
  tdm_json_close(&json, ']');
  tdm_json_close(&json, '}');
  TDM_TRY(tdm_json_writer_finish(&json));
  return tdm_json_write_stream(out, "\n", 1);
}
