/* The transport carries bytes between the ranks of a job. It is one table of functions, so that
 * only an engine's own file depends on it (Open MPI, MPICH, the tests' simnet). Invariant: every
 * slot is filled. An engine's error becomes a status here and never ends the process.
 *
 * A job has rank_count ranks, from 0. An endpoint represents one rank. Calls of one endpoint never
 * overlap; different threads may make them if something orders the calls. Different endpoints of a
 * process (simnet's) are independent of each other.
 *
 *     rank 0                              rank 1
 *     send(request, 1, channel 7)  ---->  receive(request, 0, channel 7)
 *     poll ... poll: the request          poll ... poll: the request
 *
 * No call blocks. A posted request settles later, progress is made only in poll, and poll returns
 * settled requests. Memory is in the host. */
#ifndef TANDEM_NET_TRANSPORT_H
#define TANDEM_NET_TRANSPORT_H

#include "tandem/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Changes whenever a struct of this header does. A plug-in with another number is refused. */
#define TDM_TRANSPORT_ABI 3u

#define TDM_NET_HOST_BYTES 65   /* size of a host's name, terminator included */
#define TDM_NET_TEXT_BYTES 512  /* size of a message, terminator included */
#define TDM_NET_CHANNELS 32000u /* channels are in [0, this): MPI guarantees 32,767 tags */

typedef struct tdm_endpoint tdm_endpoint;
typedef struct tdm_transport tdm_transport;

/* The symbol that a plug-in exports: one table. */
#define TDM_TRANSPORT_SYMBOL "tdm_transport_plugin"

/* Identifies a rank in messages. */
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

/* One transfer or collective. The poster provides its memory, which may be part of a larger struct.
 * The call that posts it fills it. From then on, until poll returns it or the endpoint is closed or
 * abandoned, it and the bytes that it refers to must not be moved or modified; the bytes of a send
 * may be read. A call that fails has posted nothing. */
typedef struct tdm_net_request {
  struct tdm_net_request *next; /* links the requests that poll returns; then free for the caller */
  tdm_net_kind kind;
  /* Valid after poll has returned it; tdm_net_request_fail describes it in words. One of TDM_OK,
   * INVALID_ARGUMENT (what arrived does not match the request), CANCELLED, UNAVAILABLE (a peer or
   * the path to it is lost), OUT_OF_MEMORY and INTERNAL. */
  tdm_status status;
  int peer;             /* peer of a send or receive; the root of a broadcast; otherwise -1 */
  uint32_t channel;     /* channel of a transfer; otherwise number of the collective, from 0 */
  size_t bytes;         /* bytes posted by this rank */
  size_t arrived_bytes; /* received bytes, at most `bytes`; the engine may not report that more
                         * arrived */
  int code;             /* the engine's code of the failure, for error_text; 0: none */
  /* Private to the engine. */
  size_t pieces;
  void *engine[3];
} tdm_net_request;

/* The first member of an engine's own endpoint struct. Only the engine writes it. */
struct tdm_endpoint {
  const tdm_transport *transport;
  tdm_allocator allocator;
  int rank;
  int rank_count;
  const tdm_rank *ranks; /* (rank_count) */
  /* Transfers of at most this size are sent without a handshake. A longer one starts only after the
   * receiver has polled, and its reply may wait until the receiver's own sends are done. The same
   * on all ranks, above 0; SIZE_MAX: there is never a handshake. */
  size_t eager_bytes;
  size_t posted_count;              /* number of requests that poll has not returned yet */
  char message[TDM_NET_TEXT_BYTES]; /* message of the last call of the table that failed */
};

typedef struct tdm_endpoint_options {
  size_t struct_size;
  tdm_allocator allocator;
  /* The job. NULL selects the job whose launcher started this process. An MPI engine takes a
   * pointer to a communicator, which it duplicates; simnet takes a tdm_simnet_place. */
  const void *job;
  /* How long to wait for the other ranks; 0: no limit. */
  uint64_t timeout_ns;
  /* Longer transfers are sent in pieces of this size. 0: the engine's limit, if it has one. For
   * tests; the same on all ranks, and a multiple of 8. */
  size_t piece_bytes;
} tdm_endpoint_options;

/* An engine. A failing call sets endpoint->message, but not the thread's message, because the
 * library may be hidden from plug-ins. Use the functions below instead of the table: they check
 * arguments and set the thread's message. */
struct tdm_transport {
  uint32_t abi;                 /* TDM_TRANSPORT_ABI */
  const char *name;             /* "openmpi", "mpich", "simnet" */
  const char *(*version)(void); /* text such as "Open MPI 4.1.4"; static; may be called before and
                                 * after open */
  bool ends_together;           /* a rank that leaves before the others may abort them */

  /* Joins the job. Returns when all its ranks have joined, with all of *out_endpoint filled. On
   * failure writes the reason to message (TDM_NET_TEXT_BYTES): UNAVAILABLE if there is no job or
   * its ranks cannot be reached, UNSUPPORTED if the program initialized the engine without support
   * for calls by the library's threads, or DEADLINE_EXCEEDED. */
  tdm_status (*open)(const tdm_endpoint_options *options, tdm_endpoint **out_endpoint,
                     char *message);
  /* Leaves in order and frees. All ranks call it with nothing posted, and may wait for each other.
   * On failure the endpoint is abandoned, and freed all the same; message is as above. */
  tdm_status (*close)(tdm_endpoint *endpoint, uint64_t timeout_ns, char *message);
  /* Leaves without a message to any other rank, waits for nothing, and frees. Outstanding requests
   * are forgotten. Their memory should stay allocated until the process ends, because an engine
   * whose peers access memory by themselves (shared memory, RDMA) may still use it. With MPI the
   * process cannot join a job again. */
  void (*abandon)(tdm_endpoint *endpoint);

  /* Transfers of one (sender, receiver, channel) match in the order in which they are posted; those
   * of different channels are unordered. Zero bytes are legal and match. */
  tdm_status (*send)(tdm_endpoint *endpoint, tdm_net_request *request, int peer, uint32_t channel,
                     const void *memory, size_t bytes);
  tdm_status (*receive)(tdm_endpoint *endpoint, tdm_net_request *request, int peer,
                        uint32_t channel, void *memory, size_t bytes);
  /* Requests the cancellation of an outstanding send or receive. A later poll settles it, as
   * CANCELLED or normally. Fails with UNSUPPORTED if the engine cannot cancel; collectives can
   * never be cancelled. */
  tdm_status (*cancel)(tdm_endpoint *endpoint, tdm_net_request *request);

  /* Collectives: every rank posts the same ones in the same order, with the same sizes. Engines do
   * not detect violations.
   * - all_reduce: memory (count) of float32 or float64 becomes the sum over ranks, identical on all
   *   ranks. The engine chooses the order of additions.
   * - broadcast: memory (bytes) becomes root's.
   * - all_gather: all (rank_count, bytes) receives own (bytes) of every rank, ordered by rank. */
  tdm_status (*all_reduce)(tdm_endpoint *endpoint, tdm_net_request *request, tdm_dtype dtype,
                           void *memory, size_t count);
  tdm_status (*broadcast)(tdm_endpoint *endpoint, tdm_net_request *request, int root, void *memory,
                          size_t bytes);
  tdm_status (*all_gather)(tdm_endpoint *endpoint, tdm_net_request *request, const void *own,
                           void *all, size_t bytes);
  tdm_status (*barrier)(tdm_endpoint *endpoint, tdm_net_request *request);

  /* Makes progress without waiting and returns the requests that have settled, linked by next in
   * the order of settling; NULL: none. Fails if the endpoint can only be abandoned from now on;
   * *out_settled is set all the same. */
  tdm_status (*poll)(tdm_endpoint *endpoint, tdm_net_request **out_settled);

  /* Writes the engine's text for a request's code to text of capacity. */
  void (*error_text)(tdm_endpoint *endpoint, int code, char *text, size_t capacity);
};

/* ---- Functions for the rest of the library --------------------------------------------------- */

/* Each function calls the slot of its name after it has checked the arguments. Fails with
 * INVALID_ARGUMENT for a peer that is not another rank of the job, a channel beyond
 * TDM_NET_CHANNELS, NULL memory with bytes, a dtype without sums, or a collective of more than
 * SIZE_MAX bytes. Failures set the thread's message, which names the ranks. */
tdm_status tdm_endpoint_open(const tdm_transport *transport, const tdm_endpoint_options *options,
                             tdm_endpoint **out_endpoint) TDM_WARN_UNUSED;
/* Both accept NULL. If requests are outstanding, close abandons the endpoint and returns
 * INVALID_ARGUMENT. */
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

/* Polls until request, the only outstanding one, has settled, and returns its status. For the start
 * and the end of a job, not for steps: it sleeps between polls, gradually up to a millisecond.
 * After timeout_ns (0: no limit) it returns DEADLINE_EXCEEDED, and the request is still
 * outstanding. */
tdm_status tdm_endpoint_wait(tdm_endpoint *endpoint, tdm_net_request *request,
                             uint64_t timeout_ns) TDM_WARN_UNUSED;

/* Sets the thread's message to the failure of a request that was returned, as in "the receive of
 * 400 bytes from rank 1 (host b, pid 4711) on channel 7 failed: ...". Returns its status. */
tdm_status tdm_net_request_fail(tdm_endpoint *endpoint, const tdm_net_request *request);

/* Writes "rank 1 (host b, pid 4711)" to text of TDM_NET_RANK_TEXT_BYTES and returns text. */
#define TDM_NET_RANK_TEXT_BYTES 112
const char *tdm_endpoint_rank_text(const tdm_endpoint *endpoint, int rank, char *text);

#ifdef __cplusplus
}
#endif
#endif
