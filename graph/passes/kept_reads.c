/* Values that persist between runs, and are read after the node that writes them. The reader is a
 * backward pass with inputs of the forward pass, an observer at the end of the run, or an exchange
 * of two kept values. A described value never changes, so these readers get a copy that is made
 * directly before the write. Invariant: after this pass, a reader of memory that an earlier node
 * wrote reads what that node wrote. */
#include "graph/ir/rewriter.h"
#include "graph/passes/passes.h"

typedef struct kept_state {
  tdm_graph *graph;
  size_t value_count;    /* number of original values */
  uint32_t *versions;    /* per value: the kept value or write whose contents it has; 0: none */
  tdm_ir_node **writers; /* per version: the node that overwrote it so far; NULL: none */
  uint32_t *shown;       /* per kept value: the version in its memory so far */
  uint32_t *copies;      /* per value: the copy of the value; 0: not created yet */
} kept_state;

/* Returns the version that the value has if a node has overwritten it, else 0. */
static uint32_t written_version(const kept_state *state, uint32_t value) {
  const uint32_t version = value < state->value_count ? state->versions[value] : 0;
  return version && state->writers[version] ? version : 0;
}

/* Writes the copy of the value from before the write. The copy is created at its first use, for the
 * consumer (0: the caller). */
static tdm_status copy_before(kept_state *state, uint32_t value, uint32_t consumer,
                              uint32_t *out_copy) {
  tdm_graph *graph = state->graph;
  *out_copy = state->copies[value];
  if (*out_copy) return TDM_OK;
  tdm_ir_node *writer = state->writers[state->versions[value]];
  const tdm_ir_value source = *tdm_ir_value_at(graph, value);
  const tdm_ir_node like = {.name = tdm_value_name(graph, value),
                            .input_count = 1,
                            .output_count = 1,
                            .device = source.device,
                            .transfer = {.consumer = consumer},
                            .role = TDM_ROLE_BOUNDARY};
  tdm_ir_node *before =
      writer->role == TDM_ROLE_UPDATE ? tdm_first_of_role(graph, TDM_ROLE_UPDATE) : writer;
  const tdm_ir_node *made = tdm_insert_as(graph, before, &like, &value, source.spec);
  if (!made) return TDM_OUT_OF_MEMORY;
  *out_copy = state->copies[value] = made->first_output;
  tdm_ir_value_at(graph, made->first_output)->bytes = source.bytes;
  return TDM_OK;
}

/* Makes the node overwrite the present contents of the kept value, whichever version it was
 * described with. Returns that input, or -1 if it writes no kept value. */
static int note_write(const kept_state *state, tdm_ir_node *node) {
  const tdm_graph_kept *kept = tdm_ir_kept_by(state->graph, node);
  if (!kept) return -1;
  state->writers[state->shown[kept->value]] = node;
  state->shown[kept->value] = node->first_output;
  return node->operation->overwrites[0] - 1;
}

/* Makes the node read copies of values that nodes, or the node itself, overwrite. */
static tdm_status read_copies(kept_state *state, tdm_ir_node *node) {
  const int written = note_write(state, node);
  for (uint32_t k = 0; k < node->input_count; k++) {
    const uint32_t value = node->inputs[k];
    if ((int)k == written || !written_version(state, value)) continue;
    uint32_t copy;
    TDM_TRY(copy_before(state, value, node->index, &copy));
    tdm_set_input(state->graph, node, k, copy);
  }
  if (node->operation) tdm_settle_outputs(state->graph, node);
  return TDM_OK;
}

/* Records the versions of the node's outputs. */
static void note_versions(const kept_state *state, const tdm_ir_node *node) {
  for (uint32_t k = 0; k < node->output_count; k++) {
    const uint32_t value = node->first_output + k;
    if (value >= state->value_count || !tdm_ir_kept(state->graph, value)) continue;
    const bool shows = node->operation && node->operation->is_view;
    state->versions[value] = shows ? state->versions[node->inputs[0]] : value;
  }
}

/* Delivers copies of overwritten values. Values that update phases write are delivered before. */
static tdm_status deliver_copies(kept_state *state) {
  const tdm_graph *graph = state->graph;
  for (size_t i = 0; i < graph->planned->deliveries.count; i++) {
    uint32_t *value = &graph->planned->deliveries.items[i].value;
    const uint32_t version = written_version(state, *value);
    if (!version || state->writers[version]->role == TDM_ROLE_UPDATE) continue;
    TDM_TRY(copy_before(state, *value, 0, value));
  }
  return TDM_OK;
}

static tdm_status copy_all(kept_state *state) {
  const tdm_graph *graph = state->graph;
  for (size_t i = 0; i < graph->kepts.count; i++) {
    const uint32_t value = graph->kepts.items[i].value;
    state->versions[value] = state->shown[value] = value;
  }
  TDM_EACH_NODE(graph, node) {
    TDM_TRY(read_copies(state, node));
    note_versions(state, node);
  }
  return deliver_copies(state);
}

tdm_status tdm_pass_kept_reads(tdm_graph *graph) {
  if (graph->kepts.count == 0) return TDM_OK;
  kept_state state = {.graph = graph, .value_count = graph->values.count};
  tdm_region scratch;
  tdm_region_init(&scratch, graph->allocator);
  const size_t count = state.value_count;
  state.versions = tdm_region_take(&scratch, count * sizeof *state.versions, "kept values");
  state.writers = tdm_region_take(&scratch, count * sizeof *state.writers, "kept values");
  state.shown = tdm_region_take(&scratch, count * sizeof *state.shown, "kept values");
  state.copies = tdm_region_take(&scratch, count * sizeof *state.copies, "kept values");
  tdm_status status = TDM_OUT_OF_MEMORY;
  if (state.versions && state.writers && state.shown && state.copies) status = copy_all(&state);
  tdm_region_deinit(&scratch);
  return status;
}
