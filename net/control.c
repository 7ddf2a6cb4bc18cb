/* Creates and ends the control channel, and serves the calls of other threads. Invariant: see
 * control_state.h; the loop is closed after the last handle. */
#include "net/control.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/number.h"
#include "core/process.h"
#include "net/control_state.h"

#define CONTROL_OF(member, pointer)                                                                \
  ((tdm_control *)((char *)(pointer)-offsetof(tdm_control, member)))

/* ---- On the loop ----------------------------------------------------------------------------- */

/* Finds this machine's addresses, or those of one interface if it is named. */
static int find_addresses(tdm_control *control) {
  control_addresses *own = &control->addresses[control->rank];
  const char *wanted = control->options.interface;
  uv_interface_address_t *found;
  int count = 0;
  const int code = uv_interface_addresses(&found, &count);
  if (code != 0) return code;
  for (int pass = 0; pass < 2; pass++) { /* loopback addresses last */
    for (int i = 0; i < count && own->count < CONTROL_ADDRESSES; i++) {
      char *text = own->text[own->count];
      const bool old = found[i].address.address4.sin_family == AF_INET;
      if (found[i].is_internal != pass || (wanted && strcmp(found[i].name, wanted) != 0)) continue;
      if (old) (void)uv_ip4_name(&found[i].address.address4, text, CONTROL_ADDRESS_BYTES);
      if (!old) (void)uv_ip6_name(&found[i].address.address6, text, CONTROL_ADDRESS_BYTES);
      own->count += strncmp(text, "fe80:", 5) != 0; /* valid on one link only */
    }
  }
  uv_free_interface_addresses(found, count);
  return own->count > 0 ? 0 : UV_ENODEV;
}

static void on_listen(tdm_loop_task *task) {
  tdm_control *control = CONTROL_OF(listen_task, task);
  control_raise_thread();
  tdm_low_descriptors low; /* libuv aborts if it has to close 0, 1 or 2 */
  control->listen_code = UV_EMFILE;
  if (tdm_low_descriptors_hold(&low) == TDM_OK) {
    control->listen_code = find_addresses(control);
    if (control->listen_code == 0) control->listen_code = control_listen(control);
    tdm_low_descriptors_release(&low);
  }
  control_addresses *own = &control->addresses[control->rank];
  const char *wanted = control->options.interface;
  if (control->listen_code != 0) {
    own->port = 0;
    (void)snprintf(own->absence, sizeof own->absence, "it cannot listen%s%.64s: %s",
                   wanted ? " on interface " : "", wanted ? wanted : "",
                   uv_strerror(control->listen_code));
  }
  atomic_store(&control->listened, true);
  tdm_doorbell_ring(&control->bell);
}

static void on_connect(tdm_loop_task *task) {
  tdm_control *control = CONTROL_OF(connect_task, task);
  for (int rank = 0; rank < control->rank; rank++)
    control_connect(control, rank);
  control->beat.run = control_beat;
  tdm_loop_timer_start(control->loop, &control->beat, tdm_time_ns() + control->options.beat_ns);
  tdm_doorbell_ring(&control->bell);
}

static void on_give_up(tdm_loop_task *task) {
  tdm_control *control = CONTROL_OF(give_up_task, task);
  control_message message = {.kind = CONTROL_GIVE_UP, .status = control->given_status};
  memcpy(message.reason, control->given_reason, sizeof message.reason);
  control_tell_all(control, &message);
  tdm_control_failure failure = {.rank = control->rank,
                                 .cause = TDM_CONTROL_GAVE_UP,
                                 .observer = control->rank,
                                 .status = control->given_status};
  memcpy(failure.reason, control->given_reason, sizeof failure.reason);
  control_fail_first(control, &failure);
}

/* ---- Leaving --------------------------------------------------------------------------------- */

static void on_part(tdm_loop_task *task) {
  tdm_control *control = CONTROL_OF(part_task, task);
  control_tell_refusal(control, true);
  control_tell_all(control, &(control_message){.kind = CONTROL_PART});
}

static void on_listener_closed(uv_handle_t *handle) {
  control_handle_closed(handle->data);
}

void control_handle_closed(tdm_control *control) {
  const bool last = --control->handles == 0 && control->leaving;
  if (control->parting.link && !control->links)
    tdm_loop_timer_stop(control->loop, &control->parting);
  if (!last) return;
  atomic_store(&control->closed, true);
  tdm_doorbell_ring(&control->bell);
}

static void close_links(tdm_timer *timer) {
  tdm_control *control = CONTROL_OF(parting, timer);
  while (control->links)
    control_link_close(control->links);
}

/* Sends the last message; a peer that has read it closes its side. */
static void on_leave(tdm_loop_task *task) {
  tdm_control *control = CONTROL_OF(leave_task, task);
  control->leaving = true;
  tdm_loop_timer_stop(control->loop, &control->beat);
  control->handles++; /* keeps the loop open until the end of this function */
  if (control->listens) uv_close((uv_handle_t *)&control->listener, on_listener_closed);
  if (control->in_order) {
    control_tell_refusal(control, true);
    control_tell_all(control, &(control_message){.kind = CONTROL_LEAVE});
  }
  control_link *next = NULL;
  for (control_link *link = control->links; link; link = next) {
    next = link->next;
    if (!link->adopted || !control->in_order) control_link_close(link);
  }
  control->parting.run = close_links;
  if (control->links)
    tdm_loop_timer_start(control->loop, &control->parting, tdm_time_ns() + CONTROL_LEAVE_NS);
  control_handle_closed(control);
}

/* ---- Waiting for the loop -------------------------------------------------------------------- */

static bool is_set(const tdm_control *control, const void *flag) {
  (void)control;
  return atomic_load((const _Atomic bool *)flag);
}

static bool is_settled(const tdm_control *control, const void *unused) {
  (void)unused;
  return atomic_load(&control->connected) >= control->rank_count - 1 ||
         atomic_load(&control->unreachable) >= 0 || atomic_load(&control->failed);
}

/* Waits until the condition holds. Returns false after timeout_ns (0: no limit). */
static bool wait_until(tdm_control *control, bool (*holds)(const tdm_control *, const void *),
                       const void *user, uint64_t timeout_ns) {
  const uint64_t begin_ns = tdm_time_ns();
  for (;;) {
    const uint32_t seen = tdm_doorbell_read(&control->bell);
    if (holds(control, user)) return true;
    const uint64_t waited_ns = tdm_time_ns() - begin_ns;
    if (timeout_ns > 0 && waited_ns >= timeout_ns) return false;
    tdm_doorbell_park(&control->bell, seen,
                      timeout_ns > 0 ? (int64_t)(timeout_ns - waited_ns) : -1);
  }
}

/* ---- Starting -------------------------------------------------------------------------------- */

static void free_control(tdm_control *control) {
  const tdm_allocator allocator = control->allocator;
  const size_t count = (size_t)control->rank_count;
  sodium_memzero(control->key, sizeof control->key);
  (void)pthread_mutex_destroy(&control->lock);
  tdm_release(&allocator, control->ranks, count * sizeof *control->ranks);
  tdm_release(&allocator, control->addresses, count * sizeof *control->addresses);
  tdm_release(&allocator, control->peers, count * sizeof *control->peers);
  tdm_release(&allocator, control->all_links, control->link_count * sizeof *control->all_links);
  tdm_release(&allocator, control, sizeof *control);
}

static tdm_control *create_control(const tdm_endpoint *endpoint,
                                   const tdm_control_options *options) {
  const size_t count = (size_t)endpoint->rank_count;
  tdm_control *control = tdm_allocate(&options->allocator, sizeof *control, "a control channel");
  if (!control) return NULL;
  control->allocator = options->allocator;
  control->options = *options;
  if (options->beat_ns == 0) control->options.beat_ns = 100000000;
  if (options->suspect_ns == 0) control->options.suspect_ns = 1000000000;
  if (options->timeout_ns == 0) control->options.timeout_ns = UINT64_C(30000000000);
  if (!options->interface) control->options.interface = getenv("TANDEM_NET_INTERFACE");
  control->rank = endpoint->rank;
  control->rank_count = endpoint->rank_count;
  atomic_store(&control->queue_count, options->queue_count);
  atomic_store(&control->unreachable, -1);
  (void)pthread_mutex_init(&control->lock, NULL); /* glibc's mutexes need no resources */
  control->ranks = tdm_allocate(&options->allocator, count * sizeof *control->ranks, "ranks");
  control->addresses =
      tdm_allocate(&options->allocator, count * sizeof *control->addresses, "addresses");
  control->peers = tdm_allocate(&options->allocator, count * sizeof *control->peers, "peers");
  if (!control->ranks || !control->addresses || !control->peers ||
      control_make_links(control) != TDM_OK) {
    free_control(control);
    return NULL;
  }
  memcpy(control->ranks, endpoint->ranks, count * sizeof *control->ranks);
  return control;
}

/* Distributes the key that rank 0 draws to all ranks, through the engine. */
static tdm_status share_key(tdm_control *control, tdm_endpoint *endpoint) {
  tdm_net_request *request = &control->request;
  if (control->rank == 0 && uv_random(NULL, NULL, control->key, CONTROL_KEY_BYTES, 0, NULL) != 0)
    return tdm_fail(TDM_UNAVAILABLE, "the system gives no random numbers");
  TDM_TRY(tdm_endpoint_broadcast(endpoint, request, 0, control->key, CONTROL_KEY_BYTES));
  return tdm_endpoint_wait(endpoint, request, control->options.timeout_ns);
}

/* Fails unless all ranks have the same version: later messages depend on it. */
static tdm_status check_versions(const tdm_control *control, const tdm_endpoint *endpoint) {
  char text[TDM_NET_RANK_TEXT_BYTES];
  const char *first = control->addresses[0].version;
  for (int rank = 1; rank < control->rank_count; rank++) {
    const char *version = control->addresses[rank].version;
    if (strncmp(version, first, CONTROL_VERSION_BYTES) == 0) continue;
    return tdm_fail(TDM_UNSUPPORTED,
                    "%s has version %.*s of Tandem, and rank 0 has %.*s: all ranks have the same",
                    tdm_endpoint_rank_text(endpoint, rank, text), CONTROL_VERSION_BYTES - 1,
                    version, CONTROL_VERSION_BYTES - 1, first);
  }
  return TDM_OK;
}

/* Reads the limits that no option sets from the environment. */
static tdm_status read_limits(tdm_control *control) {
  tdm_control_options *options = &control->options;
  if (options->stall_ns == 0) TDM_TRY(control_read_stall(&options->stall_ns));
  if (options->silence_ns == 0) TDM_TRY(control_read_silence(&options->silence_ns));
  return TDM_OK;
}

/* Applies the largest limit of silence of all ranks. */
static void take_largest_silence(tdm_control *control) {
  for (int rank = 0; rank < control->rank_count; rank++)
    if (control->addresses[rank].silence_ns > control->options.silence_ns)
      control->options.silence_ns = control->addresses[rank].silence_ns;
}

static void listen_at_once(tdm_control *control) {
  control->listen_task.run = on_listen;
  tdm_loop_post(control->loop, &control->listen_task);
  (void)wait_until(control, is_set, &control->listened, 0);
}

/* Exchanges the ranks' addresses. A rank that cannot take part sends the reason instead, so that
 * all ranks report it: it has failed (`able`, with the thread's message), or it cannot listen. */
static tdm_status share_addresses(tdm_control *control, tdm_endpoint *endpoint, tdm_status able) {
  control_addresses *own = &control->addresses[control->rank];
  if (able == TDM_OK)
    listen_at_once(control);
  else
    (void)snprintf(own->absence, sizeof own->absence, "%s", tdm_last_message());
  tdm_net_request *request = &control->request;
  (void)snprintf(own->version, sizeof own->version, "%s", tdm_version());
  own->silence_ns = control->options.silence_ns;
  TDM_TRY(tdm_endpoint_all_gather(endpoint, request, own, control->addresses, sizeof *own));
  TDM_TRY(tdm_endpoint_wait(endpoint, request, control->options.timeout_ns));
  TDM_TRY(check_versions(control, endpoint));
  char text[TDM_NET_RANK_TEXT_BYTES];
  for (int rank = 0; rank < control->rank_count; rank++) {
    const control_addresses *told = &control->addresses[rank];
    if (told->port != 0) continue;
    return tdm_fail(rank == control->rank && able != TDM_OK ? able : TDM_UNAVAILABLE,
                    "the control channel of %s: %.*s", tdm_endpoint_rank_text(endpoint, rank, text),
                    TDM_CONTROL_REASON_BYTES - 1, told->absence);
  }
  take_largest_silence(control);
  return TDM_OK;
}

/* Returns the first rank that is not connected. */
static int missing_rank(const tdm_control *control) {
  const int unreachable = atomic_load(&control->unreachable);
  for (int rank = 0; rank < control->rank_count && unreachable < 0; rank++) {
    tdm_control_peer peer;
    tdm_control_peer_get((tdm_control *)control, rank, &peer);
    if (rank != control->rank && peer.heard_ns == 0) return rank;
  }
  return unreachable < 0 ? 0 : unreachable;
}

static tdm_status fail_connecting(tdm_control *control, tdm_endpoint *endpoint, bool in_time) {
  tdm_control_failure failure;
  char known[TDM_CONTROL_TEXT_BYTES];
  if (tdm_control_failed(control, &failure)) {
    return tdm_fail(TDM_UNAVAILABLE, "while ranks connect: %s",
                    tdm_control_failure_text(&failure, known));
  }
  char text[TDM_NET_RANK_TEXT_BYTES];
  const int rank = missing_rank(control);
  const control_addresses *to = &control->addresses[rank];
  const bool refused = atomic_load(&control->unreachable) >= 0;
  return tdm_fail(
      TDM_UNAVAILABLE,
      "the control channel has no TCP connection with %s, of %u addresses, the first "
      "%s, port %u%s%s%s; is there a firewall? TANDEM_NET_INTERFACE names the interface",
      tdm_endpoint_rank_text(endpoint, rank, text), to->count, to->text[0], to->port,
      in_time ? "" : ", in time", refused ? ": " : "",
      refused ? uv_strerror(control->peers[rank].last_error) : "");
}

static tdm_status connect_all(tdm_control *control, tdm_endpoint *endpoint) {
  control->connect_task.run = on_connect;
  tdm_loop_post(control->loop, &control->connect_task);
  const bool in_time = wait_until(control, is_settled, NULL, control->options.timeout_ns);
  if (atomic_load(&control->connected) >= control->rank_count - 1) return TDM_OK;
  const tdm_status status = fail_connecting(control, endpoint, in_time);
  tdm_control_give_up(control, status, tdm_last_message()); /* sends the reason */
  return status;
}

static tdm_status watch(tdm_control *control) {
  const tdm_status status = control_watch_start(control);
  if (status != TDM_OK) tdm_control_give_up(control, status, tdm_last_message());
  return status;
}

/* Channels whose requests are still outstanding in an engine, because other ranks did not join in
 * time. The engine may still access their memory. */
static _Atomic(tdm_control *) forgotten;

static void forget(tdm_control *control) {
  control->next = atomic_load(&forgotten);
  while (!atomic_compare_exchange_weak(&forgotten, &control->next, control))
    continue;
}

/* Ends everything of the channel except its memory. */
static void end(tdm_control *control, bool in_order) {
  control_exit_remove(control);
  control_watch_stop(control);
  control->in_order = in_order;
  control->leave_task.run = on_leave;
  tdm_loop_post(control->loop, &control->leave_task);
  (void)wait_until(control, is_set, &control->closed, 0);
  tdm_loop_close(control->loop, NULL, NULL);
}

tdm_status tdm_control_start(tdm_endpoint *endpoint, const tdm_control_options *options,
                             tdm_control **out_control) {
  *out_control = NULL;
  if (options->struct_size != sizeof *options || options->queue_count < 0 ||
      options->queue_count > TDM_CONTROL_QUEUES) {
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "a control channel of %d queues, with options of %zu bytes",
                    options->queue_count, options->struct_size);
  }
  tdm_control *control = create_control(endpoint, options);
  if (!control) return TDM_OUT_OF_MEMORY;
  tdm_status status = tdm_loop_create(&control->allocator, NULL, &control->loop);
  if (status != TDM_OK) {
    free_control(control);
    return status;
  }
  status = share_key(control, endpoint);
  const tdm_status able = status == TDM_OK ? read_limits(control) : TDM_OK;
  if (status == TDM_OK) status = share_addresses(control, endpoint, able);
  if (status == TDM_OK) status = connect_all(control, endpoint);
  if (status == TDM_OK) status = watch(control);
  if (status != TDM_OK) {
    end(control, atomic_load(&control->given_up)); /* its messages must be sent before it ends */
    if (endpoint->posted_count > 0)
      forget(control);
    else
      free_control(control);
    return status;
  }
  control_exit_add(control);
  *out_control = control;
  return TDM_OK;
}

static bool is_over(const tdm_control *control, const void *unused) {
  (void)unused;
  return atomic_load(&control->left) >= control->rank_count - 1 || atomic_load(&control->failed);
}

bool tdm_control_part(tdm_control *control) {
  control->part_task.run = on_part;
  tdm_loop_post(control->loop, &control->part_task);
  (void)wait_until(control, is_over, NULL, 0);
  return !atomic_load(&control->failed);
}

void tdm_control_leave(tdm_control *control) {
  if (!control) return;
  end(control, true);
  free_control(control);
}

void tdm_control_abandon(tdm_control *control) {
  if (!control) return;
  end(control, false);
  free_control(control);
}

/* ---- Calls of other threads ------------------------------------------------------------------ */

void tdm_control_progress(tdm_control *control, int queue, uint64_t command) {
  atomic_store_explicit(&control->progress[queue], command, memory_order_relaxed);
  int count = atomic_load_explicit(&control->queue_count, memory_order_relaxed);
  while (count <= queue && !atomic_compare_exchange_weak(&control->queue_count, &count, queue + 1))
    continue;
}

uint64_t tdm_control_naming_ns(const tdm_control *control) {
  static const uint64_t most_ns = 700000000;
  const uint64_t silence_ns = control->options.silence_ns;
  return (silence_ns < most_ns ? silence_ns : most_ns) + control->options.beat_ns;
}

bool tdm_control_failed(tdm_control *control, tdm_control_failure *out_failure) {
  if (!atomic_load(&control->failed)) return false;
  if (out_failure) *out_failure = control->failure; /* constant once `failed` is set */
  return true;
}

bool tdm_control_left(tdm_control *control, int rank, int *out_rank) {
  if (atomic_load_explicit(&control->left, memory_order_relaxed) == 0) return false;
  int found = -1;
  (void)pthread_mutex_lock(&control->lock);
  for (int r = 0; r < control->rank_count && found < 0; r++)
    if (control->peers[r].known.peer.left && (rank < 0 || rank == r)) found = r;
  (void)pthread_mutex_unlock(&control->lock);
  if (out_rank) *out_rank = found;
  return found >= 0;
}

void tdm_control_give_up(tdm_control *control, tdm_status status, const char *reason) {
  if (atomic_exchange(&control->given_up, true)) return;
  control->given_status = status;
  (void)snprintf(control->given_reason, sizeof control->given_reason, "%s", reason);
  control->give_up_task.run = on_give_up;
  tdm_loop_post(control->loop, &control->give_up_task);
}

void tdm_control_peer_get(tdm_control *control, int rank, tdm_control_peer *out_peer) {
  (void)pthread_mutex_lock(&control->lock);
  *out_peer = control->peers[rank].known.peer;
  if (rank == control->rank) out_peer->runs = control->runs;
  (void)pthread_mutex_unlock(&control->lock);
  if (rank != control->rank) return;
  out_peer->heard_ns = 0;
  out_peer->queue_count = atomic_load_explicit(&control->queue_count, memory_order_relaxed);
  for (int i = 0; i < out_peer->queue_count; i++)
    out_peer->progress[i] = atomic_load_explicit(&control->progress[i], memory_order_relaxed);
}

void tdm_control_dropped_get(tdm_control *control, tdm_control_dropped *out_dropped) {
  *out_dropped =
      (tdm_control_dropped){.strangers = atomic_load(&control->dropped[CONTROL_STRANGER]),
                            .malformed = atomic_load(&control->dropped[CONTROL_BAD_BYTES]),
                            .forged = atomic_load(&control->dropped[CONTROL_BAD_CODE]),
                            .repeated = atomic_load(&control->dropped[CONTROL_REPEATED])};
}

int tdm_control_port(const tdm_control *control) {
  return control->addresses[control->rank].port;
}

void tdm_control_pause(tdm_control *control, bool paused) {
  atomic_store(&control->wants_pause, paused);
}

const char *tdm_control_failure_text(const tdm_control_failure *failure, char *text) {
  size_t length =
      (size_t)snprintf(text, TDM_CONTROL_TEXT_BYTES, "rank %d (host %s, pid %lld) ", failure->rank,
                       failure->named.host, (long long)failure->named.pid);
  const double seconds = (double)failure->silent_ns * 1e-9;
  char by[32] = "";
  if (failure->observer != failure->rank)
    (void)snprintf(by, sizeof by, " by rank %d", failure->observer);
  char *rest = text + length;
  const size_t room = TDM_CONTROL_TEXT_BYTES - length;
  int more = 0;
  if (failure->cause == TDM_CONTROL_SILENT) {
    more = tdm_plain_print(rest, room, "has not been heard of for %.2g s%s", seconds, by);
  } else if (failure->cause == TDM_CONTROL_ENDED) {
    more = snprintf(rest, room, "has ended without a word, as was seen%s", by);
  } else {
    more =
        snprintf(rest, room, "gave up: %s: %s", tdm_status_name(failure->status), failure->reason);
  }
  length += (size_t)more;
  for (int i = 0; i < failure->queue_count && length < TDM_CONTROL_TEXT_BYTES; i++) {
    char run[32] = "";
    if (failure->progress[i] >> 32)
      (void)snprintf(run, sizeof run, " of run %u", (unsigned)(failure->progress[i] >> 32));
    length += (size_t)snprintf(text + length, TDM_CONTROL_TEXT_BYTES - length, "%s%d: %u%s",
                               i == 0 ? "; commands passed on its queues " : ", ", i,
                               (unsigned)failure->progress[i], run);
  }
  return text;
}
