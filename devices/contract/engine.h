/* Devices, of one rank or of all, that sum together and send to one another on queues of their own,
 * rather than through their hosts: groups, and the table of what a kind makes them by (NCCL between
 * GPUs). Invariant: all ranks have the same groups, joined in the same order, and a group's members
 * are called in plan order. */
#ifndef TANDEM_DEVICES_CONTRACT_ENGINE_H
#define TANDEM_DEVICES_CONTRACT_ENGINE_H

#include "devices/contract/device.h"

#define TDM_ENGINE_KEY_BYTES 128 /* of what goes round, by which members find each other */

/* A device's place in a group; the engine's own. */
typedef struct tdm_member tdm_member;

/* What a kind offers. Calls of different devices may overlap; those of one device do not, and none
 * of them waits for another rank. */
typedef struct tdm_engine {
  /* On one rank, for all of a group. */
  tdm_status (*make_key)(tdm_device *device, unsigned char *out_key);
  /* Begins to join, as member `index` of `count`, which may be on any ranks; ended by leave. */
  tdm_status (*join)(tdm_device *device, const unsigned char *key, int index, int count,
                     tdm_member **out_member);
  /* Have all the others joined too? Fails where they never will. */
  tdm_status (*joined)(tdm_member *member, bool *out_joined);
  /* Whatever its state: waits for no other rank, and frees. NULL is legal. The device's queues have
   * stopped, or the group was never used. */
  void (*leave)(tdm_member *member);
} tdm_engine;

/* A command of a group (tdm_message.group) names its device by the place in this list. */
struct tdm_group {
  struct tdm_group *next;
  size_t count;
  tdm_device **devices; /* (count), in the context's order */
  tdm_member **members; /* (count): NULL for those of other ranks, and until all have joined */
  uint32_t *slots;      /* (count): which of its rank's devices that have an engine each is */
  bool joined;
  _Atomic(tdm_member *) lost; /* the first of this rank's that has failed; NULL: none */
};

/* A command of a group that is under way, for who looks after it. */
struct tdm_group_wait {
  const char *what; /* "the sum" */
  const tdm_group *group;
  bool between; /* only these two of its members; else all */
  uint32_t members[2];
  uint64_t position; /* in the order of all commands of groups, alike on all ranks; only grows; 0:
                        of none, and all are known to wait */
  size_t bytes;
  uint64_t step;    /* how many of training there were before */
  const char *name; /* of the node; NULL: it has none */
  uint64_t looked_ns;
  uint64_t stalled_ns; /* for so long nothing but the engine has kept it */
};

/* Runs have numbers, alike on all ranks, and commands of one run theirs, in plan order. */
static inline uint64_t tdm_group_position(const tdm_flight *flight, const tdm_message *message) {
  return flight->number << 32 | message->order;
}

#endif
