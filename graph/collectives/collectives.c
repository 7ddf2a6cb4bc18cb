/* Collectives: finds the sums over devices, chooses an algorithm for each, and inserts them.
 *
 * The sums that only updates use share one algorithm: the one whose busiest link is predicted to be
 * busy for the shortest time. The candidates are: at home, in chains, by all-reduces of the engine
 * that connects ranks, or around. Around means in a ring or a tree, whichever is quicker for the
 * sum. With sums around or by all-reduces, devices update their own copies. All other sums are made
 * at home. If optimizer states are sharded, sums go to their homes, except those whose parameters
 * are updated everywhere.
 *
 * Except at home, devices take turns in plan order, so that each adds directly after the gradient
 * that it adds to. Invariant: with `deterministic` terms are added in their order. */
#include "graph/collectives/collectives.h"

#include <stdio.h>
#include <string.h>

#include "devices/machine/machine.h"
#include "graph/collectives/sums.h"
#include "graph/passes/device_sums.h"

static bool is_sum(const tdm_ir_node *node) {
  return node->operation == &tdm_operation_device_sum;
}

/* ---- Finding --------------------------------------------------------------------------------- */

static void note_devices(const tdm_graph *graph, tdm_sum *sum) {
  const tdm_ir_node *node = sum->node;
  for (uint32_t k = 0; k < node->input_count; k++) {
    const int16_t device = tdm_place_of(graph, node->inputs[k]);
    uint32_t i = 0;
    while (i < sum->count && sum->devices[i] != device)
      i++;
    if (i == sum->count) sum->devices[sum->count++] = device;
  }
}

static tdm_status note_sum(tdm_sums *sums, tdm_ir_node *node) {
  const tdm_device_sum_attributes *attributes = node->attributes;
  const tdm_graph *graph = sums->graph;
  tdm_sum *sum = &sums->items[sums->count++];
  *sum = (tdm_sum){.node = node, .value = node->first_output, .late = attributes->late};
  sum->devices =
      tdm_region_take(sums->region, node->input_count * sizeof *sum->devices, "collectives");
  sum->totals =
      tdm_region_take(sums->region, node->input_count * sizeof *sum->totals, "collectives");
  if (!sum->devices || !sum->totals) return TDM_OUT_OF_MEMORY;
  note_devices(graph, sum);
  sum->can_chain = tdm_can_chain(graph, sum);
  sum->can_go_around = sums->updates && tdm_can_go_around(graph, sum);
  sum->can_come_home = sums->updates && tdm_can_come_home(graph, sum);
  sum->can_all_reduce = sums->updates && tdm_can_all_reduce(graph, sum);
  return TDM_OK;
}

static tdm_status find_sums(tdm_sums *sums) {
  size_t count = 0;
  TDM_EACH_NODE(sums->graph, node)
    count += is_sum(node);
  sums->updates = tdm_first_of_role(sums->graph, TDM_ROLE_UPDATE);
  sums->items = tdm_region_take(sums->region, (count + 1) * sizeof *sums->items, "collectives");
  if (!sums->items) return TDM_OUT_OF_MEMORY;
  TDM_EACH_NODE(sums->graph, node)
    if (is_sum(node)) TDM_TRY(note_sum(sums, node));
  return tdm_find_own_updates(sums);
}

/* ---- Choosing -------------------------------------------------------------------------------- */

/* Returns true if memory suffices: a described device has its described size; for others the size
 * is unknown. */
static bool has_room(const tdm_sums *sums) {
  const struct tdm_machine *machine = tdm_context_machine(sums->graph->context);
  const double limit = machine ? machine->device.memory_bytes : 0;
  double bytes = 0;
  for (size_t i = 0; i < sums->count; i++)
    if (sums->items[i].can_own) bytes += 2 * tdm_sum_bytes(sums->graph, &sums->items[i]);
  for (size_t i = 0; i < sums->graph->persistents.count; i++)
    bytes += (double)tdm_ir_value_at(sums->graph, sums->graph->persistents.items[i].value)->bytes;
  return limit <= 0 || bytes <= limit;
}

static void count_late(const tdm_sums *sums, tdm_collective_choice *choice) {
  for (size_t i = 0; i < sums->count; i++) {
    const tdm_sum *sum = &sums->items[i];
    if (!sum->late || sum->count < 2) continue;
    choice->sums++;
    choice->bytes += (uint64_t)tdm_sum_bytes(sums->graph, sum);
  }
}

/* Finds which sums the devices make themselves if all-reduces are chosen. */
static void find_engines(const tdm_sums *sums, tdm_collective_choice *choice) {
  for (size_t i = 0; i < sums->count; i++) {
    char text[TDM_GROUP_REASON_BYTES];
    tdm_sum *sum = &sums->items[i];
    if (!sum->can_all_reduce) continue;
    const char *engine = tdm_sum_engine(sums->graph, sum, text);
    sum->on_devices = engine != NULL;
    choice->on_devices += sum->on_devices;
    if (engine) (void)snprintf(choice->engine, sizeof choice->engine, "%s", engine);
    if (!engine && !choice->engine_absence[0])
      memcpy(choice->engine_absence, text, sizeof choice->engine_absence);
  }
}

static bool is_quicker(const tdm_collective_choice *choice, tdm_collective a, tdm_collective b) {
  return choice->predicted_ns[a] > 0 && choice->predicted_ns[a] < choice->predicted_ns[b];
}

const char *tdm_collective_name(tdm_collective collective) {
  static const char *const names[TDM_COLLECTIVE_COUNT] = {"auto", "home", "chain",
                                                          "ring", "tree", "all-reduce"};
  return (unsigned)collective < TDM_COLLECTIVE_COUNT ? names[collective] : NULL;
}

/* Chooses the quickest algorithm. If latencies dominate, the only candidates are sums at home and
 * all-reduces, which need few messages. */
static void choose_quickest(const tdm_sums *sums, bool latencies, tdm_collective_choice *choice) {
  static const tdm_collective around[] = {TDM_COLLECTIVE_RING, TDM_COLLECTIVE_TREE};
  if (!has_room(sums)) {
    choice->reason = "no room for updates of their own";
    return;
  }
  if (!latencies) choice->reason = "predicted to be the quickest";
  for (size_t i = 0; i < TDM_COUNT_OF(around) && !latencies; i++)
    if (is_quicker(choice, around[i], choice->algorithm)) choice->algorithm = around[i];
  if (!is_quicker(choice, TDM_COLLECTIVE_ALL_REDUCE, choice->algorithm)) return;
  choice->algorithm = TDM_COLLECTIVE_ALL_REDUCE;
  choice->reason = "predicted to be the quickest";
}

/* Returns true if optimizer states are sharded, so that parameters have several homes. Traffic is
 * then spread over links as in a ring, and half of it takes place in the next run. */
static bool shards_states(const tdm_graph *graph) {
  for (size_t w = 1; w < graph->parallel_regions.count; w++)
    if (graph->parallel_regions.items[w].sharding != TDM_SHARDING_NONE) return true;
  return false;
}

static void choose(const tdm_sums *sums, const tdm_collective_request *request,
                   tdm_collective_choice *choice) {
  choice->algorithm = request->asked;
  choice->reason = "as asked";
  if (request->asked != TDM_COLLECTIVE_AUTO) return;
  choice->algorithm = TDM_COLLECTIVE_HOME;
  choice->reason = "optimizer states are sharded";
  if (shards_states(sums->graph)) return;
  choice->reason = "mostly latencies";
  const bool latencies = tdm_home_ns(sums) <= 2 * tdm_home_latencies_ns(sums);
  if (!latencies && is_quicker(choice, TDM_COLLECTIVE_CHAIN, choice->algorithm))
    choice->algorithm = TDM_COLLECTIVE_CHAIN;
  if (!request->deterministic)
    choose_quickest(sums, latencies, choice);
  else if (!latencies)
    choice->reason = "in the order of replicas, as `deterministic` requires";
}

/* Chooses ring or tree; a ring requires an element in each piece. */
static tdm_collective around_by(const tdm_graph *graph, const tdm_sum *sum,
                                const tdm_collective_request *request, tdm_collective algorithm) {
  const bool asked = request->asked == TDM_COLLECTIVE_RING;
  const bool tree =
      asked ? tdm_shape_count(tdm_sum_shape(graph, sum)) < sum->count : tdm_is_for_tree(graph, sum);
  return tree ? TDM_COLLECTIVE_TREE : algorithm;
}

/* Returns true if the sum goes around although states are sharded, because all devices update its
 * parameter. */
static bool goes_everywhere(const tdm_sum *sum, const tdm_collective_request *request) {
  return request->asked == TDM_COLLECTIVE_AUTO && !request->deterministic && sum->everywhere &&
         sum->can_go_around && sum->can_own;
}

static void choose_for(const tdm_sums *sums, const tdm_collective_request *request,
                       tdm_collective_choice *choice, tdm_sum *sum) {
  if (goes_everywhere(sum, request)) {
    sum->algorithm = around_by(sums->graph, sum, request, TDM_COLLECTIVE_RING);
    sum->own = true;
    choice->own_updates++;
    return;
  }
  const bool around =
      choice->algorithm == TDM_COLLECTIVE_RING || choice->algorithm == TDM_COLLECTIVE_TREE;
  const bool wanted = sum->can_own || request->asked != TDM_COLLECTIVE_AUTO;
  sum->algorithm = TDM_COLLECTIVE_HOME;
  sum->comes_home =
      choice->algorithm == TDM_COLLECTIVE_HOME && sum->can_come_home && shards_states(sums->graph);
  if (choice->algorithm == TDM_COLLECTIVE_CHAIN && sum->can_chain)
    sum->algorithm = TDM_COLLECTIVE_CHAIN;
  const bool reduced = choice->algorithm == TDM_COLLECTIVE_ALL_REDUCE && sum->can_all_reduce;
  if (!reduced && (!around || !sum->can_go_around || !wanted)) return;
  sum->algorithm =
      reduced ? choice->algorithm : around_by(sums->graph, sum, request, choice->algorithm);
  sum->own = sum->can_own;
  choice->own_updates += sum->own;
}

/* Makes the home the tree's root, if it has terms. */
static void put_home_first(tdm_sum *sum) {
  for (uint32_t i = 1; i < sum->count && sum->algorithm == TDM_COLLECTIVE_TREE; i++) {
    if (sum->devices[i] != sum->node->device) continue;
    memmove(sum->devices + 1, sum->devices, i * sizeof *sum->devices);
    sum->devices[0] = sum->node->device;
  }
}

/* ---- Lowering -------------------------------------------------------------------------------- */

/* Reorders the devices' nodes so that devices take turns in plan order, each in its own order. So
 * far replicas follow each other, and all hops of a chain would be after the last one. */
static tdm_status take_turns(const tdm_sums *sums, uint32_t *ranks, uint32_t *turns) {
  tdm_graph *graph = sums->graph;
  uint32_t rank_count = 1;
  TDM_EACH_NODE(graph, node) {
    if (node == sums->updates) break;
    if (node->role == TDM_ROLE_REFRESH)
      continue; /* refresh nodes come before all others and are
                 * not reordered */
    uint32_t rank = is_sum(node) ? 0 : turns[node->device] + 1;
    for (uint32_t k = 0; k < node->input_count; k++) {
      const uint32_t producer = tdm_ir_value_at(graph, node->inputs[k])->producer;
      if (ranks[producer] > rank) rank = ranks[producer];
    }
    ranks[node->index] = rank;
    if (!is_sum(node)) turns[node->device] = rank;
    if (rank >= rank_count) rank_count = rank + 1;
  }
  return tdm_sort_nodes(graph, sums->updates, ranks, rank_count);
}

static tdm_status interleave(const tdm_sums *sums) {
  const tdm_graph *graph = sums->graph;
  uint32_t *ranks =
      tdm_region_take(sums->region, graph->nodes.count * sizeof *ranks, "collectives");
  uint32_t *turns = tdm_region_take(sums->region, tdm_device_count(graph->context) * sizeof *turns,
                                    "collectives");
  return ranks && turns ? take_turns(sums, ranks, turns) : TDM_OUT_OF_MEMORY;
}

static tdm_status lower_sums(const tdm_sums *sums) {
  bool at_home = true;
  for (size_t i = 0; i < sums->count; i++)
    at_home &= sums->items[i].algorithm == TDM_COLLECTIVE_HOME && !sums->items[i].comes_home;
  if (!at_home) TDM_TRY(interleave(sums));
  for (size_t i = 0; i < sums->count; i++)
    if (sums->items[i].algorithm == TDM_COLLECTIVE_HOME && !sums->items[i].comes_home)
      TDM_TRY(tdm_sum_at_home(sums->graph, &sums->items[i]));
  for (size_t i = 0; i < sums->count; i++)
    if (sums->items[i].algorithm == TDM_COLLECTIVE_CHAIN)
      TDM_TRY(tdm_sum_in_chain(sums, &sums->items[i]));
  TDM_TRY(tdm_sum_by_all_reduces(sums));
  TDM_TRY(tdm_sum_in_rounds(sums));
  return tdm_insert_own_updates(sums);
}

static tdm_status run(tdm_sums *sums, const tdm_collective_request *request,
                      tdm_collective_choice *choice) {
  TDM_TRY(find_sums(sums));
  count_late(sums, choice);
  find_engines(sums, choice);
  if (choice->sums > 0) {
    tdm_predict_sums(sums, choice->predicted_ns);
    choose(sums, request, choice);
  }
  for (size_t i = 0; i < sums->count; i++) {
    choose_for(sums, request, choice, &sums->items[i]);
    put_home_first(&sums->items[i]);
  }
  return lower_sums(sums);
}

tdm_status tdm_pass_collectives(tdm_graph *graph, const tdm_collective_request *request,
                                tdm_collective_choice *out_choice) {
  *out_choice = (tdm_collective_choice){.reason = ""};
  tdm_region scratch;
  tdm_region_init(&scratch, graph->allocator);
  tdm_sums sums = {.graph = graph, .region = &scratch};
  const tdm_status status = run(&sums, request, out_choice);
  tdm_region_deinit(&scratch);
  return status;
}
