/* Looks up plans by the inputs and outputs of a run, creates missing ones, and evicts idle ones.
 * Invariant: the list is ordered by latest use. A plan stays while it is used. */
#include <string.h>

#include "core/hash.h"
#include "core/last_failure.h"
#include "devices/staging/staged_memory.h"
#include "graph/ir/names.h"
#include "graph/ir/rewriter.h"
#include "graph/run/run.h"
#include "graph/run/sequence.h"

/* Checks `likely` first, because feeds are usually in the order of inputs. */
static tdm_status find_feed(const tdm_session *session, const char *name, size_t likely,
                            size_t *out_index) {
  const tdm_graph *graph = session->graph;
  *out_index = likely;
  if (name && likely < graph->inputs.count &&
      strcmp(tdm_ir_value_at(graph, graph->inputs.items[likely])->name, name) == 0)
    return TDM_OK;
  const uintptr_t number = name ? (uintptr_t)tdm_map_get(&graph->input_names, name) : 0;
  *out_index = number - 1;
  if (number) return TDM_OK;
  tdm_choices inputs;
  return tdm_fail(TDM_INVALID_ARGUMENT, "the graph has no input '%.64s'; %s",
                  name ? name : "(null)", tdm_inputs_text(graph, name, &inputs));
}

static tdm_status check_feed(const tdm_session *session, size_t index, const tdm_feed *feed) {
  const tdm_graph *graph = session->graph;
  const tdm_ir_value *input = tdm_ir_value_at(graph, graph->inputs.items[index]);
  if (!feed->tensor)
    return tdm_fail(TDM_INVALID_ARGUMENT, "input %s was fed no tensor", input->name);
  if (input->kept)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "%s is kept between runs of a sequence (tdm_sequence_set), and is not fed",
                    input->name);
  if (feed->tensor->storage->context != session->context)
    return tdm_fail(TDM_INVALID_ARGUMENT, "input %s is a tensor of another context", input->name);
  if (feed->tensor->dtype != input->spec->dtype)
    return tdm_fail(TDM_INVALID_ARGUMENT, "input %s is %s and was fed %s", input->name,
                    tdm_dtype_name(input->spec->dtype), tdm_dtype_name(feed->tensor->dtype));
  if (session->feed_specs[index].fed)
    return tdm_fail(TDM_INVALID_ARGUMENT, "input %s was fed twice", input->name);
  return TDM_OK;
}

/* Reads the values kept by the run's sequence. */
static void read_kept(tdm_session *session, tdm_sequence *sequence) {
  const tdm_graph *graph = session->graph;
  for (size_t k = 0; k < graph->kepts.count; k++) {
    const tdm_ir_value *input = tdm_ir_value_at(graph, graph->kepts.items[k].value);
    session->fed[input->binding] = tdm_sequence_feed(sequence, k);
    session->feed_specs[input->binding] = (tdm_feed_spec){
        .fed = true, .device = session->kept_devices[k], .shape = input->spec->shape};
  }
}

static tdm_status read_feeds(tdm_session *session, const tdm_run_request *request) {
  const size_t count = session->graph->inputs.count;
  for (size_t i = 0; i < count; i++) {
    session->feed_specs[i].fed = false;
    session->fed[i] = NULL;
  }
  size_t index = 0, likely = 0;
  for (size_t i = 0; i < request->feed_count; i++) {
    TDM_TRY(find_feed(session, request->feeds[i].name, likely, &index));
    likely = index + 1;
    TDM_TRY(check_feed(session, index, &request->feeds[i]));
    const tdm_tensor *tensor = request->feeds[i].tensor;
    session->fed[index] = &request->feeds[i];
    /* A job's graph has its inputs on the device where rank 0 is fed. */
    const tdm_device *fed_on =
        tdm_context_counterpart(session->context, tdm_tensor_owner(tensor), 0);
    if (!fed_on)
      return tdm_fail(TDM_UNSUPPORTED, "input %s was fed on %s, and rank 0 has no such device",
                      request->feeds[i].name, tdm_tensor_owner(tensor)->name);
    session->feed_specs[index] =
        (tdm_feed_spec){.fed = true,
                        .pinned = tdm_memory_is_pinned(&tensor->storage->memory),
                        .device = (int16_t)fed_on->context_index,
                        .shape = tensor->shape};
  }
  if (request->sequence) read_kept(session, request->sequence);
  return TDM_OK;
}

/* Like find_feed. */
static tdm_status find_output(const tdm_session *session, const char *name, size_t likely,
                              uint64_t *out_index) {
  const tdm_graph *graph = session->graph;
  *out_index = likely;
  if (name && likely < graph->outputs.count && strcmp(graph->outputs.items[likely].name, name) == 0)
    return TDM_OK;
  const uintptr_t number = name ? (uintptr_t)tdm_map_get(&graph->output_names, name) : 0;
  *out_index = number - 1;
  if (number) return TDM_OK;
  tdm_choices outputs;
  return tdm_fail(TDM_INVALID_ARGUMENT, "the graph has no output '%.64s'; %s",
                  name ? name : "(null)", tdm_outputs_text(graph, name, &outputs));
}

/* Words of a key: (fetch count, training), the outputs' indices, then per input 0 or its rank, its
 * device, whether it is pinned, and its sizes. At the end the micro-batches, if their number
 * varies. */
static tdm_status make_key(tdm_session *session, const tdm_run_request *request,
                           tdm_plan_key *out_key) {
  uint64_t *words = session->key_words;
  const tdm_graph *graph = session->graph;
  if (request->fetch_count > graph->outputs.count)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%zu fetches of %zu outputs", request->fetch_count,
                    graph->outputs.count);
  if (request->fetch_count == 0 && !request->training)
    return tdm_fail(TDM_INVALID_ARGUMENT, "a run that fetches nothing");
  size_t used = 0;
  words[used++] = (uint64_t)request->fetch_count << 1 | request->training;
  for (size_t i = 0; i < request->fetch_count; i++) {
    TDM_TRY(find_output(session, request->fetches[i].name, i > 0 ? words[used - 1] + 1 : 0,
                        &words[used]));
    used++;
  }
  TDM_TRY(read_feeds(session, request));
  for (size_t i = 0; i < graph->inputs.count; i++) {
    const tdm_feed_spec *feed = &session->feed_specs[i];
    words[used++] = feed->fed ? 1 + (uint64_t)feed->shape.rank : 0;
    if (!feed->fed) continue;
    words[used++] = (uint64_t)feed->device << 1 | feed->pinned;
    for (int d = 0; d < feed->shape.rank; d++)
      words[used++] = (uint64_t)feed->shape.dims[d];
  }
  *out_key = (tdm_plan_key){words, used, tdm_hash_bytes(words, used * sizeof *words, 0)};
  return TDM_OK;
}

static tdm_plan *find_plan(const tdm_session *session, const tdm_plan_key *key) {
  for (tdm_plan *plan = session->newest; plan; plan = plan->older)
    if (plan->key.hash == key->hash && plan->key.count == key->count &&
        memcmp(plan->key.words, key->words, key->count * sizeof *key->words) == 0 &&
        tdm_plan_is_current(plan))
      return plan;
  return NULL;
}

static void unlink_plan(tdm_session *session, tdm_plan *plan) {
  *(plan->newer ? &plan->newer->older : &session->newest) = plan->older;
  *(plan->older ? &plan->older->newer : &session->oldest) = plan->newer;
  plan->newer = plan->older = NULL;
}

static void link_newest(tdm_session *session, tdm_plan *plan) {
  plan->older = session->newest;
  if (session->newest)
    session->newest->newer = plan;
  else
    session->oldest = plan;
  session->newest = plan;
}

static bool is_used(const tdm_plan *plan) {
  return plan->uses > 0 || atomic_load(&plan->kept_runs) > 0;
}

static void destroy_plan(tdm_session *session, tdm_plan *plan) {
  if (session->last_asked == plan) session->last_asked = NULL;
  tdm_runs_destroy(session, plan);
  tdm_plan_destroy(plan);
}

void tdm_session_destroy_retired(tdm_session *session, bool all) {
  for (tdm_plan **link = &session->retired; *link;) {
    tdm_plan *plan = *link;
    if (is_used(plan) && !all) {
      link = &plan->older;
      continue;
    }
    *link = plan->older;
    destroy_plan(session, plan);
  }
}

/* In a job a plan in use is removed from look-ups at once and freed later: the duration of its use
 * differs between ranks, and all ranks have to create and compare the same new plans. */
static void evict(tdm_session *session) {
  const bool retires = tdm_context_rank_count(session->context) > 1;
  tdm_session_destroy_retired(session, false);
  for (tdm_plan *plan = session->oldest, *newer; plan && session->plan_count > session->plan_limit;
       plan = newer) {
    newer = plan->newer;
    const bool used = is_used(plan);
    if (used && !retires) continue;
    unlink_plan(session, plan);
    session->plan_count--;
    if (!used) {
      destroy_plan(session, plan);
      continue;
    }
    plan->older = session->retired;
    session->retired = plan;
  }
}

/* Appends the number of micro-batches to the key's words, if it varies. */
static tdm_status choose_count(tdm_session *session, tdm_plan_key *key,
                               tdm_micro_tuning **out_tuning) {
  *out_tuning = NULL;
  if (!session->tunes) return TDM_OK;
  TDM_TRY(
      tdm_micro_tuner_find(&session->tuner, &session->region, key->words, key->count, out_tuning));
  key->words[key->count++] = tdm_micro_tuning_count(*out_tuning);
  key->hash = tdm_hash_bytes(key->words, key->count * sizeof *key->words, 0);
  return TDM_OK;
}

void tdm_session_set_targets(tdm_session *session, const uint64_t *outputs, size_t count,
                             bool training, tdm_plan_request *out_request) {
  size_t targets = 0;
  for (size_t i = 0; i < count; i++) {
    const tdm_graph_output *output = &session->graph->outputs.items[outputs[i]];
    session->target_devices[targets] = output->device;
    session->targets[targets++] = output->value;
  }
  session->target_devices[targets] = TDM_HOST_DEVICE; /* for the loss */
  if (training) session->targets[targets++] = session->loss;
  out_request->targets = session->targets;
  out_request->target_devices = session->target_devices;
  out_request->target_count = targets;
}

/* Returns the request for tdm_plan_create, whose key was created; it points into the session's
 * scratch. */
static tdm_plan_request plan_request_of(tdm_session *session, const tdm_run_request *request,
                                        tdm_micro_tuning *tuning, tdm_training *training) {
  *training = (tdm_training){session->loss, &session->groups, session->check_finite,
                             session->deterministic, session->alike_ranks};
  tdm_plan_request made = {.source = session->graph,
                           .feeds = session->feed_specs,
                           .training = request->training ? training : NULL,
                           .map = &session->map,
                           .store = session->store,
                           .bound = session->bound,
                           .everywhere = session->everywhere,
                           .whole_reason = session->whole_reason,
                           .cache = session->prepared,
                           .depth = (uint32_t)session->depth,
                           .profile = session->profile,
                           .record = session->profile || session->trace,
                           .observe = session->observer != NULL,
                           .strict = session->strict,
                           .unfused = session->unfused,
                           .unmerged = session->unmerged,
                           .collective = session->collective,
                           .batching = session->batching,
                           .tuning = tuning,
                           .seed = atomic_load(&session->seed),
                           .deterministic = session->deterministic};
  tdm_session_set_targets(session, session->key_words + 1, request->fetch_count, request->training,
                          &made);
  if (tuning) made.batching.count = tdm_micro_tuning_count(tuning);
  return made;
}

static tdm_status make_plan(tdm_session *session, const tdm_run_request *request,
                            tdm_micro_tuning *tuning, const tdm_plan_key *key,
                            tdm_plan **out_plan) {
  tdm_training training;
  const tdm_plan_request wanted = plan_request_of(session, request, tuning, &training);
  const size_t key_bytes = key->count * sizeof(uint64_t);
  uint64_t *words = tdm_allocate(session->allocator, key_bytes, "plan");
  if (!words) return TDM_OUT_OF_MEMORY;
  const tdm_status status = tdm_plan_create(&wanted, out_plan);
  if (status != TDM_OK) {
    tdm_release(session->allocator, words, key_bytes);
    return status;
  }
  tdm_plan *plan = *out_plan;
  plan->key.words = memcpy(words, key->words, key_bytes);
  plan->key.count = key->count;
  plan->key.hash = key->hash;
  link_newest(session, plan);
  session->plan_count++;
  plan->uses++; /* while memory for it is released */
  evict(session);
  plan->uses--;
  return TDM_OK;
}

/* Finds or creates the plan of the key. Numbers of micro-batches that are tried and cannot be
 * planned are abandoned. If none can, the first failure is returned. */
static tdm_status find_or_make(tdm_session *session, const tdm_run_request *request,
                               tdm_plan_key key, tdm_plan **out_plan) {
  const size_t words = key.count;
  tdm_last_failure before, first;
  tdm_micro_tuning *tuning;
  tdm_last_failure_keep(&before);
  first.status = TDM_OK;
  for (bool again = true; again;) {
    key.count = words;
    TDM_TRY(choose_count(session, &key, &tuning));
    *out_plan = find_plan(session, &key);
    const tdm_status made =
        *out_plan ? TDM_OK : make_plan(session, request, tuning, &key, out_plan);
    if (made == TDM_OK) {
      if (first.status != TDM_OK) tdm_last_failure_restore(&before);
      return TDM_OK;
    }
    if (first.status == TDM_OK) tdm_last_failure_keep(&first);
    again = tdm_micro_tuning_is_cause(made, false) &&
            tdm_micro_tuning_give_up(tuning, tdm_micro_tuning_count(tuning));
  }
  tdm_last_failure_restore(&first);
  return first.status;
}

tdm_status tdm_session_find_plan(tdm_session *session, const tdm_run_request *request,
                                 tdm_plan **out_plan) {
  tdm_plan_key key = {0};
  if (request->training && !session->can_train)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    session->loss ? "the session has a loss and no optimizer: it cannot train "
                                    "without one (tdm_session_options.optimizer)"
                                  : "the session has no loss: it cannot train without one "
                                    "(tdm_session_options.loss, and optimizer)");
  TDM_TRY(make_key(session, request, &key));
  tdm_plan *plan;
  TDM_TRY(find_or_make(session, request, key, &plan));
  if (plan != session->newest) {
    unlink_plan(session, plan);
    link_newest(session, plan);
  }
  session->last_asked = plan;
  *out_plan = plan;
  return TDM_OK;
}

void tdm_session_leave_plan(tdm_session *session, tdm_plan *plan) {
  plan->uses--;
  evict(session);
}

tdm_status tdm_session_prepare(tdm_session *session, const tdm_feed *feeds, size_t feed_count,
                               const tdm_fetch *fetches, size_t fetch_count, bool training) {
  const tdm_run_request request = {feeds, feed_count, fetches, fetch_count, training, NULL};
  TDM_TRY(tdm_run_check_request(session, &request, "tdm_session_prepare"));
  TDM_TRY(tdm_context_check(session->context));
  tdm_plan *plan;
  pthread_mutex_lock(&session->lock);
  const tdm_status status = tdm_session_find_plan(session, &request, &plan);
  pthread_mutex_unlock(&session->lock);
  return status;
}

tdm_status tdm_session_traffic(tdm_session *session, tdm_traffic *out_traffic) {
  if (!out_traffic)
    return tdm_fail(TDM_INVALID_ARGUMENT, "tdm_session_traffic: no place for the answer");
  memset(out_traffic, 0, sizeof *out_traffic);
  if (!session) return tdm_fail(TDM_INVALID_ARGUMENT, "tdm_session_traffic: no session");
  TDM_TRY(tdm_context_check(session->context));
  pthread_mutex_lock(&session->lock);
  const tdm_plan *plan = session->last_asked;
  if (plan) *out_traffic = plan->traffic;
  pthread_mutex_unlock(&session->lock);
  return plan ? TDM_OK : tdm_fail(TDM_INVALID_ARGUMENT, "the session has made no plan yet");
}

tdm_status tdm_session_refreshed(tdm_session *session, uint64_t *out_transfers,
                                 uint64_t *out_bytes) {
  if (!out_transfers || !out_bytes)
    return tdm_fail(TDM_INVALID_ARGUMENT, "tdm_session_refreshed: no place for the answers");
  *out_transfers = *out_bytes = 0;
  if (!session) return tdm_fail(TDM_INVALID_ARGUMENT, "tdm_session_refreshed: no session");
  TDM_TRY(tdm_context_check(session->context));
  pthread_mutex_lock(&session->lock);
  const tdm_plan *plan = session->last_asked;
  if (plan) {
    *out_transfers = atomic_load(&plan->moved_transfers);
    *out_bytes = atomic_load(&plan->moved_bytes);
  }
  pthread_mutex_unlock(&session->lock);
  return plan ? TDM_OK : tdm_fail(TDM_INVALID_ARGUMENT, "the session has made no plan yet");
}
