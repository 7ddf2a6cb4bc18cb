/* What the files of the control channel share. Invariant: everything belongs to the loop's thread,
 * except atomics, what stands under the lock, and what is set before the loop knows of the channel.
 * The loop's thread only tries the lock while it beats: what it cannot publish, or read, at once it
 * publishes, or reads, with the next beat. */
#ifndef TANDEM_NET_CONTROL_STATE_H
#define TANDEM_NET_CONTROL_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "core/allocate.h"
#include "core/loop.h"
#include "core/park.h"
#include "net/control.h"
#include "net/control_frame.h"

#define CONTROL_ADDRESSES 6
#define CONTROL_ADDRESS_BYTES 46     /* of an IPv6 address as text */
#define CONTROL_VERSION_BYTES 24     /* of the library's version as text */
#define CONTROL_OUT_BYTES 8192       /* that wait for a peer that does not read */
#define CONTROL_STRANGERS_AT_ONCE 64 /* connections that have yet to prove who they are */
#define CONTROL_SPARE_LINKS 16       /* that are accepted beyond these, to be closed */
#define CONTROL_HELLO_NS 2000000000u /* until they have */
#define CONTROL_LEAVE_NS 200000000u  /* for the last word to go out */
#define CONTROL_RUNS 64 /* of this rank that are compared with what others have begun */

/* What came and was no message of the job; see tdm_control_dropped. */
typedef enum control_dropped_kind {
  CONTROL_STRANGER,
  CONTROL_BAD_BYTES,
  CONTROL_BAD_CODE,
  CONTROL_REPEATED,
  CONTROL_DROPPED_KINDS,
} control_dropped_kind;

/* Where a rank can be reached, and whose words it understands: what goes round by the engine. */
typedef struct control_addresses {
  char version[CONTROL_VERSION_BYTES];
  char absence[TDM_CONTROL_REASON_BYTES]; /* with port 0: why */
  uint64_t silence_ns;                    /* the rank's limit */
  uint16_t port;                          /* 0: it can take no part */
  uint16_t count;                         /* those of its own machine last */
  char text[CONTROL_ADDRESSES][CONTROL_ADDRESS_BYTES];
} control_addresses;

/* What is sent to a peer. */
typedef struct control_out {
  int filling; /* which of bytes takes what comes; the other one is on its way while writing */
  size_t count[2];
  unsigned char bytes[2][CONTROL_OUT_BYTES];
} control_out;

/* A connection. */
typedef struct control_link {
  struct control_link *next;
  tdm_control *control;
  uv_tcp_t tcp;
  uv_connect_t connect;
  uv_write_t write;
  int peer; /* of incoming ones -1 until they have said it */
  bool incoming;
  bool adopted; /* it is its peer's one */
  bool greeted; /* the peer was there, and was sent our greeting */
  bool closing;
  bool writing;
  uint64_t opened_ns;
  size_t in_bytes;
  unsigned char in[2 * CONTROL_FRAME_BYTES];
} control_link;

/* What a rank has told. */
typedef struct control_told {
  tdm_control_peer peer;
  control_refusal refusal;
} control_told;

typedef struct control_peer {
  control_link *link; /* NULL: not connected, or no more */
  int attempts;       /* connections of ours that may still become that one */
  bool greeted;       /* one of those that did not was */
  bool again;         /* they begin anew with the next beat */
  int last_error;     /* libuv's, of the latest that did not */
  uint64_t sequence;  /* the highest that came */
  bool lost;
  control_told told;          /* up to now */
  bool is_new;                /* known is older */
  control_told known;         /* the same for other threads: under the lock */
  control_out out;            /* of the peer's one link */
  _Atomic uint32_t changes;   /* how often it was suspected, or heard again: odd while suspected */
  _Atomic uint64_t silent_ns; /* before the latest of these */
  uint32_t logged;            /* of changes; the watcher's */
  _Atomic uint64_t posted[TDM_CONTROL_WAYS]; /* by this rank to it; collectives: its own entry */
} control_peer;

/* What beats tell of this rank's runs. */
typedef struct control_runs {
  uint64_t count; /* that it has begun */
  uint64_t history;
  uint32_t under_way;
} control_runs;

struct tdm_control {
  tdm_control *next; /* of the process (control_exit.c), or of those that are forgotten */
  tdm_allocator allocator;
  tdm_control_options options;
  int rank;
  int rank_count;
  tdm_rank *ranks;              /* (rank_count) */
  control_addresses *addresses; /* (rank_count) */
  unsigned char key[CONTROL_KEY_BYTES];
  tdm_net_request request; /* of what goes round by the engine at the start */

  tdm_loop *loop;
  uv_tcp_t listener;
  bool listens;
  bool has_knocked; /* somebody for whom there was no link: libuv takes no others before */
  int handles;      /* open ones */
  control_link *links;
  control_link *all_links; /* (link_count): no connection takes memory once the channel is up */
  size_t link_count;
  control_link *free_links; /* of these */
  control_peer *peers;      /* (rank_count) */
  uint64_t sequence;        /* of the last message to anybody */
  control_runs own_runs;    /* as of the last beat that could read them */
  tdm_timer beat;
  tdm_timer parting;
  bool paused; /* reading is */
  bool leaving;
  tdm_loop_task listen_task, connect_task, give_up_task, part_task, leave_task, exit_task;
  int listen_code; /* libuv's */
  bool in_order;   /* of leaving */

  _Atomic int queue_count; /* that tell their progress */
  _Atomic uint64_t progress[TDM_CONTROL_QUEUES];
  _Atomic int waits; /* transfers that are out */
  _Atomic bool failed;
  _Atomic bool given_up;
  _Atomic bool wants_pause;
  _Atomic int connected;    /* peers that are or were */
  _Atomic int left;         /* peers that have left in order */
  _Atomic int unreachable;  /* a rank to which no address leads; -1: none */
  _Atomic bool listened;    /* listen_code is there */
  _Atomic bool closed;      /* all handles are */
  _Atomic bool exit_told;   /* the process exits, and the others know */
  _Atomic bool any_refused; /* some other rank has refused a run */
  _Atomic bool watch_ends;
  tdm_doorbell bell; /* rung when one of those, or whether a peer is suspected, changes */
  _Atomic uint64_t worst_late_ns;
  _Atomic uint64_t dropped[CONTROL_DROPPED_KINDS];
  bool watches; /* the watcher's thread has begun */
  pthread_t watcher;

  tdm_control_failure failure; /* does not change once failed is set */
  pthread_mutex_t lock;
  uint64_t runs;                    /* that this rank has begun */
  uint64_t histories[CONTROL_RUNS]; /* that up to its run n is in [n % CONTROL_RUNS] */
  uint32_t under_way;               /* of its runs */
  uint32_t refusals[CONTROL_RUNS];  /* how often it has refused its run n, in [n % CONTROL_RUNS] */
  control_refusal refusal;          /* its latest */
  bool refusal_told;                /* to the others */
  tdm_control_clock refused_clock;  /* of another's */
  tdm_status given_status;
  char given_reason[TDM_CONTROL_REASON_BYTES];
};

/* ---- control_link.c: bytes ---- */

/* Links for the whole life of the channel. */
tdm_status control_make_links(tdm_control *control) TDM_WARN_UNUSED;
int control_listen(tdm_control *control); /* libuv's code */
void control_connect(tdm_control *control, int rank);
/* Accepts who has knocked. */
void control_let_in(tdm_control *control);
/* Signs and queues a message to an adopted link's peer; one for which there is no room is not sent.
 * Beats wait for nothing, so that a peer that does not read for long has room for all others. */
void control_send(control_link *link, const control_message *message);
/* So many bytes more are in link->in, which has room for a whole frame afterwards. */
void control_link_read(control_link *link, size_t count);
/* The system does not end the connection before the limit of silence has passed: by itself it gives
 * up a way that is cut after about a quarter of an hour. */
void control_link_keep(control_link *link);
void control_link_close(control_link *link);
void control_link_pause(control_link *link, bool paused);

/* ---- control_exit.c: what a process that exits says ---- */

/* A channel that is up, until it ends. */
void control_exit_add(tdm_control *control);
void control_exit_remove(tdm_control *control);

/* ---- control_peers.c: what messages mean ---- */

void control_take(control_link *link, const control_message *message);
/* The connection has ended by itself, with libuv's code. */
void control_link_ended(control_link *link, int code);
/* One connection less may become that to the rank. */
void control_give_up_attempt(tdm_control *control, int rank, int code);
void control_beat(tdm_timer *timer);
void control_tell_all(tdm_control *control, control_message *message);
void control_fail_first(tdm_control *control, const tdm_control_failure *failure);
void control_count(tdm_control *control, control_dropped_kind kind);
/* Makes what the peer has told known to other threads: at once, or with the next beat. */
void control_publish(tdm_control *control, control_peer *peer);

/* ---- control_refusal.c ---- */

/* What this rank has refused, if the others do not know. waits: for the lock, as at the end. */
void control_tell_refusal(tdm_control *control, bool waits);
void control_take_refusal(tdm_control *control, const control_message *message);

/* ---- control_watch.c: silence ---- */

/* Returns true if the peer's last message is at most some beats old. */
bool control_is_heard(const tdm_control *control, const tdm_control_peer *told, uint64_t now_ns);
/* The peer was heard, or has been silent for so long. */
void control_note_heard(tdm_control *control, control_peer *peer);
void control_note_silence(tdm_control *control, control_peer *peer, uint64_t silent_ns);
/* On the channel's thread: it may run on every core of the process, before what computes where the
 * system allows. */
void control_raise_thread(void);
/* Begins and ends the thread that logs who is suspected. */
tdm_status control_watch_start(tdm_control *control) TDM_WARN_UNUSED;
void control_watch_stop(tdm_control *control);
/* Reads the limit of silence from the environment. */
tdm_status control_read_silence(uint64_t *out_ns) TDM_WARN_UNUSED;
/* Reads a variable of the environment in seconds, least to most; not set: usual. */
tdm_status control_read_seconds(const char *variable, double usual, double least, double most,
                                uint64_t *out_ns) TDM_WARN_UNUSED;

/* ---- control_stall.c ---- */

/* The clock was looked at, and has run since the last look where holds. */
void control_clock_add(tdm_control_clock *clock, bool holds, uint64_t now_ns);

/* After how long a transfer stands still, by the environment. */
tdm_status control_read_stall(uint64_t *out_ns);

/* ---- control.c ---- */

/* A handle of the channel has closed. */
void control_handle_closed(tdm_control *control);

#endif
