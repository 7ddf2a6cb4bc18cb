/* The oracle, which executes on one thread all nodes in order, then their gradients in reverse
 * order, then the updates. */
#include "tests/graph/run/counters/counter_model.h"
#include "tests/graph/run/counters/counter_rules.h"

void counter_oracle_begin(const counter_model *model, counter_state *state) {
  memset(state, 0, sizeof *state);
  for (int i = 0; i < COUNTER_PARAMETERS; i++)
    for (int64_t j = 0; j < model->lengths[COUNTER_INPUTS + i]; j++)
      state->values[COUNTER_INPUTS + i][j] = COUNTER_START + i;
}

void counter_oracle_run(const counter_model *model, uint64_t seed, counter_state *state) {
  for (int i = 0; i < COUNTER_INPUTS; i++)
    counter_draw_input(seed, i, model->lengths[i], state->values[i]);
  for (int n = 0; n < model->node_count; n++) {
    const counter_node *node = &model->nodes[n];
    double *out = state->values[COUNTER_FIRST_NODE + n];
    for (int64_t i = 0; i < model->lengths[COUNTER_FIRST_NODE + n]; i++) {
      uint64_t sum = 0;
      for (int k = 0; k < node->operand_count; k++) {
        const int operand = node->operands[k];
        sum += counter_take(state->values[operand], model->lengths[operand],
                            node->attributes.length, i, k);
      }
      out[i] = counter_mix(sum, node->attributes.multiplier, node->attributes.addend);
    }
  }
}

void counter_oracle_train(const counter_model *model, uint64_t seed, counter_state *state) {
  counter_oracle_run(model, seed, state);
  static _Thread_local counter_state adjoints;
  memset(&adjoints, 0, sizeof adjoints);
  adjoints.values[COUNTER_FIRST_NODE + model->node_count - 1][0] = 1;
  for (int n = model->node_count; n-- > 0;) {
    const counter_node *node = &model->nodes[n];
    const double *d_out = adjoints.values[COUNTER_FIRST_NODE + n];
    const int64_t length = model->lengths[COUNTER_FIRST_NODE + n];
    for (int k = 0; k < node->operand_count; k++) {
      const int operand = node->operands[k];
      for (int64_t j = 0; j < model->lengths[operand]; j++)
        adjoints.values[operand][j] += counter_back(d_out[j % length], state->values[operand][j],
                                                    node->attributes.multiplier, k, j);
    }
  }
  for (int i = COUNTER_INPUTS; i < COUNTER_FIRST_NODE; i++)
    for (int64_t j = 0; j < model->lengths[i]; j++)
      state->values[i][j] = counter_update(state->values[i][j], adjoints.values[i][j]);
}
