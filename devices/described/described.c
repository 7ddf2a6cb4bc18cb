/* The described kind: devices for planning and forecasts, which execute nothing. Invariant: their
 * memory consists of addresses, each returned once, up to the described size. The context submits
 * nothing to their queues. */
#include "devices/described/described.h"

#include "core/allocate.h"
#include "devices/absent/absent.h"
#include "devices/context/context.h"
#include "devices/machine/machine.h"

typedef struct described_device {
  tdm_absent_device absent;
  const tdm_machine *machine; /* the context's machine */
} described_device;
_Static_assert(offsetof(described_device, absent) == 0, "a device is its base");

/* ---- Links ----------------------------------------------------------------------------------- */

static tdm_link described_link(const tdm_device *device, const tdm_device *other) {
  const described_device *described = (const described_device *)device;
  const int end = tdm_device_same_kind(device, other) ? other->index : TDM_MACHINE_HOST;
  tdm_machine_route route;
  tdm_machine_find_route(described->machine, device->index, end, &route);
  return (tdm_link){.latency_ns = route.latency_ns, .bytes_per_ns = route.bytes_per_ns};
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void described_destroy(tdm_device *device) {
  if (!device) return;
  tdm_release(tdm_context_allocator(device->context), device, sizeof(described_device));
}

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
      tdm_allocate(tdm_context_allocator(context), sizeof *described, "a described device");
  if (!described) return TDM_OUT_OF_MEMORY;
  described->machine = tdm_context_machine(context);
  const tdm_absent_options absent = {.kind = "paper",
                                     /* the kernels of cpu define which operations are supported */
                                     .executes = "cpu",
                                     .where = "is only described",
                                     .roles = (1u << TDM_QUEUE_OWN_ROLES) - 1,
                                     .number = (size_t)index,
                                     .destroy = described_destroy,
                                     .link = described_link};
  tdm_absent_init(&described->absent, context, &absent);
  described->absent.base.index = index;
  described->absent.model = described->machine->device.model;
  described->absent.memory_bytes = described->machine->device.memory_bytes;
  *out_device = &described->absent.base;
  return TDM_OK;
}

const tdm_kind tdm_described_kind = {
    .name = "paper",
    .count = described_count,
    .create = described_create,
};
