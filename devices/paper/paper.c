/* The paper kind: devices to plan for and to forecast, which execute nothing. Invariant: memory of
 * theirs is addresses alone, given out once each and up to the size that is described; the context
 * lets nothing through to their queues. */
#include "devices/paper/paper.h"

#include <stdatomic.h>

#include "core/allocate.h"
#include "devices/context.h"
#include "devices/machine.h"

/* Between a device's addresses and the next one's, and where the first begin: beyond what the host
 * maps (canonical user addresses end at 2^47 on x86-64, 2^48 on aarch64). */
static const tdm_address first_address = (tdm_address)1 << 52;
static const size_t range_bytes = (size_t)1 << 44;
enum { ALIGNMENT = 64 };

typedef struct paper_device {
  tdm_device base;
  tdm_queue queues[TDM_QUEUE_ROLES];
  const tdm_machine *machine; /* the context's */
  tdm_address begin;          /* of its addresses */
  _Atomic size_t used_bytes;  /* of memory that is out */
  _Atomic size_t cursor;      /* addresses given out */
} paper_device;
_Static_assert(offsetof(paper_device, base) == 0, "a device is its base");

static paper_device *paper_of(tdm_device *device) {
  return (paper_device *)device;
}

/* ---- Memory -------------------------------------------------------------------------------- */

static tdm_status paper_allocate(tdm_device *device, size_t bytes, tdm_memory *out_memory) {
  *out_memory = (tdm_memory){0};
  TDM_TRY(tdm_faults_strike(tdm_context_faults(device->context), TDM_FAULT_ALLOCATION));
  paper_device *paper = paper_of(device);
  const size_t stride = (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
  const double limit = paper->machine->device.memory_bytes;
  const size_t used = atomic_fetch_add(&paper->used_bytes, bytes) + bytes;
  const size_t offset = atomic_fetch_add(&paper->cursor, stride);
  if ((limit > 0 && (double)used > limit) || offset + stride > range_bytes) {
    (void)atomic_fetch_sub(&paper->used_bytes, bytes);
    return tdm_fail(TDM_OUT_OF_MEMORY, "%s, a %s, has %.0f bytes and no room for %zu more",
                    device->name, paper->machine->device.model, limit, bytes);
  }
  *out_memory = (tdm_memory){.device = device, .address = paper->begin + offset, .bytes = bytes};
  return TDM_OK;
}

static void paper_release(tdm_device *device, tdm_memory *memory) {
  (void)atomic_fetch_sub(&paper_of(device)->used_bytes, memory->bytes);
  *memory = (tdm_memory){0};
}

static void *paper_host_pointer(tdm_device *device, tdm_address address) {
  (void)device;
  (void)address;
  return NULL;
}

/* ---- What it does not do ------------------------------------------------------------------- */

static tdm_status refuse(const tdm_device *device) {
  return tdm_fail(TDM_UNSUPPORTED, "%s is only described: it holds and executes nothing",
                  device->name);
}

static tdm_status paper_translate(tdm_device *device, tdm_address address, size_t bytes,
                                  void **out) {
  (void)address;
  (void)bytes;
  *out = NULL;
  return refuse(device);
}

static tdm_status paper_copy(tdm_device *device, const tdm_copy *copy, tdm_address from,
                             tdm_address to) {
  (void)copy;
  (void)from;
  (void)to;
  return refuse(device);
}

/* tdm_context_submit refuses flights that would come here, so that none is ever lost. */
static void paper_submit(tdm_queue *queue, tdm_submission *submission) {
  (void)queue;
  (void)submission;
}

static bool paper_borrow(tdm_queue *queue) {
  (void)queue;
  return false;
}

/* ---- Links --------------------------------------------------------------------------------- */

static tdm_link paper_link(const tdm_device *device, const tdm_device *other) {
  const paper_device *paper = (const paper_device *)device;
  const int end = tdm_device_same_kind(device, other) ? other->index : TDM_MACHINE_HOST;
  tdm_machine_route route;
  tdm_machine_find_route(paper->machine, device->index, end, &route);
  return (tdm_link){.latency_ns = route.latency_ns, .bytes_per_ns = route.bytes_per_ns};
}

/* ---- Life ---------------------------------------------------------------------------------- */

static void paper_destroy(tdm_device *device) {
  if (device == NULL) return;
  tdm_release(tdm_context_allocator(device->context), device, sizeof(paper_device));
}

static tdm_status paper_start(tdm_device *device) {
  (void)device;
  return TDM_OK;
}

static void paper_stop(tdm_device *device) {
  (void)device;
}

static const tdm_device_ops paper_ops = {
    .kind = "paper",
    .executes = "cpu", /* whose kernels say what there is and what they need beside operands */
    .destroy = paper_destroy,
    .start = paper_start,
    .stop = paper_stop,
    .allocate = paper_allocate,
    .release = paper_release,
    .host_pointer = paper_host_pointer,
    .translate = paper_translate,
    .copy = paper_copy,
    .submit = paper_submit,
    .borrow = paper_borrow,
    .run_borrowed = paper_submit,
    .link = paper_link,
    .pin = tdm_device_pin_unsupported,
    .unpin = tdm_device_unpin_unsupported,
};

static tdm_status paper_count(tdm_context *context, const tdm_kind_options *options,
                              size_t *out_count, const char **out_reason) {
  (void)options;
  const tdm_machine *machine = tdm_context_machine(context);
  *out_count = machine ? tdm_machine_device_count(machine) : 0;
  *out_reason = machine ? NULL : "no machine is described (tdm_context_options.machine)";
  return TDM_OK;
}

static tdm_status paper_create(tdm_context *context, const tdm_kind_options *options, int index,
                               tdm_device **out_device) {
  (void)options;
  *out_device = NULL;
  paper_device *paper =
      tdm_allocate(tdm_context_allocator(context), sizeof(*paper), "a paper device");
  if (paper == NULL) return TDM_OUT_OF_MEMORY;
  paper->machine = tdm_context_machine(context);
  paper->begin = first_address + (size_t)index * range_bytes;
  paper->base = (tdm_device){.ops = &paper_ops,
                             .context = context,
                             .index = index,
                             .node = -1,
                             .described = true,
                             .team_size = 1};
  for (size_t role = 0; role < TDM_QUEUE_ROLES; ++role) {
    paper->queues[role].device = &paper->base;
    paper->queues[role].role = (tdm_queue_role)role;
    paper->base.queues[role] = &paper->queues[role];
  }
  *out_device = &paper->base;
  return TDM_OK;
}

const tdm_kind tdm_paper_kind = {
    .name = "paper",
    .count = paper_count,
    .create = paper_create,
};
