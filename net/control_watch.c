/* Detects and reports silent ranks, and keeps this rank's own beats on time. Invariant: the
 * channel's thread only counts changes. The watcher's thread logs them, because a program's log
 * function may block. */
#define _GNU_SOURCE /* sched_setaffinity, gettid */
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/number.h"
#include "core/settings.h"
#include "core/thread.h"
#include "net/control_state.h"

enum {
  SILENCE_SECONDS = 60,
  MOST_SILENCE_SECONDS = 86400,
  HEARD_BEATS = 3, /* an older message does not prove that its rank runs */
  BEAT_NICE = -10,
};

/* ---- Limits ---------------------------------------------------------------------------------- */

tdm_status control_read_seconds(const char *variable, double usual, double least, double most,
                                uint64_t *out_ns) {
  const char *text = getenv(variable);
  double seconds = usual;
  if (text && text[0] != '\0')
    TDM_TRY(tdm_setting_number(variable, "the limit", text, least, most, &seconds));
  *out_ns = (uint64_t)(seconds * 1e9);
  return TDM_OK;
}

tdm_status control_read_silence(uint64_t *out_ns) {
  return control_read_seconds("TANDEM_NET_SILENCE_SECONDS", SILENCE_SECONDS, 0.5,
                              MOST_SILENCE_SECONDS, out_ns);
}

/* ---- Silence --------------------------------------------------------------------------------- */

bool control_is_heard(const tdm_control *control, const tdm_control_peer *told, uint64_t now_ns) {
  return now_ns <= told->heard_ns + HEARD_BEATS * control->options.beat_ns;
}

static bool is_suspected(const control_peer *peer) {
  return atomic_load_explicit(&peer->changes, memory_order_relaxed) % 2 == 1;
}

static void note_change(tdm_control *control, control_peer *peer, uint64_t silent_ns) {
  atomic_store(&peer->silent_ns, silent_ns);
  (void)atomic_fetch_add(&peer->changes, 1);
  tdm_doorbell_ring(&control->bell);
}

void control_note_heard(tdm_control *control, control_peer *peer) {
  const uint64_t before_ns = peer->told.peer.heard_ns, now_ns = tdm_time_ns();
  peer->told.peer.heard_ns = now_ns;
  if (is_suspected(peer)) note_change(control, peer, now_ns > before_ns ? now_ns - before_ns : 0);
}

void control_note_silence(tdm_control *control, control_peer *peer, uint64_t silent_ns) {
  if (silent_ns > control->options.suspect_ns && !is_suspected(peer))
    note_change(control, peer, silent_ns);
}

int tdm_control_most_silent(tdm_control *control, uint64_t *out_silent_ns) {
  const uint64_t now_ns = tdm_time_ns();
  int found = -1;
  *out_silent_ns = HEARD_BEATS * control->options.beat_ns;
  (void)pthread_mutex_lock(&control->lock);
  for (int rank = 0; rank < control->rank_count; rank++) {
    const tdm_control_peer *known = &control->peers[rank].known.peer;
    if (rank == control->rank || known->left || now_ns <= known->heard_ns + *out_silent_ns)
      continue;
    *out_silent_ns = now_ns - known->heard_ns;
    found = rank;
  }
  (void)pthread_mutex_unlock(&control->lock);
  return found;
}

/* ---- Reporting ------------------------------------------------------------------------------- */

static void report(const tdm_control *control, int rank, bool suspected) {
  const tdm_rank *named = &control->ranks[rank];
  const double seconds = (double)atomic_load(&control->peers[rank].silent_ns) * 1e-9;
  const double limit = (double)control->options.silence_ns * 1e-9;
  char text[TDM_MESSAGE_BYTES];
  const int length = snprintf(text, sizeof(text), "rank %d: rank %d (host %s, pid %lld) ",
                              control->rank, rank, named->host, (long long)named->pid);
  char *rest = text + length;
  const size_t room = sizeof(text) - (size_t)length;
  if (suspected) {
    (void)tdm_plain_print(rest, room,
                          "has not been heard of for %.2g s: it is busy, stopped or cut off; it is "
                          "lost after %.6g s (TANDEM_NET_SILENCE_SECONDS)",
                          seconds, limit);
  } else {
    (void)tdm_plain_print(rest, room, "is heard again after %.3g s", seconds);
  }
  control->options.log(control->options.log_user, suspected ? TDM_LOG_WARNING : TDM_LOG_INFO, text);
}

static void report_changes(tdm_control *control, int rank) {
  control_peer *peer = &control->peers[rank];
  while (peer->logged != atomic_load(&peer->changes))
    report(control, rank, ++peer->logged % 2 == 1);
}

static void *watch_main(void *user) {
  tdm_control *control = user;
  while (!atomic_load(&control->watch_ends)) {
    const uint32_t seen = tdm_doorbell_read(&control->bell);
    for (int rank = 0; rank < control->rank_count; rank++)
      report_changes(control, rank);
    if (!atomic_load(&control->watch_ends)) tdm_doorbell_park(&control->bell, seen, -1);
  }
  return NULL;
}

tdm_status control_watch_start(tdm_control *control) {
  if (!control->options.log) return TDM_OK;
  const tdm_status status =
      tdm_thread_start(&control->watcher, "tandem-watch", watch_main, control);
  control->watches = status == TDM_OK;
  return status;
}

void control_watch_stop(tdm_control *control) {
  if (!control->watches) return;
  control->watches = false;
  atomic_store(&control->watch_ends, true);
  tdm_doorbell_ring(&control->bell);
  (void)pthread_join(control->watcher, NULL);
}

/* ---- This rank's beats ----------------------------------------------------------------------- */

/* Gets every core that some thread of the process may run on; the thread that created the calling
 * one may be bound to fewer. Returns false if the system does not provide them. */
static bool find_cores(cpu_set_t *out_cores) {
  CPU_ZERO(out_cores);
  DIR *threads = opendir("/proc/self/task");
  if (!threads) return false;
  for (const struct dirent *entry; (entry = readdir(threads)) != NULL;) {
    cpu_set_t some;
    const long thread = strtol(entry->d_name, NULL, 10);
    if (thread > 0 && sched_getaffinity((pid_t)thread, sizeof some, &some) == 0)
      CPU_OR(out_cores, out_cores, &some);
  }
  (void)closedir(threads);
  return CPU_COUNT(out_cores) > 0;
}

void control_raise_thread(void) {
  cpu_set_t cores;
  (void)prctl(PR_SET_NAME, "tandem-beats");
  if (find_cores(&cores)) (void)sched_setaffinity(0, sizeof cores, &cores);
  tdm_thread_run_promptly();
  /* Requires a privilege, unlike the line above. */
  (void)setpriority(PRIO_PROCESS, (id_t)gettid(), BEAT_NICE);
  tdm_thread_run_promptly();
}

uint64_t tdm_control_worst_delay_ns(const tdm_control *control) {
  return atomic_load_explicit(&control->worst_late_ns, memory_order_relaxed);
}
