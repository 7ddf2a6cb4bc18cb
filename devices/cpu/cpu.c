/* The cpu kind's table of functions. Invariant: an address is a pointer of the host. Every address
 * that is not hidden by another device is legal, because wrapped memory belongs to cpu:0 too. */
#include "devices/cpu/cpu.h"

#include "core/allocate.h"
#include "devices/context/context.h"
#include "devices/contract/red_zones.h"
#include "devices/cpu/memory.h"
#include "devices/host/copy.h"
#include "devices/host/worker.h"
#include "devices/kernels/cpu/kernels.h"
#include "devices/topology/topology.h"

typedef struct cpu_device {
  tdm_device base;
  tdm_worker *worker;
  tdm_worker *network; /* sends and receives; only on the first device of a rank in a job of several
                        * ranks */
  tdm_worker *adder;   /* adds data from other ranks; only in a job of several ranks */
  size_t large_bytes;  /* limit for copies, from tdm_copy_large_bytes */
} cpu_device;
_Static_assert(offsetof(cpu_device, base) == 0, "a device is its base");

static cpu_device *cpu_of(tdm_device *device) {
  return (cpu_device *)device;
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void cpu_destroy(tdm_device *device) {
  if (!device) return;
  tdm_worker_destroy(cpu_of(device)->network);
  tdm_worker_destroy(cpu_of(device)->adder);
  tdm_worker_destroy(cpu_of(device)->worker);
  tdm_release(tdm_context_allocator(device->context), device, sizeof(cpu_device));
}

static tdm_status cpu_start(tdm_device *device) {
  TDM_TRY(tdm_worker_start(cpu_of(device)->worker));
  TDM_TRY(tdm_worker_start(cpu_of(device)->adder));
  return tdm_worker_start(cpu_of(device)->network);
}

static void cpu_stop(tdm_device *device) {
  tdm_worker_stop(cpu_of(device)->worker);
  tdm_worker_stop(cpu_of(device)->network);
  tdm_worker_stop(cpu_of(device)->adder);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static tdm_status cpu_allocate(tdm_device *device, size_t bytes, tdm_memory *out_memory) {
  *out_memory = (tdm_memory){0};
  tdm_context *context = device->context;
  TDM_TRY(tdm_faults_strike(tdm_context_faults(context), TDM_FAULT_ALLOCATION));
  tdm_address address;
  TDM_TRY(tdm_cpu_memory_allocate(tdm_context_topology(context), tdm_context_cores(context, device),
                                  device->name, bytes, &address));
  tdm_red_zones_begin(tdm_context_red_zones(context), (void *)address, bytes);
  *out_memory = (tdm_memory){.device = device, .address = address, .bytes = bytes};
  return TDM_OK;
}

static void cpu_release(tdm_device *device, tdm_memory *memory) {
  (void)device;
  tdm_cpu_memory_release(memory->address, memory->bytes);
  *memory = (tdm_memory){0};
}

static tdm_status cpu_memory(tdm_device *device, uint64_t *out_bytes, uint64_t *out_free_bytes) {
  tdm_topology_memory(tdm_context_topology(device->context), device->node, out_bytes,
                      out_free_bytes);
  return TDM_OK;
}

static void *cpu_host_pointer(tdm_device *device, tdm_address address) {
  (void)device;
  return (void *)address;
}

static tdm_status cpu_translate(tdm_device *device, tdm_address address, size_t bytes, void **out) {
  (void)bytes;
  *out = NULL;
  const size_t count = tdm_device_count(device->context);
  for (size_t i = 0; i < count; i++) {
    const tdm_device *other = tdm_context_device(device->context, i);
    if (address - other->hidden_begin < other->hidden_bytes) {
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s was handed address 0x%zx of %s", device->name,
                      (size_t)address, other->name);
    }
  }
  *out = (void *)address;
  return TDM_OK;
}

static tdm_status cpu_copy(tdm_device *device, const tdm_copy *copy, tdm_address from,
                           tdm_address to) {
  if (!copy->from_device->host_addressable || !copy->to_device->host_addressable)
    return tdm_device_copy_unsupported(device, copy);
  void *source = NULL;
  void *target = NULL;
  TDM_TRY(cpu_translate(device, from, copy->bytes, &source));
  TDM_TRY(cpu_translate(device, to, copy->bytes, &target));
  tdm_copy_host(target, source, copy->bytes, cpu_of(device)->large_bytes);
  return TDM_OK;
}

/* Devices of one host share memory: nothing waits for a link. */
static tdm_link cpu_link(const tdm_device *device, const tdm_device *other) {
  (void)device;
  (void)other;
  return (tdm_link){0};
}

/* ---- The kind -------------------------------------------------------------------------------- */

static const tdm_device_ops cpu_ops = {
    .kind = "cpu",
    .executes = "cpu",
    .destroy = cpu_destroy,
    .start = cpu_start,
    .stop = cpu_stop,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .memory = cpu_memory,
    .host_pointer = cpu_host_pointer,
    .translate = cpu_translate,
    .copy = cpu_copy,
    .submit = tdm_worker_submit,
    .borrow = tdm_worker_borrow,
    .run_borrowed = tdm_worker_run_borrowed,
    .link = cpu_link,
    .pin = tdm_device_pin_unsupported,
    .unpin = tdm_device_unpin_unsupported,
};

static tdm_status cpu_count(tdm_context *context, const tdm_kind_options *options,
                            size_t *out_count, const char **out_reason) {
  *out_reason = NULL;
  *out_count = options->count > 0 ? (size_t)options->count
                                  : tdm_topology_node_count(tdm_context_topology(context));
  return TDM_OK;
}

static tdm_status cpu_create(tdm_context *context, const tdm_kind_options *options, int index,
                             tdm_device **out_device) {
  (void)options;
  *out_device = NULL;
  cpu_device *cpu = tdm_allocate(tdm_context_allocator(context), sizeof *cpu, "a cpu device");
  if (!cpu) return TDM_OUT_OF_MEMORY;
  cpu->base.ops = &cpu_ops;
  cpu->base.context = context;
  cpu->base.index = index;
  cpu->base.host_addressable = true;
  cpu->base.team_size = 1;
  cpu->large_bytes = tdm_copy_large_bytes(tdm_topology_cache_bytes(tdm_context_topology(context)));
  const tdm_worker_options worker = {.has_role = {[TDM_QUEUE_COMPUTE] = true}};
  tdm_status status = tdm_worker_create(&cpu->base, &worker, &cpu->worker);
  const tdm_worker_options network = {
      .has_role = {[TDM_QUEUE_SEND] = true, [TDM_QUEUE_RECEIVE] = true},
      .messenger = tdm_context_messenger(context)};
  if (status == TDM_OK && index == 0 && network.messenger)
    status = tdm_worker_create(&cpu->base, &network, &cpu->network);
  const tdm_worker_options adder = {.has_role = {[TDM_QUEUE_SUM] = true}};
  if (status == TDM_OK && network.messenger)
    status = tdm_worker_create(&cpu->base, &adder, &cpu->adder);
  if (status != TDM_OK) {
    cpu_destroy(&cpu->base);
    return status;
  }
  *out_device = &cpu->base;
  return TDM_OK;
}

const tdm_kind tdm_cpu_kind = {
    .name = "cpu",
    .count_variable = "TANDEM_CPU_DEVICES",
    .on_host = true,
    .count = cpu_count,
    .create = cpu_create,
    .each_kernel = tdm_cpu_each_kernel,
    .instructions = tdm_cpu_instructions,
};
