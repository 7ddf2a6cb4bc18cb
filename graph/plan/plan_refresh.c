/* How a plan refreshes outdated derived copies: as a whole, or only the rows that updates changed
 * since. Copies that the plan's own updates write are as new as the home's value. Invariant: a
 * whole copy that is made from the host's copy never reads a partly refreshed one, because then the
 * host's is copied as a whole too. */
#include "graph/plan/plan.h"

/* Returns the derived copy of the persistent value on device, or UINT32_MAX. */
static uint32_t find_derived(const tdm_graph *graph, uint32_t persistent, int16_t device) {
  const uint32_t source = graph->persistents.items[persistent].value;
  for (uint32_t i = 0; i < graph->planned->deriveds.count; i++)
    if (graph->planned->deriveds.items[i].source == source &&
        tdm_ir_value_at(graph, graph->planned->deriveds.items[i].value)->device == device)
      return i;
  return UINT32_MAX;
}

static void note_updated(tdm_plan *plan) {
  const tdm_graph *graph = &plan->graph;
  TDM_EACH_NODE(graph, node) {
    if (node->role != TDM_ROLE_UPDATE) continue;
    for (uint32_t k = 0; k < node->output_count; k++) {
      const tdm_ir_value *value = tdm_ir_value_at(graph, node->first_output + k);
      const tdm_ir_value *root = tdm_ir_value_at(graph, value->root);
      if (root->kind == TDM_VALUE_DERIVED) plan->refreshes[root->binding].updated = true;
    }
  }
}

static void note_sources(tdm_plan *plan) {
  const tdm_graph *graph = &plan->graph;
  for (size_t i = 0; i < graph->planned->deriveds.count; i++) {
    const tdm_ir_value *copy = tdm_ir_value_at(graph, graph->planned->deriveds.items[i].value);
    const tdm_ir_node *node = tdm_ir_node_at(graph, copy->producer);
    const tdm_ir_value *from = tdm_ir_value_at(graph, node->inputs[0]);
    if (from->kind == TDM_VALUE_DERIVED) plan->refreshes[i].from = from->binding + 1;
  }
  for (size_t k = 0; k < graph->planned->row_conditions.count; k++) {
    const tdm_row_condition *condition = &graph->planned->row_conditions.items[k];
    const uint32_t i = find_derived(graph, condition->persistent, condition->device);
    plan->row_copies[k] = i;
    if (i != UINT32_MAX) plan->refreshes[i].ages++;
  }
}

static bool is_refresh(const tdm_graph *graph, const tdm_ir_node *node) {
  return !node->operation && tdm_ir_value_at(graph, node->first_output)->kind == TDM_VALUE_DERIVED;
}

static void note_reader(tdm_plan *plan, uint32_t value) {
  const tdm_ir_value *root =
      tdm_ir_value_at(&plan->graph, tdm_ir_value_at(&plan->graph, value)->root);
  if (root->kind == TDM_VALUE_DERIVED) plan->refreshes[root->binding].passes = false;
}

/* Marks copies that only routes use, on devices along the way. Any other consumer requires an
 * up-to-date copy. */
static void note_passing(tdm_plan *plan) {
  const tdm_graph *graph = &plan->graph;
  for (size_t i = 0; i < graph->planned->deriveds.count; i++)
    plan->refreshes[i].passes = !plan->refreshes[i].updated;
  TDM_EACH_NODE(graph, node) {
    for (uint32_t k = 0; k < node->input_count && !is_refresh(graph, node); k++)
      if (node->inputs[k]) note_reader(plan, node->inputs[k]);
  }
  for (size_t i = 0; i < graph->planned->deliveries.count; i++)
    note_reader(plan, graph->planned->deliveries.items[i].value);
}

static void note_usual(tdm_plan *plan) {
  for (size_t i = plan->graph.planned->deriveds.count; i-- > 0;) { /* comes after its source */
    tdm_copy_refresh *refresh = &plan->refreshes[i];
    refresh->usual |= refresh->ages == 0 && !refresh->updated && !refresh->passes;
    if (!refresh->usual || !refresh->from) continue;
    tdm_copy_refresh *from = &plan->refreshes[refresh->from - 1];
    from->usual |= from->passes;
  }
}

/* Returns the condition of a copy as commands number it: 1 + its index. */
static uint32_t condition_of(const tdm_graph *graph, const tdm_ir_node *node) {
  if (!node->operation) {
    const tdm_ir_value *to = tdm_ir_value_at(graph, node->first_output);
    if (to->kind == TDM_VALUE_DERIVED) return to->binding + 1;
  }
  return node->condition ? (uint32_t)graph->planned->deriveds.count + node->condition : 0;
}

tdm_status tdm_plan_note_refreshes(tdm_plan *plan) {
  tdm_graph *graph = &plan->graph;
  plan->condition_count =
      (uint32_t)(graph->planned->deriveds.count + graph->planned->row_conditions.count);
  plan->refreshes = tdm_region_take(
      &plan->region, (graph->planned->deriveds.count + 1) * sizeof *plan->refreshes, "plan");
  plan->moved =
      tdm_region_take(&plan->region, (plan->condition_count + 1) * sizeof *plan->moved, "plan");
  plan->row_copies = tdm_region_take(
      &plan->region, (graph->planned->row_conditions.count + 1) * sizeof *plan->row_copies, "plan");
  if (!plan->refreshes || !plan->moved || !plan->row_copies) return TDM_OUT_OF_MEMORY;
  if (plan->condition_count == 0) return TDM_OK;
  note_sources(plan);
  note_updated(plan);
  note_passing(plan);
  note_usual(plan);
  TDM_EACH_NODE(graph, node) {
    node->condition = condition_of(graph, node);
    if (!node->condition || node->operation) continue;
    const tdm_ir_value *from = tdm_ir_value_at(graph, node->inputs[0]);
    if (from->device == node->device) continue;
    plan->moved[node->condition - 1].transfers++;
    plan->moved[node->condition - 1].bytes += tdm_ir_value_at(graph, node->first_output)->bytes;
  }
  return TDM_OK;
}

bool tdm_plan_is_current(const tdm_plan *plan) {
  for (size_t i = 0; i < plan->graph.planned->deriveds.count; i++) {
    const uint32_t source = plan->graph.planned->deriveds.items[i].source;
    const uint32_t p = tdm_ir_value_at(&plan->graph, source)->binding;
    if (tdm_row_log_window(plan->entries[p]) != plan->windows[p]) return false;
  }
  return true;
}

bool tdm_plan_has_logs(const tdm_plan *plan) {
  for (size_t i = 0; i < plan->graph.planned->logs.count; i++) {
    const tdm_graph_log *log = &plan->graph.planned->logs.items[i];
    const uint64_t window = atomic_load(&plan->entries[log->persistent]->log.window);
    if (log->age < 0 && window < tdm_plan_logged_rows(plan, log)) return false;
  }
  return true;
}

/* ---- Refreshes of a run ---------------------------------------------------------------------- */

static uint32_t source_of(const tdm_plan *plan, size_t derived) {
  const tdm_graph *graph = &plan->graph;
  return tdm_ir_value_at(graph, graph->planned->deriveds.items[derived].source)->binding;
}

/* Returns true if the copy is outdated. After a run of the same plan, which refreshed all its
 * copies, only that run's updates count, whether it has settled or not; so all ranks of a job come
 * to the same result. */
static bool is_old(const tdm_plan *plan, size_t derived, bool follows) {
  const tdm_store_copy *copy = plan->copies[derived];
  if (!follows) return copy->version != copy->entry->version;
  return !plan->refreshes[derived].updated && plan->updated[source_of(plan, derived)];
}

/* Returns how many updates are refreshed by rows if the copy is outdated; 0: the whole is
 * copied. */
static uint64_t rows_reach(const tdm_plan *plan, size_t derived, bool follows) {
  const tdm_store_copy *copy = plan->copies[derived];
  const uint32_t p = source_of(plan, derived);
  if (atomic_load(&copy->entry->log.window) != plan->windows[p]) return 0;
  const uint64_t reach =
      follows ? plan->updated[p] && plan->logged[p] : tdm_row_log_reach(copy->entry, copy->version);
  return reach <= plan->refreshes[derived].ages ? reach : 0;
}

/* Sets the conditions of whole copies. A copy made from another copy requires that one to be up to
 * date. A copy that only routes use is refreshed only for those. */
static bool choose_whole(const tdm_plan *plan, bool follows, uint8_t *conditions) {
  bool any = false;
  for (size_t i = 0; i < plan->graph.planned->deriveds.count; i++) {
    const bool old = !plan->refreshes[i].passes && is_old(plan, i, follows);
    conditions[i] = old && rows_reach(plan, i, follows) == 0;
    any |= old;
  }
  for (size_t i = plan->graph.planned->deriveds.count; i-- > 0;) { /* comes after its source */
    const uint32_t from = plan->refreshes[i].from;
    if (conditions[i] && from && is_old(plan, from - 1, follows)) conditions[from - 1] = true;
  }
  return any;
}

/* Sets the conditions of rows. That of any copy comes before those of each copy. */
static void choose_rows(const tdm_plan *plan, bool follows, uint8_t *conditions) {
  const tdm_graph *graph = &plan->graph;
  uint8_t *rows = conditions + graph->planned->deriveds.count;
  size_t any = 0;
  for (size_t k = 0; k < graph->planned->row_conditions.count; k++) {
    const uint32_t i = plan->row_copies[k];
    rows[k] = false;
    if (i == UINT32_MAX) any = k;
    if (i == UINT32_MAX || conditions[i]) continue;
    rows[k] = rows_reach(plan, i, follows) > (uint64_t)graph->planned->row_conditions.items[k].age;
    rows[any] |= rows[k];
  }
}

bool tdm_plan_find_old(const tdm_plan *plan, bool follows, uint8_t *conditions) {
  const bool any = choose_whole(plan, follows, conditions);
  choose_rows(plan, follows, conditions);
  return any;
}

static void set_versions(tdm_plan *plan, const uint8_t *conditions, bool refreshed) {
  const uint8_t *rows = conditions + plan->graph.planned->deriveds.count;
  for (size_t i = 0; i < plan->graph.planned->deriveds.count; i++) {
    tdm_store_copy *copy = plan->copies[i];
    if (conditions[i]) copy->version = refreshed ? copy->entry->version : TDM_VERSION_NONE;
  }
  for (size_t k = 0; k < plan->graph.planned->row_conditions.count; k++) {
    if (!rows[k] || plan->row_copies[k] == UINT32_MAX) continue;
    tdm_store_copy *copy = plan->copies[plan->row_copies[k]];
    copy->version = refreshed ? copy->entry->version : TDM_VERSION_NONE;
  }
}

void tdm_plan_note_copies(tdm_plan *plan, const uint8_t *conditions) {
  tdm_condition_traffic moved = {0, 0};
  set_versions(plan, conditions, true);
  for (uint32_t k = 0; k < plan->condition_count; k++) {
    if (!conditions[k]) continue;
    moved.transfers += plan->moved[k].transfers;
    moved.bytes += plan->moved[k].bytes;
  }
  atomic_store_explicit(&plan->moved_transfers, moved.transfers, memory_order_relaxed);
  atomic_store_explicit(&plan->moved_bytes, moved.bytes, memory_order_relaxed);
}

void tdm_plan_note_updated_copies(tdm_plan *plan) {
  for (size_t i = 0; i < plan->graph.planned->deriveds.count; i++)
    if (plan->refreshes[i].updated) plan->copies[i]->version = plan->copies[i]->entry->version;
}

void tdm_plan_spoil_copies(tdm_plan *plan, const uint8_t *conditions) {
  set_versions(plan, conditions, false);
}
