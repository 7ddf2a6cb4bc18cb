/* The described kind: devices to plan for and to forecast, which execute nothing. Invariant: memory
 * of theirs is addresses alone, given out once each and up to the size that is described; the
 * context lets nothing through to their queues. */
#include "devices/described/described.h"

#include <stdatomic.h>

#include "core/allocate.h"
#include "devices/context/context.h"
#include "devices/machine/machine.h"

/* Between a device's addresses and the next one's, and where the first begin: beyond what the host
 * maps (canonical user addresses end at 2^47 on x86-64, 2^48 on aarch64). */
static const tdm_address first_address = (tdm_address)1 << 52;
static const size_t range_bytes = (size_t)1 << 44;
enum { ALIGNMENT = 64 };

typedef struct described_device {
  tdm_device base;
  tdm_queue queues[TDM_QUEUE_ROLES];
  const tdm_machine *machine; /* the context's */
  tdm_address begin;          /* of its addresses */
  _Atomic size_t used_bytes;  /* of memory that is out */
  _Atomic size_t cursor;      /* addresses given out */
} described_device;
_Static_assert(offsetof(described_device, base) == 0, "a device is its base");

static described_device *described_of(tdm_device *device) {
  return (described_device *)device;
}

/* ---- Memory -------------------------------------------------------------------------------- */

static tdm_status described_allocate(tdm_device *device, size_t bytes, tdm_memory *out_memory) {
  *out_memory = (tdm_memory){0};
  TDM_TRY(tdm_faults_strike(tdm_context_faults(device->context), TDM_FAULT_ALLOCATION));
  described_device *described = described_of(device);
  const size_t stride = (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
  const double limit = described->machine->device.memory_bytes;
  const size_t used = atomic_fetch_add(&described->used_bytes, bytes) + bytes;
  const size_t offset = atomic_fetch_add(&described->cursor, stride);
  if ((limit > 0 && (double)used > limit) || offset + stride > range_bytes) {
    (void)atomic_fetch_sub(&described->used_bytes, bytes);
    return tdm_fail(TDM_OUT_OF_MEMORY, "%s, a %s, has %.0f bytes and no room for %zu more",
                    device->name, described->machine->device.model, limit, bytes);
  }
  *out_memory =
      (tdm_memory){.device = device, .address = described->begin + offset, .bytes = bytes};
  return TDM_OK;
}

static void described_release(tdm_device *device, tdm_memory *memory) {
  (void)atomic_fetch_sub(&described_of(device)->used_bytes, memory->bytes);
  *memory = (tdm_memory){0};
}

static void *described_host_pointer(tdm_device *device, tdm_address address) {
  (void)device;
  (void)address;
  return NULL;
}

/* ---- What it does not do ------------------------------------------------------------------- */

static tdm_status refuse(const tdm_device *device) {
  return tdm_fail(TDM_UNSUPPORTED, "%s is only described: it holds and executes nothing",
                  device->name);
}

static tdm_status described_translate(tdm_device *device, tdm_address address, size_t bytes,
                                      void **out) {
  (void)address;
  (void)bytes;
  *out = NULL;
  return refuse(device);
}

static tdm_status described_copy(tdm_device *device, const tdm_copy *copy, tdm_address from,
                                 tdm_address to) {
  (void)copy;
  (void)from;
  (void)to;
  return refuse(device);
}

/* tdm_context_submit refuses flights that would come here, so that none is ever lost. */
static void described_submit(tdm_queue *queue, tdm_submission *submission) {
  (void)queue;
  (void)submission;
}

static bool described_borrow(tdm_queue *queue) {
  (void)queue;
  return false;
}

/* ---- Links --------------------------------------------------------------------------------- */

static tdm_link described_link(const tdm_device *device, const tdm_device *other) {
  const described_device *described = (const described_device *)device;
  const int end = tdm_device_same_kind(device, other) ? other->index : TDM_MACHINE_HOST;
  tdm_machine_route route;
  tdm_machine_find_route(described->machine, device->index, end, &route);
  return (tdm_link){.latency_ns = route.latency_ns, .bytes_per_ns = route.bytes_per_ns};
}

/* ---- Life ---------------------------------------------------------------------------------- */

static void described_destroy(tdm_device *device) {
  if (!device) return;
  tdm_release(tdm_context_allocator(device->context), device, sizeof(described_device));
}

static tdm_status described_start(tdm_device *device) {
  (void)device;
  return TDM_OK;
}

static void described_stop(tdm_device *device) {
  (void)device;
}

static const tdm_device_ops described_ops = {
    .kind = "paper",
    .executes = "cpu", /* whose kernels say what there is and what they need beside operands */
    .destroy = described_destroy,
    .start = described_start,
    .stop = described_stop,
    .allocate = described_allocate,
    .release = described_release,
    .host_pointer = described_host_pointer,
    .translate = described_translate,
    .copy = described_copy,
    .submit = described_submit,
    .borrow = described_borrow,
    .run_borrowed = described_submit,
    .link = described_link,
    .pin = tdm_device_pin_unsupported,
    .unpin = tdm_device_unpin_unsupported,
};

static tdm_status described_count(tdm_context *context, const tdm_kind_options *options,
                                  size_t *out_count, const char **out_reason) {
  (void)options;
  const tdm_machine *machine = tdm_context_machine(context);
  *out_count = machine ? tdm_machine_device_count(machine) : 0;
  *out_reason = machine ? NULL : "no machine is described (tdm_context_options.machine)";
  return TDM_OK;
}

static tdm_status described_create(tdm_context *context, const tdm_kind_options *options, int index,
                                   tdm_device **out_device) {
  (void)options;
  *out_device = NULL;
  described_device *described =
      tdm_allocate(tdm_context_allocator(context), sizeof(*described), "a described device");
  if (!described) return TDM_OUT_OF_MEMORY;
  described->machine = tdm_context_machine(context);
  described->begin = first_address + (size_t)index * range_bytes;
  described->base = (tdm_device){.ops = &described_ops,
                                 .context = context,
                                 .index = index,
                                 .node = -1,
                                 .described = true,
                                 .team_size = 1};
  for (size_t role = 0; role < TDM_QUEUE_ROLES; role++) {
    described->queues[role].device = &described->base;
    described->queues[role].role = (tdm_queue_role)role;
    described->base.queues[role] = &described->queues[role];
  }
  *out_device = &described->base;
  return TDM_OK;
}

const tdm_kind tdm_described_kind = {
    .name = "paper",
    .count = described_count,
    .create = described_create,
};
