/* Looks up plans by their keys, creates missing ones, and evicts idle ones. Invariant: the list is
 * ordered by latest use. A plan stays while it is used. */
#include <string.h>

#include "core/hash.h"
#include "core/last_failure.h"
#include "graph/run/run.h"

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

tdm_plan_request tdm_session_plan_request(tdm_session *session, const tdm_resolved_run *resolved,
                                          tdm_training *training) {
  *training = (tdm_training){session->loss, &session->groups, session->check_finite,
                             session->deterministic, session->alike_ranks};
  return (tdm_plan_request){.source = session->graph,
                            .feeds = resolved->specs,
                            .targets = resolved->targets,
                            .target_devices = resolved->target_devices,
                            .target_count = resolved->target_count,
                            .training = resolved->training ? training : NULL,
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
                            .seed = atomic_load(&session->seed),
                            .deterministic = session->deterministic};
}

static tdm_status make_plan(tdm_session *session, const tdm_resolved_run *resolved,
                            tdm_micro_tuning *tuning, const tdm_plan_key *key,
                            tdm_plan **out_plan) {
  tdm_training training;
  tdm_plan_request wanted = tdm_session_plan_request(session, resolved, &training);
  wanted.tuning = tuning;
  if (tuning) wanted.batching.count = tdm_micro_tuning_count(tuning);
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
  plan->uses++; /* in use, so that it is not evicted while memory for it is released */
  evict(session);
  plan->uses--;
  return TDM_OK;
}

/* Finds or creates the plan. Numbers of micro-batches that are tried and cannot be planned are
 * abandoned. If none can, the first failure is returned. */
static tdm_status find_or_make(tdm_session *session, const tdm_resolved_run *resolved,
                               tdm_plan **out_plan) {
  tdm_plan_key key = resolved->key;
  tdm_last_failure before, first;
  tdm_micro_tuning *tuning;
  tdm_last_failure_keep(&before);
  first.status = TDM_OK;
  for (bool again = true; again;) {
    key.count = resolved->key.count;
    TDM_TRY(choose_count(session, &key, &tuning));
    *out_plan = find_plan(session, &key);
    const tdm_status made =
        *out_plan ? TDM_OK : make_plan(session, resolved, tuning, &key, out_plan);
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

tdm_status tdm_session_find_plan(tdm_session *session, const tdm_resolved_run *resolved,
                                 tdm_plan **out_plan) {
  tdm_plan *plan;
  TDM_TRY(find_or_make(session, resolved, &plan));
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
  tdm_resolved_run resolved;
  tdm_plan *plan;
  (void)pthread_mutex_lock(&session->lock);
  tdm_status status = tdm_session_resolve(session, &request, &resolved);
  if (status == TDM_OK) status = tdm_session_find_plan(session, &resolved, &plan);
  (void)pthread_mutex_unlock(&session->lock);
  return status;
}

tdm_status tdm_session_traffic(tdm_session *session, tdm_traffic *out_traffic) {
  if (!out_traffic)
    return tdm_fail(TDM_INVALID_ARGUMENT, "tdm_session_traffic: no place for the answer");
  memset(out_traffic, 0, sizeof *out_traffic);
  if (!session) return tdm_fail(TDM_INVALID_ARGUMENT, "tdm_session_traffic: no session");
  TDM_TRY(tdm_context_check(session->context));
  (void)pthread_mutex_lock(&session->lock);
  const tdm_plan *plan = session->last_asked;
  if (plan) *out_traffic = plan->traffic;
  (void)pthread_mutex_unlock(&session->lock);
  return plan ? TDM_OK : tdm_fail(TDM_INVALID_ARGUMENT, "the session has made no plan yet");
}

tdm_status tdm_session_refreshed(tdm_session *session, uint64_t *out_transfers,
                                 uint64_t *out_bytes) {
  if (!out_transfers || !out_bytes)
    return tdm_fail(TDM_INVALID_ARGUMENT, "tdm_session_refreshed: no place for the answers");
  *out_transfers = *out_bytes = 0;
  if (!session) return tdm_fail(TDM_INVALID_ARGUMENT, "tdm_session_refreshed: no session");
  TDM_TRY(tdm_context_check(session->context));
  (void)pthread_mutex_lock(&session->lock);
  const tdm_plan *plan = session->last_asked;
  if (plan) {
    *out_transfers = atomic_load(&plan->moved_transfers);
    *out_bytes = atomic_load(&plan->moved_bytes);
  }
  (void)pthread_mutex_unlock(&session->lock);
  return plan ? TDM_OK : tdm_fail(TDM_INVALID_ARGUMENT, "the session has made no plan yet");
}
