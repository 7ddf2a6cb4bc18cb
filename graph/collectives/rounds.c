/* Sums in rings and trees, round by round.
 *
 *   in a ring (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 *             workstations", J. Parallel Distrib. Comput. 69, 2009) k devices cut a value of n
 *             bytes into k pieces. In k - 1 rounds each receives a piece from the one before it and
 *             adds its own; then in k - 1 rounds the finished pieces go around. 2 (k - 1) messages
 *             of n / k bytes arrive at every device. Piece p begins at device p, so every piece has
 *             another order of terms, the same each time.
 *   in a tree (binomial, as in Thakur, Rabenseifner, Gropp, "Optimization of collective
 *             communication operations in MPICH", Int. J. High Perform. Comput. Appl. 19, 2005)
 *             whole values go up in ceil(log2 k) rounds, the home at the root, and the sum down in
 *             as many. A device adds what its nearest child sends first.
 *
 * Where devices do not update for themselves, the second half is one copy to the home instead.
 *
 *   where homes are spread the other devices' terms come to the sum's home in one round, all over
 *             links of their own, and are added there in the order of terms.
 *
 * Rounds of sums follow one another like bricks: round r of a sum stands where r sums later have
 * their terms, so that while it travels, devices compute later gradients. Invariant: on every queue
 * what rounds do stands in one order of all sums and rounds, so that no two devices wait for each
 * other; who reads such a sum stands behind the rounds of all. */
#include <string.h>

#include "graph/collectives/formulas.h"
#include "graph/collectives/sums.h"
#include "graph/passes/device_sums.h"
#include "graph/passes/passes.h"

static bool goes_in_rounds(const tdm_sum *sum) {
  return sum->algorithm == TDM_COLLECTIVE_RING || sum->algorithm == TDM_COLLECTIVE_TREE ||
         sum->comes_home;
}

/* Has the device a queue of its own for what is added there? */
static bool adds_beside(const tdm_graph *graph, int16_t device) {
  return tdm_context_device(graph->context, (size_t)device)->queues[TDM_QUEUE_SUM] != NULL;
}

/* What a round adds waits for a link: it stands on the queue for sums, where there is one, so that
 * no kernel waits for it. 0: failure. */
static uint32_t put_beside(tdm_graph *graph, uint32_t made) {
  if (made) tdm_producer(graph, made)->beside = true;
  return made;
}

/* ---- Before the first round ------------------------------------------------------------------ */

/* One total a device: several terms of one are added there, in their order. */
static tdm_status sum_own_terms(tdm_graph *graph, tdm_sum *sum, tdm_ir_node *before) {
  const tdm_ir_node *node = sum->node;
  for (uint32_t i = 0; i < sum->count; i++) {
    const tdm_insertion at = tdm_sum_insertion(sum, before, sum->devices[i]);
    uint32_t total = 0;
    for (uint32_t k = 0; k < node->input_count; k++) {
      const uint32_t term = node->inputs[k];
      if (tdm_place_of(graph, term) != sum->devices[i]) continue;
      total = total ? tdm_sum_add(graph, &at, sum, false, total, term, 0)
                    : tdm_own_term(graph, &at, term);
      if (!total) return tdm_graph_status(graph);
    }
    sum->totals[i] = total;
  }
  return TDM_OK;
}

/* ---- Rings ----------------------------------------------------------------------------------- */

static uint32_t *piece_at(const tdm_sum *sum, uint32_t device, uint32_t piece) {
  return &sum->pieces[device * sum->count + piece];
}

static tdm_status begin_ring(const tdm_sums *sums, tdm_sum *sum, tdm_ir_node *before) {
  const uint32_t k = sum->count;
  sum->pieces = tdm_region_take(sums->region, (size_t)k * k * sizeof(uint32_t), "collectives");
  sum->current = tdm_region_take(sums->region, k * sizeof(uint32_t), "collectives");
  if (!sum->pieces || !sum->current) return TDM_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < k; i++) {
    const tdm_insertion at = tdm_sum_insertion(sum, before, sum->devices[i]);
    TDM_TRY(tdm_cut_term(sums->graph, &at, sum->totals[i], k, piece_at(sum, i, 0)));
    sum->current[i] = *piece_at(sum, i, i);
  }
  return TDM_OK;
}

/* Of the buckets that rounds have: all but the first, through which sums go that are added where
 * they stand, wherever that is between a round's messages and what is added to them. */
static size_t number_of(size_t bucket) {
  return 1 + bucket % TDM_HELD_BUCKETS;
}

/* A piece of the sum so far, as the device behind reads it: in a bucket, or where it lies. */
static uint32_t receive(tdm_graph *graph, const tdm_insertion *at, const tdm_sum *sum,
                        uint32_t piece, size_t bucket) {
  if (tdm_shares_memory(graph, tdm_place_of(graph, piece), at->device)) return piece;
  const tdm_shape shape = tdm_ir_value_at(graph, piece)->spec.shape;
  const uint32_t view = tdm_view_there(graph, at, &shape, piece);
  if (!view) return 0;
  tdm_producer(graph, view)->collective = (uint8_t)sum->algorithm;
  tdm_producer(graph, view)->bucket = (uint8_t)number_of(bucket);
  return view;
}

/* The device that has received the piece by the end of a round. */
static uint32_t receiver_of(const tdm_sum *sum, uint32_t piece, uint32_t round) {
  return (piece + 1 + round) % sum->count;
}

/* Each piece of the sum so far goes to the device behind it. */
static tdm_status receive_ring(tdm_graph *graph, tdm_sum *sum, uint32_t round, size_t bucket,
                               tdm_ir_node *before) {
  for (uint32_t p = 0; p < sum->count; p++) {
    const int16_t device = sum->devices[receiver_of(sum, p, round)];
    const tdm_insertion at = tdm_sum_insertion(sum, before, device);
    sum->current[p] = receive(graph, &at, sum, sum->current[p], bucket);
    if (!sum->current[p]) return tdm_graph_status(graph);
  }
  return TDM_OK;
}

/* Who has received a piece adds its own; who is last has the piece in memory of its own, as a part
 * of what it puts together. All pieces travel before any is added to: order is kept of all that a
 * device has of a sum, not of single pieces. */
static tdm_status add_ring(tdm_graph *graph, tdm_sum *sum, uint32_t round, size_t bucket,
                           tdm_ir_node *before) {
  const bool last = round + 2 == sum->count;
  for (uint32_t p = 0; p < sum->count; p++) {
    const uint32_t to = receiver_of(sum, p, round);
    const tdm_insertion at = tdm_sum_insertion(sum, before, sum->devices[to]);
    uint32_t *piece = piece_at(sum, to, p);
    sum->current[p] = put_beside(graph, tdm_sum_add(graph, &at, sum, last, *piece, sum->current[p],
                                                    number_of(bucket)));
    if (!sum->current[p]) return tdm_graph_status(graph);
    if (last) *piece = sum->current[p];
  }
  return TDM_OK;
}

/* Each device sends on the finished piece that has come to it last. */
static tdm_status gather_ring(tdm_graph *graph, tdm_sum *sum, uint32_t round, tdm_ir_node *before) {
  const uint32_t k = sum->count;
  for (uint32_t p = 0; p < k; p++) {
    const uint32_t to = (p + round) % k;
    const uint32_t from = (to + k - 1) % k;
    const tdm_insertion at = tdm_sum_insertion(sum, before, sum->devices[to]);
    const uint32_t piece = *piece_at(sum, from, p);
    const tdm_shape shape = tdm_ir_value_at(graph, piece)->spec.shape;
    *piece_at(sum, to, p) = tdm_view_there(graph, &at, &shape, piece);
    if (!*piece_at(sum, to, p)) return tdm_graph_status(graph);
  }
  return TDM_OK;
}

/* The whole, where it is wanted: on every device, or at home. */
static tdm_status end_ring(tdm_graph *graph, tdm_sum *sum, tdm_ir_node *before) {
  for (uint32_t i = 0; i < sum->count && sum->own; i++) {
    const tdm_insertion at = tdm_sum_insertion(sum, before, sum->devices[i]);
    sum->totals[i] = tdm_put_together(graph, &at, sum, piece_at(sum, i, 0), sum->count);
    if (!sum->totals[i]) return tdm_graph_status(graph);
    if (sum->devices[i] == sum->node->device) TDM_TRY(tdm_take_over(graph, sum, sum->totals[i]));
  }
  if (sum->own) return TDM_OK;
  const tdm_insertion at = tdm_sum_insertion(sum, before, sum->node->device);
  return tdm_take_over(graph, sum, tdm_put_together(graph, &at, sum, sum->current, sum->count));
}

/* ---- Trees ----------------------------------------------------------------------------------- */

static uint32_t rounds_up(const tdm_sum *sum) {
  return tdm_tree_rounds(sum->count);
}

/* Whoever is `distance` behind a device sends it all that it has. */
static tdm_status reduce_tree(tdm_graph *graph, tdm_sum *sum, uint32_t distance, size_t bucket,
                              tdm_ir_node *before) {
  for (uint32_t i = 0; i + distance < sum->count; i += 2 * distance) {
    const tdm_insertion at = tdm_sum_insertion(sum, before, sum->devices[i]);
    sum->totals[i] =
        put_beside(graph, tdm_sum_add(graph, &at, sum, false, sum->totals[i],
                                      sum->totals[i + distance], number_of(bucket)));
    if (!sum->totals[i]) return tdm_graph_status(graph);
  }
  return TDM_OK;
}

static tdm_status gather_tree(tdm_graph *graph, tdm_sum *sum, uint32_t distance,
                              tdm_ir_node *before) {
  for (uint32_t i = 0; i + distance < sum->count; i += 2 * distance) {
    const tdm_insertion at = tdm_sum_insertion(sum, before, sum->devices[i + distance]);
    sum->totals[i + distance] =
        tdm_view_there(graph, &at, tdm_sum_shape(graph, sum), sum->totals[i]);
    if (!sum->totals[i + distance]) return tdm_graph_status(graph);
  }
  return TDM_OK;
}

static tdm_status end_tree(tdm_graph *graph, tdm_sum *sum, tdm_ir_node *before) {
  const tdm_insertion at = tdm_sum_insertion(sum, before, sum->node->device);
  return tdm_take_over(graph, sum,
                       tdm_view_there(graph, &at, tdm_sum_shape(graph, sum), sum->totals[0]));
}

/* ---- Home ------------------------------------------------------------------------------------ */

/* The terms as they lie at home. */
static tdm_status come_home(const tdm_sums *sums, tdm_sum *sum, tdm_ir_node *before) {
  tdm_graph *graph = sums->graph;
  const tdm_ir_node *node = sum->node;
  const tdm_insertion at = tdm_sum_insertion(sum, before, node->device);
  sum->current = tdm_region_take(sums->region, node->input_count * sizeof(uint32_t), "collectives");
  if (!sum->current) return TDM_OUT_OF_MEMORY;
  size_t bucket = sum->bucket;
  for (uint32_t k = 0; k < node->input_count; k++) {
    const uint32_t term = node->inputs[k];
    const bool at_home = tdm_place_of(graph, term) == node->device;
    sum->current[k] = at_home ? term : receive(graph, &at, sum, term, bucket++);
    if (!sum->current[k]) return tdm_graph_status(graph);
  }
  return TDM_OK;
}

/* In the order of terms. */
static tdm_status add_home(tdm_graph *graph, tdm_sum *sum, tdm_ir_node *before) {
  const tdm_insertion at = tdm_sum_insertion(sum, before, sum->node->device);
  uint32_t total = tdm_begin_total(graph, &at, sum->current[0]);
  if (total != sum->current[0]) (void)put_beside(graph, total);
  for (uint32_t k = 1; k < sum->node->input_count && total; k++)
    total = put_beside(graph, tdm_sum_add(graph, &at, sum, false, total, sum->current[k],
                                          number_of(sum->bucket)));
  return total ? tdm_take_over(graph, sum, total) : tdm_graph_status(graph);
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static uint32_t reducing_rounds(const tdm_sum *sum) {
  return sum->algorithm == TDM_COLLECTIVE_RING ? sum->count - 1 : rounds_up(sum);
}

/* The last is for what does no work but on links: sending the sum out, and putting it together; or
 * coming home. */
static uint32_t rounds_of(const tdm_sum *sum) {
  return sum->comes_home ? 1 : reducing_rounds(sum) + 1;
}

static tdm_status end_rounds(const tdm_sums *sums, tdm_sum *sum, tdm_ir_node *before) {
  tdm_graph *graph = sums->graph;
  const bool ring = sum->algorithm == TDM_COLLECTIVE_RING;
  const uint32_t gathering = sum->own ? reducing_rounds(sum) : 0;
  for (uint32_t round = 0; round < gathering; round++)
    TDM_TRY(ring ? gather_ring(graph, sum, round, before)
                 : gather_tree(graph, sum, 1u << (gathering - 1 - round), before));
  return ring ? end_ring(graph, sum, before) : end_tree(graph, sum, before);
}

/* A round's messages, or, in the last, all that is left to be sent. */
static tdm_status begin_round(const tdm_sums *sums, tdm_sum *sum, uint32_t round,
                              tdm_ir_node *before) {
  tdm_graph *graph = sums->graph;
  const bool ring = sum->algorithm == TDM_COLLECTIVE_RING;
  if (sum->comes_home) return come_home(sums, sum, before);
  if (round == 0) {
    TDM_TRY(sum_own_terms(graph, sum, before));
    if (ring) TDM_TRY(begin_ring(sums, sum, before));
  }
  if (round + 1 == rounds_of(sum)) return end_rounds(sums, sum, before);
  return ring ? receive_ring(graph, sum, round, sum->bucket, before) : TDM_OK;
}

/* What they have brought is added to. */
static tdm_status end_round(tdm_graph *graph, tdm_sum *sum, uint32_t round, tdm_ir_node *before) {
  if (round + 1 == rounds_of(sum)) return TDM_OK;
  return sum->algorithm == TDM_COLLECTIVE_RING
             ? add_ring(graph, sum, round, sum->bucket, before)
             : reduce_tree(graph, sum, 1u << round, sum->bucket, before);
}

tdm_status tdm_defer_readers(const tdm_sums *sums, tdm_ir_node **out_first) {
  tdm_graph *graph = sums->graph;
  bool *reads = tdm_region_take(sums->region, graph->nodes.count * sizeof *reads, "collectives");
  if (!reads) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < sums->count; i++)
    reads[sums->items[i].node->index] =
        sums->items[i].algorithm >= TDM_COLLECTIVE_RING || sums->items[i].comes_home;
  const tdm_ir_node *last = sums->updates->previous;
  *out_first = sums->updates;
  TDM_EACH_NODE(graph, node) {
    const bool is_sum = reads[node->index];
    for (uint32_t k = 0; k < node->input_count && !is_sum; k++)
      reads[node->index] |= reads[tdm_ir_value_at(graph, node->inputs[k])->producer];
    if (reads[node->index] && !is_sum) {
      tdm_move_node(graph, node, sums->updates);
      if (*out_first == sums->updates) *out_first = node;
    }
    if (node == last) break;
  }
  return TDM_OK;
}

/* Those that go around, in plan order, and turns: stretches of the order that end behind sums whose
 * terms are there together. A sum has its first round a turn later than it stands, so that the
 * first copies travel while devices compute, too. */
typedef struct schedule {
  tdm_sum **sums;     /* (count) */
  size_t *turns;      /* (count): of its first round, ascending */
  tdm_ir_node **ends; /* (turn_count): the last sum of each turn */
  size_t count;
  size_t turn_count;
  size_t *waiting; /* (waiting_count) whose terms have come home, and are not added there yet */
  size_t waiting_count;
} schedule;

static tdm_status make_room(const tdm_sums *sums, schedule *out) {
  tdm_region *region = sums->region;
  out->sums = tdm_region_take(region, sums->count * sizeof(void *), "collectives");
  out->turns = tdm_region_take(region, sums->count * sizeof *out->turns, "collectives");
  out->ends = tdm_region_take(region, sums->count * sizeof(void *), "collectives");
  out->waiting = tdm_region_take(region, sums->count * sizeof *out->waiting, "collectives");
  return out->sums && out->turns && out->ends && out->waiting ? TDM_OK : TDM_OUT_OF_MEMORY;
}

/* Of a device, while a round's messages have come and are still to be added. */
static size_t buckets_of(const tdm_graph *graph, const tdm_sum *sum) {
  return sum->comes_home ? tdm_terms_from_afar(graph, sum) : 1;
}

static tdm_status find_turns(const tdm_sums *sums, schedule *out) {
  const tdm_graph *graph = sums->graph;
  tdm_sum **sum_of =
      tdm_region_take(sums->region, graph->nodes.count * sizeof(void *), "collectives");
  if (!sum_of) return TDM_OUT_OF_MEMORY;
  TDM_TRY(make_room(sums, out));
  for (size_t i = 0; i < sums->count; i++)
    if (goes_in_rounds(&sums->items[i])) sum_of[sums->items[i].node->index] = &sums->items[i];
  bool computed = true; /* since the latest sum */
  size_t buckets = 0;
  TDM_EACH_NODE(graph, node) {
    tdm_sum *sum = sum_of[node->index];
    computed |= !sum && !node->operation->is_view;
    if (!sum) continue;
    out->turn_count += computed;
    computed = false;
    sum->bucket = buckets;
    buckets += buckets_of(sums->graph, sum);
    out->sums[out->count] = sum;
    out->turns[out->count++] = out->turn_count;
    out->ends[out->turn_count - 1] = node;
  }
  return TDM_OK;
}

/* Adds what has come home, of the first sums that wait. */
static tdm_status add_waiting(const tdm_sums *sums, schedule *plan, size_t count,
                              tdm_ir_node *before) {
  for (size_t i = 0; i < count; i++)
    TDM_TRY(add_home(sums->graph, plan->sums[plan->waiting[i]], before));
  plan->waiting_count -= count;
  memmove(plan->waiting, plan->waiting + count, plan->waiting_count * sizeof *plan->waiting);
  return TDM_OK;
}

static size_t end_of_buckets(const tdm_sums *sums, const schedule *plan, size_t i) {
  return plan->sums[i]->bucket + buckets_of(sums->graph, plan->sums[i]);
}

/* Those that a few sums' messages would overwrite; and once all is computed, those before them. */
static tdm_status make_way(const tdm_sums *sums, schedule *plan, size_t turn, const size_t *few,
                           size_t count, tdm_ir_node *before) {
  const size_t first = plan->sums[few[0]]->bucket;
  const size_t end = end_of_buckets(sums, plan, few[count - 1]);
  size_t moving = 0;
  for (size_t i = 0; i < plan->waiting_count; i++) {
    const size_t at = plan->waiting[i];
    const bool older = end > plan->sums[at]->bucket + TDM_HELD_BUCKETS;
    const bool newer = end_of_buckets(sums, plan, at) > first + TDM_HELD_BUCKETS;
    const bool computed = turn >= plan->turn_count && at < few[0];
    if (older || newer || computed) moving = i + 1;
  }
  return add_waiting(sums, plan, moving, before);
}

/* The messages of a few sums stand before what is added to any of these, which is sent on at once:
 * else each would wait for the finished pieces of the one before it. They want no more buckets than
 * there are, so that none overwrites what is still to be added. What has come home nobody sends on:
 * it is added when its buckets are wanted, or all is computed, so that no kernel waits for links
 * that have more to carry than devices compute. */
static tdm_status insert_few(const tdm_sums *sums, schedule *plan, size_t turn, const size_t *few,
                             size_t count, tdm_ir_node *before) {
  if (count == 0) return TDM_OK;
  TDM_TRY(make_way(sums, plan, turn, few, count, before));
  for (size_t i = 0; i < count; i++)
    TDM_TRY(begin_round(sums, plan->sums[few[i]], (uint32_t)(turn - plan->turns[few[i]]), before));
  for (size_t i = 0; i < count; i++) {
    tdm_sum *sum = plan->sums[few[i]];
    const bool waits = sum->comes_home && !adds_beside(sums->graph, sum->node->device);
    if (waits) plan->waiting[plan->waiting_count++] = few[i];
    if (sum->comes_home && !waits) TDM_TRY(add_home(sums->graph, sum, before));
    TDM_TRY(end_round(sums->graph, sum, (uint32_t)(turn - plan->turns[few[i]]), before));
  }
  return TDM_OK;
}

/* The rounds of one turn that leave their sums `left` rounds. */
static tdm_status insert_rounds(const tdm_sums *sums, schedule *plan, size_t turn, size_t left,
                                tdm_ir_node *before) {
  size_t few[TDM_BUCKETS], count = 0;
  for (size_t i = 0; i < plan->count && plan->turns[i] <= turn; i++) {
    const tdm_sum *sum = plan->sums[i];
    const size_t round = turn - plan->turns[i];
    if (round + left + 1 != rounds_of(sum)) continue;
    const size_t end = sum->bucket + buckets_of(sums->graph, sum);
    if (count > 0 && end - plan->sums[few[0]]->bucket > TDM_HELD_BUCKETS) {
      TDM_TRY(insert_few(sums, plan, turn, few, count, before));
      count = 0;
    }
    few[count++] = i;
  }
  return insert_few(sums, plan, turn, few, count, before);
}

/* What needs links alone goes first. Sums with an addition left come last, as what they have added
 * is sent on at once: their links have to wait for it, and nothing behind it on these queues. */
static tdm_status insert_turn(const tdm_sums *sums, schedule *plan, size_t turn, size_t most_rounds,
                              tdm_ir_node *before) {
  TDM_TRY(insert_rounds(sums, plan, turn, 0, before));
  for (size_t left = most_rounds; left-- > 1;)
    TDM_TRY(insert_rounds(sums, plan, turn, left, before));
  return TDM_OK;
}

tdm_status tdm_sum_in_rounds(const tdm_sums *sums) {
  schedule plan = {0};
  TDM_TRY(find_turns(sums, &plan));
  if (plan.count == 0) return TDM_OK;
  tdm_ir_node *end;
  TDM_TRY(tdm_defer_readers(sums, &end));
  size_t most_rounds = 0;
  for (size_t i = 0; i < plan.count; i++)
    if (rounds_of(plan.sums[i]) > most_rounds) most_rounds = rounds_of(plan.sums[i]);
  for (size_t turn = 1; turn < plan.turn_count + most_rounds; turn++) {
    tdm_ir_node *before = turn < plan.turn_count ? plan.ends[turn] : end;
    TDM_TRY(insert_turn(sums, &plan, turn, most_rounds, before));
  }
  return add_waiting(sums, &plan, plan.waiting_count, end);
}
