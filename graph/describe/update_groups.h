/* Assigns optimizers to parameters. Group 0 is the session's own optimizer; the others are its
 * parameter groups in order. Invariant: patterns are checked against the graph when the session is
 * created; each matches a parameter. */
#ifndef TANDEM_GRAPH_DESCRIBE_UPDATE_GROUPS_H
#define TANDEM_GRAPH_DESCRIBE_UPDATE_GROUPS_H

#include "core/allocate.h"
#include "tandem/graph/graph.h"

#define TDM_MAX_UPDATE_GROUPS (1 + TDM_MAX_PARAMETER_GROUPS)

typedef struct tdm_update_groups {
  size_t count;                                    /* 0: the session does not train */
  tdm_optimizer optimizers[TDM_MAX_UPDATE_GROUPS]; /* rule NULL: the group is not trained */
  const char *patterns[TDM_MAX_UPDATE_GROUPS];     /* group 0: NULL, for all other parameters */
} tdm_update_groups;

/* Copies the options' optimizers, and their patterns into region. Fails with INVALID_ARGUMENT for a
 * group without patterns, for too many groups, and for groups if the session has no optimizer. */
tdm_status tdm_update_groups_fill(tdm_update_groups *groups, tdm_region *region,
                                  const tdm_session_options *options) TDM_WARN_UNUSED;
/* Fails with INVALID_ARGUMENT, naming the first pattern that matches no trainable parameter of the
 * graph. */
tdm_status tdm_update_groups_check(const tdm_update_groups *groups,
                                   const tdm_graph *graph) TDM_WARN_UNUSED;

/* Returns true if the number is finite and not negative. */
bool tdm_is_learning_rate(double number);
/* Returns true if the number is at least 0 and less than 1. */
bool tdm_is_momentum(double number);
/* Returns true if the group has an optimizer whose momentum can be set. An optimizer that was
 * created with momentum 0 has no moving average, so its momentum cannot be set. */
bool tdm_update_group_has_momentum(const tdm_update_groups *groups, size_t group);

/* Returns the first group whose patterns match the path, or 0 if none does. */
size_t tdm_update_group_of(const tdm_update_groups *groups, const char *path);

#endif
