/* Enqueues kernels and copies on a stream. Invariant: a command that cannot be enqueued fails and
 * leaves the stream unchanged. Pageable memory is never passed to CUDA. */
#include "devices/cuda/commands.h"

#include "core/untold.h"
#include "devices/context/context.h"
#include "devices/cuda/device.h"
#include "devices/cuda/library/errors.h"
#include "devices/cuda/peers.h"
#include "devices/cuda/staging.h"

/* ---- Operands and kernels -------------------------------------------------------------------- */

static tdm_status resolve(tdm_device *device, const tdm_flight *flight, const tdm_operand *operand,
                          size_t bytes, void **out) {
  *out = NULL;
  if (operand->base == TDM_OPERAND_ABSENT) return TDM_OK;
  const tdm_address address = flight->bases[operand->base] + operand->offset;
  return device->ops->translate(device, address, bytes, out);
}

static tdm_status run_kernel(tdm_cuda_queue *queue, const tdm_flight *flight,
                             const tdm_execute *execute) {
  tdm_device *device = queue->base.device;
  void *pointers[TDM_KERNEL_MAX_INPUTS + TDM_KERNEL_MAX_OUTPUTS];
  void *workspace;
  TDM_TRY(tdm_faults_strike(tdm_context_faults(device->context), TDM_FAULT_KERNEL));
  if (execute->is_empty) return TDM_OK;
  const uint32_t count = (uint32_t)execute->input_count + execute->output_count;
  for (uint32_t i = 0; i < count; i++) {
    TDM_TRY(resolve(device, flight, &execute->operands[i], tdm_operand_bytes(&execute->specs[i]),
                    &pointers[i]));
  }
  TDM_TRY(resolve(device, flight, &execute->workspace, execute->workspace_bytes, &workspace));
  const tdm_kernel_call call = {
      .attributes = execute->attributes,
      .state = execute->state,
      .input_specs = execute->specs,
      .output_specs = execute->specs + execute->input_count,
      .inputs = (const void *const *)pointers,
      .outputs = pointers + execute->input_count,
      .workspace = workspace,
      .scalars = flight->scalars + execute->scalars,
      .stream = &queue->kernel_stream,
  };
  const uint32_t told = tdm_told_count();
  return tdm_fail_untold(execute->kernel->execute(&call), told);
}

/* Every command gets its own report. If its kernel did not request it, the next command uses it. */
static tdm_status execute_command(tdm_cuda_queue *queue, const tdm_flight *flight,
                                  const tdm_command *command) {
  const size_t index = queue->reports_taken % TDM_CUDA_REPORTS;
  tdm_cuda_report *report = &queue->reports[index];
  report->kind = TDM_CUDA_REPORT_NONE;
  queue->report_ids[index] = command->id;
  queue->kernel_stream.report = report;
  const tdm_status status = run_kernel(queue, flight, &command->execute);
  if (report->kind != TDM_CUDA_REPORT_NONE) queue->reports_taken++;
  return status;
}

/* ---- Copies ---------------------------------------------------------------------------------- */

/* Gets the pointers of a copy's ends. */
static tdm_status resolve_copy(const tdm_copy *copy, tdm_address from, tdm_address to,
                               void **out_from, void **out_to) {
  *out_to = NULL;
  TDM_TRY(copy->from_device->ops->translate(copy->from_device, from, copy->bytes, out_from));
  return copy->to_device->ops->translate(copy->to_device, to, copy->bytes, out_to);
}

static tdm_cuda_direction direction_of(const tdm_copy *copy) {
  if (copy->from_device->host_addressable) return TDM_CUDA_TO_DEVICE;
  return copy->to_device->host_addressable ? TDM_CUDA_TO_HOST : TDM_CUDA_ON_DEVICE;
}

static const char *const copy_names[] = {[TDM_CUDA_TO_DEVICE] = "an upload",
                                         [TDM_CUDA_TO_HOST] = "a download",
                                         [TDM_CUDA_ON_DEVICE] = "a copy between GPUs"};

/* Copies between GPUs, or from or to pinned memory. */
static tdm_status copy_directly(const tdm_cuda_queue *queue, const tdm_copy *copy, void *to,
                                const void *from) {
  const tdm_cuda_api *api = queue->kernel_stream.api;
  const tdm_cuda_stream stream = queue->kernel_stream.stream;
  const tdm_cuda_direction direction = direction_of(copy);
  int ordinal = 0;
  int peer = 0;
  if (direction == TDM_CUDA_ON_DEVICE) {
    ordinal = tdm_cuda_device_ordinal(copy->to_device);
    peer = tdm_cuda_device_ordinal(copy->from_device);
  }
  if (ordinal != peer) tdm_cuda_peers_meet(copy->to_device, copy->from_device);
  const tdm_cuda_code code =
      ordinal != peer ? api->copy_peer_async(to, ordinal, from, peer, copy->bytes, stream)
                      : api->copy_async(to, from, copy->bytes, direction, stream);
  return tdm_cuda_check(api, code, copy_names[direction]);
}

tdm_status tdm_cuda_copy_now(const tdm_cuda_api *api, const tdm_copy *copy, tdm_address from,
                             tdm_address to) {
  void *begin = NULL;
  void *end = NULL;
  TDM_TRY(resolve_copy(copy, from, to, &begin, &end));
  if (copy->bytes == 0) return TDM_OK;
  const tdm_cuda_direction direction = direction_of(copy);
  return tdm_cuda_check(api, api->copy(end, begin, copy->bytes, direction), copy_names[direction]);
}

/* Returns true if one end is pageable memory of the host. */
static bool is_staged(const tdm_cuda_queue *queue, const tdm_copy *copy, const void *to,
                      const void *from) {
  const tdm_cuda_direction direction = direction_of(copy);
  if (direction == TDM_CUDA_ON_DEVICE) return false;
  const void *memory = direction == TDM_CUDA_TO_DEVICE ? from : to;
  tdm_device *device = queue->base.device;
  return !tdm_cuda_device_has_pinned(device, memory, copy->bytes);
}

static tdm_status copy_staged(tdm_cuda_queue *queue, const tdm_submission *submission,
                              tdm_cuda_staging *staging, const tdm_copy *copy, void *to,
                              const void *from) {
  if (direction_of(copy) == TDM_CUDA_TO_HOST)
    return tdm_cuda_staging_download(queue, staging, to, from, copy->bytes);
  return tdm_cuda_staging_upload(queue, staging, to, from, copy->bytes,
                                 submission->base + submission->cursor);
}

/* Returns false while the copy is blocked. The fault strikes once, when the copy really begins. A
 * staged upload reads the host's bytes at once, without waiting for its stream. That is safe
 * because only the host writes pageable memory (a staged download does so too), and did so before
 * the point that this queue has passed. */
static bool copy_command(tdm_cuda_queue *queue, const tdm_submission *submission,
                         const tdm_copy *copy, tdm_status *out_status) {
  const tdm_flight *flight = submission->flight;
  tdm_faults *faults = tdm_context_faults(queue->base.device->context);
  void *from = NULL;
  void *to = NULL;
  queue->lacks_staging = false;
  *out_status = resolve_copy(copy, flight->bases[copy->from.base] + copy->from.offset,
                             flight->bases[copy->to.base] + copy->to.offset, &from, &to);
  if (*out_status != TDM_OK) return true;
  tdm_cuda_staging staging = {0};
  const bool staged = copy->bytes > 0 && is_staged(queue, copy, to, from);
  if (staged) {
    *out_status = tdm_cuda_staging_take(queue, copy->bytes, &staging);
    if (*out_status != TDM_OK) return true;
    queue->lacks_staging = staging.count == 0;
    if (queue->lacks_staging) return false;
  }
  *out_status = tdm_faults_strike(faults, TDM_FAULT_COPY);
  if (*out_status != TDM_OK) {
    tdm_cuda_staging_drop(&staging);
  } else if (staged) {
    *out_status = copy_staged(queue, submission, &staging, copy, to, from);
  } else if (copy->bytes > 0) {
    *out_status = copy_directly(queue, copy, to, from);
  }
  return true;
}

/* ---- Commands -------------------------------------------------------------------------------- */

/* Returns true if the command must not be executed. Another feeder may be recording failures
 * concurrently; one that is missed here is found when the mark after this command is retired. */
static bool is_skipped(const tdm_cuda_queue *queue, tdm_flight *flight,
                       const tdm_command *command) {
  if (queue->passed_over) {
    tdm_flight_mark_failed(flight, command->id);
    return true;
  }
  return !tdm_cuda_command_works(flight, command) || tdm_flight_spoiled(flight, command);
}

/* Returns the name of a command for a profiler. */
static const char *name_of(const tdm_command *command) {
  if (command->name) return command->name;
  return command->kind == TDM_COMMAND_EXECUTE ? command->execute.kernel->operation : "copy";
}

bool tdm_cuda_command_enqueue(tdm_cuda_queue *queue, const tdm_submission *submission,
                              const tdm_command *command) {
  tdm_flight *flight = submission->flight;
  if (is_skipped(queue, flight, command)) return true;
  tdm_status status = tdm_cuda_queue_refusal(queue);
  if (TDM_UNLIKELY(flight->times != NULL) && status == TDM_OK)
    status = tdm_cuda_queue_time(queue, &flight->times[command->id]);
  bool passed = true;
  if (status == TDM_OK) {
    const tdm_cuda_api *api = queue->kernel_stream.api;
    api->range_begin(name_of(command));
    if (command->kind == TDM_COMMAND_EXECUTE) {
      status = execute_command(queue, flight, command);
    } else {
      passed = copy_command(queue, submission, &command->copy, &status);
    }
    api->range_end();
  }
  if (!passed) return false;
  if (TDM_UNLIKELY(status != TDM_OK))
    tdm_flight_fail(flight, command->id, status, tdm_last_message());
  return true;
}
