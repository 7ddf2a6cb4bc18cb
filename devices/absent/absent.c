/* Absent devices of every origin. Invariant: see absent.h. */
#include "devices/absent/absent.h"

#include "devices/context/context.h"

/* The distance between two devices' address ranges, and the first address. It is beyond what the
 * host maps (canonical user addresses end at 2^47 on x86-64, 2^48 on aarch64). */
static const tdm_address first_address = (tdm_address)1 << 52;
static const size_t range_bytes = (size_t)1 << 44;
enum { ALIGNMENT = 64 };

_Static_assert(offsetof(tdm_absent_device, base) == 0, "a device is its base");

static tdm_absent_device *absent_of(tdm_device *device) {
  return (tdm_absent_device *)device;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static tdm_status absent_allocate(tdm_device *device, size_t bytes, tdm_memory *out_memory) {
  *out_memory = (tdm_memory){0};
  TDM_TRY(tdm_faults_strike(tdm_context_faults(device->context), TDM_FAULT_ALLOCATION));
  tdm_absent_device *absent = absent_of(device);
  const size_t stride = (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
  const double limit = absent->memory_bytes;
  const size_t used = atomic_fetch_add(&absent->used_bytes, bytes) + bytes;
  const size_t offset = atomic_fetch_add(&absent->cursor, stride);
  if ((limit > 0 && (double)used > limit) || offset + stride > range_bytes) {
    (void)atomic_fetch_sub(&absent->used_bytes, bytes);
    return tdm_fail(TDM_OUT_OF_MEMORY, "%s, a %s, has %.0f bytes and no room for %zu more",
                    device->name, !absent->model ? device->ops->kind : absent->model, limit, bytes);
  }
  *out_memory = (tdm_memory){.device = device, .address = absent->begin + offset, .bytes = bytes};
  return TDM_OK;
}

static void absent_release(tdm_device *device, tdm_memory *memory) {
  (void)atomic_fetch_sub(&absent_of(device)->used_bytes, memory->bytes);
  *memory = (tdm_memory){0};
}

static tdm_status absent_memory(tdm_device *device, uint64_t *out_bytes, uint64_t *out_free_bytes) {
  const tdm_absent_device *absent = absent_of(device);
  const double used = (double)atomic_load(&absent->used_bytes);
  *out_bytes = (uint64_t)absent->memory_bytes;
  *out_free_bytes = used < absent->memory_bytes ? (uint64_t)(absent->memory_bytes - used) : 0;
  return TDM_OK;
}

/* ---- Unsupported functions ------------------------------------------------------------------- */

static tdm_status refuse(tdm_device *device) {
  return tdm_fail(TDM_UNSUPPORTED, "%s %s: it holds and executes nothing", device->name,
                  absent_of(device)->where);
}

static tdm_status absent_translate(tdm_device *device, tdm_address address, size_t bytes,
                                   void **out) {
  (void)address;
  (void)bytes;
  *out = NULL;
  return refuse(device);
}

static tdm_status absent_copy(tdm_device *device, const tdm_copy *copy, tdm_address from,
                              tdm_address to) {
  (void)copy;
  (void)from;
  (void)to;
  return refuse(device);
}

/* tdm_context_submit refuses flights for absent devices, so that none is lost here. */
static void absent_submit(tdm_queue *queue, tdm_submission *submission) {
  (void)queue;
  (void)submission;
}

static bool absent_borrow(tdm_queue *queue) {
  (void)queue;
  return false;
}

/* ---- Life ------------------------------------------------------------------------------------ */

static tdm_status absent_start(tdm_device *device) {
  (void)device;
  return TDM_OK;
}

static void absent_stop(tdm_device *device) {
  (void)device;
}

void tdm_absent_init(tdm_absent_device *device, tdm_context *context,
                     const tdm_absent_options *options) {
  device->ops = (tdm_device_ops){.kind = options->kind,
                                 .executes = options->executes,
                                 .destroy = options->destroy,
                                 .start = absent_start,
                                 .stop = absent_stop,
                                 .allocate = absent_allocate,
                                 .release = absent_release,
                                 .memory = absent_memory,
                                 .host_pointer = tdm_device_no_host_pointer,
                                 .translate = absent_translate,
                                 .copy = absent_copy,
                                 .submit = absent_submit,
                                 .borrow = absent_borrow,
                                 .run_borrowed = absent_submit,
                                 .link = options->link,
                                 .pin = tdm_device_pin_unsupported,
                                 .unpin = tdm_device_unpin_unsupported};
  device->where = options->where;
  device->begin = first_address + options->number * range_bytes;
  device->base = (tdm_device){
      .ops = &device->ops, .context = context, .node = -1, .described = true, .team_size = 1};
  for (size_t role = 0; role < TDM_QUEUE_ROLES; role++) {
    if ((options->roles >> role & 1) == 0) continue;
    device->queues[role].device = &device->base;
    device->queues[role].role = (tdm_queue_role)role;
    device->base.queues[role] = &device->queues[role];
  }
}
