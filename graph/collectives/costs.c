/* Costs of the algorithms for sums, from the links' estimates. Invariant: a prediction counts what
 * the busiest link carries: sums, and parameters that are copied for the next step. Only the
 * longest of consecutive sums is waited for to its end, and likewise of copies. In sums around a
 * ring and along a chain devices send while they receive. */
#include <math.h>

#include "devices/context/route.h"
#include "graph/collectives/formulas.h"
#include "graph/collectives/sums.h"
#include "graph/passes/device_sums.h"
#include "graph/passes/passes.h"

enum { LEAST_PIECE_NS = 80000 }; /* shorter pieces cost more to start than they save */

/* Returns the time of one hop, with or without as much traffic in the opposite direction. */
typedef double (*hop_predictor)(const tdm_graph *graph, int16_t from, int16_t to, double bytes);

static bool has_queue(const tdm_graph *graph, int16_t from, int16_t to) {
  return tdm_direct_queue(tdm_context_device(graph->context, (size_t)from),
                          tdm_context_device(graph->context, (size_t)to)) != NULL;
}

/* ---- Home ------------------------------------------------------------------------------------ */

/* Returns the time at home: all terms arrive over one link, one after the other. Terms that are
 * read in place cost no copy. */
static double home_ns(const tdm_graph *graph, const tdm_sum *sum, double bytes) {
  const tdm_ir_node *node = sum->node;
  double ns = 0;
  for (uint32_t i = 0; i < node->input_count; i++) {
    const int16_t from = tdm_place_of(graph, node->inputs[i]);
    if (i > 0 && tdm_shares_memory(graph, from, node->device)) continue;
    ns += tdm_predict_copy_ns(graph, from, node->device, bytes);
  }
  return ns;
}

double tdm_home_latencies_ns(const tdm_sums *sums) {
  double ns = 0;
  for (size_t i = 0; i < sums->count; i++)
    if (sums->items[i].late) ns += home_ns(sums->graph, &sums->items[i], 0);
  return ns;
}

double tdm_home_ns(const tdm_sums *sums) {
  double ns = 0;
  for (size_t i = 0; i < sums->count; i++)
    if (sums->items[i].late)
      ns += home_ns(sums->graph, &sums->items[i], tdm_sum_bytes(sums->graph, &sums->items[i]));
  return ns;
}

/* ---- Chains ---------------------------------------------------------------------------------- */

/* Returns the time of hop i: from term i to the next, or home. */
static double hop_ns(const tdm_graph *graph, const tdm_ir_node *node, uint32_t i, double bytes,
                     hop_predictor predict) {
  const bool last = i + 1u == node->input_count;
  const int16_t to = last ? node->device : tdm_place_of(graph, node->inputs[i + 1]);
  return predict(graph, tdm_place_of(graph, node->inputs[i]), to, bytes);
}

static double slowest_hop_ns(const tdm_graph *graph, const tdm_sum *sum, double bytes,
                             hop_predictor predict) {
  double slowest = 0;
  for (uint32_t i = 0; i < sum->node->input_count; i++) {
    const double ns = hop_ns(graph, sum->node, i, bytes, predict);
    if (ns > slowest) slowest = ns;
  }
  return slowest;
}

/* Returns the time of a value that passes from device to device and home. */
static double all_hops_ns(const tdm_graph *graph, const tdm_sum *sum, double bytes,
                          hop_predictor predict) {
  double ns = 0;
  for (uint32_t i = 0; i < sum->node->input_count; i++)
    ns += hop_ns(graph, sum->node, i, bytes, predict);
  return ns;
}

bool tdm_can_chain(const tdm_graph *graph, const tdm_sum *sum) {
  const tdm_ir_node *node = sum->node;
  bool crosses = false;
  for (uint32_t i = 0; i < node->input_count; i++) {
    const bool last = i + 1 == node->input_count;
    const int16_t from = tdm_place_of(graph, node->inputs[i]);
    const int16_t to = last ? node->device : tdm_place_of(graph, node->inputs[i + 1]);
    if (!has_queue(graph, from, to)) return false;
    crosses |= from != to;
  }
  return crosses && sum->late && node->input_count > 2;
}

/* Large values are sent in pieces, so that all links are busy. */
size_t tdm_chain_pieces(const tdm_graph *graph, const tdm_sum *sum) {
  const double bytes = tdm_sum_bytes(graph, sum);
  size_t count = 1;
  while (count < TDM_BUCKETS && slowest_hop_ns(graph, sum, bytes / (double)(2 * count),
                                               tdm_predict_exchange_ns) >= LEAST_PIECE_NS)
    count *= 2;
  return count;
}

/* ---- Rings and trees ------------------------------------------------------------------------- */

size_t tdm_terms_from_afar(const tdm_graph *graph, const tdm_sum *sum) {
  size_t count = 0;
  for (uint32_t k = 0; k < sum->node->input_count; k++)
    count += tdm_place_of(graph, sum->node->inputs[k]) != sum->node->device;
  return count;
}

/* Returns true if every device with terms has a direct link to the home. */
static bool reaches_home(const tdm_graph *graph, const tdm_sum *sum) {
  for (uint32_t i = 0; i < sum->count; i++)
    if (sum->devices[i] != sum->node->device &&
        !has_queue(graph, sum->devices[i], sum->node->device))
      return false;
  return true;
}

bool tdm_can_come_home(const tdm_graph *graph, const tdm_sum *sum) {
  const size_t terms = tdm_terms_from_afar(graph, sum);
  return sum->late && sum->count > 1 && terms > 0 && terms <= TDM_HELD_BUCKETS &&
         reaches_home(graph, sum);
}

bool tdm_can_go_around(const tdm_graph *graph, const tdm_sum *sum) {
  bool can = sum->late && sum->count > 1;
  for (uint32_t i = 0; i < sum->count && can; i++)
    for (uint32_t j = 0; j < sum->count && can; j++)
      can = i == j || has_queue(graph, sum->devices[i], sum->devices[j]);
  return can && reaches_home(graph, sum);
}

/* Returns the time of the slowest route from a device of the sum to the next one. */
static double around_ns(const tdm_graph *graph, const tdm_sum *sum, double bytes,
                        hop_predictor predict) {
  double slowest = 0;
  for (uint32_t i = 0; i < sum->count; i++) {
    const int16_t to = sum->devices[(i + 1) % sum->count];
    const double ns = predict(graph, sum->devices[i], to, bytes);
    if (ns > slowest) slowest = ns;
  }
  return slowest;
}

/* Every device receives 2 (k - 1) messages of one of k pieces. */
static double ring_ns(const tdm_graph *graph, const tdm_sum *sum) {
  const double k = sum->count;
  const double bytes = tdm_sum_bytes(graph, sum) / k;
  return tdm_ring_messages(k) * around_ns(graph, sum, bytes, tdm_predict_exchange_ns);
}

/* The tree's root receives as many values as there are rounds, one after the other, and nothing is
 * sent back meanwhile. */
static double tree_ns(const tdm_graph *graph, const tdm_sum *sum) {
  const double bytes = tdm_sum_bytes(graph, sum);
  return tdm_tree_rounds(sum->count) * around_ns(graph, sum, bytes, tdm_predict_copy_ns);
}

bool tdm_is_for_tree(const tdm_graph *graph, const tdm_sum *sum) {
  const int64_t elements = tdm_shape_count(tdm_sum_shape(graph, sum));
  return elements < sum->count || 2 * tree_ns(graph, sum) < ring_ns(graph, sum);
}

/* ---- All sums -------------------------------------------------------------------------------- */

double tdm_sum_ns(const tdm_sums *sums, const tdm_sum *sum, tdm_collective algorithm) {
  const tdm_graph *graph = sums->graph;
  const double bytes = tdm_sum_bytes(graph, sum);
  switch (algorithm) {
  case TDM_COLLECTIVE_CHAIN:
    return slowest_hop_ns(graph, sum, bytes, tdm_predict_exchange_ns);
  case TDM_COLLECTIVE_RING:
    return ring_ns(graph, sum);
  case TDM_COLLECTIVE_TREE:
    return tree_ns(graph, sum);
  case TDM_COLLECTIVE_ALL_REDUCE:
    return tdm_all_reduce_ns(sums, sum);
  case TDM_COLLECTIVE_AUTO:
  case TDM_COLLECTIVE_HOME:
  case TDM_COLLECTIVE_COUNT:
    break;
  }
  return home_ns(graph, sum, bytes);
}

/* Returns how long the end of a step waits for its last sum, in addition to the time of the busiest
 * link. */
static double end_ns(const tdm_graph *graph, const tdm_sum *sum, tdm_collective algorithm) {
  const double bytes = tdm_sum_bytes(graph, sum);
  if (algorithm == TDM_COLLECTIVE_TREE) return tree_ns(graph, sum);
  if (algorithm == TDM_COLLECTIVE_RING)
    return ring_ns(graph, sum) / 2; /* gathers the finished pieces: half of a ring */
  if (algorithm != TDM_COLLECTIVE_CHAIN) return 0;
  const double piece = bytes / (double)tdm_chain_pieces(graph, sum);
  return all_hops_ns(graph, sum, piece, tdm_predict_exchange_ns);
}

/* Returns true if devices update their own copies, so that none is refreshed. */
static bool updates_own(const tdm_sum *sum, tdm_collective algorithm) {
  return algorithm != TDM_COLLECTIVE_HOME && algorithm != TDM_COLLECTIVE_CHAIN && sum->can_own;
}

/* Returns the time of copying parameters: from copy to copy, like gradients in a chain, or all from
 * the home. */
static double refresh_ns(const tdm_graph *graph, const tdm_sum *sum, tdm_collective algorithm) {
  const double bytes = tdm_sum_bytes(graph, sum);
  if (updates_own(sum, algorithm)) return 0;
  if (sum->can_chain) return slowest_hop_ns(graph, sum, bytes, tdm_predict_copy_ns);
  double ns = 0;
  for (uint32_t i = 0; i < sum->count; i++)
    ns += tdm_predict_copy_ns(graph, sum->node->device, sum->devices[i], bytes);
  return ns;
}

/* Returns the additional time of the last copy of a parameter, which passes from copy to copy as a
 * whole. */
static double refresh_end_ns(const tdm_graph *graph, const tdm_sum *sum, tdm_collective algorithm) {
  const double bytes = tdm_sum_bytes(graph, sum);
  if (updates_own(sum, algorithm) || !sum->can_chain) return 0;
  return all_hops_ns(graph, sum, bytes, tdm_predict_copy_ns) -
         slowest_hop_ns(graph, sum, bytes, tdm_predict_copy_ns);
}

/* Returns the algorithm of the sum if the plan's algorithm is the given one. */
static tdm_collective done_by(const tdm_graph *graph, const tdm_sum *sum,
                              tdm_collective algorithm) {
  if (algorithm == TDM_COLLECTIVE_HOME) return algorithm;
  if (algorithm == TDM_COLLECTIVE_CHAIN) return sum->can_chain ? algorithm : TDM_COLLECTIVE_HOME;
  if (algorithm == TDM_COLLECTIVE_ALL_REDUCE)
    return sum->can_all_reduce ? algorithm : TDM_COLLECTIVE_HOME;
  if (!sum->can_go_around) return TDM_COLLECTIVE_HOME;
  return tdm_is_for_tree(graph, sum) ? TDM_COLLECTIVE_TREE : algorithm;
}

void tdm_predict_sums(const tdm_sums *sums, double out_ns[TDM_COLLECTIVE_COUNT]) {
  for (int w = TDM_COLLECTIVE_AUTO + 1; w < TDM_COLLECTIVE_COUNT; w++) {
    const tdm_collective algorithm = (tdm_collective)w;
    double longest_ns = 0, longest_refresh_ns = 0;
    bool any = false;
    out_ns[w] = 0;
    for (size_t i = 0; i < sums->count; i++) {
      const tdm_sum *sum = &sums->items[i];
      if (!sum->late) continue;
      const tdm_collective done = done_by(sums->graph, sum, algorithm);
      const double ends_ns = end_ns(sums->graph, sum, done);
      any |= algorithm == TDM_COLLECTIVE_HOME || done != TDM_COLLECTIVE_HOME;
      out_ns[w] += tdm_sum_ns(sums, sum, done) + refresh_ns(sums->graph, sum, done);
      longest_ns = fmax(longest_ns, ends_ns);
      longest_refresh_ns = fmax(longest_refresh_ns, refresh_end_ns(sums->graph, sum, done));
    }
    out_ns[w] = any ? out_ns[w] + longest_ns + longest_refresh_ns : 0;
  }
}
