/* Shared by gradient.c (the walk), adjoints.c (sums), asked.c (gradients that nodes ask for) and
 * update.c (the optimizer's side). */
#ifndef TANDEM_GRAPH_PASSES_GRADIENT_H
#define TANDEM_GRAPH_PASSES_GRADIENT_H

#include "graph/ir/rewriter.h"
#include "graph/passes/passes.h"

/* One contribution to an adjoint. Dense: dense != 0; sparse: rows, indices, count; added: the same,
 * and the adjoint is dense: the rows are added to what other micro-batches contribute. */
typedef struct tdm_adjoint {
  uint32_t dense;
  uint32_t rows;
  uint32_t indices;
  uint32_t count;
  bool added;
  int16_t device;
  uint16_t replica; /* of the consumer; 0: it is in no replica */
  uint16_t micro;   /* micro-batch of the consumer, from 1; 0: it works on the whole */
  uint32_t next;    /* index in the list, 0: last; earlier consumers stand first */
} tdm_adjoint;

typedef struct tdm_parameter_gradient {
  uint32_t parameter;
  uint8_t group; /* of parameters (graph/describe/update_groups.h) */
  bool trained;  /* its group has an optimizer, and the walk is the one that trains */
  tdm_adjoint gradient;
} tdm_parameter_gradient;

struct tdm_gradient {
  tdm_graph *graph;
  uint32_t loss;
  tdm_ir_node
      *before; /* what is appended stands before it: it reads a gradient; NULL: behind all */
  const tdm_ir_node *node;            /* whose rule is asked */
  uint32_t *heads;                    /* per forward value: its first contribution, 0: none */
  uint8_t *wanted;                    /* per forward value */
  uint8_t *asked;                     /* per forward value: a node asks for its gradient */
  uint32_t *first_readers;            /* per forward value: the earliest node that reads it */
  size_t value_count;                 /* of forward values */
  int alike_ranks;                    /* that the plan is one of; 0 or 1: none */
  bool deterministic;                 /* where consumers are does not change the order of sums */
  bool any_device;                    /* so, for the value that is being summed */
  tdm_parameter_gradient *parameters; /* per persistent; parameter 0: none */
  size_t parameter_count;             /* updates declare states behind these */
  TDM_ARRAY(tdm_adjoint) adjoints;    /* index 0 unused */
  uint32_t d_outputs[TDM_KERNEL_MAX_OUTPUTS];
  tdm_status status; /* of appending inside rules that return OK */
};

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
tdm_status tdm_sum_adjoints(tdm_gradient *gradient, uint32_t value, const char *name,
                            tdm_adjoint *out_adjoint) TDM_WARN_UNUSED;

/* value among zeros: a sparse adjoint as a dense one. */
uint32_t tdm_spread_adjoint(tdm_gradient *gradient, uint32_t value, const char *name,
                            const tdm_adjoint *adjoint);

/* ---- What nodes ask for (asked.c) ---- */

/* Marks the values whose gradient some node asks for, of this loss, as asked and wanted, and finds
 * what the walk is inserted before. */
void tdm_mark_asked(tdm_gradient *gradient);
/* Gives the adjoint of a value, which is its whole one, to all nodes that ask for it; nothing in
 * it: zeros. */
tdm_status tdm_give_asked(tdm_gradient *gradient, uint32_t value,
                          const tdm_adjoint *adjoint) TDM_WARN_UNUSED;
/* Ends a walk: who has got nothing gets zeros. */
tdm_status tdm_end_asked(tdm_gradient *gradient) TDM_WARN_UNUSED;

struct tdm_update {
  tdm_graph *graph;
  const tdm_optimizer *optimizer;
  tdm_parameter_gradient *items;
  size_t count;
};

/* Appends the update phase of training: what forward nodes persist, then what the optimizer makes
 * of the gradients found. */
tdm_status tdm_append_updates(tdm_gradient *gradient, const tdm_training *training,
                              tdm_parameter_gradient *items, size_t count) TDM_WARN_UNUSED;

#endif
