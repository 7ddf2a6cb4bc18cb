/* Helpers for tests of graphs, plans and runs: small models whose placement is a parameter,
 * batches, and runs that must succeed. Invariant: all numbers come from seeds, so two equal models
 * with equal inputs give the same bits. */
#ifndef TANDEM_TESTS_GRAPH_SUPPORT_H
#define TANDEM_TESTS_GRAPH_SUPPORT_H

#include <string.h>

#include "tandem/tandem.h"
#include "tests/devices/support.h"

/* Creates a context with two cpu and two sim devices, links without cost. */
tdm_context *graph_context(void);
/* Creates such a context with this many devices of each kind. */
tdm_context *graph_context_of(int cpu_devices, int sim_devices);

/* ---- Models ---------------------------------------------------------------------------------- */

enum { MODEL_ROWS = 1000, MODEL_WIDTH = 10 };

/* ids (batch) -> "embedding" (1000, 10) on `first` -> "rnn", linear to 10, on `second` -> output
 * "scores"; cross-entropy "loss" with the input "targets" (batch). NULL: no placement. */
tdm_graph *seed_graph(tdm_context *context, const char *first, const char *second,
                      tdm_value *out_loss);

/* Creates a larger one: two hidden layers, the second of which is on `first` again, so that values
 * cross in both directions. */
tdm_graph *zigzag_graph(tdm_context *context, const char *first, const char *second,
                        tdm_value *out_loss);

/* Like seed_graph, with "tied" (10 to 10) on both devices between the two: one parameter, whose
 * copy on the device of its second reader must be refreshed. */
tdm_graph *tied_graph(tdm_context *context, const char *first, const char *second,
                      tdm_value *out_loss);

/* Creates a session that trains graph's loss with optimizer. Takes ownership of the reference to
 * graph. Other fields of options are kept; NULL: defaults. Fails the test if it is refused. */
tdm_session *train_session(tdm_graph *graph, tdm_value loss, tdm_optimizer optimizer,
                           const tdm_session_options *options);
/* Creates one without a loss, the same way. */
tdm_session *run_session(tdm_graph *graph, const tdm_session_options *options);

/* ---- Batches --------------------------------------------------------------------------------- */

/* Feeds of the models above. */
typedef struct test_batch {
  tdm_tensor *ids;
  tdm_tensor *targets;
  tdm_feed feeds[2]; /* "ids", "targets" */
} test_batch;

/* rows ids below MODEL_ROWS and targets below MODEL_WIDTH, drawn from seed. */
void test_batch_make(test_batch *batch, tdm_context *context, int64_t rows, uint64_t seed);
void test_batch_release(test_batch *batch);

/* One training step that must succeed; the loss. */
double train_once(tdm_session *session, const test_batch *batch);
/* `steps` of them on batches of `rows` rows, drawn from seeds 1, 2, ...; the last loss. */
double train_steps(tdm_session *session, int64_t rows, int steps);
/* Fetches output `name`, which must succeed; the caller releases it. */
tdm_tensor *run_once(tdm_session *session, const test_batch *batch, const char *name);
/* Output "y" of one run that is fed "x" (rows, width), the same numbers in [-1, 1) each time; the
 * caller releases it. */
tdm_tensor *run_on_uniform(tdm_session *session, int64_t rows, int64_t width);

/* ---- Comparing ------------------------------------------------------------------------------- */

/* Equal names, shapes and bits. */
void assert_same_state(const tdm_tensor_list *a, const tdm_tensor_list *b);
/* Returns everything in the store, including states of the optimizer; released by the caller. */
tdm_tensor_list *state_of(tdm_session *session);
void assert_same_tensor(const tdm_tensor *a, const tdm_tensor *b);

/* What `print` writes; freed by the caller. */
typedef tdm_status (*test_printer)(tdm_session *session, const char *what, tdm_plan_format format,
                                   FILE *out);
char *printed(tdm_session *session, test_printer print, const char *what, tdm_plan_format format);
tdm_status print_explain(tdm_session *session, const char *what, tdm_plan_format format, FILE *out);

#endif
