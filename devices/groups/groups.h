/* Groups of devices that communicate on queues of their own (contract/engine.h): which devices can
 * form one, and how all ranks join it. Invariant: decisions use only data that all ranks have. A
 * context has at most one group of the same devices, which lives as long as the context. */
#ifndef TANDEM_DEVICES_GROUPS_GROUPS_H
#define TANDEM_DEVICES_GROUPS_GROUPS_H

#include "devices/context/context.h"
#include "devices/contract/engine.h"

typedef struct tdm_groups tdm_groups;

#define TDM_GROUP_REASON_BYTES 256

tdm_status tdm_groups_create(tdm_context *context, tdm_groups **out_groups) TDM_WARN_UNUSED;
/* Leaves all groups. The devices' threads have stopped. NULL is legal. */
void tdm_groups_destroy(tdm_groups *groups);

/* Returns the engine, such as "NCCL 2.28.9", if these devices (count), given by index in the
 * context, can form a group. Otherwise returns NULL and writes the reason to text
 * (TDM_GROUP_REASON_BYTES), or "" if none of their kinds supports an engine. The result is the same
 * on all ranks. */
const char *tdm_group_engine(tdm_context *context, const int16_t *devices, size_t count,
                             char *text);
/* Sets `exchanges` of the context's devices. It requires that the kind's engine is available in one
 * version on all such devices of all ranks, and that no other device uses the same GPU. */
void tdm_groups_find_exchanges(tdm_context *context);
/* Returns the group of devices for which tdm_group_engine returned an engine. Returns NULL if
 * memory is short. Any thread. */
tdm_group *tdm_group_find(tdm_context *context, const int16_t *devices, size_t count);
/* Joins the group together with all other ranks, which call it for the same groups in the same
 * order. Returns when all devices have joined, with the same result on all ranks. Does nothing for
 * a joined group. In a job of one rank any thread may call it. */
tdm_status tdm_group_join(tdm_context *context, tdm_group *group) TDM_WARN_UNUSED;

#endif
