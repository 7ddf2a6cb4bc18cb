/* State shared by the files of the network. Invariant: the endpoint is called only under the
 * mutex. */
#ifndef TANDEM_DEVICES_NETWORK_NETWORK_STATE_H
#define TANDEM_DEVICES_NETWORK_NETWORK_STATE_H

#include <pthread.h>

#include "devices/network/network.h"
#include "net/control.h"

enum { TDM_MESSAGE_CHANNEL = 1, TDM_GATHER_CHANNEL, TDM_INTENT_CHANNEL };

/* Queues whose progress beats report: those of messages, then those of devices with groups. */
enum { TDM_WATCHED_SEND, TDM_WATCHED_RECEIVE, TDM_WATCHED_DEVICES };

typedef struct tdm_network_call {
  tdm_net_request request; /* must be the first field */
  bool settled;            /* the call has ended; protected by the lock */
  uint64_t left_ns;        /* time at which a rank that it waits for was found to have left; 0: none
                            * has */
  tdm_control_transfer transfer; /* used if ranks are monitored */
} tdm_network_call;

/* Calls per rank: to it and from it, each for data and its purpose. */
enum { TDM_GATHER_CALLS = 4 };

/* Pieces of a message that are outstanding at once: an engine continues with the next one while no
 * thread polls, because a kernel has the core of the network's thread. */
enum { TDM_PIECES_OUT = 8 };
#define TDM_SUM_PIECE_BYTES ((size_t)4 << 20) /* the engine divides these itself */

typedef struct tdm_message_piece {
  tdm_network_call call;
  unsigned char *buffer; /* (capacity) */
  size_t capacity;
} tdm_message_piece;

/* One queue's progress with a message. Piece i is in pieces[i % TDM_PIECES_OUT]. */
typedef struct tdm_message_progress {
  tdm_message_piece pieces[TDM_PIECES_OUT];
  size_t posted;     /* number of pieces that are outstanding or done */
  size_t passed;     /* number of pieces that are done */
  tdm_status status; /* status of a failure; the message ends when its other pieces are done */
  char text[TDM_MESSAGE_BYTES];
  bool stuck; /* pieces stay outstanding that no rank will send: no message follows */
} tdm_message_progress;

typedef struct tdm_sum_progress {
  tdm_network_call call;
  unsigned char *buffer; /* (TDM_SUM_PIECE_BYTES) */
  size_t passed;         /* bytes of the sum that are done */
  size_t piece;          /* bytes of it that are outstanding */
  bool out;
} tdm_sum_progress;

/* Precedes data that a rank sends to another outside of plans: its purpose. */
typedef struct tdm_network_intent {
  char words[TDM_INTENT_BYTES];
  uint64_t bytes;
} tdm_network_intent;

/* The status of an operation on a rank. */
typedef struct tdm_rank_report {
  uint32_t status;
  char text[TDM_MESSAGE_BYTES];
} tdm_rank_report;

enum {
  TDM_NETWORK_SETTING_PARTS = 3,
  TDM_NETWORK_BALLOT_COUNT = 1 + 2 * TDM_NETWORK_SETTING_PARTS,
};

struct tdm_network {
  tdm_messenger messenger; /* must be the first field */
  tdm_allocator allocator;
  tdm_endpoint *endpoint;
  tdm_control *control;        /* NULL: ranks are not monitored */
  tdm_network *next;           /* next in the list of forgotten networks */
  _Atomic int left;            /* 1 + a rank that left while it was waited for; 0: none */
  _Atomic uint64_t failing_ns; /* time of the engine's first failure; 0: none */
  pthread_mutex_t mutex;       /* protects the endpoint */
  size_t piece_bytes;          /* maximum for a message: the same on all ranks */
  tdm_message_progress sending;
  tdm_message_progress receiving;
  tdm_sum_progress reducing;   /* its buffer is allocated when the network starts, so that summing
                                * cannot fail */
  tdm_network_call *gathering; /* (TDM_GATHER_CALLS * rank_count) */
  unsigned char *room;         /* (room_bytes) that these calls send from and receive into */
  size_t room_bytes;
  const char *intends;         /* see tdm_network_intend */
  tdm_network_intent intent;   /* sent to other ranks */
  tdm_network_intent *intents; /* (rank_count) of other ranks */
  bool stuck;                  /* a call never settled, and the engine may still access the room */
  tdm_rank_report *reports;    /* (rank_count) of what ranks agree on */
  tdm_network_call voting;
  bool votes;                              /* the vote is outstanding */
  double ballot[TDM_NETWORK_BALLOT_COUNT]; /* first of this rank, then the sum of all (sums.c) */
};

/* Returns true if the job has lost a rank. Then no message is posted or awaited. Costs one or two
 * loads. */
bool tdm_network_has_lost(const tdm_network *network);
/* Fails, with a message, if the job has lost a rank. */
tdm_status tdm_network_check_ranks(const tdm_network *network) TDM_WARN_UNUSED;
/* Time in which everything arrives that a rank has sent before it left. */
#define TDM_LEFT_GRACE_NS UINT64_C(500000000)
/* Fails if a rank (-1: any) that is waited for has left, and will send and receive nothing any
 * more. *left_ns is since when that is known; 0: not yet. */
tdm_status tdm_network_check_left(tdm_network *network, int peer,
                                  uint64_t *left_ns) TDM_WARN_UNUSED;
/* Fails if a rank refused, because of an invalid call, what this rank waits for in the call (NULL:
 * a run). */
tdm_status tdm_network_check_refused(tdm_network *network,
                                     const tdm_network_call *call) TDM_WARN_UNUSED;
/* Fails if both ends of the call have waited for too long, for it or for different operations. */
tdm_status tdm_network_check_stall(tdm_network *network, tdm_network_call *call) TDM_WARN_UNUSED;
/* Implement the messenger's slots check and give_up. */
tdm_status tdm_network_check_all(tdm_messenger *messenger, uint64_t *left_ns) TDM_WARN_UNUSED;
void tdm_network_resign(tdm_messenger *messenger, tdm_status status);
/* Implement the slots begun and check_group. */
void tdm_network_begun(tdm_messenger *messenger, uint32_t slot, uint64_t position);
tdm_status tdm_network_check_group(tdm_messenger *messenger, tdm_group_wait *wait) TDM_WARN_UNUSED;
/* Sets *out_settled if the call has settled. Fails if it never will. */
tdm_status tdm_network_look_after(tdm_network *network, tdm_network_call *call,
                                  bool *out_settled) TDM_WARN_UNUSED;
/* Post a transfer. The call and the bytes must not be moved until it has settled. They fail if a
 * rank is lost. */
tdm_status tdm_network_post_send(tdm_network *network, tdm_network_call *call, uint32_t peer,
                                 uint32_t channel, const void *memory,
                                 size_t bytes) TDM_WARN_UNUSED;
tdm_status tdm_network_post_receive(tdm_network *network, tdm_network_call *call, uint32_t peer,
                                    uint32_t channel, void *memory, size_t bytes) TDM_WARN_UNUSED;
/* Posts a sum: memory (count) of dtype becomes its sum over the ranks. */
tdm_status tdm_network_post_sum(tdm_network *network, tdm_network_call *call, tdm_dtype dtype,
                                void *memory, size_t count) TDM_WARN_UNUSED;

/* Executes a turn of a command. If *out_ended is set, it has ended with the returned status. The
 * caller has the queue. */
tdm_status tdm_network_message(tdm_network *network, const tdm_command *command, tdm_flight *flight,
                               bool spoiled, bool *out_ended) TDM_WARN_UNUSED;
tdm_status tdm_network_sum(tdm_network *network, const tdm_command *command,
                           const tdm_flight *flight, bool spoiled, bool *out_ended) TDM_WARN_UNUSED;
tdm_status tdm_network_vote(tdm_network *network, tdm_flight *flight,
                            bool *out_ended) TDM_WARN_UNUSED;
/* Returns the maximum size of pieces, such that the transport sends them without a handshake. */
size_t tdm_message_piece_bytes(size_t eager_bytes);
void tdm_message_free(const tdm_network *network, tdm_message_progress *progress);
static inline unsigned char *tdm_message_memory(const tdm_message *message,
                                                const tdm_flight *flight) {
  return (unsigned char *)(flight->bases[message->at.base] + message->at.offset);
}

#endif
