/* Random graphs of integer counters: operations of this test whose values are small integers in
 * float64, so that every sum is exact and any order of evaluation gives one result. An oracle
 * evaluates the same graph, its backward pass and its updates on one thread, sharing no code with
 * the library. Kernels pause at random, so that a value whose event is not waited for is probably
 * missing. */
#ifndef TANDEM_TESTS_GRAPH_RUN_COUNTERS_COUNTER_MODEL_H
#define TANDEM_TESTS_GRAPH_RUN_COUNTERS_COUNTER_MODEL_H

#include "tests/graph/support.h"

enum {
  COUNTER_INPUTS = 2,
  COUNTER_PARAMETERS = 3,
  COUNTER_MOST_NODES = 64,
  COUNTER_MOST_OPERANDS = 8,
  COUNTER_MOST_LENGTH = 48,
  COUNTER_OUTPUTS = 4,
  COUNTER_FIRST_NODE = COUNTER_INPUTS + COUNTER_PARAMETERS,
  COUNTER_MOST_VALUES = COUNTER_FIRST_NODE + COUNTER_MOST_NODES,
};

typedef struct counter_attributes {
  int64_t length; /* length of the output; 0: a scalar, which sums all of every operand */
  int64_t multiplier;
  int64_t addend;
  int64_t operand; /* operand whose gradient it is */
} counter_attributes;

typedef struct counter_node {
  const char *device;
  counter_attributes attributes;
  int operand_count;
  int operands[COUNTER_MOST_OPERANDS]; /* values: inputs, then parameters, then nodes */
} counter_node;

typedef struct counter_model {
  int64_t lengths[COUNTER_MOST_VALUES]; /* length of each value; the loss counts as 1 */
  counter_node nodes[COUNTER_MOST_NODES];
  int node_count;               /* the last is the loss */
  int outputs[COUNTER_OUTPUTS]; /* values */
} counter_model;

/* Creates a context with three cpu devices, two of which models use, and two sim devices, with the
 * counter kernels. delay_seed 0: no delays in queues. */
tdm_context *counter_context(uint64_t delay_seed);

/* Sets whether kernels pause at random; initially they do. */
void counter_pause_at_random(bool pauses);

/* Draws a model with `node_count` nodes and a loss over up to `device_count` (1 to 4) devices. */
void counter_model_draw(counter_model *model, uint64_t seed, int node_count, int device_count);
/* Creates the session that runs the model, and trains it if `train`. */
tdm_session *counter_session(const counter_model *model, tdm_context *context, int depth,
                             bool trains);

/* Values of one evaluation by the oracle. */
typedef struct counter_state {
  double values[COUNTER_MOST_VALUES][COUNTER_MOST_LENGTH];
} counter_state;

/* Fresh parameters, as the session has them. */
void counter_oracle_begin(const counter_model *model, counter_state *state);
/* Draws inputs from seed and evaluates; parameters stay. */
void counter_oracle_run(const counter_model *model, uint64_t seed, counter_state *state);
/* The same, then the backward pass and the updates of the parameters; values stay as they were
 * before the updates. */
void counter_oracle_train(const counter_model *model, uint64_t seed, counter_state *state);

/* The feeds and results of one run. */
typedef struct counter_run {
  tdm_feed feeds[COUNTER_INPUTS];
  tdm_fetch fetches[COUNTER_OUTPUTS];
  double loss;
} counter_run;

void counter_run_begin(counter_run *run, tdm_context *context, const counter_model *model,
                       uint64_t seed);
void counter_run_end(counter_run *run);
/* Returns true if the fetches, and the loss of a training run, equal the oracle's. */
bool counter_run_agrees(const counter_run *run, const counter_model *model,
                        const counter_state *state, bool trained);
/* Draws new parameters, for the store and for the oracle: their copies on other devices are old. */
void counter_load(tdm_session *session, const counter_model *model, uint64_t seed,
                  counter_state *state);
/* Returns true if the store's parameters equal the oracle's. */
bool counter_store_agrees(tdm_session *session, const counter_model *model,
                          const counter_state *state);

#endif
