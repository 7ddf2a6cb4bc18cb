/* The cuda kind: its devices and its table of functions. Invariant: host_pointer never returns a
 * pointer to a GPU's memory. Opening a context only queries which GPUs exist. A GPU is first used
 * when its memory is allocated. */
#include "devices/cuda/cuda.h"

#include <stdio.h>

#include "core/allocate.h"
#include "core/settings.h"
#include "devices/context/context.h"
#include "devices/cuda/commands.h"
#include "devices/cuda/device.h"
#include "devices/cuda/library/errors.h"
#include "devices/cuda/library/library.h"
#include "devices/cuda/queue.h"
#include "devices/cuda/sums.h"
#include "devices/topology/topology.h"

enum { MOST_LOGICAL = 16 };

/* Assumed before links are measured: a PCIe link of the fourth generation, and dedicated memory. */
static const tdm_link assumed_link = {.latency_ns = 10000, .bytes_per_ns = 20};

/* The queues that share a thread. */
static const unsigned feeder_roles[TDM_CUDA_FEEDERS] = {
    1u << TDM_QUEUE_COMPUTE | 1u << TDM_QUEUE_PEER | 1u << TDM_QUEUE_SUM, 1u << TDM_QUEUE_UPLOAD,
    1u << TDM_QUEUE_DOWNLOAD};

/* ---- Life ------------------------------------------------------------------------------------ */

static void cuda_destroy(tdm_device *device) {
  if (!device) return;
  tdm_cuda_device *cuda = tdm_cuda_device_of(device);
  for (size_t i = 0; i < TDM_CUDA_FEEDERS; i++)
    tdm_cuda_feeder_destroy(cuda->feeders[i]);
  tdm_cuda_memory_deinit(&cuda->memory);
  tdm_pins_deinit(&cuda->pins);
  tdm_cuda_clock_deinit(&cuda->clock);
  tdm_release(tdm_context_allocator(device->context), cuda, sizeof *cuda);
}

static void cuda_stop(tdm_device *device) {
  tdm_cuda_device *cuda = tdm_cuda_device_of(device);
  for (size_t i = 0; i < TDM_CUDA_FEEDERS; i++)
    tdm_cuda_feeder_stop(cuda->feeders[i]);
  if (!cuda->clock.stream) return;
  const bool entered = tdm_cuda_gpu_enter(&cuda->gpu) == TDM_OK;
  tdm_cuda_clock_close(&cuda->clock); /* frees the host's part even if the GPU is lost */
  if (entered) tdm_cuda_gpu_leave(&cuda->gpu);
}

static tdm_status cuda_start(tdm_device *device) {
  for (size_t i = 0; i < TDM_CUDA_FEEDERS; i++) {
    const tdm_status status = tdm_cuda_feeder_start(tdm_cuda_device_of(device)->feeders[i]);
    if (status == TDM_OK) continue;
    cuda_stop(device);
    return status;
  }
  return TDM_OK;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static tdm_status cuda_allocate(tdm_device *device, size_t bytes, tdm_memory *out_memory) {
  *out_memory = (tdm_memory){0};
  TDM_TRY(tdm_faults_strike(tdm_context_faults(device->context), TDM_FAULT_ALLOCATION));
  tdm_address address;
  const tdm_status status =
      tdm_cuda_memory_allocate(&tdm_cuda_device_of(device)->memory, bytes, &address);
  if (status != TDM_OK) return tdm_fail_within(status, "%s", device->name);
  *out_memory = (tdm_memory){.device = device, .address = address, .bytes = bytes};
  return TDM_OK;
}

static void cuda_release(tdm_device *device, tdm_memory *memory) {
  tdm_cuda_memory_release(&tdm_cuda_device_of(device)->memory, memory->address);
  *memory = (tdm_memory){0};
}

static tdm_status cuda_memory(tdm_device *device, uint64_t *out_bytes, uint64_t *out_free_bytes) {
  tdm_cuda_gpu *gpu = &tdm_cuda_device_of(device)->gpu;
  size_t bytes = 0, free_bytes = 0;
  TDM_TRY(tdm_cuda_gpu_enter(gpu));
  const tdm_status status =
      tdm_cuda_check(gpu->api, gpu->api->memory(&bytes, &free_bytes), "asking for a GPU's memory");
  tdm_cuda_gpu_leave(gpu);
  *out_bytes = bytes;
  *out_free_bytes = free_bytes;
  return status;
}

static tdm_status cuda_translate(tdm_device *device, tdm_address address, size_t bytes,
                                 void **out) {
  *out = tdm_cuda_memory_translate(&tdm_cuda_device_of(device)->memory, address, bytes);
  return TDM_UNLIKELY(!*out) ? tdm_device_not_its_memory(device, address, bytes) : TDM_OK;
}

/* Copies at once, on the calling thread. */
static tdm_status cuda_copy(tdm_device *device, const tdm_copy *copy, tdm_address from,
                            tdm_address to) {
  if (copy->from_device != device && copy->to_device != device)
    return tdm_device_copy_unsupported(device, copy);
  tdm_cuda_gpu *gpu = &tdm_cuda_device_of(device)->gpu;
  TDM_TRY(tdm_cuda_gpu_enter(gpu));
  const tdm_status status = tdm_cuda_copy_now(gpu->api, copy, from, to);
  tdm_cuda_gpu_leave(gpu);
  return status;
}

/* Pins for every GPU of the process. */
static tdm_status cuda_pin(tdm_device *device, void *memory, size_t bytes) {
  tdm_cuda_device *cuda = tdm_cuda_device_of(device);
  const tdm_cuda_api *api = cuda->gpu.api;
  TDM_TRY(tdm_cuda_gpu_enter(&cuda->gpu));
  tdm_status status = tdm_pins_add(&cuda->pins, device->name, memory, bytes);
  if (status == TDM_OK) {
    status = tdm_cuda_check(api, api->pin(memory, bytes), "pinning host memory");
    if (status != TDM_OK && tdm_pins_remove(&cuda->pins, device->name, memory, bytes) != TDM_OK)
      status = TDM_INTERNAL;
  }
  tdm_cuda_gpu_leave(&cuda->gpu);
  return status;
}

/* Unpins even if the GPU can no longer be entered, because the pages belong to the host. */
static tdm_status cuda_unpin(tdm_device *device, void *memory, size_t bytes) {
  tdm_cuda_device *cuda = tdm_cuda_device_of(device);
  const tdm_cuda_api *api = cuda->gpu.api;
  TDM_TRY(tdm_pins_remove(&cuda->pins, device->name, memory, bytes));
  const bool entered = tdm_cuda_gpu_enter(&cuda->gpu) == TDM_OK;
  const tdm_status status = tdm_cuda_check(api, api->unpin(memory), "unpinning host memory");
  if (entered) tdm_cuda_gpu_leave(&cuda->gpu);
  return status;
}

static tdm_link cuda_link(const tdm_device *device, const tdm_device *other) {
  return device == other ? (tdm_link){0} : assumed_link;
}

/* Its queues have one owner, the feeder. */
static bool cuda_borrow(tdm_queue *queue) {
  (void)queue;
  return false;
}

static void cuda_run_borrowed(tdm_queue *queue, tdm_submission *submission) {
  tdm_cuda_feeder_submit(queue, submission); /* never called, because borrow always fails */
}

/* ---- The kind -------------------------------------------------------------------------------- */

static const tdm_device_ops cuda_ops = {
    .kind = "cuda",
    .executes = "cuda",
    .destroy = cuda_destroy,
    .start = cuda_start,
    .stop = cuda_stop,
    .allocate = cuda_allocate,
    .release = cuda_release,
    .memory = cuda_memory,
    .host_pointer = tdm_device_no_host_pointer,
    .translate = cuda_translate,
    .copy = cuda_copy,
    .submit = tdm_cuda_feeder_submit,
    .borrow = cuda_borrow,
    .run_borrowed = cuda_run_borrowed,
    .link = cuda_link,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
};

/* Reads the number of logical devices of each GPU: TANDEM_CUDA_LOGICAL. */
static tdm_status read_logical(const tdm_kind_options *options, uint64_t *out_logical) {
  *out_logical = 1;
  if (!options->settings || options->settings[0] == '\0') return TDM_OK;
  return tdm_setting_integer("TANDEM_CUDA_LOGICAL", "the count", options->settings, 1, MOST_LOGICAL,
                             out_logical);
}

static tdm_status not_offered(tdm_context *context, int count, const char *reason) {
  tdm_context_log(context, TDM_LOG_WARNING, "%d GPU%s not offered: %s", count,
                  count == 1 ? " is" : "s are", reason);
  return TDM_OK;
}

static tdm_status cuda_count(tdm_context *context, const tdm_kind_options *options,
                             size_t *out_count, const char **out_reason) {
  *out_reason = NULL;
  *out_count = 0;
  uint64_t logical;
  TDM_TRY(read_logical(options, &logical));
  int count = 0;
  const tdm_cuda_library *library = tdm_cuda_library_for_gpus(&count, out_reason);
  if (!library) return count > 0 ? not_offered(context, count, *out_reason) : TDM_OK;
  const tdm_cuda_api *api = library->api();
  const tdm_cuda_code code = api->device_count(&count);
  if (code != TDM_CUDA_SUCCESS || count <= 0) {
    *out_reason = tdm_cuda_absence(api, code);
    return TDM_OK;
  }
  *out_reason = tdm_cuda_blas_absence(api);
  if (*out_reason) return not_offered(context, count, *out_reason);
  *out_count = (size_t)count * logical;
  if (options->count > 0 && *out_count > (size_t)options->count)
    *out_count = (size_t)options->count;
  return TDM_OK;
}

static tdm_status cuda_each_kernel(tdm_kernel_visitor visit, void *user) {
  const char *reason;
  const tdm_cuda_library *library = tdm_cuda_library_open(&reason);
  return library ? library->each_kernel(visit, user) : tdm_fail(TDM_UNAVAILABLE, "%s", reason);
}

/* Sets the identity under which measured links are stored. */
static tdm_status identify(tdm_cuda_device *cuda) {
  const tdm_cuda_api *api = cuda->gpu.api;
  TDM_TRY(tdm_cuda_check(api, api->properties(cuda->gpu.ordinal, &cuda->properties),
                         "asking for a GPU's properties"));
  int driver = 0;
  TDM_TRY(tdm_cuda_check(api, api->driver_version(&driver), "asking for the driver's version"));
  (void)snprintf(cuda->base.identity, sizeof cuda->base.identity, "%.40s at %.20s, driver %d",
                 cuda->properties.name, cuda->properties.pci_bus_id, driver);
  return TDM_OK;
}

static tdm_status cuda_create(tdm_context *context, const tdm_kind_options *options, int index,
                              tdm_device **out_device) {
  *out_device = NULL;
  const char *reason;
  const tdm_cuda_library *library = tdm_cuda_library_open(&reason);
  if (!library) return tdm_fail(TDM_UNAVAILABLE, "%s", reason);
  const tdm_cuda_api *api = library->api();
  const tdm_allocator *allocator = tdm_context_allocator(context);
  uint64_t logical;
  TDM_TRY(read_logical(options, &logical));
  tdm_cuda_device *cuda = tdm_allocate(allocator, sizeof *cuda, "a cuda device");
  if (!cuda) return TDM_OUT_OF_MEMORY;
  cuda->base.ops = &cuda_ops;
  cuda->base.context = context;
  cuda->base.index = index;
  cuda->base.team_size = 1;
  cuda->base.stages_pageable = true;
  cuda->base.node = -1;
  cuda->gpu.api = api;
  cuda->nccl = library->nccl();
  cuda->gpu.ordinal = index / (int)logical;
  tdm_status status = tdm_pins_init(&cuda->pins, allocator);
  if (status == TDM_OK) status = tdm_cuda_clock_init(&cuda->clock, api);
  if (status == TDM_OK) status = identify(cuda);
  if (status == TDM_OK) {
    status = tdm_cuda_memory_init(&cuda->memory, &cuda->gpu, cuda->properties.memory_bytes,
                                  tdm_context_red_zones(context), allocator);
  }
  for (size_t i = 0; i < TDM_CUDA_FEEDERS && status == TDM_OK; i++) {
    status = tdm_cuda_feeder_create(&cuda->base, api, cuda->gpu.ordinal, feeder_roles[i],
                                    options->tf32, &cuda->feeders[i]);
  }
  if (status != TDM_OK) {
    cuda_destroy(&cuda->base);
    return status;
  }
  cuda->base.node =
      tdm_topology_node_near_pci(tdm_context_topology(context), cuda->properties.pci_bus_id);
  if (options->count > 1 || tdm_context_rank_count(context) > 1)
    tdm_cuda_engine_find(&cuda->base, options->nccl);
  cuda->base.hidden_begin = cuda->memory.begin;
  cuda->base.hidden_bytes = cuda->memory.range_bytes;
  *out_device = &cuda->base;
  return TDM_OK;
}

const tdm_kind tdm_cuda_kind = {
    .name = "cuda",
    .settings_variable = "TANDEM_CUDA_LOGICAL",
    .count = cuda_count,
    .create = cuda_create,
    .each_kernel = cuda_each_kernel,
};
