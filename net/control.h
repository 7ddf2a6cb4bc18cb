/* The control channel detects whether the other ranks of a job are alive, and how far they are.
 * Every two ranks have a TCP connection, on a libuv loop of the library's own. Each rank sends
 * beats with its progress. A rank whose process ends, or that gives up, fails at once, and all
 * ranks are notified. A silent rank is first suspected, which is logged, and fails only after a
 * limit.
 *
 * The channel's thread keeps beating whatever the program does. Once all ranks are connected, it
 * waits for no lock that another thread holds, allocates nothing, and may run on every core of the
 * process.
 *
 * Invariant: a message counts only once, and only if its code proves that this job's rank sent it
 * to this rank. The code is HMAC-SHA-256 by libsodium, with a key that the engine distributed.
 * Everything else is dropped and counted. Messages are not encrypted: progress numbers and reasons
 * can be read by others. */
#ifndef TANDEM_NET_CONTROL_H
#define TANDEM_NET_CONTROL_H

#include "net/control_terms.h"
#include "net/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_control tdm_control;

/* The first failure that this rank has detected or received. */
typedef struct tdm_control_failure {
  int rank; /* the rank that failed */
  tdm_control_cause cause;
  int observer;       /* the rank that detected it; `rank` itself if it gave up */
  uint64_t silent_ns; /* time between the rank's last message to the observer and the detection, in
                       * ns */
  tdm_status status;  /* the status it gave up with; otherwise TDM_UNAVAILABLE */
  char reason[TDM_CONTROL_REASON_BYTES]; /* why it gave up; otherwise "" */
  tdm_rank named;
  /* The last progress that this rank received from it. */
  int queue_count;
  uint64_t progress[TDM_CONTROL_QUEUES];
} tdm_control_failure;

typedef struct tdm_control_options {
  size_t struct_size;
  tdm_allocator allocator;
  uint64_t beat_ns;      /* time between beats; 0: 100 ms */
  uint64_t suspect_ns;   /* silence after which a rank is suspected; 0: 1 s */
  uint64_t silence_ns;   /* silence after which a rank is lost; the largest value of all ranks
                          * applies; 0: TANDEM_NET_SILENCE_SECONDS, or 60 s */
  uint64_t timeout_ns;   /* limit for all ranks to connect; 0: 30 s */
  uint64_t stall_ns;     /* limit for a stalled transfer; 0: TANDEM_NET_STALL_SECONDS, or 10 s */
  const char *interface; /* network interface to listen on, such as "eth0"; NULL:
                          * TANDEM_NET_INTERFACE, or all */
  int queue_count; /* queues that report progress from the start, up to TDM_CONTROL_QUEUES; may
                    * differ by rank */
  /* Logs that a rank is suspected (a warning) and that it is heard again. Each line begins with
   * this rank. May be NULL. It is called on a thread of its own, so it may block. */
  tdm_log_function log;
  void *log_user;
  /* Called once, on the channel's thread, for the first failure; may be NULL. It must not block or
   * end the channel. */
  void (*failed)(void *user, const tdm_control_failure *failure);
  void *user;
} tdm_control_options;

/* Starts the channel and returns when every rank is connected to every other. All ranks call it,
 * each with its endpoint, which has no outstanding requests and is used only during the call. Fails
 * with UNAVAILABLE if the interface does not exist or a rank cannot be reached; the message names
 * the rank with its addresses. */
tdm_status tdm_control_start(tdm_endpoint *endpoint, const tdm_control_options *options,
                             tdm_control **out_control) TDM_WARN_UNUSED;
/* Announces to all ranks that this one leaves, and waits until all live ranks have announced it
 * too. Returns false if one is lost. Call tdm_control_leave next. */
bool tdm_control_part(tdm_control *control);
/* Leaves in order, which is no failure to the others, and frees the channel. Waits at most 200 ms
 * for the message to be sent. Do not call it on the channel's thread. control may be NULL. */
void tdm_control_leave(tdm_control *control);
/* Frees the channel without a message: the others treat this rank's process as ended. */
void tdm_control_abandon(tdm_control *control);

/* ---- Any thread, at any time ----------------------------------------------------------------- */

/* Records that the queue, of TDM_CONTROL_QUEUES, has passed this command; the next beat sends it.
 * Costs one store. A number of 2^32 or more also contains the run: run << 32 | command. */
void tdm_control_progress(tdm_control *control, int queue, uint64_t command);
/* Returns true if any rank has failed, and then fills *out_failure (may be NULL). Costs one
 * load. */
bool tdm_control_failed(tdm_control *control, tdm_control_failure *out_failure);
/* Returns true if the rank, or any rank if rank is -1, has left in order. *out_rank (may be NULL)
 * is the lowest such rank. Costs one load until a rank has left. */
bool tdm_control_left(tdm_control *control, int rank, int *out_rank);
/* Notifies all ranks at once that this one gives up, with a status and the reason. It counts as a
 * failure here as well. Only the first call has an effect. */
void tdm_control_give_up(tdm_control *control, tdm_status status, const char *reason);
/* Writes "rank 3 (host b, pid 4711) has not been heard of for 0.7 s; of its queues 0: 4211, 1: 17
 * were passed" to text, of TDM_CONTROL_TEXT_BYTES, and returns text. */
const char *tdm_control_failure_text(const tdm_control_failure *failure, char *text);

/* The state of a rank, as received by the channel. */
typedef struct tdm_control_peer {
  bool left;         /* the rank left in order */
  uint64_t heard_ns; /* tdm_time_ns of its last message; 0 for this rank itself */
  int queue_count;
  uint64_t progress[TDM_CONTROL_QUEUES];
  bool waits;                        /* the rank waits for something that it has posted */
  uint64_t posted[TDM_CONTROL_WAYS]; /* number of posts to this rank, per way */
  uint64_t runs;                     /* number of runs that it has begun */
  uint64_t history;                  /* a hash of these runs' descriptions, in order */
  uint32_t under_way;                /* number of runs that have not ended */
} tdm_control_peer;
void tdm_control_peer_get(tdm_control *control, int rank, tdm_control_peer *out_peer);

/* Measures how long only the engine has delayed what is waited for. Initially zeros. */
typedef struct tdm_control_clock {
  uint64_t looked_ns;  /* tdm_time_ns of the last check; 0: none yet */
  uint64_t stalled_ns; /* accumulated time in which only the engine delayed it */
} tdm_control_clock;

/* An outstanding transfer or collective, in the memory of its poster. */
typedef struct tdm_control_transfer {
  int peer; /* -1: all ranks */
  tdm_control_way way;
  size_t bytes;
  uint64_t count; /* number among the transfers of this peer and way, from 1 */
  tdm_control_clock clock;
  uint64_t moved; /* sum of the ranks' progress at the last check */
  int apart;      /* rank that executes a different order; only set after TDM_CONTROL_APART */
} tdm_control_transfer;

typedef enum tdm_control_stall {
  TDM_CONTROL_MOVES,
  TDM_CONTROL_STANDS, /* both ends are posted, and no bytes arrive */
  TDM_CONTROL_APART,  /* the ranks wait for each other in operations that never match */
} tdm_control_stall;

/* Records that the rank begins a run. `what` describes the run and is the same on all ranks.
 * Between communication outside of plans, all ranks have begun equally many runs. */
void tdm_control_begun(tdm_control *control, uint64_t what);
/* Records that one of the rank's runs has ended. */
void tdm_control_ended(tdm_control *control);
/* Records that a call for the rank's next run was invalid, with a status and the reason, so that
 * the run has not begun. The other ranks, which may have begun it, are notified by the next beat,
 * or before this rank leaves. */
void tdm_control_refuse(tdm_control *control, tdm_status status, const char *reason);
/* Returns true if another rank has refused a run that this rank has begun (or, if `ahead`, is about
 * to begin), and has no run under way. It must also have refused that run more often than this rank
 * has. All of that must have held for half a second, the grace period for a valid call. *out_rank
 * is that rank. Poll it while something is outstanding; time is counted as for stalls. Costs one
 * load until any other rank has refused a run. */
bool tdm_control_refused(tdm_control *control, bool ahead, uint64_t now_ns, int *out_rank);
/* Returns true if the rank has refused the run that would be its next, and writes the reason to
 * text (TDM_CONTROL_TEXT_BYTES): "INVALID_ARGUMENT: the graph has no input 'x'". */
bool tdm_control_refusal_text(tdm_control *control, int rank, char *text);

/* Record that the transfer has been posted, or has settled. Call each once per transfer, in the
 * order of posting. peer, way and bytes are set. */
void tdm_control_posted(tdm_control *control, tdm_control_transfer *transfer);
void tdm_control_settled(tdm_control *control);
/* Returns whether an outstanding transfer is stalled; poll it meanwhile. It is stalled if one of
 * two conditions has held for stall_ns plus 2 us a byte:
 * - Both ends were posted, and the other rank was waiting too, so that both ranks call their
 *   engines. A rank that computes is not waiting.
 * - The other end was not posted, by a rank that waits too and can never come to it. That rank has
 *   begun a different run in place of one of this rank's. Or the transfer is outside of plans and
 *   it has begun more runs than this rank. Neither rank has posted anything meanwhile. Time between
 *   two polls counts as at most 20 ms, and time in which the other rank is silent does not count.
 *   So a process that was stopped does not count as stalled. One thread at a time for each
 *   transfer. */
tdm_control_stall tdm_control_stalls(tdm_control *control, tdm_control_transfer *transfer,
                                     uint64_t now_ns);

/* The same for operations that are posted outside of this channel, whose posters find out with
 * tdm_control_has_come whether all ends wait. _due returns true if it is time to check again. Call
 * _runs_out after _due has returned true; all_wait is true if all ends have waited since the last
 * check. One thread at a time for each clock. */
bool tdm_control_clock_due(const tdm_control_clock *clock, uint64_t now_ns);
bool tdm_control_clock_runs_out(const tdm_control *control, tdm_control_clock *clock, bool all_wait,
                                size_t bytes, uint64_t now_ns);
/* Returns true if the queue of a rank has reached that command or a later one, and the rank, unless
 * it is this one, is not silent. A rank's command numbers only grow. */
bool tdm_control_has_come(tdm_control *control, int rank, int queue, uint64_t command);

/* Returns how long the channel may take to name a rank whose process has ended or that gave up. */
uint64_t tdm_control_naming_ns(const tdm_control *control);
/* Returns the rank that has been silent for the longest time, if that is at least three beats;
 * otherwise -1. *out_silent_ns is that time. */
int tdm_control_most_silent(tdm_control *control, uint64_t *out_silent_ns);

/* Counts of input that was not a valid message of the job. */
typedef struct tdm_control_dropped {
  uint64_t strangers; /* connections that ended, or were closed, before they were authenticated */
  uint64_t malformed; /* bytes that are not a message; the connection is closed */
  uint64_t forged;    /* messages with a wrong code, or addressed to another rank */
  uint64_t repeated;  /* messages that had already been received */
} tdm_control_dropped;
void tdm_control_dropped_get(tdm_control *control, tdm_control_dropped *out_dropped);

/* For tests: returns the longest delay of a beat of this rank. */
uint64_t tdm_control_worst_delay_ns(const tdm_control *control);
/* For tests: the port for unauthenticated connections, and a rank that hangs like a stopped
 * process. */
int tdm_control_port(const tdm_control *control);
void tdm_control_pause(tdm_control *control, bool paused);
/* Sends the messages of an exiting process over each of its channels. Call it once. The channel can
 * still be queried and left. */
void tdm_control_tell_exit(tdm_control *control);

#ifdef __cplusplus
}
#endif
#endif
