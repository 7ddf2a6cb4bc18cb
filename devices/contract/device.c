/* Checks and functions for every kind; a table has no empty slot. */
#include "devices/contract/device.h"

#include <string.h>

#include "core/status.h"

tdm_status tdm_device_ops_check(const tdm_device_ops *ops) {
  const struct {
    const char *name;
    bool filled;
  } slots[] = {
      {"kind", ops->kind != NULL},
      {"executes", ops->executes != NULL},
      {"destroy", ops->destroy != NULL},
      {"start", ops->start != NULL},
      {"stop", ops->stop != NULL},
      {"allocate", ops->allocate != NULL},
      {"release", ops->release != NULL},
      {"memory", ops->memory != NULL},
      {"host_pointer", ops->host_pointer != NULL},
      {"translate", ops->translate != NULL},
      {"copy", ops->copy != NULL},
      {"submit", ops->submit != NULL},
      {"borrow", ops->borrow != NULL},
      {"run_borrowed", ops->run_borrowed != NULL},
      {"link", ops->link != NULL},
      {"pin", ops->pin != NULL},
      {"unpin", ops->unpin != NULL},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(slots); i++) {
    if (slots[i].filled) continue;
    return tdm_fail(TDM_INTERNAL, "devices of kind %s have no %s", !ops->kind ? "?" : ops->kind,
                    slots[i].name);
  }
  return TDM_OK;
}

tdm_status tdm_device_pin_unsupported(tdm_device *device, void *memory, size_t bytes) {
  (void)memory;
  return tdm_fail(TDM_UNSUPPORTED, "%s pins no memory (%zu bytes)", device->name, bytes);
}

tdm_status tdm_device_unpin_unsupported(tdm_device *device, void *memory, size_t bytes) {
  (void)memory;
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s has pinned no memory (%zu bytes)", device->name, bytes);
}

void *tdm_device_no_host_pointer(tdm_device *device, tdm_address address) {
  (void)device;
  (void)address;
  return NULL;
}

tdm_status tdm_device_copy_unsupported(const tdm_device *device, const tdm_copy *copy) {
  return tdm_fail(TDM_UNSUPPORTED, "%s does not copy from %s to %s", device->name,
                  copy->from_device->name, copy->to_device->name);
}

tdm_status tdm_device_not_its_memory(const tdm_device *device, tdm_address address, size_t bytes) {
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s was handed %zu bytes at 0x%zx, not its live memory",
                  device->name, bytes, (size_t)address);
}

const char *tdm_device_own_name(const tdm_device *device) {
  const char *slash = strchr(device->name, '/');
  return slash ? slash + 1 : device->name;
}

bool tdm_device_same_kind(const tdm_device *a, const tdm_device *b) {
  return a->rank == b->rank &&
         (a->ops->kind == b->ops->kind || strcmp(a->ops->kind, b->ops->kind) == 0);
}
