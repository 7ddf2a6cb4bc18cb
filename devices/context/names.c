/* Names of devices: kind:index, or kind for its first device, on a rank that the caller chooses;
 * host:RANK/kind:index on any rank. Invariant: if a name fits no device, the message states the
 * reason and the existing devices. */
#include <stdlib.h>
#include <string.h>

#include "core/choices.h"
#include "devices/context/context_state.h"

enum { KIND_BYTES = 41 }; /* size of a kind's name in messages, terminator included */

/* Returns the kind with that name of `length` letters. If there is none, returns NULL and sets the
 * message. */
static const tdm_kind *kind_of_name(const char *name, size_t length) {
  char given[KIND_BYTES];
  const size_t kept = length < sizeof given ? length : sizeof given - 1;
  memcpy(given, name, kept);
  given[kept] = '\0';
  tdm_choices kinds;
  tdm_choices_init(&kinds, NULL); /* no suggestion, because gpu is not a misspelt cpu */
  for (size_t i = 0; tdm_device_kinds[i]; i++) {
    if (strcmp(tdm_device_kinds[i]->name, given) == 0) return tdm_device_kinds[i];
    tdm_choices_add(&kinds, tdm_device_kinds[i]->name);
  }
  (void)tdm_fail(TDM_INVALID_ARGUMENT, "\"%.40s\": there is no kind of device \"%s\"; %s", name,
                 given, tdm_choices_text(&kinds, "kinds"));
  return NULL;
}

/* Finds why a kind that this rank searched for has no device; NULL if it has, or if none were
 * requested. */
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
  tdm_choices_init(&there, NULL); /* no suggestion, because cpu:1 is not a misspelt cpu:0 */
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

/* ---- Names: host:RANK/kind:index, or kind:index ---------------------------------------------- */

typedef struct device_name {
  int rank;
  bool all_ranks;    /* "host:*" */
  const char *plain; /* "kind:index"; in lists also "kind:*" */
} device_name;

/* home: the rank of a name without one. */
static tdm_status read_name(const tdm_context *context, const char *name, int home,
                            device_name *out_name) {
  static const char prefix[] = "host:";
  *out_name = (device_name){.rank = home, .plain = name};
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

const char *tdm_device_plain_name(const tdm_context *context, const tdm_device *device) {
  return context->rank_count == 1 ? device->name : strchr(device->name, '/') + 1;
}

/* Returns true if the device has that name on its rank: "cuda:1", or "cuda" for the first. */
static bool is_called(const tdm_context *context, const tdm_device *device, const char *plain) {
  const char *own = tdm_device_plain_name(context, device);
  return strcmp(own, plain) == 0 || (device->index == 0 && strcmp(device->ops->kind, plain) == 0);
}

/* Returns true if the name is "kind:*". */
static bool names_all(const char *plain) {
  const size_t letters = strcspn(plain, ":");
  return letters > 0 && strcmp(plain + letters, ":*") == 0;
}

/* Fails with the reason why a rank has no device of that name. */
static tdm_status fail_unknown(tdm_context *context, const char *name, const char *plain,
                               int rank) {
  const size_t letters = strcspn(plain, ":");
  const bool counted = plain[letters] == ':' && !names_all(plain);
  const size_t digits = counted ? strspn(plain + letters + 1, "0123456789") : 0;
  if (letters == 0 || (counted && (digits == 0 || plain[letters + 1 + digits] != '\0'))) {
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "\"%.40s\" does not name a device as kind:index, like cpu:0", name);
  }
  const tdm_kind *kind = kind_of_name(plain, letters);
  return !kind ? TDM_INVALID_ARGUMENT : fail_absent(context, kind, rank, name);
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
  return fail_unknown(context, name, plain, rank);
}

static tdm_status find_device(tdm_context *context, const char *name, int home,
                              tdm_device **out_device) {
  *out_device = NULL;
  device_name read;
  TDM_TRY(read_name(context, name, home, &read));
  if (read.all_ranks)
    return tdm_fail(TDM_INVALID_ARGUMENT, "\"%.40s\" names a device of every rank, not one", name);
  if (names_all(read.plain))
    return tdm_fail(TDM_INVALID_ARGUMENT, "\"%.40s\" names all devices of a kind, not one", name);
  return find_of_rank(context, name, read.plain, read.rank, out_device);
}

tdm_device *tdm_context_find_device(tdm_context *context, const char *name) {
  tdm_device *device = NULL;
  const tdm_status status = find_device(context, name, context->rank, &device);
  return status == TDM_OK ? device : NULL;
}

tdm_device *tdm_context_find_placement(tdm_context *context, const char *name) {
  tdm_device *device = NULL;
  const tdm_status status = find_device(context, name, 0, &device);
  return status == TDM_OK ? device : NULL;
}

/* ---- Lists of names -------------------------------------------------------------------------- */

typedef struct device_list {
  tdm_device **devices;
  size_t count;
  size_t capacity;
} device_list;

static tdm_status add_device(device_list *list, const char *name, tdm_device *device) {
  if (list->count == list->capacity)
    return tdm_fail(TDM_INVALID_ARGUMENT, "more than %zu devices, with %s", list->capacity, name);
  list->devices[list->count++] = device;
  return TDM_OK;
}

/* Adds the devices of one rank that match the name: one device, or all of the kind for "kind:*". */
static tdm_status add_of_rank(tdm_context *context, const char *name, const char *plain, int rank,
                              device_list *list) {
  tdm_device *device = NULL;
  if (!names_all(plain)) {
    TDM_TRY(find_of_rank(context, name, plain, rank, &device));
    return add_device(list, name, device);
  }
  const size_t before = list->count;
  const size_t length = strlen(plain) - 1; /* "kind:" */
  for (size_t i = 0; i < context->device_count; i++) {
    device = context->devices[i];
    const char *own = tdm_device_plain_name(context, device);
    if (device->rank == rank && strncmp(own, plain, length) == 0)
      TDM_TRY(add_device(list, name, device));
  }
  return list->count > before ? TDM_OK : fail_unknown(context, name, plain, rank);
}

static tdm_status add_named(tdm_context *context, const char *name, int home, device_list *list) {
  device_name read;
  TDM_TRY(read_name(context, name, home, &read));
  const int end = read.all_ranks ? context->rank_count : read.rank + 1;
  for (int rank = read.all_ranks ? 0 : read.rank; rank < end; rank++)
    TDM_TRY(add_of_rank(context, name, read.plain, rank, list));
  return TDM_OK;
}

static tdm_status find_list(tdm_context *context, const char *text, int home, device_list *list) {
  char name[32];
  for (const char *at = text; at && *at != '\0';) {
    const size_t length = strcspn(at, ",");
    if (length == 0 || length >= sizeof(name) || (at[length] == ',' && at[length + 1] == '\0'))
      return tdm_fail(TDM_INVALID_ARGUMENT, "\"%s\" is no list of devices", text);
    memcpy(name, at, length);
    name[length] = '\0';
    TDM_TRY(add_named(context, name, home, list));
    at += length + (at[length] == ',');
  }
  if (list->count == 0) return tdm_fail(TDM_INVALID_ARGUMENT, "no devices are given");
  return TDM_OK;
}

tdm_status tdm_context_find_devices(tdm_context *context, const char *list, size_t capacity,
                                    tdm_device **out_devices, size_t *out_count) {
  device_list found = {out_devices, 0, capacity};
  *out_count = 0;
  TDM_TRY(find_list(context, list, context->rank, &found));
  *out_count = found.count;
  return TDM_OK;
}

tdm_status tdm_context_find_placements(tdm_context *context, const char *list, size_t capacity,
                                       tdm_device **out_devices, size_t *out_count) {
  device_list found = {out_devices, 0, capacity};
  *out_count = 0;
  TDM_TRY(find_list(context, list, 0, &found));
  *out_count = found.count;
  return TDM_OK;
}

bool tdm_is_available(tdm_context *context, const char *name) {
  return tdm_device_check(context, name) == TDM_OK;
}

tdm_status tdm_device_check(tdm_context *context, const char *name) {
  TDM_TRY(tdm_context_check(context));
  tdm_device *device = NULL;
  return find_device(context, name, context->rank, &device);
}
