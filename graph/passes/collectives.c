/* Collectives: every sum over devices becomes copies and additions.
 *
 *   at home   each term crosses to the sum's device, where it is added into one total.
 *   in a chain the first term goes to the second's device, which adds its own and sends the total
 *             on, piece by piece; the last device sends it home. Every link carries the value once,
 *             whatever the number of terms, where the home's carries all of them otherwise.
 *
 * Both add the terms in their order, so they give the same bits. Chains are for sums that only
 * updates need, all of them or none: devices take turns in plan order then, so that each adds right
 * behind the gradient that it adds to, and is a hop's time behind the one before it. Invariant: a
 * term is overwritten only if nobody else reads it; the sum keeps its value, which its readers
 * read. */
#include "graph/passes/collectives.h"

#include <string.h>

#include "devices/context/route.h"
#include "devices/kernels.h"
#include "devices/links/links.h"
#include "graph/ir/rewriter.h"
#include "graph/passes/parts.h"

enum { LEAST_PIECE_NS = 80000 }; /* a piece travels: less, and starting kernels takes longer */

typedef struct chain {
  tdm_ir_node *sum;
  uint32_t term_count;
  size_t piece_count;
  uint32_t totals[TDM_MOST_PIECES]; /* so far */
} chain;

typedef struct collective_state {
  tdm_graph *graph;
  tdm_collective asked;
  chain *chains; /* (chain_count), in plan order */
  size_t chain_count;
} collective_state;

static bool is_sum(const tdm_ir_node *node) {
  return node->operation == &tdm_operation_device_sum;
}

/* ---- What it costs --------------------------------------------------------------------------- */

static tdm_device *device_of(const tdm_graph *graph, int16_t device) {
  return tdm_context_device(graph->context, (size_t)device);
}

static int16_t place_of(const tdm_graph *graph, uint32_t value) {
  return tdm_ir_value_at(graph, value)->device;
}

double tdm_predict_copy_ns(const tdm_graph *graph, int16_t from, int16_t to, double bytes) {
  if (from == to) return 0;
  const tdm_route route = tdm_route_between(device_of(graph, from), device_of(graph, to));
  double ns = 0;
  for (uint32_t i = 0; i < route.count; i++) {
    tdm_link_estimate link;
    tdm_context_link(graph->context, route.hops[i].from, route.hops[i].to, true, &link);
    ns += tdm_link_predict_ns(&link, bytes);
  }
  return ns;
}

/* All terms come in by one link, one after the other; what is read in place costs no copy. */
static double home_ns(const tdm_graph *graph, const tdm_ir_node *sum, double bytes) {
  double ns = 0;
  for (uint32_t i = 0; i < sum->input_count; i++) {
    const int16_t from = place_of(graph, sum->inputs[i]);
    if (i > 0 && tdm_shares_memory(graph, from, sum->device)) continue;
    ns += tdm_predict_copy_ns(graph, from, sum->device, bytes);
  }
  return ns;
}

/* Of hop i: from term i to the next, or home. */
static double hop_ns(const tdm_graph *graph, const tdm_ir_node *sum, uint32_t i, double bytes) {
  const bool last = i + 1u == sum->input_count;
  const int16_t to = last ? sum->device : place_of(graph, sum->inputs[i + 1]);
  return tdm_predict_copy_ns(graph, place_of(graph, sum->inputs[i]), to, bytes);
}

static double slowest_ns(const tdm_graph *graph, const tdm_ir_node *sum, double bytes) {
  double slowest = 0;
  for (uint32_t i = 0; i < sum->input_count; i++) {
    const double ns = hop_ns(graph, sum, i, bytes);
    if (ns > slowest) slowest = ns;
  }
  return slowest;
}

/* Of a value that goes from device to device and home. */
static double chain_ns(const tdm_graph *graph, const tdm_ir_node *sum, double bytes) {
  double ns = 0;
  for (uint32_t i = 0; i < sum->input_count; i++)
    ns += hop_ns(graph, sum, i, bytes);
  return ns;
}

/* Has every hop a link of its own? */
static bool may_chain(const tdm_graph *graph, const tdm_ir_node *sum) {
  const tdm_device_sum_attributes *attributes = sum->attributes;
  bool crosses = false;
  for (uint32_t i = 0; i < sum->input_count; i++) {
    const bool last = i + 1 == sum->input_count;
    const int16_t from = place_of(graph, sum->inputs[i]);
    const int16_t to = last ? sum->device : place_of(graph, sum->inputs[i + 1]);
    if (!tdm_direct_queue(device_of(graph, from), device_of(graph, to))) return false;
    crosses |= from != to;
  }
  return crosses && attributes->late && sum->input_count > 2;
}

static double bytes_of(const tdm_graph *graph, const tdm_ir_node *sum) {
  return (double)tdm_ir_value_at(graph, sum->first_output)->bytes;
}

/* Large values go in pieces, so that all links have one. */
static size_t pieces_of(const tdm_graph *graph, const tdm_ir_node *sum) {
  const double bytes = bytes_of(graph, sum);
  size_t count = 1;
  while (count < TDM_MOST_PIECES &&
         slowest_ns(graph, sum, bytes / (double)(2 * count)) >= LEAST_PIECE_NS)
    count *= 2;
  return count;
}

/* Chains follow one another: each takes its slowest link's time, and one, the longest, the time of
 * all its hops. Copies to the home follow one another there. Chains are worth their hops where
 * bytes, not latencies, take most of the time. */
static bool chains_pay(const collective_state *state) {
  const tdm_graph *graph = state->graph;
  double at_home_ns = 0, latencies_ns = 0, follow_ns = 0, longest_ns = 0;
  TDM_EACH_NODE(graph, node) {
    if (!is_sum(node) || !may_chain(graph, node)) continue;
    const double bytes = bytes_of(graph, node);
    const double all_ns = chain_ns(graph, node, bytes / (double)pieces_of(graph, node));
    at_home_ns += home_ns(graph, node, bytes);
    latencies_ns += home_ns(graph, node, 0);
    follow_ns += slowest_ns(graph, node, bytes);
    if (all_ns > longest_ns) longest_ns = all_ns;
  }
  if (state->asked != TDM_COLLECTIVE_AUTO) return state->asked == TDM_COLLECTIVE_CHAIN;
  return at_home_ns > 2 * latencies_ns && at_home_ns > follow_ns + longest_ns;
}

/* ---- Lowering -------------------------------------------------------------------------------- */

static tdm_insertion insertion(const tdm_ir_node *sum, tdm_ir_node *before, int16_t device) {
  return (tdm_insertion){
      .before = before, .name = sum->name, .device = device, .role = TDM_ROLE_GRADIENT};
}

/* Does only this sum read the value, in memory that is its own? */
static bool is_own(const tdm_graph *graph, uint32_t value) {
  const tdm_ir_value *is = tdm_ir_value_at(graph, value);
  const tdm_ir_node *producer = tdm_producer(graph, value);
  return is->root == value && is->readers == 1 && producer && producer->role == TDM_ROLE_GRADIENT;
}

static uint32_t add(tdm_graph *graph, const tdm_insertion *at, uint32_t total, uint32_t term,
                    tdm_collective collective, size_t piece) {
  const uint32_t operands[] = {total, term};
  const uint32_t sum = tdm_insert(graph, at, &tdm_operation_add_incoming, NULL, operands, 2);
  if (!sum) return 0;
  tdm_producer(graph, sum)->collective = (uint8_t)collective;
  tdm_producer(graph, sum)->bucket = (uint8_t)piece;
  return sum;
}

/* The node that made the sum in the end takes over its value. */
static tdm_status take_over(tdm_graph *graph, tdm_ir_node *sum, uint32_t made) {
  if (!made) return tdm_graph_status(graph);
  tdm_ir_node *maker = tdm_producer(graph, made);
  tdm_exchange_outputs(graph, maker, sum);
  tdm_settle_outputs(graph, maker);
  tdm_remove_node(graph, sum);
  return TDM_OK;
}

static tdm_status sum_at_home(tdm_graph *graph, tdm_ir_node *sum) {
  const tdm_device_sum_attributes *attributes = sum->attributes;
  const tdm_insertion at = insertion(sum, sum, sum->device);
  uint32_t total = sum->inputs[0];
  if (place_of(graph, total) != sum->device || (!attributes->owned && !is_own(graph, total)))
    total = tdm_insert(graph, &at, &tdm_operation_begin_sum, NULL, &total, 1);
  for (uint32_t i = 1; i < sum->input_count && total; i++)
    total = add(graph, &at, total, sum->inputs[i], TDM_COLLECTIVE_HOME, 0);
  return take_over(graph, sum, total);
}

/* The pieces of a value on its device. */
static tdm_status cut(const chain *of, tdm_graph *graph, tdm_ir_node *before, uint32_t value,
                      uint32_t *out_pieces) {
  const tdm_ir_value *whole = tdm_ir_value_at(graph, value);
  const tdm_insertion at = insertion(of->sum, before, whole->device);
  tdm_parts_attributes attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.count = (int64_t)of->piece_count;
  const int64_t elements = tdm_shape_count(&whole->spec.shape);
  for (int64_t p = 0; p < attributes.count; p++)
    attributes.sizes[p] = elements * (p + 1) / attributes.count - elements * p / attributes.count;
  const uint32_t first = tdm_insert(graph, &at, &tdm_operation_pieces, &attributes, &value, 1);
  for (size_t p = 0; p < of->piece_count && first; p++)
    out_pieces[p] = first + (uint32_t)p;
  return first ? TDM_OK : tdm_graph_status(graph);
}

/* The sum from its pieces: in the last term's memory, or put together at home. */
static tdm_status end_chain(chain *of, tdm_graph *graph, tdm_ir_node *before, uint32_t last) {
  tdm_ir_node *sum = of->sum;
  const tdm_insertion at = insertion(sum, before, sum->device);
  const tdm_shape shape = tdm_ir_value_at(graph, sum->first_output)->spec.shape;
  uint32_t inputs[TDM_MOST_PIECES + 1] = {last};
  size_t count = 1;
  if (place_of(graph, last) == sum->device) {
    while (count <= of->piece_count) {
      inputs[count] = of->totals[count - 1];
      count++;
    }
  } else {
    tdm_parts_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.count = (int64_t)of->piece_count;
    inputs[0] =
        tdm_insert(graph, &at, &tdm_operation_concat, &attributes, of->totals, of->piece_count);
  }
  return take_over(graph, sum, tdm_insert(graph, &at, &tdm_operation_whole, &shape, inputs, count));
}

/* Hop j: the device of term j adds its own to what has come in; j = 0: the total begins. */
static tdm_status insert_hop(chain *of, tdm_graph *graph, uint32_t j, tdm_ir_node *before) {
  uint32_t term = of->sum->inputs[j];
  if (j == 0) return cut(of, graph, before, term, of->totals);
  const tdm_insertion at = insertion(of->sum, before, place_of(graph, term));
  if (!is_own(graph, term)) term = tdm_insert(graph, &at, &tdm_operation_begin_sum, NULL, &term, 1);
  if (!term) return tdm_graph_status(graph);
  uint32_t pieces[TDM_MOST_PIECES];
  TDM_TRY(cut(of, graph, before, term, pieces));
  for (size_t p = 0; p < of->piece_count; p++) {
    of->totals[p] = add(graph, &at, pieces[p], of->totals[p], TDM_COLLECTIVE_CHAIN, p);
    if (!of->totals[p]) return tdm_graph_status(graph);
  }
  return j + 1 == of->term_count ? end_chain(of, graph, before, term) : TDM_OK;
}

static tdm_status insert_chains(const collective_state *state) {
  for (size_t i = 0; i < state->chain_count; i++) {
    chain *of = &state->chains[i];
    for (uint32_t hop = 0; hop < of->term_count; hop++)
      TDM_TRY(insert_hop(of, state->graph, hop, of->sum));
  }
  return TDM_OK;
}

/* ---- The pass -------------------------------------------------------------------------------- */

static size_t count_sums(const tdm_graph *graph) {
  size_t count = 0;
  TDM_EACH_NODE(graph, node) {
    count += is_sum(node);
  }
  return count;
}

static void choose(collective_state *state) {
  const bool chains = chains_pay(state);
  TDM_EACH_NODE(state->graph, node) {
    if (chains && is_sum(node) && may_chain(state->graph, node))
      state->chains[state->chain_count++] = (chain){.sum = node,
                                                    .term_count = node->input_count,
                                                    .piece_count = pieces_of(state->graph, node)};
  }
}

/* Has the devices' nodes take turns in plan order, each in its own order: replicas stand one behind
 * the other so far, and a chain's hops would all stand behind the last of them. */
static tdm_status take_turns(const collective_state *state, uint32_t *ranks, uint32_t *turns) {
  tdm_graph *graph = state->graph;
  const tdm_ir_node *updates = tdm_first_of_role(graph, TDM_ROLE_UPDATE);
  uint32_t rank_count = 1;
  TDM_EACH_NODE(graph, node) {
    if (node == updates) break;
    if (node->role == TDM_ROLE_REFRESH) continue; /* before all others, as they are */
    uint32_t rank = is_sum(node) ? 0 : turns[node->device] + 1;
    for (uint32_t k = 0; k < node->input_count; k++) {
      const uint32_t producer = tdm_ir_value_at(graph, node->inputs[k])->producer;
      if (ranks[producer] > rank) rank = ranks[producer];
    }
    ranks[node->index] = rank;
    if (!is_sum(node)) turns[node->device] = rank;
    if (rank >= rank_count) rank_count = rank + 1;
  }
  return tdm_sort_nodes(graph, updates, ranks, rank_count);
}

static tdm_status interleave(const collective_state *state) {
  const tdm_graph *graph = state->graph;
  tdm_region scratch;
  tdm_region_init(&scratch, graph->allocator);
  uint32_t *ranks = tdm_region_take(&scratch, graph->nodes.count * sizeof *ranks, "collectives");
  uint32_t *turns =
      tdm_region_take(&scratch, tdm_device_count(graph->context) * sizeof *turns, "collectives");
  const tdm_status status = ranks && turns ? take_turns(state, ranks, turns) : TDM_OUT_OF_MEMORY;
  tdm_region_deinit(&scratch);
  return status;
}

static tdm_status lower_sums(collective_state *state) {
  choose(state);
  if (state->chain_count > 0) TDM_TRY(interleave(state));
  size_t next = 0;
  TDM_EACH_NODE(state->graph, node) {
    if (!is_sum(node)) continue;
    if (next < state->chain_count && state->chains[next].sum == node)
      next++;
    else
      TDM_TRY(sum_at_home(state->graph, node));
  }
  return insert_chains(state);
}

tdm_status tdm_pass_collectives(tdm_graph *graph, tdm_collective asked) {
  const size_t count = count_sums(graph);
  if (count == 0) return TDM_OK;
  collective_state state = {.graph = graph, .asked = asked};
  tdm_region scratch;
  tdm_region_init(&scratch, graph->allocator);
  state.chains = tdm_region_take(&scratch, count * sizeof *state.chains, "collectives");
  const bool taken = state.chains != NULL;
  const tdm_status status = taken ? lower_sums(&state) : TDM_OUT_OF_MEMORY;
  tdm_region_deinit(&scratch);
  return status;
}
