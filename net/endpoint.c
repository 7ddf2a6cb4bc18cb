/* The functions of an endpoint that the rest of the library calls. They check arguments, call the
 * engine's table and set the thread's message. Invariant: lower layers do not check again, and
 * posted_count is the number of requests that were posted and not returned. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/park.h"
#include "core/status.h"
#include "net/transport.h"

#define LONGEST_SLEEP_NS 1000000u

/* ---- Words ----------------------------------------------------------------------------------- */

const char *tdm_endpoint_rank_text(const tdm_endpoint *endpoint, int rank, char *text) {
  const tdm_rank *named = &endpoint->ranks[rank];
  (void)snprintf(text, TDM_NET_RANK_TEXT_BYTES, "rank %d (host %s, pid %lld)", rank, named->host,
                 (long long)named->pid);
  return text;
}

/* Writes "the receive of 400 bytes from rank 1 (host b, pid 4711) on channel 7" to text. */
static void request_text(const tdm_endpoint *endpoint, const tdm_net_request *request, char *text,
                         size_t capacity) {
  static const char *const names[] = {
      [TDM_NET_SEND] = "send",
      [TDM_NET_RECEIVE] = "receive",
      [TDM_NET_ALL_REDUCE] = "all-reduce",
      [TDM_NET_BROADCAST] = "broadcast",
      [TDM_NET_ALL_GATHER] = "all-gather",
      [TDM_NET_BARRIER] = "barrier",
  };
  char rank[TDM_NET_RANK_TEXT_BYTES];
  const char *name = names[request->kind];
  const bool sends = request->kind == TDM_NET_SEND;
  if (sends || request->kind == TDM_NET_RECEIVE) {
    (void)snprintf(text, capacity, "the %s of %zu bytes %s %s on channel %u", name, request->bytes,
                   sends ? "to" : "from", tdm_endpoint_rank_text(endpoint, request->peer, rank),
                   request->channel);
  } else {
    (void)snprintf(text, capacity, "the %s of %zu bytes (collective %u) of %s", name,
                   request->bytes, request->channel,
                   tdm_endpoint_rank_text(endpoint, endpoint->rank, rank));
  }
}

tdm_status tdm_net_request_fail(tdm_endpoint *endpoint, const tdm_net_request *request) {
  char text[TDM_MESSAGE_BYTES];
  char reason[TDM_NET_TEXT_BYTES / 2] = "";
  request_text(endpoint, request, text, sizeof(text));
  if (request->code != 0) {
    endpoint->transport->error_text(endpoint, request->code, reason, sizeof reason);
  } else if (request->status == TDM_INVALID_ARGUMENT && request->kind == TDM_NET_RECEIVE) {
    if (request->arrived_bytes < request->bytes)
      (void)snprintf(reason, sizeof reason, "%zu bytes came", request->arrived_bytes);
    else
      (void)snprintf(reason, sizeof reason, "more came");
  }
  return tdm_fail(request->status, "%s %s%s%s", text,
                  request->status == TDM_CANCELLED ? "was cancelled" : "failed",
                  reason[0] == '\0' ? "" : ": ", reason);
}

/* ---- Life ------------------------------------------------------------------------------------ */

tdm_status tdm_endpoint_open(const tdm_transport *transport, const tdm_endpoint_options *options,
                             tdm_endpoint **out_endpoint) {
  *out_endpoint = NULL;
  char message[TDM_NET_TEXT_BYTES] = "";
  const tdm_status status = transport->open(options, out_endpoint, message);
  if (status == TDM_OK) return TDM_OK;
  return tdm_fail(status, "cannot open the transport %s: %s", transport->name, message);
}

tdm_status tdm_endpoint_close(tdm_endpoint *endpoint, uint64_t timeout_ns) {
  if (!endpoint) return TDM_OK;
  const int rank = endpoint->rank;
  const size_t posted_count = endpoint->posted_count;
  if (posted_count > 0) {
    tdm_endpoint_abandon(endpoint);
    return tdm_fail(TDM_INVALID_ARGUMENT, "rank %d leaves with %zu requests out", rank,
                    posted_count);
  }
  const char *name = endpoint->transport->name;
  char message[TDM_NET_TEXT_BYTES] = "";
  const tdm_status status = endpoint->transport->close(endpoint, timeout_ns, message);
  if (status == TDM_OK) return TDM_OK;
  return tdm_fail(status, "rank %d cannot leave %s in order: %s", rank, name, message);
}

void tdm_endpoint_abandon(tdm_endpoint *endpoint) {
  if (endpoint) endpoint->transport->abandon(endpoint);
}

/* ---- Posting --------------------------------------------------------------------------------- */

static void fill(tdm_net_request *request, tdm_net_kind kind, int peer, uint32_t channel,
                 size_t bytes) {
  memset(request, 0, sizeof *request);
  request->kind = kind;
  request->peer = peer;
  request->channel = channel;
  request->bytes = bytes;
}

/* Handles the result of a post. */
static tdm_status posted(tdm_endpoint *endpoint, const tdm_net_request *request,
                         tdm_status status) {
  if (status == TDM_OK) {
    endpoint->posted_count++;
    return TDM_OK;
  }
  char text[TDM_MESSAGE_BYTES];
  request_text(endpoint, request, text, sizeof(text));
  return tdm_fail(status, "cannot post %s: %s", text, endpoint->message);
}

static tdm_status check_memory(const char *what, const void *memory, size_t bytes) {
  if (memory || bytes == 0) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s of %zu bytes has no memory", what, bytes);
}

static tdm_status check_transfer(const tdm_endpoint *endpoint, const char *what, int peer,
                                 uint32_t channel, const void *memory, size_t bytes) {
  if (peer < 0 || peer >= endpoint->rank_count || peer == endpoint->rank) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "rank %d of %d has no peer %d for a %s", endpoint->rank,
                    endpoint->rank_count, peer, what);
  }
  if (channel >= TDM_NET_CHANNELS) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "a %s on channel %u: there are %u", what, channel,
                    TDM_NET_CHANNELS);
  }
  return check_memory(what, memory, bytes);
}

tdm_status tdm_endpoint_send(tdm_endpoint *endpoint, tdm_net_request *request, int peer,
                             uint32_t channel, const void *memory, size_t bytes) {
  TDM_TRY(check_transfer(endpoint, "send", peer, channel, memory, bytes));
  fill(request, TDM_NET_SEND, peer, channel, bytes);
  return posted(endpoint, request,
                endpoint->transport->send(endpoint, request, peer, channel, memory, bytes));
}

tdm_status tdm_endpoint_receive(tdm_endpoint *endpoint, tdm_net_request *request, int peer,
                                uint32_t channel, void *memory, size_t bytes) {
  TDM_TRY(check_transfer(endpoint, "receive", peer, channel, memory, bytes));
  fill(request, TDM_NET_RECEIVE, peer, channel, bytes);
  return posted(endpoint, request,
                endpoint->transport->receive(endpoint, request, peer, channel, memory, bytes));
}

tdm_status tdm_endpoint_cancel(tdm_endpoint *endpoint, tdm_net_request *request) {
  char text[TDM_MESSAGE_BYTES];
  if (request->kind != TDM_NET_SEND && request->kind != TDM_NET_RECEIVE) {
    request_text(endpoint, request, text, sizeof(text));
    return tdm_fail(TDM_UNSUPPORTED, "%s cannot be cancelled: it is a collective", text);
  }
  const tdm_status status = endpoint->transport->cancel(endpoint, request);
  if (status == TDM_OK) return TDM_OK;
  request_text(endpoint, request, text, sizeof(text));
  return tdm_fail(status, "cannot cancel %s: %s", text, endpoint->message);
}

tdm_status tdm_endpoint_all_reduce(tdm_endpoint *endpoint, tdm_net_request *request,
                                   tdm_dtype dtype, void *memory, size_t count) {
  if (dtype != TDM_FLOAT32 && dtype != TDM_FLOAT64) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "an all-reduce of %s: float32 and float64 have sums",
                    tdm_dtype_name(dtype));
  }
  size_t bytes;
  if (__builtin_mul_overflow(count, tdm_dtype_bytes(dtype), &bytes))
    return tdm_fail(TDM_INVALID_ARGUMENT, "an all-reduce of %zu elements", count);
  TDM_TRY(check_memory("an all-reduce", memory, bytes));
  fill(request, TDM_NET_ALL_REDUCE, -1, 0, bytes);
  return posted(endpoint, request,
                endpoint->transport->all_reduce(endpoint, request, dtype, memory, count));
}

tdm_status tdm_endpoint_broadcast(tdm_endpoint *endpoint, tdm_net_request *request, int root,
                                  void *memory, size_t bytes) {
  if (root < 0 || root >= endpoint->rank_count) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "a broadcast from rank %d of %d", root,
                    endpoint->rank_count);
  }
  TDM_TRY(check_memory("a broadcast", memory, bytes));
  fill(request, TDM_NET_BROADCAST, root, 0, bytes);
  return posted(endpoint, request,
                endpoint->transport->broadcast(endpoint, request, root, memory, bytes));
}

tdm_status tdm_endpoint_all_gather(tdm_endpoint *endpoint, tdm_net_request *request,
                                   const void *own, void *all, size_t bytes) {
  size_t all_bytes;
  if (__builtin_mul_overflow(bytes, (size_t)endpoint->rank_count, &all_bytes)) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "an all-gather of %zu bytes of each of %d ranks", bytes,
                    endpoint->rank_count);
  }
  TDM_TRY(check_memory("an all-gather", own, bytes));
  TDM_TRY(check_memory("an all-gather", all, all_bytes));
  fill(request, TDM_NET_ALL_GATHER, -1, 0, bytes);
  return posted(endpoint, request,
                endpoint->transport->all_gather(endpoint, request, own, all, bytes));
}

tdm_status tdm_endpoint_barrier(tdm_endpoint *endpoint, tdm_net_request *request) {
  fill(request, TDM_NET_BARRIER, -1, 0, 0);
  return posted(endpoint, request, endpoint->transport->barrier(endpoint, request));
}

/* ---- Settling -------------------------------------------------------------------------------- */

tdm_status tdm_endpoint_poll(tdm_endpoint *endpoint, tdm_net_request **out_settled) {
  *out_settled = NULL;
  const tdm_status status = endpoint->transport->poll(endpoint, out_settled);
  for (const tdm_net_request *settled = *out_settled; settled; settled = settled->next)
    endpoint->posted_count--;
  if (status == TDM_OK) return TDM_OK;
  char rank[TDM_NET_RANK_TEXT_BYTES];
  return tdm_fail(status, "%s lost %s: %s", tdm_endpoint_rank_text(endpoint, endpoint->rank, rank),
                  endpoint->transport->name, endpoint->message);
}

tdm_status tdm_endpoint_wait(tdm_endpoint *endpoint, tdm_net_request *request,
                             uint64_t timeout_ns) {
  const uint64_t begin_ns = tdm_time_ns();
  long sleep_ns = 1000;
  for (;;) {
    tdm_net_request *settled;
    TDM_TRY(tdm_endpoint_poll(endpoint, &settled));
    if (settled == request) break;
    if (settled) {
      return tdm_fail(TDM_INVALID_ARGUMENT, "rank %d waits for one request with others out",
                      endpoint->rank);
    }
    if (timeout_ns > 0 && tdm_time_ns() - begin_ns > timeout_ns) {
      char text[TDM_MESSAGE_BYTES];
      request_text(endpoint, request, text, sizeof(text));
      return tdm_fail(TDM_DEADLINE_EXCEEDED, "%s has not ended within %.3g s", text,
                      (double)timeout_ns * 1e-9);
    }
    (void)nanosleep(&(struct timespec){.tv_nsec = sleep_ns}, NULL);
    if (2 * sleep_ns <= LONGEST_SLEEP_NS) sleep_ns *= 2;
  }
  return request->status == TDM_OK ? TDM_OK : tdm_net_request_fail(endpoint, request);
}
