/* What the files of the control channel share. Invariant: everything is the loop's thread's, but
 * for atomics, what stands under the lock, and what is set before the loop knows of the channel. */
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
#define CONTROL_HELLO_NS 2000000000u /* until they have */
#define CONTROL_LEAVE_NS 200000000u  /* for the last word to go out */
#define CONTROL_RUNS 64 /* of this rank that are compared with what others have begun */

/* Where a rank can be reached, and whose words it understands: what goes round by the engine. */
typedef struct control_addresses {
  char version[CONTROL_VERSION_BYTES];
  char absence[TDM_CONTROL_REASON_BYTES]; /* with port 0: why */
  uint16_t port;                          /* 0: it can take no part */
  uint16_t count;                         /* those of its own machine last */
  char text[CONTROL_ADDRESSES][CONTROL_ADDRESS_BYTES];
} control_addresses;

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
  int filling; /* which of out takes what comes; the other one is on its way while writing */
  size_t out_bytes[2];
  unsigned char out[2][CONTROL_OUT_BYTES];
} control_link;

typedef struct control_peer {
  control_link *link; /* NULL: not connected, or no more */
  int attempts;       /* connections of ours that may still become that one */
  bool greeted;       /* one of those that did not was */
  bool again;         /* they begin anew with the next beat */
  int last_error;     /* libuv's, of the latest that did not */
  uint64_t sequence;  /* the highest that came */
  bool lost;
  tdm_control_peer told;                     /* under the lock */
  control_refusal refusal;                   /* likewise */
  _Atomic uint64_t posted[TDM_CONTROL_WAYS]; /* by this rank to it; collectives: its own entry */
} control_peer;

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
  bool has_knocked; /* somebody whom there was no memory for: libuv takes no others before */
  int handles;      /* open ones */
  control_link *links;
  control_peer *peers; /* (rank_count) */
  uint64_t sequence;   /* of the last message to anybody */
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
  tdm_doorbell bell;        /* rung when one of those changes */

  pthread_mutex_t lock;
  tdm_control_failure failure;
  tdm_control_dropped dropped;
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

int control_listen(tdm_control *control); /* libuv's code */
void control_connect(tdm_control *control, int rank);
/* Accepts who has knocked. */
void control_let_in(tdm_control *control);
/* Signs and queues a message; one for which there is no room is not sent. */
void control_send(control_link *link, const control_message *message);
/* So many bytes more are in link->in, which has room for a whole frame afterwards. */
void control_link_read(control_link *link, size_t count);
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
void control_count(tdm_control *control, uint64_t *counter);

/* ---- control_refusal.c ---- */

/* What this rank has refused, if the others do not know. */
void control_tell_refusal(tdm_control *control);
void control_take_refusal(tdm_control *control, const control_message *message);

/* ---- control_stall.c ---- */

/* The clock was looked at, and has run since the last look where holds. */
void control_clock_add(tdm_control_clock *clock, bool holds, uint64_t now_ns);

/* After how long a transfer stands still, by the environment. */
tdm_status control_read_stall(uint64_t *out_ns);

/* ---- control.c ---- */

/* A handle of the channel has closed. */
void control_handle_closed(tdm_control *control);

#endif
