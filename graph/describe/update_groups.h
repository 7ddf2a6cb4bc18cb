/* Which optimizer updates which parameter. Group 0 is the session's own optimizer, the others are
 * its parameter groups in their order. Invariant: patterns are checked against the graph when the
 * session is created, each names a parameter. */
#ifndef TANDEM_GRAPH_DESCRIBE_UPDATE_GROUPS_H
#define TANDEM_GRAPH_DESCRIBE_UPDATE_GROUPS_H

#include "core/allocate.h"
#include "tandem/graph/graph.h"

#define TDM_MAX_UPDATE_GROUPS (1 + TDM_MAX_PARAMETER_GROUPS)

typedef struct tdm_update_groups {
  size_t count;                                    /* 0: the session does not train */
  tdm_optimizer optimizers[TDM_MAX_UPDATE_GROUPS]; /* rule NULL: the group is not trained */
  const char *patterns[TDM_MAX_UPDATE_GROUPS];     /* of group 0: NULL, what is left */
} tdm_update_groups;

/* Copies options' optimizers, and their patterns into region. INVALID_ARGUMENT for a group that
 * has none, too many groups, or groups without an optimizer of the session. */
tdm_status tdm_update_groups_fill(tdm_update_groups *groups, tdm_region *region,
                                  const tdm_session_options *options) TDM_WARN_UNUSED;
/* INVALID_ARGUMENT, naming the first pattern that no trainable parameter of graph goes by. */
tdm_status tdm_update_groups_check(const tdm_update_groups *groups,
                                   const tdm_graph *graph) TDM_WARN_UNUSED;

/* Finite, and not negative. */
bool tdm_is_learning_rate(double number);
/* From 0 on, and less than 1. */
bool tdm_is_momentum(double number);
/* Has the group an optimizer whose momentum can be set? One made with a momentum of 0 keeps no
 * average that a later one could be of. */
bool tdm_update_group_has_momentum(const tdm_update_groups *groups, size_t group);

/* The number of the first group that a parameter of this path belongs to, 0 where none does. */
size_t tdm_update_group_of(const tdm_update_groups *groups, const char *path);

#endif
