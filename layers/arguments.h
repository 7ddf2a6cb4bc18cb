/* Arguments of composed layers: checks of dtypes and shapes when a layer is described, and of the
 * integers that a run is fed. Each message names the layer's function and name, the argument, what
 * was given and what is legal. A layer that is made of operations passes lengths, ids and targets
 * through tdm_argument_check before it computes with them, so that a wrong one is reported as the
 * layer's argument and not by an operation inside. */
#ifndef TANDEM_LAYERS_ARGUMENTS_H
#define TANDEM_LAYERS_ARGUMENTS_H

#include "tandem/graph/graph.h"

/* An argument of integers, and its legal range. */
typedef struct tdm_argument {
  const char *layer; /* the function without "tdm_": "ctc" */
  const char *name;  /* the node's */
  const char *what;  /* the argument: "input_lengths" */
  int64_t least;
  int64_t most;   /* with `like`, the size of its dimension is added */
  tdm_value like; /* invalid: most is the bound */
  int dimension;  /* of like, 0 or more */
  bool has_ignored;
  int64_t ignored; /* legal beside the range */
} tdm_argument;

/* Returns x, whose elements a run checks: INVALID_ARGUMENT names the layer, the argument, the first
 * illegal element, its position and the range. Fails at once, as the graph's error, unless x is
 * int32 or int64. */
tdm_value tdm_argument_check(tdm_graph *graph, const tdm_argument *argument, tdm_value x);

/* Each returns true if x is legal; otherwise the graph's error names layer, argument and what is
 * legal. layer: the function without "tdm_"; what: the argument. */
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
/* Of a layer with parameters: x has their dtype, which is floating. */
bool tdm_argument_has_parameter_dtype(tdm_graph *graph, const char *layer, const char *name,
                                      const char *what, tdm_value x);
bool tdm_argument_has_shape(tdm_graph *graph, const char *layer, const char *name, const char *what,
                            tdm_value x, const tdm_shape *expected);
/* A number; position: its place in a list, or -1. */
bool tdm_argument_is_within(tdm_graph *graph, const char *layer, const char *name, const char *what,
                            int64_t number, int position, int64_t least, int64_t most);
bool tdm_argument_is_probability(tdm_graph *graph, const char *layer, const char *name,
                                 const char *what, double number);

/* An argument that is computed with element by element. */
typedef struct tdm_operand {
  const char *what; /* "targets" */
  tdm_value value;
  bool may_be_integers; /* else of the dtype of the first operand, which is floating */
} tdm_operand;

/* Returns true if all operands are values of the graph, of legal dtypes, and of shapes that are
 * broadcast to one. Otherwise the graph's error names the layer and the operands. */
bool tdm_arguments_broadcast(tdm_graph *graph, const char *layer, const char *name,
                             const tdm_operand *operands, size_t count);

#endif
