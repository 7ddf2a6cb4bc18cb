/* Sums over ranks by an engine: one all-reduce sums several gradients together, a bucket, at some
 * spots. The spots are either the ranks' hosts or the devices with terms. Hosts add their rank's
 * terms first, and the engine is the ranks' network. Devices with terms are used if they are a
 * group, and then no host is involved (devices/groups/groups.h). With one rank only the latter is
 * possible.
 *
 *     rank 0: terms -> total \                          / piece -> sum a
 *     rank 0: terms -> total -> bucket -> all-reduce ->|
 *                                 ^                     \ piece -> sum b
 *                                 v
 *     rank 1: ...       bucket -> all-reduce -> ...
 *
 * A bucket is placed at its last sum, so that the rest of the backward pass is computed during its
 * transfer. Invariant: every spot has the same buckets in the same order, each with its own
 * number. */
#include <math.h>
#include <string.h>

#include "devices/groups/groups.h"
#include "devices/kernels.h"
#include "devices/links/links.h"
#include "graph/collectives/collectives.h"
#include "graph/collectives/formulas.h"
#include "graph/collectives/sums.h"
#include "graph/passes/device_sums.h"
#include "graph/passes/parts.h"
#include "graph/passes/passes.h"

typedef struct bucket {
  tdm_sum *sums[TDM_MAX_PARTS];
  size_t count;
  double bytes;
  int64_t number;
  bool on_devices;
  int16_t *spots; /* (spot_count): where it is summed: hosts by rank, or devices */
  uint32_t spot_count;
} bucket;

static int16_t host_of(const tdm_graph *graph, int rank) {
  return (int16_t)tdm_context_host_of(graph->context, rank)->context_index;
}

bool tdm_can_all_reduce(const tdm_graph *graph, const tdm_sum *sum) {
  const tdm_spec *spec = tdm_ir_value_at(graph, sum->value)->spec;
  const int ranks = tdm_context_rank_count(graph->context);
  char text[TDM_GROUP_REASON_BYTES];
  if (!sum->late || tdm_shape_count(&spec->shape) == 0) return false;
  if (spec->dtype != TDM_FLOAT32 && spec->dtype != TDM_FLOAT64) return false;
  if (ranks == 1)
    return sum->count > 1 && sum->count <= TDM_MAX_PARTS &&
           tdm_group_engine(graph->context, sum->devices, sum->count, text);
  for (int rank = 0; rank < ranks; rank++) {
    bool shares = false;
    for (uint32_t i = 0; i < sum->count; i++)
      shares |= tdm_rank_of(graph, sum->devices[i]) == rank;
    if (!shares) return false;
  }
  return true;
}

const char *tdm_sum_engine(const tdm_graph *graph, const tdm_sum *sum, char *text) {
  text[0] = '\0';
  if (!sum->can_all_reduce || sum->count > TDM_MAX_PARTS) return NULL;
  return tdm_group_engine(graph->context, sum->devices, sum->count, text);
}

/* ---- Cost ------------------------------------------------------------------------------------ */

/* The participants: devices (count) of one rank or, if devices is NULL, all ranks. */
typedef struct members {
  const int16_t *devices;
  uint32_t count;
} members;

static members members_of(const tdm_graph *graph, const int16_t *devices, uint32_t count) {
  const uint32_t ranks = (uint32_t)tdm_context_rank_count(graph->context);
  return ranks > 1 ? (members){NULL, ranks} : (members){devices, count};
}

static int16_t member_at(const tdm_graph *graph, const members *of, uint32_t i) {
  return of->devices ? of->devices[i] : host_of(graph, (int)i);
}

/* Returns the time of the slowest route from one participant to the next. */
static double slowest_ns(const tdm_graph *graph, const members *of, double bytes) {
  double slowest = 0;
  for (uint32_t i = 0; i < of->count; i++) {
    const double ns = tdm_predict_copy_ns(graph, member_at(graph, of, i),
                                          member_at(graph, of, (i + 1) % of->count), bytes);
    if (ns > slowest) slowest = ns;
  }
  return slowest;
}

/* Returns the latency, measured for the ranks' engine. */
static double latency_ns(const tdm_graph *graph, const members *of) {
  tdm_link_estimate measured;
  if (!of->devices && tdm_context_all_reduce(graph->context, &measured))
    return measured.link.latency_ns;
  return tdm_all_reduce_sends(of->count, 0).latencies * slowest_ns(graph, of, 0);
}

/* Returns the time of the bytes, as in a ring. */
static double stream_ns(const tdm_graph *graph, const members *of, double bytes) {
  tdm_link_estimate measured;
  if (!of->devices && tdm_context_all_reduce(graph->context, &measured))
    return fmax(0, tdm_link_predict_ns(&measured, bytes) - measured.link.latency_ns);
  const double k = of->count;
  return tdm_ring_messages(k) * (slowest_ns(graph, of, bytes / k) - slowest_ns(graph, of, 0));
}

double tdm_all_reduce_of_ranks_ns(const tdm_graph *graph, double bytes) {
  const members all = members_of(graph, NULL, 0);
  return stream_ns(graph, &all, bytes) + latency_ns(graph, &all);
}

double tdm_all_reduce_of_devices_ns(const tdm_graph *graph, const int16_t *devices, uint32_t count,
                                    double bytes) {
  const members all = members_of(graph, devices, count);
  return stream_ns(graph, &all, bytes) + latency_ns(graph, &all);
}

/* Sums of one rank may have different devices; those of the first represent all. */
double tdm_bucket_bytes(const tdm_sums *sums) {
  const tdm_sum *first = NULL;
  double bytes = 0;
  for (size_t i = 0; i < sums->count; i++) {
    if (!sums->items[i].can_all_reduce) continue;
    if (!first) first = &sums->items[i];
    bytes += tdm_sum_bytes(sums->graph, &sums->items[i]);
  }
  if (!first) return 0;
  const members all = members_of(sums->graph, first->devices, first->count);
  const double all_ns = stream_ns(sums->graph, &all, bytes);
  return bytes * tdm_bucket_share(latency_ns(sums->graph, &all), all_ns);
}

double tdm_all_reduce_ns(const tdm_sums *sums, const tdm_sum *sum) {
  const members all = members_of(sums->graph, sum->devices, sum->count);
  const double bytes = tdm_sum_bytes(sums->graph, sum);
  const double share = fmin(1, bytes / fmax(1, tdm_bucket_bytes(sums)));
  return stream_ns(sums->graph, &all, bytes) + share * latency_ns(sums->graph, &all);
}

/* ---- One bucket ------------------------------------------------------------------------------ */

static tdm_status find_spots(const tdm_sums *sums, bucket *made) {
  const tdm_graph *graph = sums->graph;
  const int ranks = tdm_context_rank_count(graph->context);
  made->on_devices = made->sums[0]->on_devices;
  made->spots = made->sums[0]->devices;
  made->spot_count = made->sums[0]->count;
  if (made->on_devices) return TDM_OK;
  made->spot_count = (uint32_t)ranks;
  made->spots = tdm_region_take(sums->region, (size_t)ranks * sizeof(int16_t), "collectives");
  if (!made->spots) return TDM_OUT_OF_MEMORY;
  for (int rank = 0; rank < ranks; rank++)
    made->spots[rank] = host_of(graph, rank);
  return TDM_OK;
}

/* Returns the spot that adds the device's terms, and from which it gets the sum. If the device has
 * no terms, that is the spot of its rank. */
static uint32_t spot_of(const tdm_graph *graph, const bucket *made, int16_t device) {
  uint32_t of_rank = UINT32_MAX;
  for (uint32_t i = 0; i < made->spot_count; i++) {
    if (made->on_devices && made->spots[i] == device) return i;
    const bool same = tdm_rank_of(graph, made->spots[i]) == tdm_rank_of(graph, device);
    if (same && of_rank == UINT32_MAX) of_rank = i;
  }
  return of_rank;
}

/* Adds a spot's own terms of a sum there, in their order. own: in memory of the sum. */
static uint32_t add_own_terms(tdm_graph *graph, const bucket *made, const tdm_sum *sum,
                              uint32_t spot, bool own) {
  const tdm_ir_node *node = sum->node;
  const tdm_ir_node *last = made->sums[made->count - 1]->node;
  const tdm_insertion at = tdm_sum_insertion(sum, (tdm_ir_node *)last, made->spots[spot]);
  uint32_t first = 0, total = 0;
  for (uint32_t k = 0; k < node->input_count; k++) {
    const uint32_t term = node->inputs[k];
    if (spot_of(graph, made, tdm_place_of(graph, term)) != spot) continue;
    if (!first) {
      first = term;
      continue;
    }
    if (!total) total = tdm_begin_total(graph, &at, first);
    if (total) total = tdm_sum_add(graph, &at, sum, false, total, term, 0);
    if (!total) return 0;
  }
  if (total) return total;
  return own ? tdm_begin_total(graph, &at, first) : first;
}

static uint32_t insert_all_reduce(tdm_graph *graph, const bucket *made, const tdm_insertion *at,
                                  uint32_t value) {
  const tdm_all_reduce_attributes attributes = {.number = made->number};
  const uint32_t sum = tdm_insert(graph, at, &tdm_operation_all_reduce, &attributes, &value, 1);
  if (!sum) return 0;
  tdm_producer(graph, sum)->sum_role = TDM_SUM_ALL_REDUCE;
  tdm_producer(graph, sum)->sum.collective = TDM_COLLECTIVE_ALL_REDUCE;
  return sum;
}

/* Inserts the all-reduce of one spot's bucket, and a piece for each of its sums. */
static tdm_status reduce_on(tdm_graph *graph, const bucket *made, uint32_t spot,
                            uint32_t *out_pieces) {
  const tdm_sum *last = made->sums[made->count - 1];
  const tdm_insertion at = tdm_sum_insertion(last, last->node, made->spots[spot]);
  tdm_parts_attributes sizes;
  memset(&sizes, 0, sizeof sizes);
  sizes.count = (int64_t)made->count;
  uint32_t flat[TDM_MAX_PARTS];
  for (size_t m = 0; m < made->count; m++) {
    const uint32_t total = add_own_terms(graph, made, made->sums[m], spot, made->count == 1);
    if (!total) return tdm_graph_status(graph);
    sizes.sizes[m] = tdm_shape_count(tdm_sum_shape(graph, made->sums[m]));
    if (made->count == 1) {
      *out_pieces = insert_all_reduce(graph, made, &at, total);
      return *out_pieces ? TDM_OK : tdm_graph_status(graph);
    }
    const tdm_insertion there = tdm_sum_insertion(last, last->node, tdm_place_of(graph, total));
    TDM_TRY(tdm_cut_term(graph, &there, total, 1, &flat[m]));
  }
  tdm_parts_attributes joined = {.count = sizes.count};
  uint32_t whole = tdm_insert(graph, &at, &tdm_operation_concat, &joined, flat, made->count);
  if (whole) whole = insert_all_reduce(graph, made, &at, whole);
  const uint32_t first =
      whole ? tdm_insert(graph, &at, &tdm_operation_pieces, &sizes, &whole, 1) : 0;
  for (size_t m = 0; m < made->count && first; m++)
    out_pieces[m] = first + (uint32_t)m;
  return first ? TDM_OK : tdm_graph_status(graph);
}

/* Copies a sum to its users: every device with its own updates, or the home. pieces (spot_count,
 * TDM_MAX_PARTS). */
static tdm_status hand_out(tdm_graph *graph, const bucket *made, size_t m,
                           uint32_t (*pieces)[TDM_MAX_PARTS]) {
  tdm_sum *sum = made->sums[m];
  tdm_ir_node *last = made->sums[made->count - 1]->node;
  const int16_t home = sum->node->device;
  const tdm_shape shape = *tdm_sum_shape(graph, sum);
  uint32_t at_home = 0;
  for (uint32_t i = 0; i < sum->count && sum->own; i++) {
    const int16_t device = sum->devices[i];
    const tdm_insertion at = tdm_sum_insertion(sum, last, device);
    sum->totals[i] = tdm_view_there(graph, &at, &shape, pieces[spot_of(graph, made, device)][m]);
    if (!sum->totals[i]) return tdm_graph_status(graph);
    if (device == home) at_home = sum->totals[i];
  }
  if (at_home) return TDM_OK;
  const tdm_insertion at = tdm_sum_insertion(sum, last, home);
  sum->totals[0] = tdm_view_there(graph, &at, &shape, pieces[spot_of(graph, made, home)][m]);
  return sum->totals[0] ? TDM_OK : tdm_graph_status(graph);
}

/* Returns the value at home that becomes the sum. */
static uint32_t made_at_home(const tdm_sum *sum) {
  for (uint32_t i = 0; i < sum->count && sum->own; i++)
    if (sum->devices[i] == sum->node->device) return sum->totals[i];
  return sum->totals[0];
}

static tdm_status reduce(const tdm_sums *sums, bucket *made) {
  if (made->count == 0) return TDM_OK;
  tdm_graph *graph = sums->graph;
  TDM_TRY(find_spots(sums, made));
  uint32_t(*pieces)[TDM_MAX_PARTS] =
      tdm_region_take(sums->region, made->spot_count * sizeof *pieces, "collectives");
  if (!pieces) return TDM_OUT_OF_MEMORY;
  for (uint32_t spot = 0; spot < made->spot_count; spot++)
    TDM_TRY(reduce_on(graph, made, spot, pieces[spot]));
  for (size_t m = 0; m < made->count; m++)
    TDM_TRY(hand_out(graph, made, m, pieces));
  for (size_t m = 0; m < made->count; m++)
    TDM_TRY(tdm_take_over(graph, made->sums[m], made_at_home(made->sums[m])));
  *made = (bucket){.number = made->number + 1};
  return TDM_OK;
}

/* ---- The whole pass -------------------------------------------------------------------------- */

/* Returns true if both use the same devices' group, or both use hosts. */
static bool go_alike(const tdm_sum *a, const tdm_sum *b) {
  if (a->on_devices != b->on_devices) return false;
  if (!a->on_devices) return true;
  for (uint32_t i = 0; i < a->count; i++) {
    uint32_t k = 0;
    while (k < b->count && b->devices[k] != a->devices[i])
      k++;
    if (k == b->count) return false;
  }
  return a->count == b->count;
}

static bool fits(const tdm_graph *graph, const bucket *made, const tdm_sum *sum) {
  if (made->count == 0) return true;
  const tdm_ir_value *first = tdm_ir_value_at(graph, made->sums[0]->value);
  return made->count < TDM_MAX_PARTS && go_alike(made->sums[0], sum) &&
         first->spec->dtype == tdm_ir_value_at(graph, sum->value)->spec->dtype;
}

/* Lists the sums of this algorithm, in their present order. */
static tdm_sum **list_sums(const tdm_sums *sums, size_t *out_count) {
  const tdm_graph *graph = sums->graph;
  tdm_sum **of = tdm_region_take(sums->region, graph->nodes.count * sizeof(void *), "collectives");
  tdm_sum **list = tdm_region_take(sums->region, (sums->count + 1) * sizeof(void *), "collectives");
  *out_count = 0;
  if (!of || !list) return NULL;
  for (size_t i = 0; i < sums->count; i++)
    if (sums->items[i].algorithm == TDM_COLLECTIVE_ALL_REDUCE)
      of[sums->items[i].node->index] = &sums->items[i];
  TDM_EACH_NODE(graph, node)
    if (of[node->index]) list[(*out_count)++] = of[node->index];
  return list;
}

tdm_status tdm_sum_by_all_reduces(const tdm_sums *sums) {
  const double enough = tdm_bucket_bytes(sums);
  size_t count;
  tdm_sum **list = list_sums(sums, &count);
  if (!list) return TDM_OUT_OF_MEMORY;
  if (count == 0) return TDM_OK;
  tdm_ir_node *first_reader;
  TDM_TRY(tdm_defer_readers(sums, &first_reader));
  bucket made = {.number = 0};
  for (size_t i = 0; i < count; i++) {
    if (!fits(sums->graph, &made, list[i])) TDM_TRY(reduce(sums, &made));
    made.sums[made.count++] = list[i];
    made.bytes += tdm_sum_bytes(sums->graph, list[i]);
    if (made.bytes >= enough) TDM_TRY(reduce(sums, &made));
  }
  return reduce(sums, &made);
}
