/* Looking up what a context holds. Invariant: nothing here changes it, but for registering kernels;
 * a device that is not there is told with the reason. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/context/context_state.h"

const tdm_allocator *tdm_context_allocator(const tdm_context *context) {
  return &context->allocator;
}

tdm_loop *tdm_context_loop(tdm_context *context) {
  return context->loop;
}

tdm_faults *tdm_context_faults(tdm_context *context) {
  return &context->faults;
}

void tdm_context_log(tdm_context *context, tdm_log_level level, const char *format, ...) {
  if (!context->log) return;
  char text[TDM_MESSAGE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  if (length >= 0) context->log(context->log_user, level, text);
}

const tdm_topology *tdm_context_topology(const tdm_context *context) {
  return context->topology;
}

const tdm_core_range *tdm_context_cores(const tdm_context *context, const tdm_device *device) {
  const size_t index = (size_t)device->context_index;
  const size_t on_host = context->primary_count + context->secondary_count;
  if (index < context->own_begin || index - context->own_begin >= on_host) return NULL;
  return &context->cores[index - context->own_begin];
}

const tdm_machine *tdm_context_machine(const tdm_context *context) {
  return context->has_machine ? &context->machine : NULL;
}

struct tdm_pool *tdm_context_pool(tdm_context *context) {
  return context->pool;
}

struct tdm_links *tdm_context_links(tdm_context *context) {
  return context->links;
}

/* ---- Ranks --------------------------------------------------------------------------------- */

int tdm_context_rank(const tdm_context *context) {
  return !context ? 0 : context->rank;
}

int tdm_context_rank_count(const tdm_context *context) {
  return !context ? 0 : context->rank_count;
}

tdm_device *tdm_context_host_of(tdm_context *context, int rank) {
  return context->devices[!context->rank_begins ? 0 : context->rank_begins[rank]];
}

tdm_device *tdm_context_host(tdm_context *context) {
  return context->devices[context->own_begin];
}

tdm_device *tdm_context_counterpart(tdm_context *context, const tdm_device *device, int rank) {
  if (context->rank_count == 1) return context->devices[device->context_index];
  for (size_t i = context->rank_begins[rank]; i < context->rank_begins[rank + 1]; i++) {
    tdm_device *found = context->devices[i];
    if (found->index == device->index && strcmp(found->ops->kind, device->ops->kind) == 0)
      return found;
  }
  return NULL;
}

const char *tdm_context_instructions(const tdm_context *context) {
  (void)context;
  return tdm_device_kinds[0]->instructions();
}

struct tdm_network *tdm_context_network(const tdm_context *context) {
  return context->network;
}

tdm_messenger *tdm_context_messenger(const tdm_context *context) {
  return context->messenger;
}

/* ---- Devices ------------------------------------------------------------------------------- */

tdm_device *tdm_context_device(tdm_context *context, size_t index) {
  return index < context->device_count ? context->devices[index] : NULL;
}

size_t tdm_device_count(const tdm_context *context) {
  return !context ? 0 : context->device_count;
}

tdm_red_zones tdm_context_red_zones(const tdm_context *context) {
  return context->red_zones;
}

const char *tdm_device_name_at(const tdm_context *context, size_t index) {
  if (!context || index >= context->device_count) return NULL;
  return context->devices[index]->name;
}

/* The kind whose name stands before the colon; NULL with a message. */
static const tdm_kind *kind_of_name(const char *name, const char *colon) {
  for (size_t i = 0; tdm_device_kinds[i]; i++) {
    const size_t length = strlen(tdm_device_kinds[i]->name);
    if (length == (size_t)(colon - name) && memcmp(tdm_device_kinds[i]->name, name, length) == 0) {
      return tdm_device_kinds[i];
    }
  }
  (void)tdm_fail(TDM_INVALID_ARGUMENT, "\"%.40s\": there is no kind of device \"%.*s\"", name,
                 (int)(colon - name < 40 ? colon - name : 40), name);
  return NULL;
}

static tdm_status fail_absent(tdm_context *context, const tdm_kind *kind, int rank,
                              const char *name) {
  const bool own = rank == context->rank;
  if (own && kind->absent) {
    return tdm_fail(TDM_UNAVAILABLE, "there is no %.40s: %s", name, kind->absent);
  }
  const tdm_kind_options options = {0};
  size_t count = 0;
  const char *reason = NULL;
  if (own) TDM_TRY(kind->count(context, &options, &count, &reason));
  if (count == 0 && reason) {
    return tdm_fail(TDM_UNAVAILABLE, "there is no %.40s: %s", name, reason);
  }
  size_t opened = 0;
  for (size_t i = 0; i < context->device_count; i++) {
    const tdm_device *device = context->devices[i];
    opened += device->rank == rank && strcmp(device->ops->kind, kind->name) == 0;
  }
  return tdm_fail(TDM_UNAVAILABLE, "there is no %.40s: the context has %zu device%s of kind %s%s",
                  name, opened, opened == 1 ? "" : "s", kind->name,
                  opened > 0 ? "" : ": none were asked for (its options, or TANDEM_DEVICES)");
}

/* ---- Names: host:RANK/kind:index, or of this rank kind:index ---- */

typedef struct device_name {
  int rank;
  bool all_ranks;    /* "host:*" */
  const char *plain; /* "kind:index" */
} device_name;

static tdm_status read_name(const tdm_context *context, const char *name, device_name *out_name) {
  static const char prefix[] = "host:";
  *out_name = (device_name){.rank = context->rank, .plain = name};
  if (!name) return tdm_fail(TDM_INVALID_ARGUMENT, "the device's name is NULL");
  if (strncmp(name, prefix, sizeof prefix - 1) != 0) return TDM_OK;
  const char *digits = name + sizeof prefix - 1;
  const size_t length = strcspn(digits, "/");
  const bool all = length == 1 && digits[0] == '*';
  if (length == 0 || digits[length] != '/' || (!all && strspn(digits, "0123456789") != length)) {
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "\"%.40s\" does not name a rank's device as host:rank/kind:index, like "
                    "host:1/cpu:0",
                    name);
  }
  const long rank = all ? 0 : strtol(digits, NULL, 10);
  if (rank >= context->rank_count) {
    return tdm_fail(TDM_UNAVAILABLE, "there is no %.40s: the job has %d rank%s", name,
                    context->rank_count, context->rank_count == 1 ? "" : "s");
  }
  *out_name = (device_name){.rank = (int)rank, .all_ranks = all, .plain = digits + length + 1};
  return TDM_OK;
}

/* The kind:index of a device's own name, which has its rank where there are several. */
static const char *plain_name(const tdm_context *context, const tdm_device *device) {
  return context->rank_count == 1 ? device->name : strchr(device->name, '/') + 1;
}

static tdm_status find_of_rank(tdm_context *context, const char *name, const char *plain, int rank,
                               tdm_device **out_device) {
  *out_device = NULL;
  for (size_t i = 0; i < context->device_count; i++) {
    tdm_device *device = context->devices[i];
    if (device->rank != rank || strcmp(plain_name(context, device), plain) != 0) continue;
    *out_device = device;
    return TDM_OK;
  }
  const char *colon = strchr(plain, ':');
  const size_t digits = !colon ? 0 : strspn(colon + 1, "0123456789");
  if (!colon || digits == 0 || colon[1 + digits] != '\0') {
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "\"%.40s\" does not name a device as kind:index, like cpu:0", name);
  }
  const tdm_kind *kind = kind_of_name(plain, colon);
  return !kind ? TDM_INVALID_ARGUMENT : fail_absent(context, kind, rank, name);
}

static tdm_status find_device(tdm_context *context, const char *name, tdm_device **out_device) {
  *out_device = NULL;
  device_name read;
  TDM_TRY(read_name(context, name, &read));
  if (read.all_ranks) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "\"%.40s\" names a device of every rank, not one", name);
  }
  return find_of_rank(context, name, read.plain, read.rank, out_device);
}

tdm_device *tdm_context_find_device(tdm_context *context, const char *name) {
  tdm_device *device = NULL;
  const tdm_status status = find_device(context, name, &device);
  return status == TDM_OK ? device : NULL;
}

/* One name of a list, which stands for one device or for one of every rank. */
static tdm_status find_devices(tdm_context *context, const char *name, size_t capacity,
                               tdm_device **out_devices, size_t *count) {
  device_name read;
  TDM_TRY(read_name(context, name, &read));
  const int end = read.all_ranks ? context->rank_count : read.rank + 1;
  for (int rank = read.all_ranks ? 0 : read.rank; rank < end; rank++) {
    if (*count == capacity) {
      return tdm_fail(TDM_INVALID_ARGUMENT, "more than %zu devices, with %s", capacity, name);
    }
    TDM_TRY(find_of_rank(context, name, read.plain, rank, &out_devices[(*count)++]));
  }
  return TDM_OK;
}

tdm_status tdm_context_find_devices(tdm_context *context, const char *list, size_t capacity,
                                    tdm_device **out_devices, size_t *out_count) {
  char name[32];
  size_t count = 0;
  *out_count = 0;
  for (const char *at = list; at && *at != '\0';) {
    const size_t length = strcspn(at, ",");
    if (count == capacity)
      return tdm_fail(TDM_INVALID_ARGUMENT, "more than %zu devices in %s", capacity, list);
    if (length == 0 || length >= sizeof(name) || (at[length] == ',' && at[length + 1] == '\0'))
      return tdm_fail(TDM_INVALID_ARGUMENT, "\"%s\" is no list of devices", list);
    memcpy(name, at, length);
    name[length] = '\0';
    TDM_TRY(find_devices(context, name, capacity, out_devices, &count));
    at += length + (at[length] == ',');
  }
  if (count == 0) return tdm_fail(TDM_INVALID_ARGUMENT, "no devices are given");
  *out_count = count;
  return TDM_OK;
}

tdm_status tdm_device_check(tdm_context *context, const char *name) {
  TDM_TRY(tdm_context_check(context));
  tdm_device *device = NULL;
  return find_device(context, name, &device);
}

size_t tdm_context_queue_count(const tdm_context *context) {
  return context->queue_count;
}

tdm_queue *tdm_context_queue(tdm_context *context, size_t index) {
  return index < context->queue_count ? context->queues[index] : NULL;
}

/* ---- Kernels ------------------------------------------------------------------------------- */

tdm_status tdm_kernel_register(tdm_context *context, const tdm_kernel *kernel) {
  TDM_TRY(tdm_context_check(context));
  return tdm_kernel_registry_add(&context->kernels, kernel);
}

const tdm_kernel *tdm_context_find_kernel(tdm_context *context, const char *operation,
                                          const char *executes, tdm_dtype dtype) {
  return tdm_kernel_registry_find(&context->kernels, operation, executes, dtype);
}
