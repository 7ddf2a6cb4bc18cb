/* Handles the control channel's messages, beats and silence. Invariant: a peer has one link, the
 * first that was authenticated. The higher rank of each pair connects. Only the first failure is
 * recorded. */
#include <stdio.h>
#include <string.h>

#include "net/control_state.h"

void control_count(tdm_control *control, control_dropped_kind kind) {
  (void)atomic_fetch_add_explicit(&control->dropped[kind], 1, memory_order_relaxed);
}

void control_publish(tdm_control *control, control_peer *peer) {
  peer->is_new = pthread_mutex_trylock(&control->lock) != 0;
  if (peer->is_new) return;
  peer->known = peer->told;
  (void)pthread_mutex_unlock(&control->lock);
}

static control_message own_beat(tdm_control *control) {
  control_message beat = {.kind = CONTROL_BEAT,
                          .queue_count =
                              atomic_load_explicit(&control->queue_count, memory_order_relaxed)};
  for (int i = 0; i < beat.queue_count; i++)
    beat.progress[i] = atomic_load_explicit(&control->progress[i], memory_order_relaxed);
  beat.waits = atomic_load_explicit(&control->waits, memory_order_relaxed) > 0;
  return beat;
}

/* Adds this rank's runs, now or as of the last time that the lock was free. */
static void add_history(tdm_control *control, control_message *beat) {
  control_runs *own = &control->own_runs;
  if (pthread_mutex_trylock(&control->lock) == 0) {
    *own = (control_runs){.count = control->runs,
                          .history = control->histories[control->runs % CONTROL_RUNS],
                          .under_way = control->under_way};
    (void)pthread_mutex_unlock(&control->lock);
  }
  beat->runs = own->count;
  beat->history = own->history;
  beat->under_way = own->under_way;
}

static void send_beat(control_link *link, control_message *beat) {
  control_peer *peers = link->control->peers;
  add_history(link->control, beat);
  for (int way = 0; way < TDM_CONTROL_WAYS; way++) {
    const int of = way == TDM_CONTROL_COLLECTIVES ? link->control->rank : link->peer;
    beat->posted[way] = atomic_load_explicit(&peers[of].posted[way], memory_order_relaxed);
  }
  control_send(link, beat);
}

/* ---- Failure --------------------------------------------------------------------------------- */

void control_fail_first(tdm_control *control, const tdm_control_failure *failure) {
  if (atomic_load(&control->failed)) return;
  const tdm_control_peer *told = &control->peers[failure->rank].told.peer;
  tdm_control_failure *kept = &control->failure;
  *kept = *failure;
  kept->named = control->ranks[failure->rank];
  const control_message own = own_beat(control);
  const bool is_own = failure->rank == control->rank;
  kept->queue_count = is_own ? own.queue_count : told->queue_count;
  memcpy(kept->progress, is_own ? own.progress : told->progress, sizeof kept->progress);
  atomic_store(&control->failed, true);
  tdm_doorbell_ring(&control->bell);
  if (control->options.failed) control->options.failed(control->options.user, kept);
}

void control_tell_all(tdm_control *control, control_message *message) {
  for (int rank = 0; rank < control->rank_count; rank++)
    if (control->peers[rank].link) control_send(control->peers[rank].link, message);
}

/* Records a loss that this rank has detected itself. */
static void lose(tdm_control *control, int rank, tdm_control_cause cause, uint64_t silent_ns) {
  control_peer *peer = &control->peers[rank];
  if (peer->lost || peer->told.peer.left || control->leaving) return;
  peer->lost = true;
  control_tell_all(control, &(control_message){.kind = CONTROL_LOST,
                                               .lost_rank = rank,
                                               .cause = cause,
                                               .silent_ms = (uint32_t)(silent_ns / 1000000)});
  control_fail_first(control, &(tdm_control_failure){.rank = rank,
                                                     .cause = cause,
                                                     .observer = control->rank,
                                                     .silent_ns = silent_ns,
                                                     .status = TDM_UNAVAILABLE});
}

/* ---- Links ----------------------------------------------------------------------------------- */

/* Ends an attempt to connect. After the last one, a peer that accepted a connection and then closed
 * it counts as reachable: it may have been too busy to read the greeting in time. It is greeted
 * again with the next beat. */
void control_give_up_attempt(tdm_control *control, int rank, int code) {
  control_peer *peer = &control->peers[rank];
  peer->last_error = code;
  if (--peer->attempts > 0 || peer->link || control->leaving) return;
  peer->again = peer->greeted;
  if (peer->again) return;
  atomic_store(&control->unreachable, rank);
  tdm_doorbell_ring(&control->bell);
}

static void connect_again(tdm_control *control) {
  for (int rank = 0; rank < control->rank; rank++) {
    control_peer *peer = &control->peers[rank];
    if (!peer->again) continue;
    peer->again = false;
    control_connect(control, rank);
  }
}

void control_link_ended(control_link *link, int code) {
  tdm_control *control = link->control;
  if (link->adopted) {
    control_peer *peer = &control->peers[link->peer];
    peer->link = NULL;
    lose(control, link->peer, TDM_CONTROL_ENDED, tdm_time_ns() - peer->told.peer.heard_ns);
  } else if (!link->incoming) {
    control->peers[link->peer].greeted |= link->greeted;
    control_give_up_attempt(control, link->peer, code);
  } else if (code != 0) {
    control_count(control, CONTROL_STRANGER);
  }
}

/* Makes the link its peer's only one, and closes other attempts at the same peer. */
static void adopt(control_link *link) {
  tdm_control *control = link->control;
  control_peer *peer = &control->peers[link->peer];
  link->adopted = true;
  control_link_keep(link);
  peer->link = link;
  control_link *next = NULL;
  for (control_link *other = control->links; other; other = next) {
    next = other->next;
    if (other != link && !other->adopted && other->peer == link->peer) control_link_close(other);
  }
  if (link->incoming) {
    control_message beat = own_beat(control);
    send_beat(link, &beat);
  }
  atomic_fetch_add(&control->connected, 1);
  tdm_doorbell_ring(&control->bell);
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* Returns true if the message comes from the link's peer. A link without a peer gets it from its
 * greeting. */
static bool belongs(control_link *link, const control_message *message) {
  tdm_control *control = link->control;
  control_peer *peer = &control->peers[message->from];
  const bool hello = message->kind == CONTROL_HELLO;
  if (message->to != control->rank || message->from == control->rank ||
      (link->peer >= 0 && link->peer != message->from) || hello != (link->peer < 0) ||
      (hello && message->from < control->rank)) {
    control_count(control, CONTROL_BAD_CODE);
    return false;
  }
  if (hello && peer->link) return false; /* the peer is already connected by another address */
  if (message->sequence <= peer->sequence) {
    control_count(control, CONTROL_REPEATED);
    return false;
  }
  return true;
}

static void hear(tdm_control *control, control_peer *peer, const control_message *message) {
  tdm_control_peer *told = &peer->told.peer;
  peer->sequence = message->sequence;
  control_note_heard(control, peer);
  const bool leaves = message->kind == CONTROL_LEAVE || message->kind == CONTROL_PART;
  const bool has_left = leaves && !told->left;
  told->left |= leaves;
  if (message->kind == CONTROL_BEAT) {
    told->queue_count = message->queue_count;
    memcpy(told->progress, message->progress, sizeof message->progress);
    told->waits = message->waits;
    memcpy(told->posted, message->posted, sizeof message->posted);
    told->runs = message->runs;
    told->history = message->history;
    told->under_way = message->under_way;
  }
  control_publish(control, peer);
  if (!has_left) return;
  atomic_fetch_add(&control->left, 1);
  tdm_doorbell_ring(&control->bell);
}

static void take_failure(tdm_control *control, const control_message *message) {
  const bool lost = message->kind == CONTROL_LOST;
  tdm_control_failure failure = {
      .rank = lost ? message->lost_rank : message->from,
      .cause = lost ? message->cause : TDM_CONTROL_GAVE_UP,
      .observer = message->from,
      .silent_ns = UINT64_C(1000000) * message->silent_ms,
      .status = lost ? TDM_UNAVAILABLE : message->status,
  };
  memcpy(failure.reason, message->reason, sizeof failure.reason);
  control->peers[failure.rank].lost = true;
  control_fail_first(control, &failure);
}

void control_take(control_link *link, const control_message *message) {
  tdm_control *control = link->control;
  if (!belongs(link, message)) {
    if (!link->adopted && link->incoming) control_link_close(link);
    return;
  }
  control_peer *peer = &control->peers[message->from];
  hear(control, peer, message);
  link->peer = message->from;
  if (!link->adopted) adopt(link);
  if (message->kind == CONTROL_LOST || message->kind == CONTROL_GIVE_UP) {
    take_failure(control, message);
  } else if (message->kind == CONTROL_REFUSAL) {
    control_take_refusal(control, message);
  } else if (message->kind == CONTROL_LEAVE) {
    peer->link = NULL;
    control_link_close(link);
  }
}

/* ---- Beats ----------------------------------------------------------------------------------- */

/* Excludes time in which this process did not run from every peer's silence: messages that arrived
 * in it are yet to be read. */
static void forgive(tdm_control *control, uint64_t late_ns) {
  for (control_link *link = control->links; link; link = link->next)
    link->opened_ns += late_ns;
  for (int rank = 0; rank < control->rank_count; rank++) {
    control_peer *peer = &control->peers[rank];
    peer->told.peer.heard_ns += late_ns;
    peer->is_new = true;
  }
}

static void check_silence(tdm_control *control, uint64_t now_ns) {
  for (int rank = 0; rank < control->rank_count; rank++) {
    control_peer *peer = &control->peers[rank];
    const uint64_t heard_ns = peer->told.peer.heard_ns;
    if (!peer->link || now_ns < heard_ns) continue;
    control_note_silence(control, peer, now_ns - heard_ns);
    if (now_ns - heard_ns > control->options.silence_ns)
      lose(control, rank, TDM_CONTROL_SILENT, now_ns - heard_ns);
  }
}

/* Publishes what could not be published at once. */
static void publish_all(tdm_control *control) {
  for (int rank = 0; rank < control->rank_count; rank++)
    if (control->peers[rank].is_new) control_publish(control, &control->peers[rank]);
}

static void note_late(tdm_control *control, uint64_t late_ns) {
  if (late_ns > atomic_load_explicit(&control->worst_late_ns, memory_order_relaxed))
    atomic_store_explicit(&control->worst_late_ns, late_ns, memory_order_relaxed);
}

/* Closes connections that have not authenticated themselves in time. */
static void end_slow_strangers(tdm_control *control, uint64_t now_ns) {
  control_link *next = NULL;
  for (control_link *link = control->links; link; link = next) {
    next = link->next;
    if (!link->incoming || link->adopted || now_ns < link->opened_ns + CONTROL_HELLO_NS) continue;
    control_link_ended(link, UV_ETIMEDOUT);
    control_link_close(link);
  }
}

static void follow_pause(tdm_control *control) {
  const bool paused = atomic_load(&control->wants_pause);
  if (paused == control->paused) return;
  control->paused = paused;
  for (control_link *link = control->links; link; link = link->next)
    control_link_pause(link, paused);
}

void control_beat(tdm_timer *timer) {
  tdm_control *control = (tdm_control *)((char *)timer - offsetof(tdm_control, beat));
  const uint64_t now_ns = tdm_time_ns();
  const uint64_t late_ns = now_ns - timer->due_ns;
  note_late(control, late_ns);
  follow_pause(control);
  if (late_ns > control->options.beat_ns || control->paused)
    forgive(control, late_ns + (control->paused ? control->options.beat_ns : 0));
  if (!control->paused) {
    check_silence(control, now_ns);
    end_slow_strangers(control, now_ns);
    if (control->has_knocked) control_let_in(control);
    connect_again(control);
    publish_all(control);
    control_tell_refusal(control, false);
    control_message beat = own_beat(control);
    for (int rank = 0; rank < control->rank_count; rank++)
      if (control->peers[rank].link) send_beat(control->peers[rank].link, &beat);
  }
  tdm_loop_timer_start(control->loop, &control->beat, now_ns + control->options.beat_ns);
}
