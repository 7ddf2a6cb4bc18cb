/* For tests: a layer whose kernel waits until it is released, so that a device is blocked for as
 * long as a test requires. Invariant: the code that has closed a clog opens it before it closes the
 * context. */
#ifndef TANDEM_TESTS_GRAPH_CLOGGED_H
#define TANDEM_TESTS_GRAPH_CLOGGED_H

#include <stdatomic.h>

#include "tests/graph/support.h"

typedef struct clog {
  _Atomic bool shut;
  _Atomic int passing; /* number of first executions that pass although the gate is shut */
  _Atomic int entered; /* executions that have begun */
} clog;

/* Registers the layer's kernel; once a context. */
void clog_register(tdm_context *context);
/* Returns x unchanged once the clog (which outlives the graph) is not shut. Differentiable: the
 * gradient is passed on unchanged and without a wait. */
tdm_value clog_layer(tdm_graph *graph, const char *name, tdm_value x, clog *mine);
/* Waits until `count` executions have begun, no longer than a minute. */
void clog_await(clog *mine, int count);

/* ids -> "embedding" on first -> clog on first -> "rnn" on second -> "scores", with a loss, as
 * seed_graph. */
tdm_graph *clogged_graph(tdm_context *context, const char *first, const char *second, clog *mine,
                         tdm_value *out_loss);

#endif
