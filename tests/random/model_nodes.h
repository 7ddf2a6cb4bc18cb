/* Shared by drawing a model (model_draw.c) and drawing a node of its body (model_nodes.c). */
#ifndef TANDEM_TESTS_RANDOM_MODEL_NODES_H
#define TANDEM_TESTS_RANDOM_MODEL_NODES_H

#include "tests/random/model.h"

/* Begins a node, which is added only if node_end returns true. */
random_node *node_begin(random_model *it, node_kind kind);
int node_add_value(random_model *it, random_node *made, const extent *shape);
int node_add_parameter(random_model *it, random_node *made, const char *name, const extent *shape);
bool node_end(random_model *it, random_node *made);

/* Returns a floating value of a rank in this range, -1 if none; prefers recent ones. */
int pick_value(draw *stream, const random_model *it, int least_rank, int most_rank);
/* A dimension that is not the batch; -1: there is none. */
int pick_dimension(draw *stream, const extent *shape);
bool extents_equal(const extent *a, const extent *b);
bool extents_broadcast(const extent *a, const extent *b, extent *out);

/* Adds a node of a random kind, if it fits. */
void node_draw(draw *stream, random_model *it);
/* Adds a scalar of value: a loss against something of its shape, or the sum of its elements. */
int term_draw(draw *stream, random_model *it, int value);

/* Draws a node of a model of smooth layers only. */
void real_node_draw(draw *stream, random_model *it);
/* Likewise, of layers along a dimension that may be the batch (model_rows.c). */
void rows_node_draw(draw *stream, random_model *it);
/* Moves the batch of an input to another dimension, sometimes. */
void rows_turn_input(draw *stream, extent *shape);
/* Adds a concatenation along any dimension, the batch too, if it fits. */
bool rows_joined_draw(draw *stream, random_model *it);
/* Adds a scalar of a parameter that no row reaches; -1: there is none. */
int rows_penalty_draw(draw *stream, random_model *it);

/* ---- Nodes of wider models (model_wider.c) --------------------------------------------------- */

bool wider_node_draw(draw *stream, random_model *it);
/* Adds a loss of a value, and a gradient of it for others to read, if they fit. */
bool wider_gradient_draw(draw *stream, random_model *it);
/* Values that are kept from run to run, before the body. */
void wider_begin_draw(draw *stream, random_model *it);
/* Draws the nodes after the loss: its gradients, and reads and writes of kept values; and groups of
 * parameters. */
void wider_end_draw(draw *stream, random_model *it);

#endif
