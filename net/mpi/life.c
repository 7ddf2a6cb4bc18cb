/* Joins and leaves a job. MPI can be initialized only once in a process. Invariant: waiting for
 * other ranks is limited in time, except in MPI_Init_thread. Memory is not released while MPI has a
 * request that may access it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "net/mpi/engine.h"

#define LONGEST_PIECE ((size_t)1 << 30) /* MPI's counts are ints */

static bool job_is_lost; /* ranks may be missing: waiting for all would hang */

/* Endpoints of which MPI still has a request: it may access their memory when the other ranks
 * arrive. */
static mpi_endpoint *forgotten;

static uint64_t now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Tests one request until it is done, sleeping in between; timeout_ns 0: no limit. */
static tdm_status finish(MPI_Request *request, uint64_t timeout_ns, const char *what,
                         char *message) {
  const uint64_t begin_ns = now_ns();
  for (long sleep_ns = 1000;; sleep_ns = sleep_ns < 500000 ? 2 * sleep_ns : sleep_ns) {
    int done = 0;
    const tdm_status status = mpi_check(MPI_Test(request, &done, MPI_STATUS_IGNORE), what, message);
    if (status != TDM_OK || done) return status;
    if (timeout_ns > 0 && now_ns() - begin_ns > timeout_ns) {
      return mpi_refuse(TDM_DEADLINE_EXCEEDED, message,
                        "%s has not ended within %.3g s: not all ranks have come", what,
                        (double)timeout_ns * 1e-9);
    }
    (void)nanosleep(&(struct timespec){.tv_nsec = sleep_ns}, NULL);
  }
}

/* Waits for the other ranks and finalizes MPI. If some ranks may be missing, the process ends
 * without it. */
static void finalise(void) {
  int done = 0;
  (void)MPI_Finalized(&done);
  if (!done && !job_is_lost) (void)MPI_Finalize();
}

static tdm_status begin_mpi(char *message) {
  int provided = MPI_THREAD_SINGLE;
  const tdm_status status = mpi_check(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided),
                                      "MPI_Init_thread", message);
  if (status != TDM_OK) return status;
  (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  (void)MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  (void)atexit(finalise);
  return TDM_OK;
}

/* Initializes MPI if necessary, and checks that a thread of the library may call it. */
static tdm_status ensure_mpi(char *message) {
  int begun = 0, ended = 0, provided = MPI_THREAD_SINGLE;
  if (!mpi_is_ours()) {
    return mpi_refuse(TDM_UNSUPPORTED, message, "the process has another MPI loaded: %s",
                      mpi_version());
  }
  if (job_is_lost) {
    return mpi_refuse(TDM_UNAVAILABLE, message,
                      "this process has abandoned a job, and MPI begins once a process");
  }
  (void)MPI_Initialized(&begun);
  (void)MPI_Finalized(&ended);
  if (ended) return mpi_refuse(TDM_UNAVAILABLE, message, "MPI was finalised in this process");
  if (!begun) {
    const tdm_status status = begin_mpi(message);
    if (status != TDM_OK) return status;
  }
  (void)MPI_Query_thread(&provided);
  if (provided >= MPI_THREAD_SERIALIZED) return TDM_OK;
  return mpi_refuse(
      TDM_UNSUPPORTED, message,
      "MPI was initialised for one thread, and a thread of the library has to call it: "
      "the program should ask MPI_Init_thread for MPI_THREAD_MULTIPLE");
}

static tdm_status duplicate(mpi_endpoint *endpoint, const tdm_endpoint_options *options,
                            char *message) {
  const MPI_Comm parent = options->job ? *(const MPI_Comm *)options->job : MPI_COMM_WORLD;
  MPI_Request *request = &endpoint->pending;
  tdm_status status =
      mpi_check(MPI_Comm_idup(parent, &endpoint->comm, request), "MPI_Comm_idup", message);
  if (status == TDM_OK) status = finish(request, options->timeout_ns, "MPI_Comm_idup", message);
  if (status != TDM_OK) return status;
  (void)MPI_Comm_set_errhandler(endpoint->comm, MPI_ERRORS_RETURN);
  (void)MPI_Comm_set_name(endpoint->comm, "tandem");
  (void)MPI_Comm_rank(endpoint->comm, &endpoint->base.rank);
  (void)MPI_Comm_size(endpoint->comm, &endpoint->base.rank_count);
  int *most = NULL, found = 0;
  /* only MPI_COMM_WORLD has the attribute */
  (void)MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &found);
  if (found && *most >= (int)TDM_NET_CHANNELS) return TDM_OK;
  return mpi_refuse(TDM_UNSUPPORTED, message, "tags end at %d", found ? *most : 0);
}

static tdm_status name_ranks(mpi_endpoint *endpoint, uint64_t timeout_ns, char *message) {
  tdm_rank *own = &endpoint->own;
  own->pid = (int64_t)getpid();
  if (gethostname(own->host, sizeof own->host - 1) != 0)
    memcpy(own->host, "unknown", sizeof("unknown"));
  const size_t bytes = (size_t)endpoint->base.rank_count * sizeof *own;
  tdm_rank *ranks = mpi_take(&endpoint->base.allocator, bytes);
  if (!ranks) return mpi_refuse(TDM_OUT_OF_MEMORY, message, "out of memory: names of ranks");
  endpoint->base.ranks = ranks;
  MPI_Request *request = &endpoint->pending;
  const tdm_status status =
      mpi_check(MPI_Iallgather(own, (int)sizeof *own, MPI_BYTE, ranks, (int)sizeof *own, MPI_BYTE,
                               endpoint->comm, request),
                "MPI_Iallgather", message);
  return status == TDM_OK ? finish(request, timeout_ns, "MPI_Iallgather", message) : status;
}

/* Exchanges the piece limit: both ends have to cut a message in the same places, and ranks may have
 * been given different limits. */
static tdm_status agree_on_limit(mpi_endpoint *endpoint, uint64_t timeout_ns, char *message) {
  MPI_Request *request = &endpoint->pending;
  endpoint->own_limit = mpi_eager_bytes();
  tdm_status status =
      mpi_check(MPI_Iallreduce(&endpoint->own_limit, &endpoint->least_limit, 1,
                               MPI_UNSIGNED_LONG_LONG, MPI_MIN, endpoint->comm, request),
                "MPI_Iallreduce", message);
  if (status == TDM_OK) status = finish(request, timeout_ns, "MPI_Iallreduce", message);
  endpoint->base.eager_bytes = (size_t)endpoint->least_limit;
  return status;
}

static void free_endpoint(mpi_endpoint *endpoint) {
  const tdm_allocator allocator = endpoint->base.allocator;
  mpi_free_tables(endpoint);
  mpi_give_back(&allocator, (void *)endpoint->base.ranks,
                (size_t)endpoint->base.rank_count * sizeof(tdm_rank));
  mpi_give_back(&allocator, endpoint, sizeof *endpoint);
}

/* Ends an endpoint without the other ranks. Its memory stays while requests are outstanding. */
static void let_go(mpi_endpoint *endpoint) {
  job_is_lost = true; /* the others may be waiting for this rank, or it for them */
  if (endpoint->pending == MPI_REQUEST_NULL && endpoint->count == 0) {
    free_endpoint(endpoint);
    return;
  }
  endpoint->next = forgotten;
  forgotten = endpoint;
}

tdm_status mpi_open(const tdm_endpoint_options *options, tdm_endpoint **out_endpoint,
                    char *message) {
  const size_t piece = options->piece_bytes == 0 ? LONGEST_PIECE : options->piece_bytes;
  if (piece > LONGEST_PIECE || piece % 8 != 0)
    return mpi_refuse(TDM_INVALID_ARGUMENT, message, "pieces of %zu bytes", piece);
  tdm_status status = ensure_mpi(message);
  if (status != TDM_OK) return status;
  mpi_endpoint *endpoint = mpi_take(&options->allocator, sizeof *endpoint);
  if (!endpoint) return mpi_refuse(TDM_OUT_OF_MEMORY, message, "out of memory: an endpoint");
  endpoint->base.transport = &tdm_transport_plugin;
  endpoint->base.allocator = options->allocator;
  endpoint->pending = MPI_REQUEST_NULL;
  endpoint->piece_bytes = piece;
  status = duplicate(endpoint, options, message);
  if (status == TDM_OK) status = name_ranks(endpoint, options->timeout_ns, message);
  if (status == TDM_OK) status = agree_on_limit(endpoint, options->timeout_ns, message);
  if (status != TDM_OK) {
    let_go(endpoint);
    return status;
  }
  *out_endpoint = &endpoint->base;
  return TDM_OK;
}

tdm_status mpi_close(tdm_endpoint *base, uint64_t timeout_ns, char *message) {
  mpi_endpoint *endpoint = (mpi_endpoint *)base;
  MPI_Request *request = &endpoint->pending;
  tdm_status status = mpi_check(MPI_Ibarrier(endpoint->comm, request), "MPI_Ibarrier", message);
  if (status == TDM_OK) status = finish(request, timeout_ns, "MPI_Ibarrier", message);
  if (status == TDM_OK)
    status = mpi_check(MPI_Comm_free(&endpoint->comm), "MPI_Comm_free", message);
  if (status == TDM_OK)
    free_endpoint(endpoint);
  else
    let_go(endpoint);
  return status;
}

void mpi_abandon(tdm_endpoint *base) {
  let_go((mpi_endpoint *)base);
}
