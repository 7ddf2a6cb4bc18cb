/* Names of devices: kind:index, or kind for its first, of this rank; host:RANK/kind:index of any.
 * Invariant: a name that fits no device is told with the reason and the devices that there are. */
#include <stdlib.h>
#include <string.h>

#include "core/choices.h"
#include "devices/context/context_state.h"

enum { KIND_BYTES = 41 }; /* of a kind's name in messages, terminator included */

/* The kind called by the first letters of name; NULL with a message. */
static const tdm_kind *kind_of_name(const char *name, size_t length) {
  char given[KIND_BYTES];
  const size_t kept = length < sizeof given ? length : sizeof given - 1;
  memcpy(given, name, kept);
  given[kept] = '\0';
  tdm_choices kinds;
  tdm_choices_init(&kinds, given);
  for (size_t i = 0; tdm_device_kinds[i]; i++) {
    if (strcmp(tdm_device_kinds[i]->name, given) == 0) return tdm_device_kinds[i];
    tdm_choices_add(&kinds, tdm_device_kinds[i]->name);
  }
  (void)tdm_fail(TDM_INVALID_ARGUMENT, "\"%.40s\": there is no kind of device \"%s\"; %s", name,
                 given, tdm_choices_text(&kinds, "kinds"));
  return NULL;
}

/* Why a kind that this rank looked for has no device; NULL: it has, or none were asked for. */
static tdm_status find_reason(tdm_context *context, const tdm_kind *kind, const char **out_reason) {
  *out_reason = kind->absent;
  if (kind->absent) return TDM_OK;
  const tdm_kind_options options = {0};
  size_t count = 0;
  TDM_TRY(kind->count(context, &options, &count, out_reason));
  if (count > 0) *out_reason = NULL;
  return TDM_OK;
}

static tdm_status fail_absent(tdm_context *context, const tdm_kind *kind, int rank,
                              const char *name) {
  const char *reason = NULL;
  if (rank == context->rank) TDM_TRY(find_reason(context, kind, &reason));
  tdm_choices there;
  tdm_choices_init(&there, NULL); /* cpu:1 is no misspelt cpu:0 */
  size_t opened = 0;
  for (size_t i = 0; i < context->device_count; i++) {
    const tdm_device *device = context->devices[i];
    opened += device->rank == rank && strcmp(device->ops->kind, kind->name) == 0;
    tdm_choices_add(&there, device->name);
  }
  const char *devices = tdm_choices_text(&there, "devices");
  if (reason)
    return tdm_fail(TDM_UNAVAILABLE, "there is no %.40s: %.200s; %s", name, reason, devices);
  return tdm_fail(
      TDM_UNAVAILABLE, "there is no %.40s: the context has %zu device%s of kind %s%s; %s", name,
      opened, opened == 1 ? "" : "s", kind->name,
      opened > 0 ? "" : ": none were asked for (its options, or TANDEM_DEVICES)", devices);
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

/* Is the device called so on its rank, "cuda:1", or "cuda" for the first? */
static bool is_called(const tdm_context *context, const tdm_device *device, const char *plain) {
  /* Its own name has its rank where there are several. */
  const char *own = context->rank_count == 1 ? device->name : strchr(device->name, '/') + 1;
  return strcmp(own, plain) == 0 || (device->index == 0 && strcmp(device->ops->kind, plain) == 0);
}

static tdm_status find_of_rank(tdm_context *context, const char *name, const char *plain, int rank,
                               tdm_device **out_device) {
  *out_device = NULL;
  for (size_t i = 0; i < context->device_count; i++) {
    tdm_device *device = context->devices[i];
    if (device->rank != rank || !is_called(context, device, plain)) continue;
    *out_device = device;
    return TDM_OK;
  }
  const size_t letters = strcspn(plain, ":");
  const bool counted = plain[letters] == ':';
  const size_t digits = counted ? strspn(plain + letters + 1, "0123456789") : 0;
  if (letters == 0 || (counted && (digits == 0 || plain[letters + 1 + digits] != '\0'))) {
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "\"%.40s\" does not name a device as kind:index, like cpu:0", name);
  }
  const tdm_kind *kind = kind_of_name(plain, letters);
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

bool tdm_is_available(tdm_context *context, const char *name) {
  return tdm_device_check(context, name) == TDM_OK;
}

tdm_status tdm_device_check(tdm_context *context, const char *name) {
  TDM_TRY(tdm_context_check(context));
  tdm_device *device = NULL;
  return find_device(context, name, &device);
}
