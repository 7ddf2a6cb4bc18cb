/* Finds or creates a plan's objects in the store: parameters, states, logs of rows and derived
 * copies. */
#include "graph/plan/plan.h"

static tdm_status bind_persistents(tdm_plan *plan, const tdm_plan_request *request,
                                   tdm_store_binding *binding) {
  const tdm_graph *graph = &plan->graph;
  const size_t count = graph->persistents.count;
  plan->entries = tdm_region_take(&plan->region, (count + 1) * sizeof(void *), "plan");
  if (!plan->entries) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < count; i++) {
    const tdm_graph_persistent *persistent = &graph->persistents.items[i];
    const tdm_ir_value *value = tdm_ir_value_at(graph, persistent->value);
    if (persistent->origin != UINT32_MAX) {
      plan->entries[i] = request->bound[persistent->origin];
      continue;
    }
    TDM_TRY(tdm_store_bind(binding, persistent, value->spec,
                           tdm_context_device(graph->context, (size_t)value->device), request->seed,
                           &plan->entries[i]));
  }
  return TDM_OK;
}

/* Reserves the logs that the plan's updates write. */
static tdm_status bind_logs(tdm_plan *plan, tdm_store_binding *binding) {
  const tdm_graph *graph = &plan->graph;
  for (size_t i = 0; i < graph->planned->logs.count; i++) {
    const tdm_graph_log *log = &graph->planned->logs.items[i];
    if (log->age >= 0) continue;
    TDM_TRY(tdm_store_bind_log(binding, &plan->entries[log->persistent],
                               tdm_plan_logged_rows(plan, log)));
  }
  return TDM_OK;
}

static tdm_status bind_deriveds(tdm_plan *plan, tdm_store_binding *binding) {
  const tdm_graph *graph = &plan->graph;
  const size_t count = graph->planned->deriveds.count;
  plan->copies = tdm_region_take(&plan->region, (count + 1) * sizeof(void *), "plan");
  if (!plan->copies) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < count; i++) {
    const tdm_ir_value *value = tdm_ir_value_at(graph, graph->planned->deriveds.items[i].value);
    const tdm_ir_value *source = tdm_ir_value_at(graph, graph->planned->deriveds.items[i].source);
    TDM_TRY(tdm_store_bind_copy(binding, &plan->entries[source->binding],
                                tdm_context_device(graph->context, (size_t)value->device),
                                &plan->copies[i]));
  }
  return TDM_OK;
}

/* Fills those bases that are the same in all runs. */
static void fill_bases(tdm_plan *plan) {
  const tdm_graph *graph = &plan->graph;
  for (size_t i = 0; i < graph->persistents.count; i++)
    plan->bases[plan->layout.persistents + i] = plan->entries[i]->storage->memory.address;
  for (size_t i = 0; i < graph->planned->deriveds.count; i++)
    plan->bases[plan->layout.deriveds + i] = plan->copies[i]->storage->memory.address;
}

tdm_status tdm_plan_bind(tdm_plan *plan, const tdm_plan_request *request) {
  tdm_store_binding binding;
  plan->bases =
      tdm_region_take(&plan->region, (plan->layout.count + 1) * sizeof(tdm_address), "plan");
  if (!plan->bases) return TDM_OUT_OF_MEMORY;
  tdm_store_begin_binding(&binding, request->store);
  tdm_status status = bind_persistents(plan, request, &binding);
  if (status == TDM_OK) status = bind_logs(plan, &binding);
  if (status == TDM_OK) status = bind_deriveds(plan, &binding);
  TDM_TRY(tdm_store_end_binding(&binding, status));
  fill_bases(plan);
  return TDM_OK;
}
