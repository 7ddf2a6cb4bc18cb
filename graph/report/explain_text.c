/* Prints a plan for a human reader: traffic, then every command in plan order with its queue, its
 * shape or bytes, and its waits. */
#include <stdio.h>

#include "devices/contract/red_zones.h"
#include "graph/report/explain.h"
#include "graph/report/picture.h"

static void print_bytes(uint64_t bytes, FILE *out) {
  char text[TDM_BYTES_TEXT];
  fputs(tdm_bytes_text(bytes, text), out);
}

static void print_count(const char *what, uint64_t count, uint64_t bytes, FILE *out) {
  fprintf(out, "  %-9s %llu transfer%s, ", what, (unsigned long long)count, count == 1 ? "" : "s");
  print_bytes(bytes, out);
  fputc('\n', out);
}

/* Prints all arenas of the arena's device in one line; the first of them represents all. */
static void print_activations(const tdm_plan *plan, uint32_t arena, FILE *out) {
  const tdm_schedule *schedule = &plan->lowered.schedule;
  uint64_t bytes = 0;
  for (uint32_t a = 0; a < schedule->arena_count; a++) {
    if (plan->arena_devices[a] != plan->arena_devices[arena]) continue;
    if (a < arena) return;
    bytes += schedule->arena_bytes[a];
  }
  fprintf(out, "  %-9s activations of ", plan->arena_devices[arena]->name);
  print_bytes(bytes, out);
  fputc('\n', out);
}

/* Prints the engine of the all-reduces, and why other sums do not use an engine of their kind. */
static void print_engine(const tdm_collective_choice *sums, FILE *out) {
  if (sums->algorithm != TDM_COLLECTIVE_ALL_REDUCE) return;
  if (sums->on_devices > 0)
    fprintf(out, "  %-9s %llu by the devices themselves, through %s\n", "",
            (unsigned long long)sums->on_devices, sums->engine);
  if (sums->engine_absence[0])
    fprintf(out, "  %-9s through hosts, since %s\n", "", sums->engine_absence);
}

/* Prints the algorithm of the sums that only updates use, the reason, and the prediction for each
 * algorithm. */
static void print_sums(const tdm_collective_choice *sums, FILE *out) {
  if (sums->sums == 0) return;
  fprintf(out, "  %-9s %llu of gradients over devices, ", "sums", (unsigned long long)sums->sums);
  print_bytes(sums->bytes, out);
  fprintf(out, ", %s: %s; ", tdm_collective_name(sums->algorithm), sums->reason);
  fprintf(out, "%llu updated by every device\n", (unsigned long long)sums->own_updates);
  print_engine(sums, out);
  fprintf(out, "  %-9s busiest link", "");
  for (int algorithm = TDM_COLLECTIVE_HOME; algorithm < TDM_COLLECTIVE_COUNT; algorithm++) {
    if (sums->predicted_ns[algorithm] > 0)
      fprintf(out, "%s %.1f us %s", algorithm == TDM_COLLECTIVE_HOME ? "" : ",",
              sums->predicted_ns[algorithm] / 1000, tdm_collective_name((tdm_collective)algorithm));
  }
  fputc('\n', out);
}

/* Prints the traffic of look-ups in sharded tables, and how much of all results is padding. */
static void print_shards(const tdm_shard_traffic *shards, FILE *out) {
  if (shards->look_ups == 0) return;
  fprintf(out, "  %-9s %llu look-up%s of tables by rows: ids of ", "shards",
          (unsigned long long)shards->look_ups, shards->look_ups == 1 ? "" : "s");
  print_bytes(shards->id_bytes, out);
  fputs(" read elsewhere, ", out);
  print_bytes(shards->row_bytes, out);
  fputs(" answered from there; padded ", out);
  print_bytes(shards->padded_bytes, out);
  fputs(" of all answers, dropped nothing\n", out);
}

/* Prints the parameters of parallel regions that are in pieces, or the reason why none is. */
static void print_pieces(const tdm_plan *plan, FILE *out) {
  if (!tdm_explain_has_pieces(plan)) return;
  const unsigned long long count = plan->shards.gathered;
  fprintf(out, "  %-9s ", "pieces");
  if (plan->whole_reason)
    fprintf(out, "none: %s\n", plan->whole_reason);
  else
    fprintf(out, "of %llu parameter%s, put together where %s read\n", count, count == 1 ? "" : "s",
            count == 1 ? "it is" : "they are");
}

/* Prints the passes that ran, with their times, several per line. */
static void print_passes(const tdm_plan *plan, FILE *out) {
  enum { A_LINE = 5 };
  int printed = 0;
  for (size_t i = 0; i < tdm_pass_count; i++) {
    const tdm_pass_time *time = &plan->pass_times[i];
    if (!time->applied) continue;
    if (printed % A_LINE == 0)
      fprintf(out, "%s  %-9s ", printed ? ",\n" : "", printed ? "" : "passes");
    fprintf(out, "%s%s %.1f us", printed % A_LINE ? ", " : "", tdm_passes[i].name,
            (double)time->ns / 1000);
    printed++;
  }
  fputc('\n', out);
}

static void print_head(const tdm_plan *plan, FILE *out) {
  const tdm_schedule *schedule = &plan->lowered.schedule;
  fprintf(out, "%s plan: %zu commands on %u queues%s, made in %.0f us\n",
          plan->training ? "training" : "evaluation", schedule->step_count, schedule->queue_count,
          schedule->two_phase ? ", updates in a phase of their own" : "",
          (double)plan->made_ns / 1000);
  print_passes(plan, out);
  print_count("edges", plan->traffic.edge_transfers, plan->traffic.edge_bytes, out);
  print_count("boundary", plan->traffic.boundary_transfers, plan->traffic.boundary_bytes, out);
  print_count("refresh", plan->traffic.refresh_transfers, plan->traffic.refresh_bytes, out);
  if (tdm_context_rank_count(plan->graph.context) > 1) {
    const tdm_network_traffic *network = &plan->network;
    print_count("sent", network->sent_messages, network->sent_bytes, out);
    print_count("received", network->received_messages, network->received_bytes, out);
    if (network->reduced_sums > 0)
      print_count("reduced", network->reduced_sums, network->reduced_bytes, out);
    if (network->exchanges > 0)
      print_count("exchanged", network->exchanges, network->exchanged_bytes, out);
    if (network->device_sums > 0)
      print_count("summed", network->device_sums, network->device_bytes, out);
  }
  if (plan->common.nodes > 0) {
    fprintf(out, "  %-9s %llu node%s not computed again, ", "common",
            (unsigned long long)plan->common.nodes, plan->common.nodes == 1 ? "" : "s");
    print_bytes(plan->common.bytes, out);
    fputc('\n', out);
  }
  print_shards(&plan->shards, out);
  print_pieces(plan, out);
  print_sums(&plan->sums, out);
  for (uint32_t a = 0; plan->arena_devices && a < schedule->arena_count; a++)
    print_activations(plan, a, out);
  if (tdm_context_red_zones(plan->graph.context))
    fprintf(out, "  red zones: every value in memory of its own, as TANDEM_RED_ZONES requires\n");
}

static void print_transfer(const tdm_plan *plan, const tdm_ir_node *node, FILE *out) {
  const char *cause[TDM_CAUSE_PIECES];
  const uint32_t from = node->inputs[0];
  tdm_explain_cause(plan, node, cause);
  fprintf(out, "%-18s ", tdm_explain_action(node));
  for (size_t i = 0; i < TDM_CAUSE_PIECES; i++)
    fputs(cause[i], out);
  fputs(", ", out);
  fprintf(out, "%s to ", tdm_explain_device(plan, tdm_ir_value_at(&plan->graph, from)->device));
  fprintf(out, "%s, ", tdm_explain_device(plan, node->device));
  print_bytes(tdm_ir_value_at(&plan->graph, node->first_output)->bytes, out);
  tdm_link_estimate link;
  tdm_plan_link(plan, node, &link);
  fprintf(out, ", %s, %s, predicted %.1f us (%s)", tdm_explain_route(plan, node),
          tdm_explain_memory(plan, node), tdm_plan_predict_ns(plan, node) / 1000,
          tdm_link_origin_name(link.origin));
}

static void print_node(const tdm_plan *plan, const tdm_ir_node *node, FILE *out) {
  static const char *const roles[] = {[TDM_ROLE_GRADIENT] = " (backward)",
                                      [TDM_ROLE_UPDATE] = " (update)",
                                      [TDM_ROLE_REORDER] = " (layout)",
                                      [TDM_ROLE_REFRESH] = " (refresh)"};
  char text[TDM_SHAPE_TEXT], members[TDM_EXPLAIN_TEXT];
  if (!node->operation) {
    print_transfer(plan, node, out);
    return;
  }
  const tdm_spec *spec = tdm_ir_value_at(&plan->graph, node->first_output)->spec;
  fprintf(out, "%-18s %s%s, ", tdm_explain_action(node), node->name,
          roles[node->role] ? roles[node->role] : "");
  if (*tdm_explain_members(node, members)) fprintf(out, "of %s, ", members);
  fprintf(out, "%s %s", tdm_dtype_name(spec->dtype),
          tdm_shape_text(&spec->shape, text, sizeof text));
}

static void print_read_in_place(const tdm_plan *plan, const tdm_ir_node *node, FILE *out) {
  if (!tdm_reads_in_place(&plan->graph, node, 1)) return;
  const tdm_ir_value *term = tdm_ir_value_at(&plan->graph, node->inputs[1]);
  fputs(", reads ", out);
  print_bytes(term->bytes, out);
  fprintf(out, " of %s in place", tdm_explain_device(plan, term->device));
}

static void print_storage(const tdm_plan *plan, const tdm_ir_node *node, FILE *out) {
  const uint32_t storage = plan->lowered.storage_of[node->first_output];
  if (storage == UINT32_MAX) return;
  const tdm_storage_plan *place = &plan->lowered.schedule.storages[storage];
  if (place->kind != TDM_STORAGE_ARENA) return;
  const uint64_t at = place->offset + tdm_ir_value_at(&plan->graph, node->first_output)->offset;
  fprintf(out, ", at %llu", (unsigned long long)at);
}

static void print_collective(const tdm_ir_node *node, FILE *out) {
  const tdm_collective collective = (tdm_collective)tdm_ir_collective(node);
  if (collective) fprintf(out, ", of a sum over devices, %s", tdm_collective_name(collective));
}

enum { QUEUE_TEXT = 64, LEAST_QUEUE_WIDTH = 16 };

/* Writes "sim:0 upload" to name (QUEUE_TEXT) and returns its length. */
static int tell_queue(const tdm_queue *queue, char *name) {
  return snprintf(name, QUEUE_TEXT, "%s %s", queue->device->name, tdm_explain_role(queue->role));
}

/* Returns the width of the column for queues, whose names are long if they include ranks. */
static int queue_width(const tdm_plan *plan) {
  int width = LEAST_QUEUE_WIDTH;
  for (uint32_t q = 0; q < plan->lowered.schedule.queue_count; q++) {
    char name[QUEUE_TEXT];
    const int length = tell_queue(plan->lowered.queues[q], name);
    if (length > width) width = length;
  }
  return width;
}

static void print_step(const tdm_plan *plan, size_t index, int width, FILE *out) {
  const tdm_schedule *schedule = &plan->lowered.schedule;
  const tdm_step *step = &schedule->steps[index];
  char name[QUEUE_TEXT];
  (void)tell_queue(plan->lowered.queues[step->queue], name);
  fprintf(out, "%5zu  %-*s ", index, width, name);
  const tdm_ir_node *node = tdm_ir_node_at(&plan->graph, plan->lowered.sources[index].node);
  print_node(plan, node, out);
  print_collective(node, out);
  print_read_in_place(plan, node, out);
  print_storage(plan, node, out);
  const double measured_ns = tdm_explain_measured_ns(plan, index);
  if (measured_ns >= 0) fprintf(out, ", measured %.1f us", measured_ns / 1000);
  for (uint32_t k = 0; k < step->wait_count; k++) {
    const tdm_step_wait *wait = &schedule->waits[step->first_wait + k];
    fprintf(out, "%s%u%s", k ? ", " : "; waits for ", wait->step,
            wait->previous ? " of the run before" : "");
  }
  fputc('\n', out);
}

tdm_status tdm_explain_text(const tdm_plan *plan, bool nodes_only, FILE *out) {
  if (!nodes_only) {
    print_head(plan, out);
    const int width = queue_width(plan);
    for (size_t i = 0; i < plan->lowered.schedule.step_count; i++)
      print_step(plan, i, width, out);
    return TDM_OK;
  }
  size_t place = 0;
  TDM_EACH_NODE(&plan->graph, node) {
    fprintf(out, "%5zu  %-8s ", place++, tdm_explain_device(plan, node->device));
    print_node(plan, node, out);
    fputc('\n', out);
  }
  return TDM_OK;
}
