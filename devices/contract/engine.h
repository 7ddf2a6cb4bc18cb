/* Groups of devices, of one rank or of several, that sum and send on queues of their own, instead
 * of through their hosts. An engine is a kind's table for such communication (NCCL between GPUs).
 * Invariant: all ranks have the same groups, joined in the same order, and calls for a group's
 * members are made in plan order. */
#ifndef TANDEM_DEVICES_CONTRACT_ENGINE_H
#define TANDEM_DEVICES_CONTRACT_ENGINE_H

#include "devices/contract/device.h"

#define TDM_ENGINE_KEY_BYTES 128 /* size of the key by which members of a group find each other */

/* A device's membership of a group, private to the engine. */
typedef struct tdm_member tdm_member;

/* The functions of an engine. Calls of different devices may overlap; calls of one device do not.
 * None of them waits for another rank. */
typedef struct tdm_engine {
  /* Creates the key of a group; called on one rank. */
  tdm_status (*make_key)(tdm_device *device, unsigned char *out_key);
  /* Begins to join as member `index` of `count`, which may be on any ranks. leave ends the
   * membership. */
  tdm_status (*join)(tdm_device *device, const unsigned char *key, int index, int count,
                     tdm_member **out_member);
  /* Sets *out_joined if all other members have joined too. Fails if they never will. */
  tdm_status (*joined)(tdm_member *member, bool *out_joined);
  /* Leaves in any state without waiting for another rank, and frees. NULL is legal. The device's
   * queues have stopped, or the group was never used. */
  void (*leave)(tdm_member *member);
} tdm_engine;

/* A command of a group (tdm_message.group) identifies its device by the index in this list. */
struct tdm_group {
  struct tdm_group *next;
  size_t count;
  tdm_device **devices; /* (count), in the context's order */
  tdm_member **members; /* (count): NULL for devices of other ranks, and until all have joined */
  uint32_t *slots;      /* (count): number of the device among its rank's devices with an engine */
  bool joined;
  _Atomic(tdm_member *) lost; /* the first failed member of this rank; NULL: none */
};

/* A command of a group in progress, for the thread that monitors it. */
struct tdm_group_wait {
  const char *what; /* "the sum" */
  const tdm_group *group;
  bool between; /* only the two members in `members` take part; otherwise all members do */
  uint32_t members[2];
  uint64_t position; /* increasing position among all group commands, the same on all ranks; 0: not
                      * a command of a plan, and all members are known to wait */
  size_t bytes;
  uint64_t step;    /* number of training steps before it */
  const char *name; /* name of the node; NULL: none */
  uint64_t looked_ns;
  uint64_t stalled_ns; /* accumulated time in which only the engine delayed it */
};

/* Computes the position from the run's number, which is the same on all ranks, and the command's
 * place in plan order. */
static inline uint64_t tdm_group_position(const tdm_flight *flight, const tdm_message *message) {
  return flight->number << 32 | message->order;
}

#endif
