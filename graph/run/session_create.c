/* Creates and ends sessions: checks the whole graph symbolically, places it, binds parameters.
 * Invariant: a session that was returned has a placement and every parameter in its store. */
#include "graph/run/session.h"

#include <stdlib.h>
#include <string.h>

#include "core/options.h"
#include "graph/describe/gradient_of.h"
#include "graph/run/run.h"
#include "graph/run/trace.h"

static void copy_options(tdm_session *session, const tdm_session_options *options) {
  atomic_store(&session->seed, options->seed);
  session->depth = options->depth;
  session->plan_limit = options->plan_limit;
  session->writable = options->writable;
  session->writable_user = options->writable_user;
  session->observer = options->observer;
  session->observer_user = options->observer_user;
  session->profile = options->profile;
  session->trace_runs = options->trace_runs;
  session->strict = options->strict;
  session->unfused = options->unfused;
  session->unmerged = options->unmerged;
  session->collective = options->collective;
  session->averages = options->averages;
  session->alike_ranks = options->alike_ranks;
  session->check_finite = options->check_finite;
  session->deterministic = options->deterministic;
  session->loss = options->loss.index;
  session->can_train = session->loss != 0 && options->optimizer != NULL;
}

static tdm_status check_range(const char *name, int value, int least, int most) {
  if (value >= least && value <= most) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "session options: %s is %d, expected %d to %d", name, value,
                  least, most);
}

static tdm_status check_numbers(const tdm_session_options *options) {
  TDM_TRY(check_range("depth", options->depth, 1, TDM_MAX_DEPTH));
  if (options->queue_limit != TDM_NO_QUEUE_LIMIT)
    TDM_TRY(check_range("queue_limit", options->queue_limit, 0, TDM_MAX_QUEUE_LIMIT));
  TDM_TRY(check_range("plan_limit", options->plan_limit, 1, TDM_MAX_PLAN_LIMIT));
  TDM_TRY(check_range("trace_runs", options->trace_runs, 0, TDM_MAX_TRACE_RUNS));
  TDM_TRY(check_range("collective", (int)options->collective, 0, TDM_COLLECTIVE_COUNT - 1));
  TDM_TRY(check_range("alike_ranks", options->alike_ranks, 1, TDM_MAX_ALIKE_RANKS));
  if (options->micro_batches == TDM_MICRO_BATCHES_AUTO) return TDM_OK;
  return check_range("micro_batches", options->micro_batches, 1, TDM_MAX_PARTS);
}

/* Rings, trees and engines use their own order of additions. */
static tdm_status check_order(const tdm_session_options *options) {
  const tdm_collective asked = options->collective;
  if (!options->deterministic || asked < TDM_COLLECTIVE_RING) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "session options: %s does not add in the order of replicas, as "
                  "`deterministic` requires",
                  asked == TDM_COLLECTIVE_RING   ? "a ring"
                  : asked == TDM_COLLECTIVE_TREE ? "a tree"
                                                 : "an all-reduce");
}

static tdm_status check_optimizer(const tdm_optimizer *optimizer) {
  if (!optimizer->rule)
    return tdm_fail(TDM_INVALID_ARGUMENT, "session options: the optimizer has no rule");
  const tdm_optimizer_rule *rule = optimizer->rule;
  const int settings = (int)TDM_COUNT_OF(optimizer->settings);
  if (!rule->name || !rule->append || rule->momentum < 0 || rule->momentum > settings)
    return tdm_fail(TDM_INVALID_ARGUMENT, "session options: the optimizer's rule %s has no %s",
                    rule->name ? rule->name : "",
                    !rule->name     ? "name"
                    : !rule->append ? "append"
                                    : "setting that its momentum would be");
  const double decay = optimizer->average_decay;
  if (!(decay >= 0.0 && decay < 1.0) && decay != TDM_AVERAGE_MEAN && decay != TDM_AVERAGE_NONE)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "session options: average_decay is %g, expected a number of at least 0 and "
                    "less than 1, TDM_AVERAGE_MEAN or TDM_AVERAGE_NONE",
                    decay);
  if (!(optimizer->clip_value >= 0))
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "session options: clip_value is %g, expected 0 or more; INFINITY: no limit",
                    optimizer->clip_value);
  if (optimizer->clip_norm > 0) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "session options: clip_norm is %g, expected a positive number, or INFINITY for "
                  "no limit. tdm_optimizer_default() sets it",
                  optimizer->clip_norm);
}

/* Groups without an optimizer stay constant. */
static tdm_status check_groups(const tdm_session_options *options) {
  if (options->group_count == 0) return TDM_OK;
  if (!options->optimizer)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "session options: parameter groups without an optimizer for the others");
  if (options->group_count > TDM_MAX_PARAMETER_GROUPS)
    return tdm_fail(TDM_INVALID_ARGUMENT, "session options: %zu parameter groups, of at most %d",
                    options->group_count, TDM_MAX_PARAMETER_GROUPS);
  if (!options->groups)
    return tdm_fail(TDM_INVALID_ARGUMENT, "session options: groups is NULL, group_count is %zu",
                    options->group_count);
  for (size_t g = 0; g < options->group_count; g++)
    if (options->groups[g].optimizer && options->groups[g].optimizer->rule)
      TDM_TRY(check_optimizer(options->groups[g].optimizer));
  return TDM_OK;
}

/* All ranks have to make the same plans. */
static tdm_status check_job(const tdm_session_options *options) {
  if (options->micro_batches != TDM_MICRO_BATCHES_AUTO) return TDM_OK;
  return tdm_fail(TDM_UNSUPPORTED, "session options: micro-batches chosen by time would not be the "
                                   "same on all ranks");
}

static tdm_status check_options(const tdm_graph *graph, const tdm_session_options *options) {
  if (options->loss.index && !tdm_ir_owns(graph, options->loss))
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "session options: the loss is a value of another graph, or of none");
  TDM_TRY(check_numbers(options));
  TDM_TRY(check_order(options));
  if (options->optimizer) TDM_TRY(check_optimizer(options->optimizer));
  TDM_TRY(check_groups(options));
  if (options->optimizer && !options->loss.index)
    return tdm_fail(TDM_INVALID_ARGUMENT, "session options: an optimizer without a loss: set loss "
                                          "to the value that is to become less");
  if (options->optimizer && options->averages)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "session options: an optimizer and averages: a session that "
                    "reads averages does not train; leave the optimizer out");
  if (options->micro_batches == TDM_MICRO_BATCHES_AUTO && options->deterministic)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "session options: micro-batches chosen by time are not deterministic");
  if (tdm_context_rank_count(graph->context) > 1) TDM_TRY(check_job(options));
  if (options->store && options->store->context != graph->context)
    return tdm_fail(TDM_INVALID_ARGUMENT, "session options: the store is of another context");
  return TDM_OK;
}

/* Lists everything that runs may request: all outputs, with the loss last. */
static size_t all_targets(const tdm_session *session, uint32_t *out_targets) {
  size_t count = 0;
  for (size_t i = 0; i < session->graph->described->outputs.count; i++)
    out_targets[count++] = session->graph->described->outputs.items[i].value;
  if (session->loss) out_targets[count++] = session->loss;
  return count;
}

/* Replaces the persistent value by its average (for a shard that of its table), if the store has
 * one. */
static tdm_status read_average(tdm_session *session, tdm_graph *graph,
                               tdm_graph_persistent *persistent, bool *out_found) {
  static const char format[] = "optimizer/%s/" TDM_AVERAGE_STATE;
  const char *table = tdm_persistent_table(persistent);
  const char *name = tdm_region_format(&graph->region, format, persistent->name);
  const char *whole = tdm_region_format(&graph->region, format, table);
  if (!name || !whole) return TDM_OUT_OF_MEMORY;
  if (!tdm_store_entry_called(session->store, name) &&
      !tdm_store_entry_called(session->store, whole))
    return TDM_OK;
  persistent->name = name;
  if (persistent->shard.table) persistent->shard.table = whole;
  *out_found = true;
  return TDM_OK;
}

/* A parameter that no step has updated (such as a frozen one) has no average; its value is used. */
static tdm_status read_averages(tdm_session *session, tdm_graph *graph) {
  const char *first = NULL; /* name of the first parameter that could have an average */
  bool found = false;
  tdm_status status = TDM_OK;
  (void)pthread_mutex_lock(&session->store->lock);
  for (size_t i = 0; status == TDM_OK && i < graph->persistents.count; i++) {
    tdm_graph_persistent *persistent = &graph->persistents.items[i];
    if (!tdm_ir_value_at(graph, persistent->value)->trainable) continue;
    if (!first) first = tdm_persistent_table(persistent);
    status = read_average(session, graph, persistent, &found);
  }
  (void)pthread_mutex_unlock(&session->store->lock);
  if (status != TDM_OK || found || !first) return status;
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "the store has no average of %s, nor of another parameter: train with "
                  "average_decay, at least one step, or load what did",
                  first);
}

static tdm_status bind_parameters(tdm_session *session, tdm_graph *graph) {
  tdm_store_binding binding;
  tdm_store_begin_binding(&binding, session->store);
  tdm_status status = session->averages ? read_averages(session, graph) : TDM_OK;
  for (size_t i = 0; status == TDM_OK && i < graph->persistents.count; i++) {
    const tdm_graph_persistent *persistent = &graph->persistents.items[i];
    const tdm_ir_value *value = tdm_ir_value_at(graph, persistent->value);
    session->everywhere[persistent->origin] = persistent->is_updated_everywhere;
    status = tdm_store_bind(&binding, persistent, value->spec,
                            tdm_context_device(session->context, (size_t)value->device),
                            atomic_load(&session->seed), &session->bound[persistent->origin]);
  }
  return tdm_store_end_binding(&binding, status);
}

/* Finds the dimension that micro-batches cut. */
static tdm_status find_batch(tdm_session *session, const tdm_session_options *options) {
  session->batching.source = session->graph;
  session->tunes = options->micro_batches == TDM_MICRO_BATCHES_AUTO;
  session->batching.count = session->tunes ? 2 : (size_t)options->micro_batches;
  if (session->batching.count < 2) return TDM_OK;
  const size_t count = all_targets(session, session->room.targets);
  return tdm_find_batch(session->graph, options->batch_dimension, session->room.targets, count,
                        !session->loss, &session->batching.batch);
}

/* Records the devices of kept values; those that no run reads are on cpu:0. */
static void note_kept(tdm_session *session, const tdm_graph *copy) {
  const tdm_graph *graph = session->graph;
  memset(session->kept_devices, 0, graph->kepts.count * sizeof *session->kept_devices);
  for (size_t i = 0; i < copy->kepts.count; i++) {
    const tdm_ir_value *value = tdm_ir_value_at(copy, copy->kepts.items[i].value);
    const uint32_t described = graph->inputs.items[value->binding];
    session->kept_devices[tdm_ir_value_at(graph, described)->kept - 1] = value->device;
  }
}

/* For outputs that stay on a device: checks that every rank has one, and that it is computed where
 * it may stay. */
static tdm_status check_outputs(const tdm_session *session, const tdm_graph *copy) {
  const int rank_count = tdm_context_rank_count(session->context);
  for (size_t i = 0; i < session->graph->described->outputs.count; i++)
    for (int rank = 0; rank < rank_count; rank++) {
      int16_t device;
      TDM_TRY(tdm_delivery_device(copy, copy->planned->deliveries.items[i].value,
                                  session->graph->described->outputs.items[i].device, rank,
                                  &device));
    }
  return TDM_OK;
}

/* Returns why no parameter of a parallel region is in pieces; NULL: all that should be are. */
static const char *find_whole_reason(tdm_session *session) {
  const tdm_graph *graph = session->graph;
  for (size_t g = 0; g < session->groups.count; g++) {
    const tdm_optimizer *optimizer = &session->groups.optimizers[g];
    if (optimizer->rule && !optimizer->rule->is_by_element)
      return "an optimizer updates each as a whole";
    if (optimizer->rule && isfinite(optimizer->clip_norm) && session->deterministic)
      return "deterministic norms are those of wholes";
  }
  const char *reason = NULL;
  (void)pthread_mutex_lock(&session->store->lock);
  for (size_t i = 0; i < graph->shardings.count && !reason; i++) {
    const tdm_sharding *sharding = &graph->shardings.items[i];
    if (!sharding->is_gathered || tdm_is_asked_for(graph, sharding->table)) continue;
    const uint32_t binding = tdm_ir_value_at(graph, sharding->table)->binding;
    const tdm_store_entry *whole =
        tdm_store_entry_called(session->store, graph->persistents.items[binding].name);
    if (whole && whole->storage && !whole->shard.table) reason = "the store has them whole";
  }
  (void)pthread_mutex_unlock(&session->store->lock);
  return reason;
}

/* Runs the passes that need no sizes, on a symbolic copy. */
static tdm_status check_symbolically(tdm_session *session, tdm_graph *copy) {
  uint32_t *targets = session->room.targets;
  const size_t count = all_targets(session, targets);
  if (count == 0)
    return tdm_fail(TDM_INVALID_ARGUMENT, "the graph has no output and the session no loss");
  session->whole_reason = find_whole_reason(session);
  const tdm_lowering lowering = {.source = session->graph,
                                 .targets = targets,
                                 .target_count = count,
                                 .training = session->can_train,
                                 .keeps_whole = session->whole_reason != NULL};
  if (session->batching.count > 1)
    TDM_TRY(tdm_check_micro_batch(&session->batching, targets, count, session->can_train));
  TDM_TRY(tdm_lower(&lowering, copy));
  TDM_TRY(tdm_pass_data_parallel(copy, false));
  TDM_TRY(tdm_pass_place(copy, &session->map));
  tdm_shard_traffic traffic;
  TDM_TRY(tdm_pass_shard(copy, session->deterministic, &traffic));
  TDM_TRY(check_outputs(session, copy));
  if (!session->can_train) tdm_drop_persist_inputs(copy);
  TDM_TRY(tdm_device_map_check(&session->map, session->graph));
  const size_t persistents = copy->persistents.count;
  const tdm_training training = {.loss = copy->planned->deliveries.items[count - 1].value,
                                 .groups = session->can_train ? &session->groups : NULL,
                                 .check_finite = session->check_finite,
                                 .deterministic = session->deterministic,
                                 .alike_ranks = session->alike_ranks};
  if (session->can_train || tdm_first_asking(copy)) TDM_TRY(tdm_pass_gradient(copy, &training));
  TDM_TRY(tdm_check_kernels(copy));
  note_kept(session, copy);
  copy->persistents.count = persistents; /* states are bound by the first training plan */
  return bind_parameters(session, copy);
}

static tdm_status allocate_arrays(tdm_session *session) {
  const tdm_graph *graph = session->graph;
  const size_t words =
      3 + graph->described->outputs.count + graph->inputs.count * (2 + TDM_MAX_RANK);
  tdm_region *region = &session->region;
  tdm_resolved_run *room = &session->room;
  room->specs = tdm_region_take(region, (graph->inputs.count + 1) * sizeof *room->specs, "session");
  room->feeds = tdm_region_take(region, (graph->inputs.count + 1) * sizeof(void *), "session");
  room->key.words = tdm_region_take(region, words * sizeof(uint64_t), "session");
  room->targets =
      tdm_region_take(region, (graph->described->outputs.count + 2) * sizeof(uint32_t), "session");
  room->target_devices =
      tdm_region_take(region, (graph->described->outputs.count + 2) * sizeof(int16_t), "session");
  session->bound =
      tdm_region_take(region, (graph->persistents.count + 1) * sizeof(void *), "session");
  session->everywhere = tdm_region_take(
      region, (graph->persistents.count + 1) * sizeof *session->everywhere, "session");
  session->kept_devices =
      tdm_region_take(region, (graph->kepts.count + 1) * sizeof(int16_t), "session");
  session->slots =
      tdm_region_take(region, (size_t)session->depth * sizeof *session->slots, "session");
  if (region->failed) return TDM_OUT_OF_MEMORY;
  for (int i = 0; i < session->depth; i++) {
    session->slots[i].arenas =
        tdm_region_take(region, tdm_device_count(session->context) * sizeof(tdm_memory), "session");
    if (!session->slots[i].arenas) return TDM_OUT_OF_MEMORY;
  }
  return TDM_OK;
}

static tdm_status fill_session(tdm_session *session, const tdm_session_options *options) {
  TDM_TRY(allocate_arrays(session));
  session->store =
      options->store ? tdm_store_retain(options->store) : tdm_store_create(session->context);
  if (!session->store) return TDM_OUT_OF_MEMORY;
  TDM_TRY(tdm_context_start(session->context));
  TDM_TRY(tdm_update_groups_fill(&session->groups, &session->region, options));
  TDM_TRY(tdm_update_groups_check(&session->groups, session->graph));
  tdm_session_begin_rates(session);
  TDM_TRY(
      tdm_prepared_cache_create(session->allocator, options->deterministic, &session->prepared));
  TDM_TRY(tdm_output_pool_create(session->context, &session->outputs));
  if (session->trace_runs > 0)
    TDM_TRY(tdm_trace_create(session->allocator, (size_t)session->trace_runs, &session->trace));
  TDM_TRY(tdm_device_map_parse(session->context, &session->region, getenv("TANDEM_PLACE"),
                               options->device_map, &session->map));
  TDM_TRY(find_batch(session, options));
  tdm_graph copy;
  tdm_status status = tdm_graph_init(&copy, session->context);
  if (status == TDM_OK) status = check_symbolically(session, &copy);
  tdm_graph_deinit(&copy);
  return status;
}

tdm_session *tdm_session_create(tdm_graph *graph, const tdm_session_options *options) {
  if (!graph) {
    (void)tdm_fail_null("tdm_session_create: the graph");
    return NULL;
  }
  tdm_session_options read;
  if (tdm_graph_status(graph) != TDM_OK ||
      TDM_OPTIONS_READ("tdm_session_create", session, options, &read) != TDM_OK ||
      check_options(graph, &read) != TDM_OK)
    return NULL;
  options = &read;
  tdm_session *session = tdm_allocate(graph->allocator, sizeof *session, "session");
  if (!session) return NULL;
  session->handles = session->references = 1;
  session->allocator = graph->allocator;
  session->graph = tdm_graph_retain(graph);
  session->context = graph->context;
  graph->described->frozen = true;
  (void)pthread_mutex_init(&session->lock, NULL);
  (void)pthread_mutex_init(&session->rates_lock, NULL);
  tdm_region_init(&session->region, session->allocator);
  copy_options(session, options);
  const int limit =
      options->queue_limit != TDM_NO_QUEUE_LIMIT ? session->depth + options->queue_limit : 0;
  tdm_run_table_init(&session->runs, session->allocator, (uint32_t)limit);
  if (fill_session(session, options) == TDM_OK) {
    tdm_session_begin_keeping(session);
    session->trainer.session = session;
    if (session->can_train) tdm_store_add_trainer(session->store, &session->trainer);
    return session;
  }
  tdm_session_release(session);
  return NULL;
}

void tdm_session_release(tdm_session *session) {
  if (!session || tdm_context_is_inherited(session->context)) return;
  if (atomic_fetch_sub(&session->handles, 1) != 1) return;
  if (session->store) tdm_store_remove_trainer(session->store, &session->trainer);
  tdm_session_drop(session);
}

void tdm_session_hold(tdm_session *session) {
  atomic_fetch_add_explicit(&session->references, 1, memory_order_relaxed);
}

void tdm_session_drop(tdm_session *session) {
  if (atomic_fetch_sub(&session->references, 1) != 1) return;
  tdm_context_remove_keeper(session->context, &session->keeper);
  tdm_trace_destroy(session->trace);
  tdm_session_destroy_retired(session, true);
  for (tdm_plan *plan = session->newest, *older; plan; plan = older) {
    older = plan->older;
    tdm_runs_destroy(session, plan);
    tdm_plan_destroy(plan);
  }
  tdm_slots_release(session);
  tdm_output_pool_close(session->outputs);
  tdm_prepared_cache_destroy(session->prepared);
  tdm_store_release(session->store);
  tdm_region_deinit(&session->region);
  tdm_run_table_deinit(&session->runs);
  (void)pthread_mutex_destroy(&session->lock);
  (void)pthread_mutex_destroy(&session->rates_lock);
  tdm_context *context = tdm_context_retain(session->context);
  tdm_graph_release(session->graph);
  tdm_release(session->allocator, session, sizeof *session);
  tdm_context_release(context);
}
