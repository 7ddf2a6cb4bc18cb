/* A model whose states or parameters are sharded, and how its sessions train: for the tests of
 * these. For accelerators of TEST_KIND. */
#ifndef TANDEM_TESTS_GRAPH_COLLECTIVES_HOMES_MODEL_H
#define TANDEM_TESTS_GRAPH_COLLECTIVES_HOMES_MODEL_H

#include "graph/run/session.h"
#include "tests/graph/support.h"

enum { WIDTH = 64, LAYERS = 3, ROWS = 12, STEPS = 3 };

#define A(index) TEST_KIND ":" #index

extern tdm_context *homes_context; /* context of the test group */

int homes_begin_group(void **unused);
int homes_end_group(void **unused);

typedef struct homes_case {
  const char *devices;
  int layers; /* 0: LAYERS */
  int micro_batches;
  int depth;
  double clip_norm;
  double clip_value;
  tdm_parallel_sharding sharding;
  bool hands_out; /* one weight is an output, and the gradient of another is requested */
  tdm_store *store;
  bool deterministic;
  bool factored; /* Adafactor instead of Adam */
} homes_case;

/* Creates a session of a model that is replicated over devices. The other functions train STEPS of
 * it. */
tdm_session *homes_session(const homes_case *of);
void homes_train(tdm_session *session, int steps);
tdm_tensor_list *homes_trained_state(const homes_case *of);
/* Returns true if all its devices compute the same bits. GPUs round differently from the CPU. */
bool homes_have_one_arithmetic(const homes_case *of);

/* Returns the name of a parameter's or state's device. */
const char *homes_device_of(const tdm_session *session, const char *name);
/* Returns the refreshed bytes of the latest run. */
uint64_t homes_refreshed_bytes(tdm_session *session);
/* Each returns true if the node adds to a sum at home, or is a kernel of the backward pass. */
bool homes_is_added(const tdm_ir_node *node);
bool homes_is_computed(const tdm_ir_node *node);
/* Additions on queues for sums; fails the test where a kernel of the backward pass waits for
 * one. */
int homes_additions_beside(const tdm_plan *plan);

#endif
