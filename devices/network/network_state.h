/* What the files of the network share. Invariant: the endpoint is called under the mutex alone. */
#ifndef TANDEM_DEVICES_NETWORK_NETWORK_STATE_H
#define TANDEM_DEVICES_NETWORK_NETWORK_STATE_H

#include <pthread.h>

#include "devices/network/network.h"
#include "net/control.h"

enum { TDM_MESSAGE_CHANNEL = 1, TDM_GATHER_CHANNEL, TDM_INTENT_CHANNEL };

/* Whose progress beats tell: the queues of messages, then those of devices with groups. */
enum { TDM_WATCHED_SEND, TDM_WATCHED_RECEIVE, TDM_WATCHED_DEVICES };

typedef struct tdm_network_call {
  tdm_net_request request; /* first */
  bool settled;            /* under the lock */
  uint64_t left_ns;        /* since when it is known that a rank it waits for has left; 0: not */
  tdm_control_transfer transfer; /* where ranks are watched */
} tdm_network_call;

/* To and from a rank, each with what it is for. */
enum { TDM_GATHER_CALLS = 4 };

/* Of a message, at the same time: an engine goes on with the next while nobody looks after it, as a
 * kernel has the core that the network's thread shares. */
enum { TDM_PIECES_OUT = 8 };
#define TDM_SUM_PIECE_BYTES ((size_t)4 << 20) /* the engine cuts these itself */

typedef struct tdm_message_piece {
  tdm_network_call call;
  unsigned char *buffer; /* (capacity) */
  size_t capacity;
} tdm_message_piece;

/* How far one queue has come with a message. Piece i of it is in pieces[i % TDM_PIECES_OUT]. */
typedef struct tdm_message_progress {
  tdm_message_piece pieces[TDM_PIECES_OUT];
  size_t posted;     /* pieces that are out, or over */
  size_t passed;     /* pieces that are over */
  tdm_status status; /* of what has failed; the message ends when the rest of it has passed */
  char text[TDM_MESSAGE_BYTES];
  bool stuck; /* pieces stay out that nobody will send: no message follows */
} tdm_message_progress;

typedef struct tdm_sum_progress {
  tdm_network_call call;
  unsigned char *buffer; /* (TDM_SUM_PIECE_BYTES) */
  size_t passed;         /* bytes of the sum that are over */
  size_t piece;          /* bytes of it that are out */
  bool out;
} tdm_sum_progress;

/* Goes before what a rank tells another outside of plans: what that is. */
typedef struct tdm_network_intent {
  char words[TDM_INTENT_BYTES];
  uint64_t bytes;
} tdm_network_intent;

/* How something went on a rank. */
typedef struct tdm_rank_report {
  uint32_t status;
  char text[TDM_MESSAGE_BYTES];
} tdm_rank_report;

enum {
  TDM_NETWORK_SETTING_PARTS = 3,
  TDM_NETWORK_BALLOT_COUNT = 1 + 2 * TDM_NETWORK_SETTING_PARTS,
};

struct tdm_network {
  tdm_messenger messenger; /* first */
  tdm_allocator allocator;
  tdm_endpoint *endpoint;
  tdm_control *control;        /* NULL: nobody watches the ranks */
  tdm_network *next;           /* of those that are forgotten */
  _Atomic int left;            /* 1 + a rank that left while it was waited for; 0: none */
  _Atomic uint64_t failing_ns; /* since when the engine has failed; 0: it has not */
  pthread_mutex_t mutex;       /* of the endpoint */
  size_t piece_bytes;          /* of a message, at most: the same on all ranks */
  tdm_message_progress sending;
  tdm_message_progress receiving;
  tdm_sum_progress reducing;   /* its buffer is made at the start: who cannot sum would stop all */
  tdm_network_call *gathering; /* (TDM_GATHER_CALLS * rank_count) */
  unsigned char *room;         /* (room_bytes) that these send from, and receive into */
  size_t room_bytes;
  const char *intends;         /* see tdm_network_intend */
  tdm_network_intent intent;   /* on its way to other ranks */
  tdm_network_intent *intents; /* (rank_count) of other ranks */
  bool stuck;                  /* one of them never settled, and may still reach into the room */
  tdm_rank_report *reports;    /* (rank_count) of what ranks agree on */
  tdm_network_call voting;
  bool votes;                              /* the vote is out */
  double ballot[TDM_NETWORK_BALLOT_COUNT]; /* this rank's, then the sum of all (sums.c) */
};

/* Has the job lost a rank? Then no message is posted, and none is waited for. One load or two. */
bool tdm_network_has_lost(const tdm_network *network);
/* The same, with words. */
tdm_status tdm_network_check_ranks(const tdm_network *network) TDM_WARN_UNUSED;
/* What a rank has sent before it left arrives in that time. */
#define TDM_LEFT_GRACE_NS UINT64_C(500000000)
/* Has a rank left (-1: any) that is waited for, and will send and receive nothing any more?
 * *left_ns: since when that is known; 0: not yet. */
tdm_status tdm_network_check_left(tdm_network *network, int peer,
                                  uint64_t *left_ns) TDM_WARN_UNUSED;
/* Was a rank asked in a wrong way for what this one waits in, the call (NULL: a run)? */
tdm_status tdm_network_check_refused(tdm_network *network,
                                     const tdm_network_call *call) TDM_WARN_UNUSED;
/* Have both ends of the call waited for too long, for it or for different things? */
tdm_status tdm_network_check_stall(tdm_network *network, tdm_network_call *call) TDM_WARN_UNUSED;
/* The messenger's slots check and give_up. */
tdm_status tdm_network_check_all(tdm_messenger *messenger, uint64_t *left_ns) TDM_WARN_UNUSED;
void tdm_network_resign(tdm_messenger *messenger, tdm_status status);
/* The slots begun and check_group. */
void tdm_network_begun(tdm_messenger *messenger, uint32_t slot, uint64_t position);
tdm_status tdm_network_check_group(tdm_messenger *messenger, tdm_group_wait *wait) TDM_WARN_UNUSED;
/* Has the call settled? Fails where it never will. */
tdm_status tdm_network_look_after(tdm_network *network, tdm_network_call *call,
                                  bool *out_settled) TDM_WARN_UNUSED;
/* The call and the bytes stay where they are until it has settled. Fail where a rank is lost. */
tdm_status tdm_network_post_send(tdm_network *network, tdm_network_call *call, uint32_t peer,
                                 uint32_t channel, const void *memory,
                                 size_t bytes) TDM_WARN_UNUSED;
tdm_status tdm_network_post_receive(tdm_network *network, tdm_network_call *call, uint32_t peer,
                                    uint32_t channel, void *memory, size_t bytes) TDM_WARN_UNUSED;
/* Memory (count) of dtype becomes its sum over the ranks. */
tdm_status tdm_network_post_sum(tdm_network *network, tdm_network_call *call, tdm_dtype dtype,
                                void *memory, size_t count) TDM_WARN_UNUSED;

/* A turn of a command; *out_ended: it is over, as the status says. Of who has the queue. */
tdm_status tdm_network_message(tdm_network *network, const tdm_command *command, tdm_flight *flight,
                               bool spoiled, bool *out_ended) TDM_WARN_UNUSED;
tdm_status tdm_network_sum(tdm_network *network, const tdm_command *command,
                           const tdm_flight *flight, bool spoiled, bool *out_ended) TDM_WARN_UNUSED;
tdm_status tdm_network_vote(tdm_network *network, tdm_flight *flight,
                            bool *out_ended) TDM_WARN_UNUSED;
/* What pieces have at most, of what the transport sends without asking. */
size_t tdm_message_piece_bytes(size_t eager_bytes);
void tdm_message_free(const tdm_network *network, tdm_message_progress *progress);
static inline unsigned char *tdm_message_memory(const tdm_message *message,
                                                const tdm_flight *flight) {
  return (unsigned char *)(flight->bases[message->at.base] + message->at.offset);
}

#endif
