/* State shared by the files of the control channel. Invariant: everything belongs to the loop's
 * thread, except atomics, members under the lock, and what is set before the loop has the channel.
 * While the loop's thread beats it only tries the lock: what it cannot publish or read at once, it
 * publishes or reads with the next beat. */
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
#define CONTROL_ADDRESS_BYTES 46     /* size of an IPv6 address as text */
#define CONTROL_VERSION_BYTES 24     /* size of the library's version as text */
#define CONTROL_OUT_BYTES 8192       /* buffer for a peer that does not read */
#define CONTROL_STRANGERS_AT_ONCE 64 /* limit of connections that are not authenticated */
#define CONTROL_SPARE_LINKS 16       /* accepted beyond that limit, to be closed */
#define CONTROL_HELLO_NS 2000000000u /* time limit to authenticate */
#define CONTROL_LEAVE_NS 200000000u  /* time limit to send the last message */
#define CONTROL_RUNS 64 /* latest runs of this rank that are compared with those of others */

/* Kinds of input that was not a valid message of the job; see tdm_control_dropped. */
typedef enum control_dropped_kind {
  CONTROL_STRANGER,
  CONTROL_BAD_BYTES,
  CONTROL_BAD_CODE,
  CONTROL_REPEATED,
  CONTROL_DROPPED_KINDS,
} control_dropped_kind;

/* A rank's addresses and version, which the engine distributes. */
typedef struct control_addresses {
  char version[CONTROL_VERSION_BYTES];
  char absence[TDM_CONTROL_REASON_BYTES]; /* why the rank does not take part; only set if port is
                                           * 0 */
  uint64_t silence_ns;                    /* the rank's limit of silence */
  uint16_t port;                          /* 0: it cannot take part */
  uint16_t count;                         /* loopback addresses last */
  char text[CONTROL_ADDRESSES][CONTROL_ADDRESS_BYTES];
} control_addresses;

/* Outgoing bytes of a peer. */
typedef struct control_out {
  int filling; /* index of the buffer that is filled; the other one is sent while `writing` */
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
  int peer; /* -1 for an incoming link until its peer is known */
  bool incoming;
  bool adopted; /* the connection is its peer's only link */
  bool greeted; /* the connection was made, and this rank's greeting was sent */
  bool closing;
  bool writing;
  uint64_t opened_ns;
  size_t in_bytes;
  unsigned char in[2 * CONTROL_FRAME_BYTES];
} control_link;

/* The latest data that a rank has sent. */
typedef struct control_told {
  tdm_control_peer peer;
  control_refusal refusal;
} control_told;

typedef struct control_peer {
  control_link *link; /* NULL: not connected */
  int attempts;       /* number of our connections that may still become its link */
  bool greeted;       /* greeted is set for one of those that did not */
  bool again;         /* connect again with the next beat */
  int last_error;     /* libuv's code of the latest failed attempt */
  uint64_t sequence;  /* the highest sequence number that was received */
  bool lost;
  control_told told;          /* the newest received state */
  bool is_new;                /* `told` is newer than `known` */
  control_told known;         /* copy of `told` for other threads, under the lock */
  control_out out;            /* bytes to send on the peer's link */
  _Atomic uint32_t changes;   /* number of times that it was suspected or heard again: odd while
                               * suspected */
  _Atomic uint64_t silent_ns; /* silence before the latest change */
  uint32_t logged;            /* value of `changes` that the watcher has logged */
  _Atomic uint64_t posted[TDM_CONTROL_WAYS]; /* number of posts by this rank to the peer, per way;
                                              * collectives: in its own entry */
} control_peer;

/* This rank's runs, as reported by beats. */
typedef struct control_runs {
  uint64_t count; /* number of runs that it has begun */
  uint64_t history;
  uint32_t under_way;
} control_runs;

struct tdm_control {
  tdm_control *next; /* next in the list of the process (control_exit.c), or of the forgotten
                      * ones */
  tdm_allocator allocator;
  tdm_control_options options;
  int rank;
  int rank_count;
  tdm_rank *ranks;              /* (rank_count) */
  control_addresses *addresses; /* (rank_count) */
  unsigned char key[CONTROL_KEY_BYTES];
  tdm_net_request request; /* request of the exchange through the engine at the start */

  tdm_loop *loop;
  uv_tcp_t listener;
  bool listens;
  bool has_knocked; /* a connection waits for a free link; libuv accepts no others before */
  int handles;      /* number of open handles */
  control_link *links;
  control_link *all_links; /* (link_count): a connection allocates nothing once the channel is up */
  size_t link_count;
  control_link *free_links; /* list of the free ones */
  control_peer *peers;      /* (rank_count) */
  uint64_t sequence;        /* number of the last message sent to any rank */
  control_runs own_runs;    /* runs of this rank at the last beat that could read them under the
                             * lock */
  tdm_timer beat;
  tdm_timer parting;
  bool paused; /* reading is paused */
  bool leaving;
  tdm_loop_task listen_task, connect_task, give_up_task, part_task, leave_task, exit_task;
  int listen_code; /* libuv's result of listening */
  bool in_order;   /* the rank leaves in order */

  _Atomic int queue_count; /* queues that report progress */
  _Atomic uint64_t progress[TDM_CONTROL_QUEUES];
  _Atomic int waits; /* number of outstanding transfers */
  _Atomic bool failed;
  _Atomic bool given_up;
  _Atomic bool wants_pause;
  _Atomic int connected;    /* peers that are or were connected */
  _Atomic int left;         /* peers that have left in order */
  _Atomic int unreachable;  /* a rank that no address reaches; -1: none */
  _Atomic bool listened;    /* listen_code is set */
  _Atomic bool closed;      /* all handles are closed */
  _Atomic bool exit_told;   /* the process exits, and the others were notified */
  _Atomic bool any_refused; /* some other rank has refused a run */
  _Atomic bool watch_ends;
  tdm_doorbell bell; /* rung when one of the above, or whether a peer is suspected, changes */
  _Atomic uint64_t worst_late_ns;
  _Atomic uint64_t dropped[CONTROL_DROPPED_KINDS];
  bool watches; /* the watcher's thread has begun */
  pthread_t watcher;

  tdm_control_failure failure; /* constant after failed is set */
  pthread_mutex_t lock;
  uint64_t runs;                    /* number of runs that this rank has begun */
  uint64_t histories[CONTROL_RUNS]; /* hash of the runs up to run n, in [n % CONTROL_RUNS] */
  uint32_t under_way;               /* number of runs that have not ended */
  uint32_t refusals[CONTROL_RUNS];  /* times that its run n was refused, in [n % CONTROL_RUNS] */
  control_refusal refusal;          /* latest refusal of this rank */
  bool refusal_told;                /* the latest refusal was sent to the others */
  tdm_control_clock refused_clock;  /* stall clock for the refusal of another rank */
  tdm_status given_status;
  char given_reason[TDM_CONTROL_REASON_BYTES];
};

/* ---- control_link.c: bytes ------------------------------------------------------------------- */

/* Allocates links for the whole life of the channel. */
tdm_status control_make_links(tdm_control *control) TDM_WARN_UNUSED;
int control_listen(tdm_control *control); /* returns libuv's code */
void control_connect(tdm_control *control, int rank);
/* Accepts waiting connections. */
void control_let_in(tdm_control *control);
/* Signs a message and queues it to an adopted link's peer. Drops it if there is no room. Beats
 * never wait, so a peer that does not read for long still has room for all other messages. */
void control_send(control_link *link, const control_message *message);
/* Handles `count` more bytes in link->in, which has room for a whole frame afterwards. */
void control_link_read(control_link *link, size_t count);
/* Keeps the system from ending the connection before the limit of silence has passed. By default it
 * gives up a path that is cut after about a quarter of an hour. */
void control_link_keep(control_link *link);
void control_link_close(control_link *link);
void control_link_pause(control_link *link, bool paused);

/* ---- control_exit.c: the messages of a process that exits ------------------------------------ */

/* Adds a channel to those that are notified at exit, until it ends. */
void control_exit_add(tdm_control *control);
void control_exit_remove(tdm_control *control);

/* ---- control_peers.c: handling of messages --------------------------------------------------- */

void control_take(control_link *link, const control_message *message);
/* Handles a connection that has ended by itself, with libuv's code. */
void control_link_ended(control_link *link, int code);
/* Records that an attempt to connect to the rank has failed, with libuv's code. */
void control_give_up_attempt(tdm_control *control, int rank, int code);
void control_beat(tdm_timer *timer);
void control_tell_all(tdm_control *control, control_message *message);
void control_fail_first(tdm_control *control, const tdm_control_failure *failure);
void control_count(tdm_control *control, control_dropped_kind kind);
/* Publishes what the peer has sent to other threads, at once or with the next beat. */
void control_publish(tdm_control *control, control_peer *peer);

/* ---- control_refusal.c ----------------------------------------------------------------------- */

/* Sends this rank's latest refusal, if that was not done yet. waits: block for the lock, as at the
 * end. */
void control_tell_refusal(tdm_control *control, bool waits);
void control_take_refusal(tdm_control *control, const control_message *message);

/* ---- control_watch.c: silence ---------------------------------------------------------------- */

/* Returns true if the peer's last message is at most some beats old. */
bool control_is_heard(const tdm_control *control, const tdm_control_peer *told, uint64_t now_ns);
/* Record that the peer was heard, or has been silent for that long. */
void control_note_heard(tdm_control *control, control_peer *peer);
void control_note_silence(tdm_control *control, control_peer *peer, uint64_t silent_ns);
/* Lets the channel's thread, which calls it, run on every core of the process, and raises its
 * priority above computing threads if the system allows it. */
void control_raise_thread(void);
/* Starts and stops the thread that logs suspected ranks. */
tdm_status control_watch_start(tdm_control *control) TDM_WARN_UNUSED;
void control_watch_stop(tdm_control *control);
/* Reads the limit of silence from the environment. */
tdm_status control_read_silence(uint64_t *out_ns) TDM_WARN_UNUSED;
/* Reads an environment variable in seconds, from least to most. The default is `usual`. */
tdm_status control_read_seconds(const char *variable, double usual, double least, double most,
                                uint64_t *out_ns) TDM_WARN_UNUSED;

/* ---- control_stall.c ------------------------------------------------------------------------- */

/* Updates the clock at a check. Time since the last check counts if `holds`. */
void control_clock_add(tdm_control_clock *clock, bool holds, uint64_t now_ns);

/* Reads the time after which a transfer is stalled from the environment. */
tdm_status control_read_stall(uint64_t *out_ns);

/* ---- control.c ------------------------------------------------------------------------------- */

/* Records that a handle of the channel has closed. */
void control_handle_closed(tdm_control *control);

#endif
