/* The outstanding MPI requests, one entry per piece, and their owners. Invariant: the first `count`
 * entries of requests and owners are outstanding, and one of our requests settles with its last
 * piece. */
#include <limits.h>
#include <string.h>

#include "net/mpi/engine.h"

/* ---- Allocation ------------------------------------------------------------------------------ */

void mpi_free_tables(mpi_endpoint *endpoint) {
  const tdm_allocator *allocator = &endpoint->base.allocator;
  mpi_give_back(allocator, endpoint->requests, endpoint->capacity * sizeof *endpoint->requests);
  mpi_give_back(allocator, endpoint->owners, endpoint->capacity * sizeof *endpoint->owners);
  mpi_give_back(allocator, endpoint->done, endpoint->capacity * sizeof *endpoint->done);
  mpi_give_back(allocator, endpoint->statuses, endpoint->capacity * sizeof *endpoint->statuses);
}

tdm_status mpi_reserve(mpi_endpoint *endpoint, size_t more) {
  const size_t needed = endpoint->count + more;
  if (needed <= endpoint->capacity) return TDM_OK;
  if (needed > INT_MAX / 2)
    return mpi_refuse(TDM_OUT_OF_MEMORY, endpoint->base.message, "%zu messages are out", needed);
  const tdm_allocator *allocator = &endpoint->base.allocator;
  mpi_endpoint grown = *endpoint;
  grown.capacity = needed < 64 ? 64 : 2 * needed;
  grown.requests = mpi_take(allocator, grown.capacity * sizeof *grown.requests);
  grown.owners = mpi_take(allocator, grown.capacity * sizeof *grown.owners);
  grown.done = mpi_take(allocator, grown.capacity * sizeof *grown.done);
  grown.statuses = mpi_take(allocator, grown.capacity * sizeof *grown.statuses);
  if (!grown.requests || !grown.owners || !grown.done || !grown.statuses) {
    mpi_free_tables(&grown);
    return mpi_refuse(TDM_OUT_OF_MEMORY, endpoint->base.message, "out of memory for %zu messages",
                      grown.capacity);
  }
  if (endpoint->count > 0) {
    memcpy(grown.requests, endpoint->requests, endpoint->count * sizeof *grown.requests);
    memcpy(grown.owners, endpoint->owners, endpoint->count * sizeof *grown.owners);
  }
  mpi_free_tables(endpoint);
  endpoint->requests = grown.requests;
  endpoint->owners = grown.owners;
  endpoint->done = grown.done;
  endpoint->statuses = grown.statuses;
  endpoint->capacity = grown.capacity;
  return TDM_OK;
}

/* ---- Settling -------------------------------------------------------------------------------- */

/* Records the end of a piece; code is the piece's own. */
static void end_piece(tdm_net_request *request, MPI_Status *of, int code) {
  request->pieces--;
  int cancelled = 0, bytes = 0;
  if (code == MPI_SUCCESS && request->kind == TDM_NET_RECEIVE) {
    (void)MPI_Test_cancelled(of, &cancelled);
    (void)MPI_Get_count(of, MPI_BYTE, &bytes);
  }
  if (cancelled) {
    if (request->status == TDM_OK) request->status = TDM_CANCELLED;
  } else if (bytes > 0) {
    request->arrived_bytes += (size_t)bytes;
  }
  if (code == MPI_SUCCESS || request->status != TDM_OK) return;
  request->code = code;
  request->status = mpi_status_of(code);
}

/* Settles a request after its last piece. */
static void end_request(tdm_net_request *request) {
  if (request->status == TDM_OK && request->kind == TDM_NET_RECEIVE &&
      request->arrived_bytes != request->bytes)
    request->status = TDM_INVALID_ARGUMENT;
  request->next = NULL;
}

/* Removes ended entries and keeps the order of the others. */
static void compact(mpi_endpoint *endpoint) {
  size_t kept = 0;
  for (size_t i = 0; i < endpoint->count; i++) {
    if (!endpoint->owners[i]) continue;
    endpoint->owners[kept] = endpoint->owners[i];
    endpoint->requests[kept] = endpoint->requests[i];
    kept++;
  }
  endpoint->count = kept;
}

tdm_status mpi_poll(tdm_endpoint *base, tdm_net_request **out_settled) {
  mpi_endpoint *endpoint = (mpi_endpoint *)base;
  if (endpoint->count == 0) return TDM_OK;
  int ended = 0;
  const int code = MPI_Testsome((int)endpoint->count, endpoint->requests, &ended, endpoint->done,
                                endpoint->statuses);
  int class = MPI_SUCCESS;
  if (code != MPI_SUCCESS) (void)MPI_Error_class(code, &class);
  if (class != MPI_SUCCESS && class != MPI_ERR_IN_STATUS)
    return mpi_check(code, "MPI_Testsome", base->message);
  if (ended <= 0) return TDM_OK; /* no request ended, or MPI_UNDEFINED */
  tdm_net_request **end = out_settled;
  for (int i = 0; i < ended; i++) {
    tdm_net_request *request = endpoint->owners[endpoint->done[i]];
    MPI_Status *of = &endpoint->statuses[i];
    endpoint->owners[endpoint->done[i]] = NULL;
    end_piece(request, of, code == MPI_SUCCESS ? MPI_SUCCESS : of->MPI_ERROR);
    if (request->pieces > 0) continue;
    end_request(request);
    *end = request;
    end = &request->next;
  }
  compact(endpoint);
  return TDM_OK;
}

tdm_status mpi_cancel(tdm_endpoint *base, tdm_net_request *request) {
  mpi_endpoint *endpoint = (mpi_endpoint *)base;
  if (request->kind != TDM_NET_RECEIVE)
    return mpi_refuse(TDM_UNSUPPORTED, base->message, "MPI takes back receives alone");
  for (size_t i = 0; i < endpoint->count; i++) {
    if (endpoint->owners[i] != request) continue;
    const tdm_status status =
        mpi_check(MPI_Cancel(&endpoint->requests[i]), "MPI_Cancel", base->message);
    if (status != TDM_OK) return status;
  }
  return TDM_OK;
}
