/* Groups of devices that sum together on queues of their own (contract/engine.h): which devices can
 * be one, and how all ranks join one. Invariant: what decides is known alike on all ranks; a
 * context has one group of the same devices, which lives as long as it. */
#ifndef TANDEM_DEVICES_GROUPS_GROUPS_H
#define TANDEM_DEVICES_GROUPS_GROUPS_H

#include "devices/context/context.h"
#include "devices/contract/engine.h"

typedef struct tdm_groups tdm_groups;

#define TDM_GROUP_REASON_BYTES 256

tdm_status tdm_groups_create(tdm_context *context, tdm_groups **out_groups) TDM_WARN_UNUSED;
/* Leaves all groups; the devices' threads have stopped. NULL is legal. */
void tdm_groups_destroy(tdm_groups *groups);

/* Can these devices (count), by their numbers in the context, be a group? By which engine, as "NCCL
 * 2.28.9"; NULL: they cannot, and text (TDM_GROUP_REASON_BYTES) says why, "" where no kind of
 * theirs has an engine. Alike on all ranks. */
const char *tdm_group_engine(tdm_context *context, const int16_t *devices, size_t count,
                             char *text);
/* Fills `exchanges` of the context's devices: where the kind's engine is there, of one version on
 * all devices of all ranks whose kinds have such a thing, and no other device is on the same GPU.
 */
void tdm_groups_find_exchanges(tdm_context *context);
/* The group of these, of which tdm_group_engine has answered an engine; NULL: no memory. Any
 * thread. */
tdm_group *tdm_group_find(tdm_context *context, const int16_t *devices, size_t count);
/* Joins it, together with all other ranks, which call it for the same groups in the same order;
 * returns when all devices have joined, on all ranks alike. Nothing for one that is joined. Where
 * there is one rank any thread may call it. */
tdm_status tdm_group_join(tdm_context *context, tdm_group *group) TDM_WARN_UNUSED;

#endif
