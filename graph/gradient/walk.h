/* Shared by gradient.c (the walk), adjoints.c (sums), asked.c (gradients that nodes ask for) and
 * update.c (the optimizer's side). */
#ifndef TANDEM_GRAPH_GRADIENT_WALK_H
#define TANDEM_GRAPH_GRADIENT_WALK_H

#include "graph/describe/update_groups.h"
#include "graph/ir/gradient_rule.h"
#include "graph/ir/rewriter.h"

typedef struct tdm_parameter_gradient {
  uint32_t parameter;
  uint8_t group; /* of parameters (graph/describe/update_groups.h) */
  bool trained;  /* its group has an optimizer, and the walk is the one that trains */
  tdm_adjoint gradient;
} tdm_parameter_gradient;

/* One walk back from a loss. */
typedef struct tdm_walk {
  tdm_gradient rule; /* what rules see of it */
  uint32_t loss;
  /* What is appended stands before it, which reads a gradient; NULL: behind all. */
  tdm_ir_node *before;
  uint8_t *asked;                     /* per forward value: a node asks for its gradient */
  uint32_t *first_readers;            /* per forward value: the earliest node that reads it */
  size_t value_count;                 /* of forward values */
  int alike_ranks;                    /* that the plan is one of; 0 or 1: none */
  bool deterministic;                 /* where consumers are does not change the order of sums */
  bool any_device;                    /* so, for the value that is being summed */
  tdm_parameter_gradient *parameters; /* per persistent; parameter 0: none */
  size_t parameter_count;             /* updates declare states behind these */
} tdm_walk;

/* Where the backward pass inserts: before the first node that reads a gradient of its loss, or
 * behind all (NULL). */
static inline tdm_insertion tdm_adjoint_insertion(tdm_ir_node *before, const char *name,
                                                  int16_t device, int micro) {
  return (tdm_insertion){.before = before,
                         .name = name,
                         .device = device,
                         .micro = (uint16_t)micro,
                         .role = TDM_ROLE_GRADIENT};
}

/* Inserts a value of that number throughout, of the shape and dtype of `like`, which it does not
 * read; 0 with the graph's error. */
uint32_t tdm_insert_constant(tdm_graph *graph, const tdm_insertion *at, double number,
                             uint32_t like);
/* The whole adjoint of a value on its own device, of all contributions so far; dense and rows 0
 * when nothing flows. name: whose it is. */
tdm_status tdm_sum_adjoints(tdm_walk *walk, uint32_t value, const char *name,
                            tdm_adjoint *out_adjoint) TDM_WARN_UNUSED;

/* value among zeros: a sparse adjoint as a dense one. */
uint32_t tdm_spread_adjoint(tdm_walk *walk, uint32_t value, const char *name,
                            const tdm_adjoint *adjoint);

/* ---- What nodes ask for (asked.c) ---- */

/* Marks the values whose gradient some node asks for, of this loss, as asked and wanted, and finds
 * what the walk is inserted before. */
void tdm_mark_asked(tdm_walk *walk);
/* Gives the adjoint of a value, which is its whole one, to all nodes that ask for it; nothing in
 * it: zeros. */
tdm_status tdm_give_asked(tdm_walk *walk, uint32_t value,
                          const tdm_adjoint *adjoint) TDM_WARN_UNUSED;
/* Ends a walk: who has got nothing gets zeros. */
tdm_status tdm_end_asked(tdm_walk *walk) TDM_WARN_UNUSED;

struct tdm_update {
  tdm_graph *graph;
  const tdm_optimizer *optimizer;
  tdm_parameter_gradient *items;
  size_t count;
};

/* Appends the update phase of training: what forward nodes persist, then what the optimizer makes
 * of the gradients found. */
struct tdm_training; /* gradient.h */
tdm_status tdm_append_updates(tdm_walk *walk, const struct tdm_training *training,
                              tdm_parameter_gradient *items, size_t count) TDM_WARN_UNUSED;

#endif
