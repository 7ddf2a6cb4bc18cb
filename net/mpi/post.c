/* Posts transfers and collectives, and contains the transport's table. A transfer is one message,
 * or several in order if it is longer than a piece: MPI matches messages of one (sender, receiver,
 * tag) in order. Invariant: a post that fails has left nothing outstanding. */
#include <string.h>

#include "net/mpi/engine.h"

typedef struct pieces {
  size_t count;
  size_t bytes; /* size of each piece except the last */
} pieces;

static pieces cut(const mpi_endpoint *endpoint, size_t bytes) {
  const size_t piece = endpoint->piece_bytes;
  return (pieces){.count = bytes == 0 ? 1 : (bytes - 1) / piece + 1, .bytes = piece};
}

static int piece_bytes(pieces of, size_t bytes, size_t number) {
  const size_t left = bytes - number * of.bytes;
  return (int)(left < of.bytes ? left : of.bytes);
}

/* Adds MPI's result for a piece of the request. The first failure is the request's. If the first
 * piece fails, nothing is outstanding and the post fails. Otherwise the request settles after its
 * other pieces. */
static tdm_status add(mpi_endpoint *endpoint, tdm_net_request *request, MPI_Request handle,
                      int code) {
  if (code == MPI_SUCCESS) {
    endpoint->requests[endpoint->count] = handle;
    endpoint->owners[endpoint->count] = request;
    endpoint->count++;
    request->pieces++;
    return TDM_OK;
  }
  const tdm_status status = mpi_check(code, "it is refused", endpoint->base.message);
  request->status = status;
  request->code = code;
  return status;
}

/* Returns the result of a post after the last piece, or the first that failed. */
static tdm_status posted(const tdm_net_request *request) {
  return request->pieces > 0 ? TDM_OK : request->status;
}

/* Makes Open MPI start a short send. It reports a send as done as soon as it has a copy, which is
 * sent by its next progress. The poster may compute for long before that, and testing requests that
 * are done makes no progress. Probing for a message on an unused channel does. */
static void push(const mpi_endpoint *endpoint) {
  int found = 0;
  const int code = MPI_Iprobe(MPI_ANY_SOURCE, (int)TDM_NET_CHANNELS, endpoint->comm, &found,
                              MPI_STATUS_IGNORE);
  (void)code; /* a lost path is reported by the outstanding requests */
}

static tdm_status post_send(tdm_endpoint *base, tdm_net_request *request, int peer,
                            uint32_t channel, const void *memory, size_t bytes) {
  mpi_endpoint *endpoint = (mpi_endpoint *)base;
  const pieces cuts = cut(endpoint, bytes);
  tdm_status status = mpi_reserve(endpoint, cuts.count);
  if (status != TDM_OK) return status;
  for (size_t i = 0; i < cuts.count && status == TDM_OK; i++) {
    MPI_Request handle = MPI_REQUEST_NULL;
    const int code = MPI_Isend((const char *)memory + i * cuts.bytes, piece_bytes(cuts, bytes, i),
                               MPI_BYTE, peer, (int)channel, endpoint->comm, &handle);
    status = add(endpoint, request, handle, code);
  }
  push(endpoint);
  return posted(request);
}

static tdm_status post_receive(tdm_endpoint *base, tdm_net_request *request, int peer,
                               uint32_t channel, void *memory, size_t bytes) {
  mpi_endpoint *endpoint = (mpi_endpoint *)base;
  const pieces cuts = cut(endpoint, bytes);
  tdm_status status = mpi_reserve(endpoint, cuts.count);
  if (status != TDM_OK) return status;
  for (size_t i = 0; i < cuts.count && status == TDM_OK; i++) {
    MPI_Request handle = MPI_REQUEST_NULL;
    const int code = MPI_Irecv((char *)memory + i * cuts.bytes, piece_bytes(cuts, bytes, i),
                               MPI_BYTE, peer, (int)channel, endpoint->comm, &handle);
    status = add(endpoint, request, handle, code);
  }
  return posted(request);
}

/* ---- Collectives ----------------------------------------------------------------------------- */

static tdm_status post_broadcast(tdm_endpoint *base, tdm_net_request *request, int root,
                                 void *memory, size_t bytes) {
  mpi_endpoint *endpoint = (mpi_endpoint *)base;
  const pieces cuts = cut(endpoint, bytes);
  tdm_status status = mpi_reserve(endpoint, cuts.count);
  if (status != TDM_OK) return status;
  request->channel = endpoint->collectives++;
  for (size_t i = 0; i < cuts.count && status == TDM_OK; i++) {
    MPI_Request handle = MPI_REQUEST_NULL;
    const int code = MPI_Ibcast((char *)memory + i * cuts.bytes, piece_bytes(cuts, bytes, i),
                                MPI_BYTE, root, endpoint->comm, &handle);
    status = add(endpoint, request, handle, code);
  }
  return posted(request);
}

static tdm_status post_all_reduce(tdm_endpoint *base, tdm_net_request *request, tdm_dtype dtype,
                                  void *memory, size_t count) {
  mpi_endpoint *endpoint = (mpi_endpoint *)base;
  const bool is_double = dtype == TDM_FLOAT64;
  const size_t element = is_double ? sizeof(double) : sizeof(float);
  const pieces cuts = cut(endpoint, count * element);
  tdm_status status = mpi_reserve(endpoint, cuts.count);
  if (status != TDM_OK) return status;
  request->channel = endpoint->collectives++;
  for (size_t i = 0; i < cuts.count && status == TDM_OK; i++) {
    MPI_Request handle = MPI_REQUEST_NULL;
    const int elements = piece_bytes(cuts, count * element, i) / (int)element;
    const int code =
        MPI_Iallreduce(MPI_IN_PLACE, (char *)memory + i * cuts.bytes, elements,
                       is_double ? MPI_DOUBLE : MPI_FLOAT, MPI_SUM, endpoint->comm, &handle);
    status = add(endpoint, request, handle, code);
  }
  push(endpoint);
  return posted(request);
}

/* For blocks longer than a piece: broadcasts the blocks of one rank after another. */
static tdm_status gather_in_pieces(mpi_endpoint *endpoint, tdm_net_request *request, char *all,
                                   size_t bytes) {
  const pieces cuts = cut(endpoint, bytes);
  const size_t ranks = (size_t)endpoint->base.rank_count;
  tdm_status status = mpi_reserve(endpoint, ranks * cuts.count);
  for (size_t i = 0; i < ranks * cuts.count && status == TDM_OK; i++) {
    MPI_Request handle = MPI_REQUEST_NULL;
    const size_t rank = i / cuts.count, piece = i % cuts.count;
    const int code =
        MPI_Ibcast(all + rank * bytes + piece * cuts.bytes, piece_bytes(cuts, bytes, piece),
                   MPI_BYTE, (int)rank, endpoint->comm, &handle);
    status = add(endpoint, request, handle, code);
  }
  return request->pieces > 0 ? TDM_OK : status;
}

static tdm_status post_all_gather(tdm_endpoint *base, tdm_net_request *request, const void *own,
                                  void *all, size_t bytes) {
  mpi_endpoint *endpoint = (mpi_endpoint *)base;
  const tdm_status status = mpi_reserve(endpoint, 1);
  if (status != TDM_OK) return status;
  char *place = (char *)all + (size_t)base->rank * bytes;
  if (bytes > 0 && own != place) memmove(place, own, bytes);
  request->channel = endpoint->collectives++;
  if (bytes > endpoint->piece_bytes) return gather_in_pieces(endpoint, request, all, bytes);
  MPI_Request handle = MPI_REQUEST_NULL;
  const int code = MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, (int)bytes, MPI_BYTE,
                                  endpoint->comm, &handle);
  return add(endpoint, request, handle, code);
}

static tdm_status post_barrier(tdm_endpoint *base, tdm_net_request *request) {
  mpi_endpoint *endpoint = (mpi_endpoint *)base;
  const tdm_status status = mpi_reserve(endpoint, 1);
  if (status != TDM_OK) return status;
  request->channel = endpoint->collectives++;
  MPI_Request handle = MPI_REQUEST_NULL;
  const int code = MPI_Ibarrier(endpoint->comm, &handle);
  return add(endpoint, request, handle, code);
}

/* ---- The table ------------------------------------------------------------------------------- */

const tdm_transport tdm_transport_plugin = {
    .abi = TDM_TRANSPORT_ABI,
    .name = ENGINE_NAME,
    .version = mpi_version,
    .ends_together = true, /* launchers require MPI_Finalize, which waits for all ranks */
    .open = mpi_open,
    .close = mpi_close,
    .abandon = mpi_abandon,
    .send = post_send,
    .receive = post_receive,
    .cancel = mpi_cancel,
    .all_reduce = post_all_reduce,
    .broadcast = post_broadcast,
    .all_gather = post_all_gather,
    .barrier = post_barrier,
    .poll = mpi_poll,
    .error_text = mpi_code_text,
};
