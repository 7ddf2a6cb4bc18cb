/* The control channel: whether the other ranks of a job still live, and how far they are. Every two
 * ranks have a TCP connection, on a libuv loop of the library's own. Each rank sends beats with its
 * progress. A rank whose process ends, or that gives up, is a failure at once, which all ranks
 * learn. A silent rank is first suspected, which is logged, and a failure only after a limit.
 * The channel's thread beats on whatever the program does: once all ranks are connected it waits
 * for no lock that another thread holds, allocates nothing, and may run on every core of the
 * process.
 * Invariant: a message counts only if its code (HMAC-SHA-256 by libsodium, with a key that went
 * round by the engine) proves that this job's rank sent it to this rank, and never twice;
 * everything else is dropped and counted. What is sent can be read by others: progress numbers, and
 * reasons. */
#ifndef TANDEM_NET_CONTROL_H
#define TANDEM_NET_CONTROL_H

#include "net/control_terms.h"
#include "net/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_control tdm_control;

/* The first failure that this rank has learned of. */
typedef struct tdm_control_failure {
  int rank; /* that failed */
  tdm_control_cause cause;
  int observer;       /* the rank that noticed; rank itself where it gave up */
  uint64_t silent_ns; /* between the observer's last message from it and the judgement */
  tdm_status status;  /* what it gave up with; else TDM_UNAVAILABLE */
  char reason[TDM_CONTROL_REASON_BYTES]; /* of giving up; else "" */
  tdm_rank named;
  /* The last progress that this rank heard from it. */
  int queue_count;
  uint64_t progress[TDM_CONTROL_QUEUES];
} tdm_control_failure;

typedef struct tdm_control_options {
  size_t struct_size;
  tdm_allocator allocator;
  uint64_t beat_ns;      /* between beats; 0: 100 ms */
  uint64_t suspect_ns;   /* silence after which a rank is suspected; 0: 1 s */
  uint64_t silence_ns;   /* silence after which a rank is lost; the largest of all ranks counts; 0:
                            TANDEM_NET_SILENCE_SECONDS, or 60 s */
  uint64_t timeout_ns;   /* for all ranks to be connected; 0: 30 s */
  uint64_t stall_ns;     /* of a transfer; 0: TANDEM_NET_STALL_SECONDS, or 10 s */
  const char *interface; /* to be reached by, as "eth0"; NULL: TANDEM_NET_INTERFACE, or all */
  int queue_count; /* that tell their progress from the start, up to TDM_CONTROL_QUEUES; of each
                      rank its own */
  /* Reports a rank that is suspected (a warning), and one that is heard again, each line beginning
   * with this rank; may be NULL. Called on a thread of its own, so it may block. */
  tdm_log_function log;
  void *log_user;
  /* Called once, on the channel's thread, for the first failure; may be NULL. It must not block,
   * nor call what ends the channel. */
  void (*failed)(void *user, const tdm_control_failure *failure);
  void *user;
} tdm_control_options;

/* All ranks call it, each with its endpoint, which has nothing out and is used here for as long as
 * the call lasts. Returns when every rank is connected to every other. UNAVAILABLE: an interface
 * that is not there, or a rank that cannot be reached, which the message names, with its addresses.
 * The endpoint is not needed afterwards. */
tdm_status tdm_control_start(tdm_endpoint *endpoint, const tdm_control_options *options,
                             tdm_control **out_control) TDM_WARN_UNUSED;
/* Tells all ranks that this one leaves, and waits until all of them have told so, for as long as
 * they live. False: one is lost. Behind it comes tdm_control_leave. */
bool tdm_control_part(tdm_control *control);
/* Leaves in order, which is no failure to the others, and frees. Waits 200 ms at most for the word
 * to go out. Not on the channel's thread; control may be NULL. */
void tdm_control_leave(tdm_control *control);
/* Frees without a word: to the others this rank has ended. */
void tdm_control_abandon(tdm_control *control);

/* ---- Any thread, at any time ---- */

/* The queue, of TDM_CONTROL_QUEUES, has passed this command; goes out with the next beat. One
 * store. A number of 2^32 or more tells the run as well: run << 32 | command. */
void tdm_control_progress(tdm_control *control, int queue, uint64_t command);
/* Has anything failed? One load. *out_failure (may be NULL) is filled if so. */
bool tdm_control_failed(tdm_control *control, tdm_control_failure *out_failure);
/* Has the rank left in order (-1: has any)? One load until somebody has. *out_rank (may be NULL):
 * which, the lowest. */
bool tdm_control_left(tdm_control *control, int rank, int *out_rank);
/* Tells all ranks at once that this one gives up, with the status and words of why. It is a failure
 * here as well. The first call counts. */
void tdm_control_give_up(tdm_control *control, tdm_status status, const char *reason);
/* "rank 3 (host b, pid 4711) has not been heard of for 0.7 s; of its queues 0: 4211, 1: 17 were
 * passed" into text of TDM_CONTROL_TEXT_BYTES; answers text. */
const char *tdm_control_failure_text(const tdm_control_failure *failure, char *text);

/* What the channel knows of a rank. */
typedef struct tdm_control_peer {
  bool left;         /* in order */
  uint64_t heard_ns; /* tdm_time_ns of the last message; of this rank itself 0 */
  int queue_count;
  uint64_t progress[TDM_CONTROL_QUEUES];
  bool waits;                        /* for the end of something that it has posted */
  uint64_t posted[TDM_CONTROL_WAYS]; /* how often, to this rank */
  uint64_t runs;                     /* that it has begun */
  uint64_t history;                  /* a hash of what these are, in their order */
  uint32_t under_way;                /* of these, those that have not ended */
} tdm_control_peer;
void tdm_control_peer_get(tdm_control *control, int rank, tdm_control_peer *out_peer);

/* Runs while nothing but an engine keeps what is waited for; zeros at first. */
typedef struct tdm_control_clock {
  uint64_t looked_ns;  /* 0: not yet */
  uint64_t stalled_ns; /* for so long nothing but the engine has kept it */
} tdm_control_clock;

/* A transfer or collective that is out, in the memory of whoever posted it. */
typedef struct tdm_control_transfer {
  int peer; /* -1: of all ranks */
  tdm_control_way way;
  size_t bytes;
  uint64_t count; /* it is the peer's so many-th of its way */
  tdm_control_clock clock;
  uint64_t moved; /* how much ranks had done when the clock was looked at last */
  int apart;      /* once TDM_CONTROL_APART: the rank that does something else */
} tdm_control_transfer;

typedef enum tdm_control_stall {
  TDM_CONTROL_MOVES,
  TDM_CONTROL_STANDS, /* both ends are posted, and nothing comes */
  TDM_CONTROL_APART, /* the ranks wait for one another in things of which none comes next on both */
} tdm_control_stall;

/* The rank begins a run, which is described by that number, the same on all ranks; between what
 * ranks tell one another outside of plans all have begun as many. */
void tdm_control_begun(tdm_control *control, uint64_t what);
/* One of its runs has ended. */
void tdm_control_ended(tdm_control *control);
/* The rank was asked for its next run in a wrong way, with the status and words of why, and has not
 * begun it. The others, which may have, hear of it with the next beat, or before it leaves. */
void tdm_control_refuse(tdm_control *control, tdm_status status, const char *reason);
/* Asked now and then while something is out: has a rank that has no run under way refused one that
 * this rank has begun, or, where ahead, is about to begin, and more often than this rank has
 * itself, for half a second, in which it could have been asked in the right way? *out_rank: which.
 * Time counts as for stalls. One load until any other rank has refused a run. */
bool tdm_control_refused(tdm_control *control, bool ahead, uint64_t now_ns, int *out_rank);
/* Has the rank refused the run that would be its next? Then text (TDM_CONTROL_TEXT_BYTES) gets why:
 * "INVALID_ARGUMENT: the graph has no input 'x'". */
bool tdm_control_refusal_text(tdm_control *control, int rank, char *text);

/* The transfer has been posted, or has settled; each called once for it, in the order of posting.
 * peer, way and bytes are filled. */
void tdm_control_posted(tdm_control *control, tdm_control_transfer *transfer);
void tdm_control_settled(tdm_control *control);
/* Asked now and then while the transfer is out: does it stand still? It does when for stall_ns, and
 * 2 us a byte, the other end had been posted, and whoever posted that was waiting for something
 * too, so that both call their engines. A rank that computes waits for nothing. Or when for as long
 * the other end had not been posted, by a rank that waits too, and has begun another run in the
 * place of one of this rank's, or more of them than this rank before what it is told outside of
 * plans; and neither has posted anything meanwhile. Time in which nobody asked counts for 20 ms at
 * most, and time in which the other rank is silent not at all, so a process that did not run is
 * none that stalls. One thread at a time for each transfer.
 */
tdm_control_stall tdm_control_stalls(tdm_control *control, tdm_control_transfer *transfer,
                                     uint64_t now_ns);

/* The same for what others than this channel post, which know by tdm_control_has_come whether all
 * ends wait. due: is it time to look again? runs_out: for who has just been told so; all_wait: all
 * have waited for it since the last look. One thread at a time for each clock. */
bool tdm_control_clock_due(const tdm_control_clock *clock, uint64_t now_ns);
bool tdm_control_clock_runs_out(const tdm_control *control, tdm_control_clock *clock, bool all_wait,
                                size_t bytes, uint64_t now_ns);
/* Returns true if the queue of a rank has come to that command, or to a later one, and the rank, if
 * it is another one, is not silent. Numbers of its commands only grow. */
bool tdm_control_has_come(tdm_control *control, int rank, int queue, uint64_t command);

/* Returns how long the channel may take to name a rank whose process has ended or that gave up. */
uint64_t tdm_control_naming_ns(const tdm_control *control);
/* Returns the rank that has been silent for the longest time, at least three beats; -1: none.
 * *out_silent_ns: for how long. */
int tdm_control_most_silent(tdm_control *control, uint64_t *out_silent_ns);

/* What came and was no message of the job. */
typedef struct tdm_control_dropped {
  uint64_t strangers; /* connections that ended, or were ended, before they proved who they are */
  uint64_t malformed; /* bytes that are no message; the connection is closed */
  uint64_t forged;    /* messages with a wrong code, or to another rank */
  uint64_t repeated;  /* messages that had come before */
} tdm_control_dropped;
void tdm_control_dropped_get(tdm_control *control, tdm_control_dropped *out_dropped);

/* For tests: the longest time by which a beat of this rank was late. */
uint64_t tdm_control_worst_delay_ns(const tdm_control *control);
/* For tests: where strangers may knock, and a rank that hangs as a stopped process does. */
int tdm_control_port(const tdm_control *control);
void tdm_control_pause(tdm_control *control, bool paused);
/* What a process that exits says over each of its channels. Once; the channel can still be asked,
 * and left. */
void tdm_control_tell_exit(tdm_control *control);

#ifdef __cplusplus
}
#endif
#endif
