/* Detects stalled transfers. There are two kinds. Both ends are posted and the engine has all it
 * needs, yet nothing arrives: the engine's path is cut although the channel's is not, or a rank's
 * engine has stopped. Or the other end is not posted, because its rank waits in an operation that
 * this rank never reaches. Invariant: the clock of a transfer runs only while the other rank waits
 * as well, according to a recent beat. A post that is missing because its rank computes is not a
 * stall, nor is waiting for a silent rank. */
#include "core/hash.h"
#include "net/control_state.h"

enum {
  STALL_SECONDS = 10,
  MOST_STALL_SECONDS = 86400,
  NS_A_BYTE = 2000, /* the slowest supported link has 4 Mbit/s */
};
static const uint64_t look_ns = 2000000;       /* time between checks of the bytes that peers have
                                                * sent */
static const uint64_t most_look_ns = 20000000; /* limit of the time between two checks */

tdm_status control_read_stall(uint64_t *out_ns) {
  static const char variable[] = "TANDEM_NET_STALL_SECONDS";
  return control_read_seconds(variable, STALL_SECONDS, 1, MOST_STALL_SECONDS, out_ns);
}

static tdm_control_way facing(tdm_control_way way) {
  static const tdm_control_way facing_ways[TDM_CONTROL_WAYS] = {
      [TDM_CONTROL_SENDS] = TDM_CONTROL_RECEIVES,
      [TDM_CONTROL_RECEIVES] = TDM_CONTROL_SENDS,
      [TDM_CONTROL_GATHER_SENDS] = TDM_CONTROL_GATHER_RECEIVES,
      [TDM_CONTROL_GATHER_RECEIVES] = TDM_CONTROL_GATHER_SENDS,
      [TDM_CONTROL_COLLECTIVES] = TDM_CONTROL_COLLECTIVES,
  };
  return facing_ways[way];
}

void tdm_control_posted(tdm_control *control, tdm_control_transfer *transfer) {
  const int of = transfer->peer < 0 ? control->rank : transfer->peer;
  transfer->count = 1 + atomic_fetch_add_explicit(&control->peers[of].posted[transfer->way], 1,
                                                  memory_order_relaxed);
  transfer->clock = (tdm_control_clock){0};
  (void)atomic_fetch_add_explicit(&control->waits, 1, memory_order_relaxed);
}

void tdm_control_settled(tdm_control *control) {
  (void)atomic_fetch_sub_explicit(&control->waits, 1, memory_order_relaxed);
}

/* Returns true if every other end has been posted, by a rank that waits and is heard. */
static bool is_met(tdm_control *control, const tdm_control_transfer *transfer, uint64_t now_ns) {
  const tdm_control_way way = facing(transfer->way);
  bool met = true;
  (void)pthread_mutex_lock(&control->lock);
  for (int rank = 0; rank < control->rank_count && met; rank++) {
    const tdm_control_peer *told = &control->peers[rank].known.peer;
    if (rank == control->rank || (transfer->peer >= 0 && rank != transfer->peer)) continue;
    met = told->waits && told->posted[way] >= transfer->count &&
          control_is_heard(control, told, now_ns);
  }
  (void)pthread_mutex_unlock(&control->lock);
  return met;
}

/* ---- Different orders -------------------------------------------------------------------------
 */

void tdm_control_begun(tdm_control *control, uint64_t what) {
  (void)pthread_mutex_lock(&control->lock);
  const uint64_t before = control->histories[control->runs % CONTROL_RUNS];
  control->runs++;
  control->histories[control->runs % CONTROL_RUNS] = tdm_hash_mix(before, what);
  control->refusals[(control->runs + 1) % CONTROL_RUNS] = 0;
  control->under_way++;
  (void)pthread_mutex_unlock(&control->lock);
}

void tdm_control_ended(tdm_control *control) {
  (void)pthread_mutex_lock(&control->lock);
  control->under_way--;
  (void)pthread_mutex_unlock(&control->lock);
}

/* Returns true if the rank has begun another run in place of one of this rank's. */
static bool differs(const tdm_control *control, const tdm_control_peer *told) {
  return told->runs <= control->runs && control->runs - told->runs < CONTROL_RUNS &&
         control->histories[told->runs % CONTROL_RUNS] != told->history;
}

/* Returns true if the rank waits for something else, has not posted the other end, and will never
 * come to it. *out_moved grows with all progress of the two ranks. */
static bool is_apart(const tdm_control *control, const tdm_control_transfer *transfer,
                     const tdm_control_peer *told, uint64_t *out_moved) {
  const bool gathers =
      transfer->way == TDM_CONTROL_GATHER_SENDS || transfer->way == TDM_CONTROL_GATHER_RECEIVES;
  *out_moved += told->runs + control->runs;
  for (int way = 0; way < TDM_CONTROL_WAYS; way++)
    *out_moved += told->posted[way];
  if (!told->waits || told->posted[facing(transfer->way)] >= transfer->count) return false;
  return differs(control, told) || (gathers && told->runs > control->runs);
}

/* Returns true if is_apart holds for any rank that the transfer waits for. */
static bool find_apart(tdm_control *control, tdm_control_transfer *transfer, uint64_t now_ns,
                       uint64_t *out_moved) {
  bool apart = false;
  (void)pthread_mutex_lock(&control->lock);
  for (int rank = 0; rank < control->rank_count; rank++) {
    if (rank == control->rank || (transfer->peer >= 0 && rank != transfer->peer)) continue;
    const tdm_control_peer *told = &control->peers[rank].known.peer;
    if (!is_apart(control, transfer, told, out_moved) || apart) continue;
    if (!control_is_heard(control, told, now_ns)) continue;
    apart = true;
    transfer->apart = rank;
  }
  (void)pthread_mutex_unlock(&control->lock);
  return apart;
}

/* ---- Clocks -----------------------------------------------------------------------------------
 */

bool tdm_control_has_come(tdm_control *control, int rank, int queue, uint64_t command) {
  tdm_control_peer peer;
  tdm_control_peer_get(control, rank, &peer);
  return queue < peer.queue_count && peer.progress[queue] >= command &&
         (rank == control->rank || control_is_heard(control, &peer, tdm_time_ns()));
}

bool tdm_control_clock_due(const tdm_control_clock *clock, uint64_t now_ns) {
  return clock->looked_ns == 0 || now_ns - clock->looked_ns >= look_ns;
}

void control_clock_add(tdm_control_clock *clock, bool holds, uint64_t now_ns) {
  const uint64_t since_ns = clock->looked_ns == 0 ? 0 : now_ns - clock->looked_ns;
  clock->looked_ns = now_ns;
  if (holds) clock->stalled_ns += since_ns < most_look_ns ? since_ns : most_look_ns;
}

bool tdm_control_clock_runs_out(const tdm_control *control, tdm_control_clock *clock, bool all_wait,
                                size_t bytes, uint64_t now_ns) {
  control_clock_add(clock, all_wait, now_ns);
  return clock->stalled_ns > control->options.stall_ns + NS_A_BYTE * bytes;
}

tdm_control_stall tdm_control_stalls(tdm_control *control, tdm_control_transfer *transfer,
                                     uint64_t now_ns) {
  if (!tdm_control_clock_due(&transfer->clock, now_ns)) return TDM_CONTROL_MOVES;
  uint64_t moved = 0;
  const bool met = is_met(control, transfer, now_ns);
  const bool apart = !met && find_apart(control, transfer, now_ns, &moved);
  if (apart && moved != transfer->moved) transfer->clock.stalled_ns = 0;
  transfer->moved = moved;
  if (!tdm_control_clock_runs_out(control, &transfer->clock, met || apart, transfer->bytes, now_ns))
    return TDM_CONTROL_MOVES;
  return apart ? TDM_CONTROL_APART : TDM_CONTROL_STANDS;
}
