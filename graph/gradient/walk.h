/* Shared by gradient.c (the walk), adjoints.c (sums), asked.c (requested gradients) and update.c
 * (the optimizer's part). */
#ifndef TANDEM_GRAPH_GRADIENT_WALK_H
#define TANDEM_GRAPH_GRADIENT_WALK_H

#include "graph/describe/update_groups.h"
#include "graph/ir/gradient_rule.h"
#include "graph/ir/rewriter.h"

typedef struct tdm_parameter_gradient {
  uint32_t parameter;
  uint8_t group; /* update group of the parameter (graph/describe/update_groups.h) */
  bool trained;  /* the walk trains and the group has an optimizer */
  tdm_adjoint gradient;
} tdm_parameter_gradient;

/* One backward walk from a loss. */
typedef struct tdm_walk {
  tdm_gradient rule; /* the part that rules use */
  uint32_t loss;
  /* Nodes are appended before this one, which reads a gradient; NULL: at the end. */
  tdm_ir_node *before;
  uint8_t *asked;                     /* per forward value: a node requests its gradient */
  uint32_t *first_readers;            /* per forward value: the first node that reads it */
  size_t value_count;                 /* number of forward values */
  int alike_ranks;                    /* number of identical ranks; 0 or 1: one */
  bool deterministic;                 /* the order of sums does not depend on placement */
  bool any_device;                    /* the same, for the present value */
  tdm_parameter_gradient *parameters; /* per persistent; parameter 0: none */
  size_t parameter_count; /* number of parameters; later values are states that updates declare */
} tdm_walk;

/* Returns where the backward pass inserts: before the first node that reads a gradient of its loss,
 * or at the end (NULL). */
static inline tdm_insertion tdm_adjoint_insertion(tdm_ir_node *before, const char *name,
                                                  int16_t device, int micro) {
  return (tdm_insertion){.before = before,
                         .name = name,
                         .device = device,
                         .part.micro = (uint16_t)micro,
                         .role = TDM_ROLE_GRADIENT};
}

/* Inserts a tensor filled with the number, with the shape and dtype of `like`, whose contents it
 * does not read. Returns 0 with the graph's error. */
uint32_t tdm_insert_constant(tdm_graph *graph, const tdm_insertion *at, double number,
                             uint32_t like);
/* Sums all contributions to the adjoint of a value so far, on the value's own device. If there are
 * none, dense and rows are 0. name: the name of the appended nodes. */
tdm_status tdm_sum_adjoints(tdm_walk *walk, uint32_t value, const char *name,
                            tdm_adjoint *out_adjoint) TDM_WARN_UNUSED;

/* Returns a sparse adjoint as a dense value, with zeros in other rows. */
uint32_t tdm_spread_adjoint(tdm_walk *walk, uint32_t value, const char *name,
                            const tdm_adjoint *adjoint);

/* ---- What nodes ask for (asked.c) ------------------------------------------------------------ */

/* Marks values whose gradient, of this loss, a node requests, as asked and wanted. Finds the node
 * before which the walk inserts. */
void tdm_mark_asked(tdm_walk *walk);
/* Passes the complete adjoint of a value to all nodes that request it; an empty adjoint counts as
 * zeros. */
tdm_status tdm_give_asked(tdm_walk *walk, uint32_t value,
                          const tdm_adjoint *adjoint) TDM_WARN_UNUSED;
/* Ends a walk: requests without an adjoint receive zeros. */
tdm_status tdm_end_asked(tdm_walk *walk) TDM_WARN_UNUSED;

struct tdm_update {
  tdm_graph *graph;
  const tdm_optimizer *optimizer;
  tdm_parameter_gradient *items;
  size_t count;
};

/* Appends the update phase of training: what forward nodes persist, then the optimizer's
 * updates. */
struct tdm_training; /* gradient.h */
tdm_status tdm_append_updates(tdm_walk *walk, const struct tdm_training *training,
                              tdm_parameter_gradient *items, size_t count) TDM_WARN_UNUSED;

#endif
