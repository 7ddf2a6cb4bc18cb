/* Sums in rings and trees, round by round.
 *
 *   in a ring (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 *             workstations", J. Parallel Distrib. Comput. 69, 2009) k devices cut a value of n
 *             bytes into k pieces. In k - 1 rounds each receives a piece from the one before it and
 *             adds its own; then in k - 1 rounds the finished pieces go around. Every device
 *             receives 2 (k - 1) messages of n / k bytes. Piece p begins at device p, so each piece
 *             has its own order of terms, which is always the same.
 *
 *   in a tree (binomial, as in Thakur, Rabenseifner, Gropp, "Optimization of collective
 *             communication operations in MPICH", Int. J. High Perform. Comput. Appl. 19, 2005)
 *             whole values go up in ceil(log2 k) rounds, with the home at the root. Then the sum
 *             goes down in as many. A device first adds what its nearest child sends.
 *
 * If devices do not update their own copies, one copy to the home replaces the second half.
 *
 *   if optimizer states are sharded the other devices' terms are sent to the sum's home in one
 * round, each over its own link, and are added there in the order of terms.
 *
 * Rounds of sums overlap: round r of a sum is placed where the sum r places later has its terms. So
 * devices compute later gradients during its transfers. Invariant: on every queue the operations of
 * rounds have one order of all sums and rounds, so that no two devices wait for each other. Readers
 * of such a sum are placed after the rounds of all sums. */
#include <string.h>

#include "graph/collectives/formulas.h"
#include "graph/collectives/sums.h"
#include "graph/passes/device_sums.h"
#include "graph/passes/passes.h"

static bool goes_in_rounds(const tdm_sum *sum) {
  return sum->algorithm == TDM_COLLECTIVE_RING || sum->algorithm == TDM_COLLECTIVE_TREE ||
         sum->comes_home;
}

/* Returns true if the device has a separate queue for additions. */
static bool adds_beside(const tdm_graph *graph, int16_t device) {
  return tdm_context_device(graph->context, (size_t)device)->queues[TDM_QUEUE_SUM] != NULL;
}

/* Puts an addition of a round, which waits for a link, on the queue for sums if there is one, so
 * that no kernel waits for it. 0: failure. */
static uint32_t put_beside(tdm_graph *graph, uint32_t made) {
  if (made) tdm_producer(graph, made)->sum.beside = true;
  return made;
}

/* ---- Before the first round ------------------------------------------------------------------ */

/* Makes one total per device: several terms on one device are added there, in their order. */
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

/* Returns the number of a bucket of rounds. The first bucket is excluded: it is for sums that are
 * added where they are, possibly between a round's messages and their additions. */
static size_t number_of(size_t bucket) {
  return 1 + bucket % TDM_HELD_BUCKETS;
}

/* Inserts the receipt of a piece of the partial sum by the next device: in a bucket, or in
 * place. */
static uint32_t receive(tdm_graph *graph, const tdm_insertion *at, const tdm_sum *sum,
                        uint32_t piece, size_t bucket) {
  if (tdm_shares_memory(graph, tdm_place_of(graph, piece), at->device)) return piece;
  const tdm_shape shape = tdm_ir_value_at(graph, piece)->spec->shape;
  const uint32_t view = tdm_view_there(graph, at, &shape, piece);
  if (!view) return 0;
  tdm_ir_node *node = tdm_producer(graph, view);
  node->sum_role = TDM_SUM_RECEIVE;
  node->sum.collective = (uint8_t)sum->algorithm;
  node->sum.bucket = (uint8_t)number_of(bucket);
  return view;
}

/* Returns the device that has received the piece at the end of a round. */
static uint32_t receiver_of(const tdm_sum *sum, uint32_t piece, uint32_t round) {
  return (piece + 1 + round) % sum->count;
}

/* Sends each piece of the partial sum to the next device. */
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

/* Adds a device's own term to the piece that it has received. The last device stores the piece in
 * its own memory, as a part of the result. All pieces are sent before any addition, because the
 * order is kept for a device's whole part of a sum, not for single pieces. */
static tdm_status add_ring(tdm_graph *graph, tdm_sum *sum, uint32_t round, size_t bucket,
                           tdm_ir_node *before) {
  const bool last = round + 2 == sum->count;
  for (uint32_t p = 0; p < sum->count; p++) {
    const uint32_t to = receiver_of(sum, p, round);
    const tdm_insertion at = tdm_sum_insertion(sum, before, sum->devices[to]);
    uint32_t *piece = piece_at(sum, to, p);
    sum->current[p] = put_beside(
        graph, tdm_sum_add(graph, &at, sum, last, *piece, sum->current[p], number_of(bucket)));
    if (!sum->current[p]) return tdm_graph_status(graph);
    if (last) *piece = sum->current[p];
  }
  return TDM_OK;
}

/* Sends each device's latest finished piece to the next device. */
static tdm_status gather_ring(tdm_graph *graph, tdm_sum *sum, uint32_t round, tdm_ir_node *before) {
  const uint32_t k = sum->count;
  for (uint32_t p = 0; p < k; p++) {
    const uint32_t to = (p + round) % k;
    const uint32_t from = (to + k - 1) % k;
    const tdm_insertion at = tdm_sum_insertion(sum, before, sum->devices[to]);
    const uint32_t piece = *piece_at(sum, from, p);
    const tdm_shape shape = tdm_ir_value_at(graph, piece)->spec->shape;
    *piece_at(sum, to, p) = tdm_view_there(graph, &at, &shape, piece);
    if (!*piece_at(sum, to, p)) return tdm_graph_status(graph);
  }
  return TDM_OK;
}

/* Joins the result for its users: on every device, or at home. */
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

/* Makes the device at `distance` send its whole value to the receiving device. */
static tdm_status reduce_tree(tdm_graph *graph, tdm_sum *sum, uint32_t distance, size_t bucket,
                              tdm_ir_node *before) {
  for (uint32_t i = 0; i + distance < sum->count; i += 2 * distance) {
    const tdm_insertion at = tdm_sum_insertion(sum, before, sum->devices[i]);
    sum->totals[i] = put_beside(graph, tdm_sum_add(graph, &at, sum, false, sum->totals[i],
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

/* Copies the terms to the home. */
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

/* Adds the terms at home in their order. */
static tdm_status add_home(tdm_graph *graph, tdm_sum *sum, tdm_ir_node *before) {
  const tdm_insertion at = tdm_sum_insertion(sum, before, sum->node->device);
  uint32_t total = tdm_begin_total(graph, &at, sum->current[0]);
  if (total != sum->current[0]) (void)put_beside(graph, total);
  for (uint32_t k = 1; k < sum->node->input_count && total; k++)
    total = put_beside(
        graph, tdm_sum_add(graph, &at, sum, false, total, sum->current[k], number_of(sum->bucket)));
  return total ? tdm_take_over(graph, sum, total) : tdm_graph_status(graph);
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static uint32_t reducing_rounds(const tdm_sum *sum) {
  return sum->algorithm == TDM_COLLECTIVE_RING ? sum->count - 1 : rounds_up(sum);
}

/* Returns the number of rounds. The last one uses only links: it sends and joins the result, or
 * copies it home. */
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

/* Inserts a round's messages or, in the last round, all remaining ones. */
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

/* Inserts the additions of what the messages have brought. */
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

/* The sums that go around, in plan order, and turns: sections of the order that end after sums
 * whose terms are available together. A sum has its first round one turn late, so that devices also
 * compute during the first copies. */
typedef struct schedule {
  tdm_sum **sums;     /* (count) */
  size_t *turns;      /* (count): turn of the first round of each sum, ascending */
  tdm_ir_node **ends; /* (turn_count): the last sum of each turn */
  size_t count;
  size_t turn_count;
  size_t *waiting; /* (waiting_count): sums whose terms were copied home but not yet added */
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

/* Returns how many buckets of a device are in use between a round's messages and their
 * additions. */
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
  bool computed = true; /* a node was computed since the latest sum */
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

/* Adds terms that were copied home, for the first `count` waiting sums. */
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

/* Adds the waiting sums whose buckets the messages of a few sums would overwrite; after all
 * computation also those before them. */
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

/* Inserts the messages of a few sums before all their additions, whose results are sent at once.
 * Otherwise each sum would wait for the finished pieces of the preceding one. These sums use at
 * most the existing buckets, so that none overwrites unadded data. Terms that were copied home are
 * not sent on. They are added when their buckets are needed or all computation is done, so that no
 * kernel waits for overloaded links. */
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

/* Inserts the rounds of one turn that leave their sums `left` rounds. */
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

/* Rounds that only use links go first. Sums with one addition left go last, because their results
 * are sent at once: their links wait for the addition, and nothing follows on these queues. */
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
