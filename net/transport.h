/* The transport: what carries bytes between the ranks of a job, as one table of functions, so that
 * an engine (Open MPI, MPICH, the tests' simnet) is known to its own file alone. Invariant: every
 * slot is filled; an engine's error becomes a status here, never the end of the process.
 *
 * A job has rank_count ranks, from 0. An endpoint is one rank's place in it. Two calls of one
 * endpoint never overlap; another thread may make the next one, if something orders the two.
 * Different endpoints of a process (simnet's) are independent of one another.
 *
 *     rank 0                              rank 1
 *     send(request, 1, channel 7)  ---->  receive(request, 0, channel 7)
 *     poll ... poll: the request          poll ... poll: the request
 *
 * Nothing waits: what is posted settles later, nothing moves but in poll, and poll hands back what
 * has settled. Memory is the host's. */
#ifndef TANDEM_NET_TRANSPORT_H
#define TANDEM_NET_TRANSPORT_H

#include "tandem/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Changes whenever a struct of this header does: a plug-in of another number is refused. */
#define TDM_TRANSPORT_ABI 3u

#define TDM_NET_HOST_BYTES 65   /* of a host's name, terminator included */
#define TDM_NET_TEXT_BYTES 512  /* of a message, terminator included */
#define TDM_NET_CHANNELS 32000u /* channels are 0 to this, exclusive: MPI promises 32,767 tags */

typedef struct tdm_endpoint tdm_endpoint;
typedef struct tdm_transport tdm_transport;

/* What a plug-in exports: one table. */
#define TDM_TRANSPORT_SYMBOL "tdm_transport_plugin"

/* Who a rank is, for messages. */
typedef struct tdm_rank {
  char host[TDM_NET_HOST_BYTES];
  int64_t pid;
} tdm_rank;

typedef enum tdm_net_kind {
  TDM_NET_SEND,
  TDM_NET_RECEIVE,
  TDM_NET_ALL_REDUCE,
  TDM_NET_BROADCAST,
  TDM_NET_ALL_GATHER,
  TDM_NET_BARRIER,
} tdm_net_kind;

/* One transfer or collective, in memory of whoever posts it, which may be a part of a struct of
 * theirs. The call that posts it fills it; from then on it, and the bytes that it names, stay where
 * they are and are left alone (those of a send may be read) until poll hands it back, or until the
 * endpoint is closed or abandoned. A call that fails has posted nothing. */
typedef struct tdm_net_request {
  struct tdm_net_request *next; /* of those that poll hands back; then the caller's own */
  tdm_net_kind kind;
  /* Once handed back: TDM_OK; INVALID_ARGUMENT: what came does not fit what was asked for;
   * CANCELLED: as asked; UNAVAILABLE: a peer or the way to it is lost; OUT_OF_MEMORY, INTERNAL.
   * tdm_net_request_fail says it in words. */
  tdm_status status;
  int peer;             /* of a send or receive; the root of a broadcast; else -1 */
  uint32_t channel;     /* of a send or receive; else which collective of the endpoint, from 0 */
  size_t bytes;         /* posted: of this rank */
  size_t arrived_bytes; /* of a receive, at most bytes; where more came, the engine may not say */
  int code;             /* the engine's own number of the failure, for error_text; 0: none */
  /* The engine's own. */
  size_t pieces;
  void *engine[3];
} tdm_net_request;

/* An endpoint's beginning; an engine's own struct begins with it. Read-only but to its engine. */
struct tdm_endpoint {
  const tdm_transport *transport;
  tdm_allocator allocator;
  int rank;
  int rank_count;
  const tdm_rank *ranks;            /* (rank_count) */
  /* Transfers of so many bytes leave without asking the receiver, which has to look for longer ones
   * to begin, and whose answer may wait behind what it sends itself. The same on all ranks, above
   * 0; SIZE_MAX: nobody is asked. */
  size_t eager_bytes;
  size_t posted_count;              /* requests that poll has yet to hand back */
  char message[TDM_NET_TEXT_BYTES]; /* of the last call of the table that failed */
};

typedef struct tdm_endpoint_options {
  size_t struct_size;
  tdm_allocator allocator;
  /* Which job: NULL is that of which a launcher started this process. An engine of MPI takes a
   * pointer to a communicator, which it duplicates; simnet a tdm_simnet_place. */
  const void *job;
  /* How long to wait for the other ranks; 0: without end. */
  uint64_t timeout_ns;
  /* Transfers of more bytes travel in pieces where an engine has a limit; 0: that limit. For tests
   * of the cutting; the same on all ranks, and a multiple of 8. */
  size_t piece_bytes;
} tdm_endpoint_options;

/* An engine. Its calls set endpoint->message where they fail, and no thread's message, since the
 * library may be hidden from them; call them through the functions below, which check arguments and
 * tell the message. */
struct tdm_transport {
  uint32_t abi;                 /* TDM_TRANSPORT_ABI */
  const char *name;             /* "openmpi", "mpich", "simnet" */
  const char *(*version)(void); /* "Open MPI 4.1.4"; static; before and after open */
  bool ends_together;           /* a rank that leaves before the others may be the end of these */

  /* Joins the job; returns when all its ranks have, with all of *out_endpoint filled. UNAVAILABLE:
   * there is no job here, or no way to its ranks; UNSUPPORTED: the program initialised the engine
   * in a way that does not let a thread of ours call it; DEADLINE_EXCEEDED. message
   * (TDM_NET_TEXT_BYTES) says why it failed. */
  tdm_status (*open)(const tdm_endpoint_options *options, tdm_endpoint **out_endpoint,
                     char *message);
  /* Leaves in order and frees: all ranks call it with nothing posted, and may wait for one another.
   * On failure the endpoint is abandoned: it is gone either way; message as above. */
  tdm_status (*close)(tdm_endpoint *endpoint, uint64_t timeout_ns, char *message);
  /* Leaves without a word to any other rank, waits for nothing, and frees. Requests that are out
   * are forgotten. Their memory should stay allocated until the process ends: an engine whose peers
   * reach into memory by themselves (shared memory, RDMA) may still be at it. With MPI the process
   * cannot join a job again. */
  void (*abandon)(tdm_endpoint *endpoint);

  /* Transfers of one (sender, receiver, channel) match in the order in which they are posted; of
   * different channels in any. Zero bytes are legal and match. */
  tdm_status (*send)(tdm_endpoint *endpoint, tdm_net_request *request, int peer, uint32_t channel,
                     const void *memory, size_t bytes);
  tdm_status (*receive)(tdm_endpoint *endpoint, tdm_net_request *request, int peer,
                        uint32_t channel, void *memory, size_t bytes);
  /* Asks for the end of a send or receive that is out. It settles in a later poll: as CANCELLED, or
   * as if nobody had asked. UNSUPPORTED where the engine cannot; collectives never can. */
  tdm_status (*cancel)(tdm_endpoint *endpoint, tdm_net_request *request);

  /* Collectives: every rank posts the same ones in the same order, of the same sizes; engines do
   * not notice when they do not.
   * all_reduce: memory (count) of float32 or float64 becomes the sum over ranks, one and the same
   * on all; in which order it adds is the engine's business. broadcast: memory (bytes) becomes
   * root's. all_gather: all (rank_count, bytes) receives own (bytes) of every rank, in their order.
   */
  tdm_status (*all_reduce)(tdm_endpoint *endpoint, tdm_net_request *request, tdm_dtype dtype,
                           void *memory, size_t count);
  tdm_status (*broadcast)(tdm_endpoint *endpoint, tdm_net_request *request, int root, void *memory,
                          size_t bytes);
  tdm_status (*all_gather)(tdm_endpoint *endpoint, tdm_net_request *request, const void *own,
                           void *all, size_t bytes);
  tdm_status (*barrier)(tdm_endpoint *endpoint, tdm_net_request *request);

  /* Lets the engine work, without waiting, and hands back those that have settled since, linked by
   * next in the order in which they did; NULL: none. Fails where the endpoint is of no use any
   * more, other than to be abandoned; *out_settled is set all the same. */
  tdm_status (*poll)(tdm_endpoint *endpoint, tdm_net_request **out_settled);

  /* The engine's words for a request's code, into text of capacity. */
  void (*error_text)(tdm_endpoint *endpoint, int code, char *text, size_t capacity);
};

/* ---- What the rest of the library calls ----------------------------------------------------- */

/* Each does what the slot of its name does. Arguments are checked here: INVALID_ARGUMENT for a peer
 * that is no other rank of the job, a channel beyond TDM_NET_CHANNELS, memory that is NULL with
 * bytes, a dtype without sums, a collective of more than SIZE_MAX bytes. Failures set the thread's
 * message, which names the ranks. */
tdm_status tdm_endpoint_open(const tdm_transport *transport, const tdm_endpoint_options *options,
                             tdm_endpoint **out_endpoint) TDM_WARN_UNUSED;
/* Both take NULL. close with requests out abandons and answers INVALID_ARGUMENT. */
tdm_status tdm_endpoint_close(tdm_endpoint *endpoint, uint64_t timeout_ns) TDM_WARN_UNUSED;
void tdm_endpoint_abandon(tdm_endpoint *endpoint);

tdm_status tdm_endpoint_send(tdm_endpoint *endpoint, tdm_net_request *request, int peer,
                             uint32_t channel, const void *memory, size_t bytes) TDM_WARN_UNUSED;
tdm_status tdm_endpoint_receive(tdm_endpoint *endpoint, tdm_net_request *request, int peer,
                                uint32_t channel, void *memory, size_t bytes) TDM_WARN_UNUSED;
tdm_status tdm_endpoint_cancel(tdm_endpoint *endpoint, tdm_net_request *request) TDM_WARN_UNUSED;
tdm_status tdm_endpoint_all_reduce(tdm_endpoint *endpoint, tdm_net_request *request,
                                   tdm_dtype dtype, void *memory, size_t count) TDM_WARN_UNUSED;
tdm_status tdm_endpoint_broadcast(tdm_endpoint *endpoint, tdm_net_request *request, int root,
                                  void *memory, size_t bytes) TDM_WARN_UNUSED;
tdm_status tdm_endpoint_all_gather(tdm_endpoint *endpoint, tdm_net_request *request,
                                   const void *own, void *all, size_t bytes) TDM_WARN_UNUSED;
tdm_status tdm_endpoint_barrier(tdm_endpoint *endpoint, tdm_net_request *request) TDM_WARN_UNUSED;
tdm_status tdm_endpoint_poll(tdm_endpoint *endpoint, tdm_net_request **out_settled) TDM_WARN_UNUSED;

/* Polls until request, the only one that is out, has settled: for the start and the end of a job,
 * not for steps. Sleeps between polls, longer and longer up to a millisecond. Answers its status;
 * DEADLINE_EXCEEDED after timeout_ns (0: without end), and then it is still out. */
tdm_status tdm_endpoint_wait(tdm_endpoint *endpoint, tdm_net_request *request,
                             uint64_t timeout_ns) TDM_WARN_UNUSED;

/* Sets the thread's message to what became of a request that was handed back, as in "the receive of
 * 400 bytes from rank 1 (host b, pid 4711) on channel 7 failed: ...", and returns its status. */
tdm_status tdm_net_request_fail(tdm_endpoint *endpoint, const tdm_net_request *request);

/* "rank 1 (host b, pid 4711)" into text of TDM_NET_RANK_TEXT_BYTES; answers text. */
#define TDM_NET_RANK_TEXT_BYTES 112
const char *tdm_endpoint_rank_text(const tdm_endpoint *endpoint, int rank, char *text);

#ifdef __cplusplus
}
#endif
#endif
