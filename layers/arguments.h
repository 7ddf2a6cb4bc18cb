/* Arguments of composed layers: checks of dtypes and shapes when a layer is described, and checks
 * of integer inputs in each run. Each message names the layer's function and name, the argument,
 * its value and the legal values. A composed layer passes lengths, ids and targets through
 * tdm_argument_check before it computes with them. So an illegal one is reported as the layer's
 * argument, and not by an internal operation. */
#ifndef TANDEM_LAYERS_ARGUMENTS_H
#define TANDEM_LAYERS_ARGUMENTS_H

#include "tandem/graph/graph.h"

/* An integer argument and its legal range. */
typedef struct tdm_argument {
  const char *layer; /* the function without "tdm_": "ctc" */
  const char *name;  /* name of the node */
  const char *what;  /* name of the argument: "input_lengths" */
  int64_t least;
  int64_t most;   /* maximum; with `like`, the size of its dimension is added */
  tdm_value like; /* invalid: `most` is the maximum */
  int dimension;  /* dimension of like, 0 or more */
  bool has_ignored;
  int64_t ignored; /* additional legal value */
} tdm_argument;

/* Returns x, whose elements each run checks. A failed check is INVALID_ARGUMENT and names the
 * layer, the argument, the first illegal element, its position and the range. Fails immediately,
 * with the graph's error, unless x is int32 or int64. */
tdm_value tdm_argument_check(tdm_graph *graph, const tdm_argument *argument, tdm_value x);

/* Each returns true if x is legal; otherwise the graph's error names the layer, the argument and
 * the legal values. layer: the function without "tdm_"; what: the argument. */
bool tdm_argument_is_value(tdm_graph *graph, const char *layer, const char *name, const char *what,
                           tdm_value x);
bool tdm_argument_is_floating(tdm_graph *graph, const char *layer, const char *name,
                              const char *what, tdm_value x);
bool tdm_argument_has_dtype(tdm_graph *graph, const char *layer, const char *name, const char *what,
                            tdm_value x, tdm_dtype dtype);
bool tdm_argument_has_integers(tdm_graph *graph, const char *layer, const char *name,
                               const char *what, tdm_value x);
bool tdm_argument_has_rank(tdm_graph *graph, const char *layer, const char *name, const char *what,
                           tdm_value x, int least, int most);
/* Also requires that x has the parameters' dtype, which is floating. */
bool tdm_argument_has_parameter_dtype(tdm_graph *graph, const char *layer, const char *name,
                                      const char *what, tdm_value x);
bool tdm_argument_has_shape(tdm_graph *graph, const char *layer, const char *name, const char *what,
                            tdm_value x, const tdm_shape *expected);
/* number: from least to most; position: its index in a list, or -1. */
bool tdm_argument_is_within(tdm_graph *graph, const char *layer, const char *name, const char *what,
                            int64_t number, int position, int64_t least, int64_t most);
bool tdm_argument_is_probability(tdm_graph *graph, const char *layer, const char *name,
                                 const char *what, double number);

/* An argument of an elementwise computation. */
typedef struct tdm_operand {
  const char *what; /* "targets" */
  tdm_value value;
  bool may_be_integers; /* otherwise it has the floating dtype of the first operand */
} tdm_operand;

/* Returns true if all operands are values of the graph with legal dtypes, and their shapes can be
 * broadcast to one shape. Otherwise the graph's error names the layer and the operands. */
bool tdm_arguments_broadcast(tdm_graph *graph, const char *layer, const char *name,
                             const tdm_operand *operands, size_t count);

#endif
