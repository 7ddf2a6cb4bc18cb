/* Marks: points between the recording of an event and its publication. Invariant: see stream.h. No
 * function of CUDA is called inside a callback of the driver, because no callbacks are used. */
#include "devices/cuda/stream.h"

#include <string.h>

#include "devices/context/context.h"
#include "devices/cuda/device.h"
#include "devices/cuda/library/errors.h"
#include "devices/cuda/library/reports.h"

/* ---- Opening and closing --------------------------------------------------------------------- */

tdm_status tdm_cuda_queue_open(tdm_cuda_queue *queue, const tdm_cuda_api *api, tdm_cuda_blas *blas,
                               bool tf32) {
  queue->kernel_stream = (tdm_cuda_kernel_stream){.api = api, .blas = blas, .tf32 = tf32};
  const bool stages =
      queue->base.role == TDM_QUEUE_UPLOAD || queue->base.role == TDM_QUEUE_DOWNLOAD;
  for (size_t i = 0; stages && i < TDM_CUDA_STAGING_BUFFERS; i++)
    TDM_TRY(tdm_cuda_check(api, api->event_create(&queue->staging_events[i]), "making an event"));
  void *reports = NULL;
  TDM_TRY(tdm_cuda_check(api,
                         api->allocate_pinned(&reports, TDM_CUDA_REPORTS * sizeof(tdm_cuda_report)),
                         "pinned memory for reports"));
  queue->reports = reports;
  /* Others wait for sums, whose few blocks would otherwise be scheduled after the many of
   * computations. */
  const bool urgent = queue->base.role == TDM_QUEUE_SUM;
  return tdm_cuda_check(api, api->stream_create(&queue->kernel_stream.stream, urgent),
                        "making a stream");
}

static void destroy_event(const tdm_cuda_api *api, tdm_cuda_event *event) {
  if (*event) (void)api->event_destroy(*event);
  *event = NULL;
}

void tdm_cuda_queue_close(tdm_cuda_queue *queue) {
  const tdm_cuda_api *api = queue->kernel_stream.api;
  if (!api) return;
  if (queue->kernel_stream.stream) (void)api->stream_destroy(queue->kernel_stream.stream);
  for (size_t i = 0; i < TDM_CUDA_MARKS; i++)
    destroy_event(api, &queue->marks[i].event);
  for (size_t i = 0; i < TDM_CUDA_MARKS; i++)
    tdm_cuda_span_close(&tdm_cuda_device_of(queue->base.device)->clock, &queue->spans[i]);
  for (size_t i = 0; i < TDM_CUDA_STAGING_BUFFERS; i++)
    destroy_event(api, &queue->staging_events[i]);
  if (queue->reports) (void)api->release_pinned(queue->reports);
  queue->reports = NULL;
  queue->kernel_stream = (tdm_cuda_kernel_stream){0};
}

tdm_status tdm_cuda_queue_refusal(const tdm_cuda_queue *queue) {
  if (TDM_UNLIKELY(queue->refusal->status != TDM_OK))
    return tdm_fail(queue->refusal->status, "%s", queue->refusal->words);
  return TDM_OK;
}

/* ---- Failures -------------------------------------------------------------------------------- */

bool tdm_cuda_command_works(const tdm_flight *flight, const tdm_command *command) {
  if (command->kind != TDM_COMMAND_EXECUTE && command->kind != TDM_COMMAND_COPY &&
      !tdm_cuda_command_is_of_group(command))
    return false;
  return command->condition == 0 || flight->conditions[command->condition - 1];
}

/* Fails all commands in [first, end) that had not failed, because they may not have been
 * executed. */
static void fail_range(const tdm_cuda_mark *mark, tdm_status status) {
  tdm_flight *flight = mark->submission->flight;
  const tdm_program *program = &flight->programs[mark->submission->program];
  for (uint32_t i = mark->first; i < mark->end; i++) {
    const tdm_command *command = &program->commands[i];
    if (!tdm_cuda_command_works(flight, command)) continue;
    if (!tdm_flight_spoiled(flight, command))
      tdm_flight_fail(flight, command->id, status, tdm_last_message());
  }
}

/* Like fail_range, and also ends the sums in progress, without which the stream would not
 * complete. */
static void fail_stream(tdm_cuda_queue *queue, const tdm_cuda_mark *mark, tdm_status status) {
  if (queue->end_sums) queue->end_sums(queue, status);
  fail_range(mark, status);
}

/* Propagates failures to dependent commands, which were enqueued before a kernel reported the
 * failure. */
static void spoil_range(const tdm_cuda_mark *mark) {
  tdm_flight *flight = mark->submission->flight;
  if (atomic_load_explicit(&flight->failed, memory_order_acquire) == 0) return;
  const tdm_program *program = &flight->programs[mark->submission->program];
  for (uint32_t i = mark->first; i < mark->end; i++) {
    const tdm_command *command = &program->commands[i];
    if (tdm_cuda_command_works(flight, command)) (void)tdm_flight_spoiled(flight, command);
  }
}

/* ---- Marks ----------------------------------------------------------------------------------- */

static void ring_mark_waiters(tdm_cuda_queue *queue) {
  uint64_t waiters = atomic_exchange(&queue->mark_waiters, 0);
  while (waiters != 0) {
    const uint32_t bell = (uint32_t)__builtin_ctzll(waiters);
    waiters &= waiters - 1;
    tdm_doorbell_ring(tdm_context_bell(queue->base.device->context, bell));
  }
}

static tdm_cuda_clock *clock_of(const tdm_cuda_queue *queue) {
  return &tdm_cuda_device_of(queue->base.device)->clock;
}

static tdm_cuda_span *span_of(tdm_cuda_queue *queue, uint64_t mark) {
  return &queue->spans[mark % TDM_CUDA_MARKS];
}

tdm_status tdm_cuda_queue_time(tdm_cuda_queue *queue, tdm_command_times *times) {
  return tdm_cuda_check(queue->kernel_stream.api,
                        tdm_cuda_span_begin(clock_of(queue), span_of(queue, queue->marked),
                                            queue->kernel_stream.stream, times),
                        "an event before a timed command");
}

/* Records the mark's event, which is created when its slot is first used. */
static tdm_cuda_code record(tdm_cuda_queue *queue, tdm_cuda_mark *mark) {
  const tdm_cuda_api *api = queue->kernel_stream.api;
  tdm_cuda_code code = TDM_CUDA_SUCCESS;
  if (!mark->event) code = api->event_create(&mark->event);
  if (code == TDM_CUDA_SUCCESS) {
    code = tdm_cuda_span_end(clock_of(queue), span_of(queue, queue->marked),
                             queue->kernel_stream.stream);
  }
  if (code == TDM_CUDA_SUCCESS) code = api->event_record(mark->event, queue->kernel_stream.stream);
  mark->recorded = code == TDM_CUDA_SUCCESS;
  return code;
}

void tdm_cuda_queue_mark(tdm_cuda_queue *queue, uint32_t end, bool ends) {
  const tdm_cuda_api *api = queue->kernel_stream.api;
  tdm_cuda_mark *mark = &queue->marks[queue->marked % TDM_CUDA_MARKS];
  (void)pthread_mutex_lock(&queue->mutex);
  const tdm_cuda_event event = mark->event;
  *mark = (tdm_cuda_mark){.event = event,
                          .ends = ends,
                          .submission = queue->head,
                          .first = queue->marked_cursor,
                          .end = end,
                          .report_end = queue->reports_taken,
                          .wait_count = queue->wait_count};
  memcpy(mark->waits, queue->waits, queue->wait_count * sizeof(tdm_cuda_point));
  queue->wait_count = 0;
  tdm_cuda_code code = TDM_CUDA_SUCCESS;
  if (end > mark->first && queue->kernel_stream.stream) code = record(queue, mark);
  queue->marked++;
  (void)pthread_mutex_unlock(&queue->mutex);
  if (code != TDM_CUDA_SUCCESS) {
    fail_stream(queue, mark, tdm_cuda_fail(api, code, "recording an event"));
    (void)api->stream_synchronize(
        queue->kernel_stream.stream); /* waits until the enqueued work has ended or is lost */
  }
  queue->marked_cursor = end;
  ring_mark_waiters(queue);
}

static const tdm_command *command_of_id(const tdm_cuda_mark *mark, uint32_t id) {
  const tdm_program *program = &mark->submission->flight->programs[mark->submission->program];
  uint32_t i = mark->first;
  while (i < mark->end && program->commands[i].id != id)
    i++;
  return i < mark->end ? &program->commands[i] : NULL;
}

/* Reads reports. A kernel's report counts only if its inputs were right. */
static void read_reports(tdm_cuda_queue *queue, const tdm_cuda_mark *mark) {
  tdm_flight *flight = mark->submission->flight;
  for (; queue->reports_read < mark->report_end; queue->reports_read++) {
    const size_t index = queue->reports_read % TDM_CUDA_REPORTS;
    const tdm_status status = tdm_cuda_report_read(&queue->reports[index]);
    if (status == TDM_OK) continue;
    const tdm_command *command = command_of_id(mark, queue->report_ids[index]);
    if (command && !tdm_flight_spoiled(flight, command))
      tdm_flight_fail(flight, command->id, status, tdm_last_message());
  }
}

/* settled may free the flight. */
static void end_submission(tdm_flight *flight) {
  if (atomic_fetch_sub_explicit(&flight->remaining, 1, memory_order_acq_rel) == 1)
    flight->settled(flight);
}

static bool is_reached(const tdm_cuda_mark *mark, tdm_cuda_code code) {
  if (code == TDM_CUDA_NOT_READY) return false;
  for (uint32_t i = 0; i < mark->wait_count; i++)
    if (!tdm_queue_reached(mark->waits[i].queue, mark->waits[i].sequence)) return false;
  return true;
}

/* Works on a copy of the mark: after `retired` has passed it, its slot may be reused. */
static void retire_one(tdm_cuda_queue *queue, tdm_cuda_mark mark, tdm_cuda_code code) {
  const tdm_cuda_api *api = queue->kernel_stream.api;
  tdm_cuda_span *span = span_of(queue, queue->retired);
  read_reports(queue, &mark);
  if (code == TDM_CUDA_SUCCESS && mark.recorded)
    code = tdm_cuda_span_read(clock_of(queue), span, &queue->timed_until_ns);
  tdm_cuda_span_drop(clock_of(queue), span);
  if (code != TDM_CUDA_SUCCESS) {
    fail_stream(queue, &mark, tdm_cuda_fail(api, code, "waiting for an event"));
    (void)api->stream_synchronize(queue->kernel_stream.stream);
  }
  spoil_range(&mark);
  (void)pthread_mutex_lock(&queue->mutex);
  queue->retired++;
  (void)pthread_mutex_unlock(&queue->mutex);
  if (mark.end > 0) tdm_queue_publish(&queue->base, mark.submission->base + mark.end);
  if (mark.ends) end_submission(mark.submission->flight);
}

bool tdm_cuda_queue_retire(tdm_cuda_queue *queue) {
  bool moved = false;
  while (queue->retired != queue->marked) {
    const tdm_cuda_mark *mark = &queue->marks[queue->retired % TDM_CUDA_MARKS];
    const tdm_cuda_code code =
        mark->recorded ? queue->kernel_stream.api->event_query(mark->event) : TDM_CUDA_SUCCESS;
    if (!is_reached(mark, code)) break;
    retire_one(queue, *mark, code);
    moved = true;
  }
  return moved;
}

/* ---- Waiting for another stream -------------------------------------------------------------- */

tdm_cuda_wait_answer tdm_cuda_queue_await(tdm_cuda_queue *queue, tdm_cuda_queue *awaited,
                                          uint64_t sequence) {
  if (tdm_queue_reached(&awaited->base, sequence)) return TDM_CUDA_WAIT_DONE;
  const tdm_cuda_api *api = queue->kernel_stream.api;
  tdm_cuda_wait_answer answer = TDM_CUDA_WAIT_UNMARKED;
  (void)pthread_mutex_lock(&awaited->mutex);
  for (uint64_t i = awaited->retired; i != awaited->marked; i++) {
    const tdm_cuda_mark *mark = &awaited->marks[i % TDM_CUDA_MARKS];
    if (mark->submission->base + mark->end <= sequence) continue;
    if (!mark->recorded) break; /* will be reached soon */
    const tdm_cuda_code code = api->stream_wait(queue->kernel_stream.stream, mark->event);
    answer = TDM_CUDA_WAIT_DONE;
    queue->waits[queue->wait_count++] =
        (tdm_cuda_point){.queue = &awaited->base, .sequence = sequence};
    if (code != TDM_CUDA_SUCCESS) {
      (void)tdm_cuda_fail(api, code, "a stream's wait for an event");
      answer = TDM_CUDA_WAIT_REFUSED;
    }
    break;
  }
  (void)pthread_mutex_unlock(&awaited->mutex);
  return answer;
}
