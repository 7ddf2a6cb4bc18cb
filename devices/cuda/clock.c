/* Anchors and spans. Invariant: see clock.h. `users` is changed only under the clock's mutex, and
 * the events of a span only by its queue's thread. */
#include "devices/cuda/clock.h"

#include "core/park.h"
#include "core/status.h"

enum {
  ANCHOR_TRIES = 32,       /* on a busy machine most tries are interrupted */
  ANCHOR_CLOSE_NS = 20000, /* an anchor with this precision is not tried again */
};
/* An older anchor is recorded again: the clocks may have drifted apart, and a float of milliseconds
 * no longer resolves a microsecond. */
#define ANCHOR_OLD_NS 8000000000u

tdm_status tdm_cuda_clock_init(tdm_cuda_clock *clock, const tdm_cuda_api *api) {
  if (pthread_mutex_init(&clock->mutex, NULL) != 0)
    return tdm_fail(TDM_OUT_OF_MEMORY, "no mutex for a GPU's clock");
  clock->api = api;
  return TDM_OK;
}

void tdm_cuda_clock_close(tdm_cuda_clock *clock) {
  for (size_t i = 0; i < TDM_CUDA_ANCHORS; i++) {
    if (clock->anchors[i].event) (void)clock->api->event_destroy(clock->anchors[i].event);
    clock->anchors[i] = (tdm_cuda_anchor){0};
  }
  if (clock->spare) (void)clock->api->event_destroy(clock->spare);
  clock->spare = NULL;
  if (clock->stream) (void)clock->api->stream_destroy(clock->stream);
  clock->stream = NULL;
}

void tdm_cuda_clock_deinit(tdm_cuda_clock *clock) {
  if (clock->api) (void)pthread_mutex_destroy(&clock->mutex);
}

/* ---- Anchors --------------------------------------------------------------------------------- */

/* Records the anchor once. *out_width_ns is the uncertainty of its time on the host. */
static tdm_cuda_code try_anchor(const tdm_cuda_clock *clock, tdm_cuda_event event,
                                uint64_t *out_host_ns, uint64_t *out_width_ns) {
  const tdm_cuda_api *api = clock->api;
  const uint64_t before_ns = tdm_time_ns();
  tdm_cuda_code code = api->event_record(event, clock->stream);
  while (code == TDM_CUDA_SUCCESS) {
    code = api->event_query(event);
    if (code != TDM_CUDA_NOT_READY) break;
    tdm_spin_pause();
    code = TDM_CUDA_SUCCESS;
  }
  const uint64_t after_ns = tdm_time_ns();
  *out_width_ns = after_ns - before_ns;
  *out_host_ns = before_ns + *out_width_ns / 2;
  return code;
}

/* Keeps the most precise try; `spare` holds the next try's event meanwhile. */
static tdm_cuda_code record_anchor(tdm_cuda_clock *clock, tdm_cuda_anchor *anchor) {
  const tdm_cuda_api *api = clock->api;
  tdm_cuda_code code = TDM_CUDA_SUCCESS;
  if (!clock->stream) code = api->stream_create(&clock->stream, false);
  if (code == TDM_CUDA_SUCCESS && !anchor->event) code = api->event_create_timed(&anchor->event);
  if (code == TDM_CUDA_SUCCESS && !clock->spare) code = api->event_create_timed(&clock->spare);
  uint64_t best_ns = UINT64_MAX;
  anchor->host_ns = 0;
  for (int i = 0; i < ANCHOR_TRIES && best_ns > ANCHOR_CLOSE_NS; i++) {
    uint64_t host_ns = 0;
    uint64_t width_ns = 0;
    if (code == TDM_CUDA_SUCCESS) code = try_anchor(clock, clock->spare, &host_ns, &width_ns);
    if (code != TDM_CUDA_SUCCESS) break;
    if (width_ns >= best_ns) continue;
    const tdm_cuda_event closer = clock->spare;
    clock->spare = anchor->event;
    *anchor = (tdm_cuda_anchor){.event = closer, .host_ns = host_ns};
    best_ns = width_ns;
  }
  if (code != TDM_CUDA_SUCCESS) anchor->host_ns = 0;
  return code;
}

/* Returns the newest anchor with one more user. It is recorded again if it is old and the other one
 * is free. */
static tdm_cuda_code take_anchor(tdm_cuda_clock *clock, tdm_cuda_anchor **out_anchor) {
  tdm_cuda_code code = TDM_CUDA_SUCCESS;
  (void)pthread_mutex_lock(&clock->mutex);
  const uint64_t host_ns = clock->anchors[clock->newest].host_ns;
  const uint32_t other = (clock->newest + 1) % TDM_CUDA_ANCHORS;
  const bool is_old = host_ns == 0 || tdm_time_ns() - host_ns > ANCHOR_OLD_NS;
  if (is_old && (host_ns == 0 || clock->anchors[other].users == 0)) {
    code = record_anchor(clock, &clock->anchors[other]);
    if (code == TDM_CUDA_SUCCESS) clock->newest = other;
  }
  *out_anchor = NULL;
  if (code == TDM_CUDA_SUCCESS) {
    *out_anchor = &clock->anchors[clock->newest];
    (*out_anchor)->users++;
  }
  (void)pthread_mutex_unlock(&clock->mutex);
  return code;
}

void tdm_cuda_span_drop(tdm_cuda_clock *clock, tdm_cuda_span *span) {
  if (!span->anchor) return;
  (void)pthread_mutex_lock(&clock->mutex);
  span->anchor->users--;
  (void)pthread_mutex_unlock(&clock->mutex);
  span->anchor = NULL;
}

/* ---- Spans ----------------------------------------------------------------------------------- */

tdm_cuda_code tdm_cuda_span_begin(tdm_cuda_clock *clock, tdm_cuda_span *span,
                                  tdm_cuda_stream stream, tdm_command_times *times) {
  const tdm_cuda_api *api = clock->api;
  tdm_cuda_span_drop(clock, span);
  for (size_t i = 0; i < TDM_COUNT_OF(span->events); i++) {
    if (span->events[i]) continue;
    const tdm_cuda_code code = api->event_create_timed(&span->events[i]);
    if (code != TDM_CUDA_SUCCESS) return code;
  }
  tdm_cuda_anchor *anchor = NULL;
  tdm_cuda_code code = take_anchor(clock, &anchor);
  if (code != TDM_CUDA_SUCCESS) return code;
  span->anchor = anchor;
  span->enqueued_ns = tdm_time_ns();
  span->times = times;
  code = api->event_record(span->events[0], stream);
  if (code != TDM_CUDA_SUCCESS) tdm_cuda_span_drop(clock, span);
  return code;
}

tdm_cuda_code tdm_cuda_span_end(const tdm_cuda_clock *clock, const tdm_cuda_span *span,
                                tdm_cuda_stream stream) {
  if (!span->anchor) return TDM_CUDA_SUCCESS;
  return clock->api->event_record(span->events[1], stream);
}

/* Returns the anchor's time on the host. A span has the duration that the GPU measured, and is
 * within the host's observation. If it is not, the host observed the anchor late or early, and the
 * anchor is corrected for later spans too. */
static int64_t corrected_anchor_ns(tdm_cuda_clock *clock, tdm_cuda_anchor *anchor,
                                   const int64_t passed_ns[2], uint64_t from_ns,
                                   uint64_t until_ns) {
  (void)pthread_mutex_lock(&clock->mutex);
  int64_t host_ns = (int64_t)anchor->host_ns;
  if (host_ns + passed_ns[0] < (int64_t)from_ns) host_ns = (int64_t)from_ns - passed_ns[0];
  if (host_ns + passed_ns[1] > (int64_t)until_ns) host_ns = (int64_t)until_ns - passed_ns[1];
  anchor->host_ns = (uint64_t)host_ns;
  (void)pthread_mutex_unlock(&clock->mutex);
  return host_ns;
}

tdm_cuda_code tdm_cuda_span_read(tdm_cuda_clock *clock, tdm_cuda_span *span,
                                 uint64_t *in_out_until_ns) {
  if (!span->anchor) return TDM_CUDA_SUCCESS;
  int64_t passed_ns[2];
  tdm_cuda_code code = TDM_CUDA_SUCCESS;
  const uint64_t now_ns = tdm_time_ns();
  for (size_t i = 0; i < 2 && code == TDM_CUDA_SUCCESS; i++) {
    double event_ns = 0;
    code = clock->api->event_elapsed(&event_ns, span->anchor->event, span->events[i]);
    passed_ns[i] = (int64_t)event_ns;
  }
  if (code == TDM_CUDA_SUCCESS) {
    const int64_t host_ns =
        corrected_anchor_ns(clock, span->anchor, passed_ns, span->enqueued_ns, now_ns);
    const uint64_t begin_ns = (uint64_t)(host_ns + passed_ns[0]);
    const uint64_t end_ns = (uint64_t)(host_ns + passed_ns[1]);
    /* A span begins after the previous one, even if the anchor was corrected in between. */
    span->times->begin_ns = begin_ns > *in_out_until_ns ? begin_ns : *in_out_until_ns;
    span->times->end_ns = end_ns > span->times->begin_ns ? end_ns : span->times->begin_ns;
    *in_out_until_ns = span->times->end_ns;
  }
  tdm_cuda_span_drop(clock, span);
  return code;
}

void tdm_cuda_span_close(const tdm_cuda_clock *clock, tdm_cuda_span *span) {
  for (size_t i = 0; i < TDM_COUNT_OF(span->events); i++) {
    if (span->events[i]) (void)clock->api->event_destroy(span->events[i]);
    span->events[i] = NULL;
  }
}
