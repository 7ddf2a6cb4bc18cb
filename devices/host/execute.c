/* The loop over commands, which runs between two kernels of a run. It takes no locks. It reads no
 * clock unless times are recorded or modelled or other queues wait for the thread. Work that can be
 * done once is not done per command. */
#include "devices/host/execute.h"

#include <math.h>

#include "core/status.h"
#include "core/thread.h"
#include "core/untold.h"
#include "devices/context/context.h"

/* ---- Operands -------------------------------------------------------------------------------- */

static __attribute__((noinline)) tdm_status refuse_hidden(const tdm_host_executor *executor,
                                                          tdm_address address) {
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s was handed address 0x%zx of another device",
                  executor->device->name, (size_t)address);
}

static inline tdm_status resolve_host(const tdm_host_executor *executor, tdm_address address,
                                      void **out) {
  for (size_t i = 0; i < executor->hidden_count; i++) {
    if (TDM_UNLIKELY(address - executor->hidden[i].begin < executor->hidden[i].bytes))
      return refuse_hidden(executor, address);
  }
  *out = (void *)address;
  return TDM_OK;
}

/* Converts the addresses of all operands and of the workspace to pointers. */
static inline tdm_status resolve(const tdm_host_executor *executor, const tdm_flight *flight,
                                 const tdm_execute *execute, void **pointers, void **workspace) {
  tdm_device *device = executor->device;
  const bool host = device->host_addressable;
  const uint32_t count = (uint32_t)execute->input_count + execute->output_count;
  for (uint32_t i = 0; i < count; i++) {
    const tdm_operand *operand = &execute->operands[i];
    if (operand->base == TDM_OPERAND_ABSENT) {
      pointers[i] = NULL;
      continue;
    }
    const tdm_address address = flight->bases[operand->base] + operand->offset;
    const tdm_status status =
        host ? resolve_host(executor, address, &pointers[i])
             : device->ops->translate(device, address, tdm_operand_bytes(&execute->specs[i]),
                                      &pointers[i]);
    if (TDM_UNLIKELY(status != TDM_OK)) return status;
  }
  *workspace = NULL;
  if (execute->workspace.base == TDM_OPERAND_ABSENT) return TDM_OK;
  const tdm_address address = flight->bases[execute->workspace.base] + execute->workspace.offset;
  return host ? resolve_host(executor, address, workspace)
              : device->ops->translate(device, address, execute->workspace_bytes, workspace);
}

/* ---- Commands -------------------------------------------------------------------------------- */

static inline tdm_status run_kernel(const tdm_host_executor *executor, const tdm_flight *flight,
                                    const tdm_execute *execute, tdm_team *team) {
  void *pointers[TDM_KERNEL_MAX_INPUTS + TDM_KERNEL_MAX_OUTPUTS];
  void *workspace;
  TDM_TRY(tdm_faults_strike(executor->faults, TDM_FAULT_KERNEL));
  if (TDM_UNLIKELY(execute->is_empty)) return TDM_OK;
  TDM_TRY(resolve(executor, flight, execute, pointers, &workspace));
  const tdm_kernel_call call = {
      .attributes = execute->attributes,
      .state = execute->state,
      .input_specs = execute->specs,
      .output_specs = execute->specs + execute->input_count,
      .inputs = (const void *const *)pointers,
      .outputs = pointers + execute->input_count,
      .workspace = workspace,
      .team = team,
      .scalars = flight->scalars + execute->scalars,
  };
  const uint32_t told = tdm_told_count();
  return tdm_fail_untold(execute->kernel->execute(&call), told);
}

static tdm_status run_copy(const tdm_host_executor *executor, const tdm_flight *flight,
                           const tdm_copy *copy) {
  TDM_TRY(tdm_faults_strike(executor->faults, TDM_FAULT_COPY));
  return executor->device->ops->copy(executor->device, copy,
                                     flight->bases[copy->from.base] + copy->from.offset,
                                     flight->bases[copy->to.base] + copy->to.offset);
}

/* Returns true if the command must not be executed. */
static inline bool is_skipped(const tdm_host_queue *queue, tdm_flight *flight,
                              const tdm_command *command) {
  if (TDM_UNLIKELY(queue->passed_over)) {
    flight->failed_ids[command->id] = 1;
    return true;
  }
  if (command->condition != 0 && !flight->conditions[command->condition - 1]) return true;
  return tdm_flight_spoiled(flight, command);
}

static inline void end_command(tdm_flight *flight, const tdm_command *command, tdm_status status,
                               uint64_t begin_ns) {
  if (TDM_UNLIKELY(status != TDM_OK))
    tdm_flight_fail(flight, command->id, status, tdm_last_message());
  if (TDM_UNLIKELY(flight->times != NULL)) {
    flight->times[command->id].begin_ns = begin_ns;
    flight->times[command->id].end_ns = tdm_time_ns();
  }
}

static inline void execute_command(const tdm_host_queue *queue, tdm_flight *flight,
                                   const tdm_command *command, tdm_team *team) {
  if (is_skipped(queue, flight, command)) return;
  const uint64_t begin_ns = TDM_UNLIKELY(flight->times != NULL) ? tdm_time_ns() : 0;
  const tdm_status status = run_kernel(queue->executor, flight, &command->execute, team);
  end_command(flight, command, status, begin_ns);
}

/* Returns at most thirty years, which can be added to a clock. */
static uint64_t copy_ns(const tdm_host_executor *executor, const tdm_copy *copy) {
  const tdm_device *device = executor->device;
  const tdm_device *other = copy->from_device == device ? copy->to_device : copy->from_device;
  const tdm_link link = device->ops->link(device, other);
  const double transfer_ns = link.bytes_per_ns > 0 ? (double)copy->bytes / link.bytes_per_ns : 0;
  return (uint64_t)fmin(link.latency_ns + transfer_ns, 1e18);
}

static void begin_copy(tdm_submission *submission, const tdm_flight *flight) {
  submission->begin_cpu_ns = flight->times ? tdm_thread_cpu_ns() : 0;
  submission->begin_ns = tdm_time_ns();
}

/* Ends a copy. The time that neither the link nor the thread's own work explains was spent waiting
 * for a core. link_ns: modelled time of the link; 0: it is not modelled. */
static void end_copy(tdm_flight *flight, const tdm_command *command, tdm_status status,
                     const tdm_submission *submission, uint64_t link_ns) {
  end_command(flight, command, status, submission->begin_ns);
  if (!flight->times) return;
  tdm_command_times *times = &flight->times[command->id];
  const uint64_t took_ns = times->end_ns - times->begin_ns;
  const uint64_t worked_ns = tdm_thread_cpu_ns() - submission->begin_cpu_ns;
  const uint64_t needed_ns = worked_ns > link_ns ? worked_ns : link_ns;
  times->core_wait_ns = took_ns > needed_ns ? took_ns - needed_ns : 0;
}

/* Advances a copy with a modelled link: begins at the first call and ends when it is due. Returns
 * false before that. */
static bool model_copy(tdm_host_queue *queue, tdm_submission *submission, tdm_flight *flight,
                       const tdm_command *command) {
  const tdm_host_executor *executor = queue->executor;
  const bool begins = submission->due_ns == 0;
  if (begins) {
    if (is_skipped(queue, flight, command)) return true;
    begin_copy(submission, flight);
    submission->due_ns = submission->begin_ns + copy_ns(executor, &command->copy);
    if (queue->draw_lateness) queue->copies_late = (tdm_draw(&queue->random) & 1) != 0;
  }
  const bool ends = tdm_time_ns() >= submission->due_ns;
  tdm_status status = TDM_OK;
  if (queue->copies_late ? ends : begins) status = run_copy(executor, flight, &command->copy);
  if (status != TDM_OK) tdm_flight_fail(flight, command->id, status, tdm_last_message());
  if (!ends) return false;
  end_copy(flight, command, TDM_OK, submission, submission->due_ns - submission->begin_ns);
  submission->due_ns = 0;
  return true;
}

static bool copy_command(tdm_host_queue *queue, tdm_submission *submission, tdm_flight *flight,
                         const tdm_command *command) {
  if (queue->executor->models_links) return model_copy(queue, submission, flight, command);
  if (is_skipped(queue, flight, command)) return true;
  if (flight->times) begin_copy(submission, flight);
  const tdm_status status = run_copy(queue->executor, flight, &command->copy);
  end_copy(flight, command, status, submission, 0);
  return true;
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* Poll interval of the network's own thread for a message while no other thread attends. It grows
 * with the message's age, so that waiting for a computing rank takes no core. It is longer while
 * devices of this rank compute, because polling uses their core: 5,000 polls a second took an
 * eighth of it. That costs little, because several pieces are outstanding and no thread waits. */
enum { LEAST_POLL_NS = 50000, MOST_POLL_NS = 200000, BUSY = 5, POLLS_OF_AGE = 4 };

static uint64_t next_poll_ns(const tdm_host_executor *executor, uint64_t begin_ns) {
  const uint64_t now_ns = tdm_time_ns();
  const uint64_t longer = tdm_context_computes(executor->device->context) ? BUSY : 1;
  uint64_t pause_ns = (now_ns - begin_ns) / POLLS_OF_AGE;
  if (pause_ns < longer * LEAST_POLL_NS) pause_ns = longer * LEAST_POLL_NS;
  return now_ns + (pause_ns < longer * MOST_POLL_NS ? pause_ns : longer * MOST_POLL_NS);
}

/* Advances a message. Both ends execute it whatever has failed, so that none is left for a later
 * run. Returns false while it is outstanding. */
static bool message_command(const tdm_host_queue *queue, tdm_submission *submission,
                            tdm_flight *flight, const tdm_command *command) {
  if (command->condition != 0 && !flight->conditions[command->condition - 1]) return true;
  tdm_messenger *messenger = queue->executor->messenger;
  if (submission->due_ns == 0) submission->begin_ns = tdm_time_ns();
  bool ended = false;
  const bool spoiled = tdm_flight_spoiled(flight, command);
  const tdm_status status = messenger->advance(messenger, command, flight, spoiled, &ended);
  submission->due_ns = ended ? 0 : next_poll_ns(queue->executor, submission->begin_ns);
  if (ended) end_command(flight, command, status, submission->begin_ns);
  return ended;
}

/* ---- Waits ----------------------------------------------------------------------------------- */

tdm_queue *tdm_submission_awaits(const tdm_submission *submission, uint64_t *out_sequence) {
  const tdm_flight *flight = submission->flight;
  const tdm_program *program = &flight->programs[submission->program];
  return tdm_flight_awaited(flight, &program->commands[submission->cursor].wait, out_sequence);
}

static bool wait_command(const tdm_host_queue *queue, tdm_flight *flight,
                         const tdm_program *program, uint32_t cursor) {
  uint64_t sequence = 0;
  tdm_queue *awaited = tdm_flight_awaited(flight, &program->commands[cursor].wait, &sequence);
  if (!awaited) return true;
  if (!tdm_queue_reached(awaited, sequence)) {
    tdm_command_times *times = flight->times;
    const uint32_t id = program->commands[cursor].id;
    if (TDM_UNLIKELY(times != NULL) && times[id].wait_ns == 0) times[id].wait_ns = tdm_time_ns();
    return false;
  }
  const tdm_status status = tdm_faults_strike(queue->executor->faults, TDM_FAULT_WAIT);
  if (TDM_UNLIKELY(status != TDM_OK)) tdm_flight_fail_after_wait(flight, program, cursor, status);
  return true;
}

/* ---- The loop -------------------------------------------------------------------------------- */

/* After kernels that took this long, the thread's other queues have their turn. */
enum { LONG_TURN_NS = 50000 };

tdm_progress tdm_host_queue_advance(tdm_host_queue *queue, tdm_submission *submission,
                                    tdm_team *team, uint32_t limit) {
  tdm_flight *flight = submission->flight;
  const tdm_program *program = &flight->programs[submission->program];
  const uint32_t count = program->count;
  const uint64_t base = submission->base;
  const uint64_t begin_ns = limit == UINT32_MAX ? 0 : tdm_time_ns();
  uint32_t cursor = submission->cursor;
  if (cursor == 0) queue->passed_over = false;
  if (atomic_load_explicit(&queue->base.waits, memory_order_relaxed))
    atomic_store_explicit(&queue->base.waits, false, memory_order_relaxed);
  for (; cursor < count; cursor++) {
    if (limit-- == 0) {
      submission->cursor = cursor;
      return TDM_PROGRESS_LIMIT;
    }
    const tdm_command *command = &program->commands[cursor];
    switch (command->kind) {
    case TDM_COMMAND_EXECUTE:
      execute_command(queue, flight, command, team);
      if (begin_ns != 0 && tdm_time_ns() - begin_ns > LONG_TURN_NS) limit = 0;
      break;
    case TDM_COMMAND_COPY:
      if (copy_command(queue, submission, flight, command)) break;
      submission->cursor = cursor;
      return TDM_PROGRESS_NOT_DUE;
    case TDM_COMMAND_SEND:
    case TDM_COMMAND_RECEIVE:
    case TDM_COMMAND_ALL_REDUCE:
    case TDM_COMMAND_VOTE:
      if (message_command(queue, submission, flight, command)) break;
      submission->cursor = cursor;
      return TDM_PROGRESS_NOT_DUE;
    case TDM_COMMAND_WAIT:
      if (wait_command(queue, flight, program, cursor)) break;
      submission->cursor = cursor;
      atomic_store_explicit(&queue->base.waits, true, memory_order_relaxed);
      return TDM_PROGRESS_WAITS;
    case TDM_COMMAND_GATE:
      queue->passed_over = atomic_load_explicit(&flight->failed, memory_order_acquire) != 0 ||
                           tdm_flight_close(flight) != TDM_OK;
      break;
    default:
      break;
    }
    if (command->signals) tdm_queue_publish(&queue->base, base + cursor + 1);
  }
  submission->cursor = count;
  if (count > 0) tdm_queue_publish(&queue->base, base + count);
  return TDM_PROGRESS_END;
}
