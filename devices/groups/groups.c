/* Finds groups and joins them. Invariant: see groups.h. Ranks agree after every step of joining in
 * which one of them may fail. */
#include "devices/groups/groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "devices/network/network.h"

enum { JOIN_PAUSE_NS = 50000 };

struct tdm_groups {
  const tdm_allocator *allocator;
  pthread_mutex_t mutex;
  tdm_group *first;
};

/* ---- Life ------------------------------------------------------------------------------------ */

tdm_status tdm_groups_create(tdm_context *context, tdm_groups **out_groups) {
  const tdm_allocator *allocator = tdm_context_allocator(context);
  *out_groups = tdm_allocate(allocator, sizeof(tdm_groups), "groups of devices");
  if (!*out_groups) return TDM_OUT_OF_MEMORY;
  (*out_groups)->allocator = allocator;
  (void)pthread_mutex_init(&(*out_groups)->mutex, NULL); /* glibc's mutexes cannot fail */
  return TDM_OK;
}

static size_t group_bytes(size_t count) {
  return sizeof(tdm_group) +
         count * (sizeof(tdm_device *) + sizeof(tdm_member *) + sizeof(uint32_t));
}

static void leave(tdm_group *group) {
  for (size_t i = 0; i < group->count; i++) {
    if (group->members[i]) group->devices[i]->engine->leave(group->members[i]);
    group->members[i] = NULL;
  }
}

void tdm_groups_destroy(tdm_groups *groups) {
  if (!groups) return;
  for (tdm_group *next, *group = groups->first; group; group = next) {
    next = group->next;
    leave(group);
    tdm_release(groups->allocator, group, group_bytes(group->count));
  }
  (void)pthread_mutex_destroy(&groups->mutex);
  tdm_release(groups->allocator, groups, sizeof *groups);
}

/* ---- Eligible devices ------------------------------------------------------------------------ */

static const char *name_of(tdm_context *context, int16_t device) {
  return tdm_context_device(context, (size_t)device)->name;
}

/* Returns true if the device's kind supports engines. */
static bool may_have(const tdm_device *device) {
  return device->engine_name[0] != '\0' || device->engine_absence[0] != '\0';
}

/* Returns true if both are the same physical device, divided, or seen by two ranks of a machine. */
static bool are_one(const tdm_network *network, const tdm_device *a, const tdm_device *b) {
  const bool together = a->rank == b->rank || strcmp(tdm_network_host(network, a->rank),
                                                     tdm_network_host(network, b->rank)) == 0;
  return together && strcmp(a->identity, b->identity) == 0;
}

static bool refuse_one(tdm_context *context, int16_t first, int16_t device, char *text) {
  const tdm_device *has = tdm_context_device(context, (size_t)first);
  const tdm_device *is = tdm_context_device(context, (size_t)device);
  if (is->engine_name[0] == '\0') {
    (void)snprintf(text, TDM_GROUP_REASON_BYTES, "%s: %s", is->name,
                   may_have(is) ? is->engine_absence : "no engine is for this kind of device");
    return true;
  }
  if (strcmp(has->engine_name, is->engine_name) == 0) return false;
  (void)snprintf(text, TDM_GROUP_REASON_BYTES, "%s has %s, and %s has %s", has->name,
                 has->engine_name, is->name, is->engine_name);
  return true;
}

const char *tdm_group_engine(tdm_context *context, const int16_t *devices, size_t count,
                             char *text) {
  const tdm_network *network = tdm_context_network(context);
  bool any = false;
  text[0] = '\0';
  for (size_t i = 0; i < count; i++)
    any |= may_have(tdm_context_device(context, (size_t)devices[i]));
  if (!any) return NULL;
  for (size_t i = 0; i < count; i++)
    if (refuse_one(context, devices[0], devices[i], text)) return NULL;
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < i; k++) {
      if (!are_one(network, tdm_context_device(context, (size_t)devices[i]),
                   tdm_context_device(context, (size_t)devices[k])))
        continue;
      (void)snprintf(text, TDM_GROUP_REASON_BYTES, "%s and %s are on one GPU",
                     name_of(context, devices[k]), name_of(context, devices[i]));
      return NULL;
    }
  return tdm_context_device(context, (size_t)devices[0])->engine_name;
}

static bool may_exchange(tdm_context *context, const tdm_device *device) {
  const tdm_network *network = tdm_context_network(context);
  if (device->engine_name[0] == '\0') return false;
  for (size_t i = 0; i < tdm_device_count(context); i++) {
    const tdm_device *other = tdm_context_device(context, i);
    if (other == device || !may_have(other)) continue;
    if (strcmp(other->engine_name, device->engine_name) != 0) return false;
    if (are_one(network, device, other)) return false;
  }
  return true;
}

void tdm_groups_find_exchanges(tdm_context *context) {
  for (size_t i = 0; i < tdm_device_count(context); i++) {
    tdm_device *device = tdm_context_device(context, i);
    device->exchanges = may_exchange(context, device);
  }
}

/* ---- Finding --------------------------------------------------------------------------------- */

static int compare_devices(const void *a, const void *b) {
  const tdm_device *first = *(tdm_device *const *)a;
  const tdm_device *second = *(tdm_device *const *)b;
  return first->context_index - second->context_index;
}

/* Returns the device's number among its rank's devices with an engine. */
static uint32_t slot_of(tdm_context *context, const tdm_device *device) {
  uint32_t slot = 0;
  for (int i = 0; i < device->context_index; i++) {
    const tdm_device *before = tdm_context_device(context, (size_t)i);
    slot += before->rank == device->rank && before->engine_name[0] != '\0';
  }
  return slot;
}

static tdm_group *make_group(tdm_context *context, const int16_t *devices, size_t count) {
  tdm_group *group =
      tdm_allocate(tdm_context_allocator(context), group_bytes(count), "a group of devices");
  if (!group) return NULL;
  group->count = count;
  group->devices = (tdm_device **)(group + 1);
  group->members = (tdm_member **)(group->devices + count);
  group->slots = (uint32_t *)(group->members + count);
  for (size_t i = 0; i < count; i++)
    group->devices[i] = tdm_context_device(context, (size_t)devices[i]);
  qsort(group->devices, count, sizeof(tdm_device *), compare_devices);
  for (size_t i = 0; i < count; i++)
    group->slots[i] = slot_of(context, group->devices[i]);
  return group;
}

tdm_group *tdm_group_find(tdm_context *context, const int16_t *devices, size_t count) {
  tdm_groups *groups = tdm_context_groups(context);
  tdm_group *made = make_group(context, devices, count);
  if (!made) return NULL;
  (void)pthread_mutex_lock(&groups->mutex);
  tdm_group *found = groups->first;
  while (found && (found->count != count ||
                   memcmp(found->devices, made->devices, count * sizeof(tdm_device *)) != 0))
    found = found->next;
  if (!found) {
    made->next = groups->first;
    groups->first = made;
  }
  (void)pthread_mutex_unlock(&groups->mutex);
  if (found) tdm_release(groups->allocator, made, group_bytes(count));
  return found ? found : made;
}

/* ---- Joining --------------------------------------------------------------------------------- */

static tdm_status begin(const tdm_context *context, tdm_group *group, const unsigned char *key) {
  for (size_t i = 0; i < group->count; i++) {
    tdm_device *device = group->devices[i];
    if (device->rank != tdm_context_rank(context)) continue;
    TDM_TRY(device->engine->join(device, key, (int)i, (int)group->count, &group->members[i]));
  }
  return TDM_OK;
}

/* Waits until all members of this rank see all others. On failure notifies the other ranks, which
 * might otherwise wait without limit. */
static tdm_status await(const tdm_context *context, const tdm_group *group) {
  tdm_messenger *messenger = tdm_context_messenger(context);
  tdm_group_wait wait = {.what = "joining", .name = "the group", .group = group};
  uint64_t left_ns = 0;
  for (size_t i = 0; i < group->count; i++) {
    bool joined = !group->members[i];
    while (!joined) {
      const tdm_status status = group->devices[i]->engine->joined(group->members[i], &joined);
      if (status != TDM_OK && messenger) messenger->give_up(messenger, status);
      TDM_TRY(status);
      if (joined) break;
      if (messenger) TDM_TRY(messenger->check(messenger, &left_ns));
      if (messenger) TDM_TRY(messenger->check_group(messenger, &wait));
      const struct timespec pause = {.tv_nsec = JOIN_PAUSE_NS};
      (void)nanosleep(&pause, NULL);
    }
  }
  return TDM_OK;
}

static tdm_status join_alone(tdm_context *context, tdm_group *group) {
  tdm_device *first = group->devices[0];
  unsigned char key[TDM_ENGINE_KEY_BYTES] = {0};
  tdm_status status = first->engine->make_key(first, key);
  if (status == TDM_OK) status = begin(context, group, key);
  if (status == TDM_OK) status = await(context, group);
  group->joined = status == TDM_OK;
  if (status != TDM_OK) leave(group);
  return status;
}

/* Joins within one rank, whose threads may plan concurrently. */
static tdm_status join_once(tdm_context *context, tdm_group *group) {
  tdm_groups *groups = tdm_context_groups(context);
  (void)pthread_mutex_lock(&groups->mutex);
  const tdm_status status = group->joined ? TDM_OK : join_alone(context, group);
  (void)pthread_mutex_unlock(&groups->mutex);
  return status;
}

tdm_status tdm_group_join(tdm_context *context, tdm_group *group) {
  tdm_network *network = tdm_context_network(context);
  if (!network) return join_once(context, group);
  if (group->joined) return TDM_OK;
  tdm_device *first = group->devices[0];
  unsigned char key[TDM_ENGINE_KEY_BYTES] = {0};
  tdm_status status = TDM_OK;
  if (first->rank == tdm_context_rank(context)) status = first->engine->make_key(first, key);
  TDM_TRY(tdm_network_agree(network, status));
  TDM_TRY(tdm_network_pass(network, first->rank, -1, key, sizeof key));
  status = tdm_network_agree(network, begin(context, group, key));
  if (status == TDM_OK) status = tdm_network_agree(network, await(context, group));
  group->joined = status == TDM_OK;
  if (status != TDM_OK) leave(group);
  return status;
}
