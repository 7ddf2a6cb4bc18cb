/* The walk over a submission's commands: kernels and copies are enqueued on the stream, and waits
 * become waits of the stream or block the walk. Invariant: a command that is skipped enqueues
 * nothing. */
#include "devices/cuda/enqueue.h"

#include "devices/context/context.h"
#include "devices/cuda/commands.h"
#include "devices/cuda/library/errors.h"
#include "devices/cuda/sums.h"

/* ---- Waits and gates ------------------------------------------------------------------------- */

/* Records, if times are recorded, that the queue or its stream waits from here on. */
static void note_wait(tdm_flight *flight, uint32_t id, tdm_queue *awaited, uint64_t sequence) {
  if (TDM_UNLIKELY(flight->times != NULL) && flight->times[id].wait_ns == 0 &&
      !tdm_queue_reached(awaited, sequence)) {
    flight->times[id].wait_ns = tdm_time_ns();
  }
}

static bool is_ours(const tdm_cuda_queue *queue, const tdm_queue *other) {
  return tdm_device_same_kind(queue->base.device, other->device);
}

/* Returns false if the walk is blocked. After a fault has struck a wait, due_ns keeps it from
 * striking again. */
static bool wait_command(tdm_cuda_queue *queue, tdm_submission *submission,
                         const tdm_program *program) {
  tdm_flight *flight = submission->flight;
  uint64_t sequence = 0;
  const tdm_command *command = &program->commands[submission->cursor];
  tdm_queue *awaited = tdm_flight_awaited(flight, &command->wait, &sequence);
  if (!awaited) return true;
  const bool by_stream =
      is_ours(queue, awaited) && queue->kernel_stream.stream && submission->due_ns == 0;
  note_wait(flight, command->id, awaited, sequence);
  tdm_cuda_wait_answer answer = TDM_CUDA_WAIT_UNMARKED;
  if (by_stream) {
    answer = tdm_cuda_queue_await(queue, tdm_cuda_queue_of(awaited), sequence);
  } else if (tdm_queue_reached(awaited, sequence)) {
    answer = TDM_CUDA_WAIT_DONE;
  }
  if (answer == TDM_CUDA_WAIT_UNMARKED) return false;
  if (submission->due_ns != 0) { /* the wait has already failed and may now be passed */
    submission->due_ns = 0;
    return true;
  }
  tdm_status status = TDM_DEVICE_LOST;
  if (answer == TDM_CUDA_WAIT_DONE)
    status = tdm_faults_strike(tdm_context_faults(queue->base.device->context), TDM_FAULT_WAIT);
  if (TDM_UNLIKELY(status != TDM_OK))
    tdm_flight_fail_after_wait(flight, program, submission->cursor, status);
  if (answer == TDM_CUDA_WAIT_DONE) return true;
  submission->due_ns = 1;
  return tdm_queue_reached(awaited, sequence);
}

/* Every mark is retired after the points that it waited for, so waiting for this queue's last mark
 * is enough. */
static bool gate_command(tdm_cuda_queue *queue, const tdm_submission *submission) {
  const uint32_t cursor = submission->cursor;
  if (queue->marked_cursor < cursor) tdm_cuda_queue_mark(queue, cursor, false);
  if (queue->retired != queue->marked) return false;
  tdm_flight *flight = submission->flight;
  queue->passed_over = atomic_load_explicit(&flight->failed, memory_order_acquire) != 0 ||
                       tdm_flight_close(flight) != TDM_OK;
  return true;
}

/* ---- The walk -------------------------------------------------------------------------------- */

/* Returns false if the walk is blocked. */
static bool one_command(tdm_cuda_queue *queue, tdm_submission *submission,
                        const tdm_program *program) {
  const tdm_command *command = &program->commands[submission->cursor];
  const bool sums = tdm_cuda_command_is_of_group(command);
  const bool works =
      sums || command->kind == TDM_COMMAND_EXECUTE || command->kind == TDM_COMMAND_COPY;
  bool passed = true;
  if (sums) {
    passed = tdm_cuda_sum_enqueue(queue, submission, command);
  } else if (works) {
    passed = tdm_cuda_command_enqueue(queue, submission, command);
  } else if (command->kind == TDM_COMMAND_WAIT) {
    passed = wait_command(queue, submission, program);
  } else if (command->kind == TDM_COMMAND_GATE) {
    passed = gate_command(queue, submission);
  }
  if (!passed) return false;
  const uint32_t end = ++submission->cursor;
  const bool timed = works && submission->flight->times;
  if (end == program->count) return true; /* the last mark follows */
  if (command->signals || timed || sums || queue->wait_count == TDM_CUDA_MARK_WAITS)
    tdm_cuda_queue_mark(queue, end, false);
  return true;
}

static void begin_head(tdm_cuda_queue *queue) {
  queue->marked_cursor = 0;
  queue->passed_over = false;
}

bool tdm_cuda_queue_advance(tdm_cuda_queue *queue) {
  bool moved = false;
  while (queue->head) {
    tdm_submission *submission = queue->head;
    const tdm_program *program = &submission->flight->programs[submission->program];
    if (submission->cursor == 0) begin_head(queue);
    const uint32_t before = submission->cursor;
    while (submission->cursor < program->count) {
      if (!tdm_cuda_queue_has_room(queue)) break;
      if (!one_command(queue, submission, program)) break;
    }
    if (submission->cursor < program->count || !tdm_cuda_queue_has_room(queue)) {
      if (queue->marked == queue->retired && submission->cursor > queue->marked_cursor &&
          !tdm_cuda_queue_has_room(queue)) {
        /* No report is free: a mark here lets those of the commands above be reused. */
        tdm_cuda_queue_mark(queue, submission->cursor, false);
      }
      return moved || submission->cursor != before;
    }
    tdm_cuda_queue_mark(queue, program->count, true);
    queue->head = submission->next;
    begin_head(queue);
    moved = true;
  }
  return moved;
}

void tdm_cuda_queue_ask(tdm_cuda_queue *queue, uint32_t bell) {
  const tdm_submission *head = queue->head;
  if (!head) return;
  const tdm_flight *flight = head->flight;
  const tdm_program *program = &flight->programs[head->program];
  if (head->cursor >= program->count) return;
  const tdm_command *command = &program->commands[head->cursor];
  uint64_t sequence;
  tdm_queue *awaited = NULL;
  if (command->kind == TDM_COMMAND_WAIT)
    awaited = tdm_flight_awaited(flight, &command->wait, &sequence);
  if (!awaited) return;
  tdm_queue_ask(awaited, bell);
  if (is_ours(queue, awaited))
    atomic_fetch_or(&tdm_cuda_queue_of(awaited)->mark_waiters, (uint64_t)1 << bell);
}
