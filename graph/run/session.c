/* A session's resources: slots of runs in flight, and rates of its optimizers. Invariant: a changed
 * rate applies to steps that are submitted from then on, because each step copies it. */
#include "graph/run/session.h"

#include <sched.h>
#include <string.h>

#include "core/park.h"

enum {
  PATIENCE_NS = 2000000
}; /* longest wait for the store's lock, which a run holds for some
    * microseconds */

tdm_session *tdm_session_retain(tdm_session *session) {
  if (session) atomic_fetch_add_explicit(&session->handles, 1, memory_order_relaxed);
  return session;
}

tdm_store *tdm_session_store(tdm_session *session) {
  return session ? session->store : NULL;
}

/* ---- Slots ----------------------------------------------------------------------------------- */

static void release_apart(const tdm_session *session, tdm_slot *slot) {
  for (size_t i = 0; i < slot->apart_count; i++)
    tdm_memory_give_back(&slot->apart[i]);
  tdm_release(session->allocator, slot->apart, slot->apart_count * sizeof *slot->apart);
  slot->apart = NULL;
  slot->apart_count = 0;
}

tdm_status tdm_slot_part(tdm_session *session, int slot, size_t count) {
  tdm_slot *parted = &session->slots[slot];
  release_apart(session, parted);
  if (count == 0) return TDM_OK;
  parted->apart = tdm_allocate(session->allocator, count * sizeof *parted->apart, "red zones");
  if (!parted->apart) return TDM_OUT_OF_MEMORY;
  parted->apart_count = count;
  return TDM_OK;
}

void tdm_slots_release(tdm_session *session) {
  for (int i = 0; session->slots && i < session->depth; i++)
    release_apart(session, &session->slots[i]);
  for (int i = 0; session->slots && i < session->depth; i++)
    for (size_t d = 0; session->slots[i].arenas && d < tdm_device_count(session->context); d++) {
      tdm_memory *memory = &session->slots[i].arenas[d];
      tdm_memory_give_back(memory);
    }
}

/* The caller holds the store's lock. */
static bool free_slots(tdm_session *session, const tdm_device *device) {
  bool found = false;
  for (int i = 0; i < session->depth; i++) {
    tdm_memory *memory = &session->slots[i].arenas[device->context_index];
    if (session->slots[i].busy || !memory->device) continue;
    tdm_memory_give_back(memory);
    found = true;
  }
  return found;
}

bool tdm_session_free_idle(tdm_session *session, const tdm_device *device) {
  (void)pthread_mutex_lock(&session->store->lock);
  const bool found = free_slots(session, device);
  (void)pthread_mutex_unlock(&session->store->lock);
  return tdm_output_pool_free_idle(session->outputs, device) || found;
}

/* Runs hold the lock briefly when they begin and end. A thread that holds it longer has exclusive
 * access, and may be waiting to call this function itself. */
static bool lock_soon(tdm_store *store) {
  const uint64_t end_ns = tdm_time_ns() + PATIENCE_NS;
  while (pthread_mutex_trylock(&store->lock) != 0) {
    if (tdm_time_ns() >= end_ns) return false;
    (void)sched_yield();
  }
  return true;
}

/* The caller may be allocating for a store to which it has exclusive access, and whose lock it
 * therefore holds. */
static bool give_back(tdm_keeper *keeper, const tdm_device *device) {
  tdm_session *session = (tdm_session *)((char *)keeper - offsetof(tdm_session, keeper));
  tdm_store *store = session->store;
  const bool is_alone = tdm_store_is_alone(store);
  bool found = false;
  if (is_alone || lock_soon(store)) {
    found = free_slots(session, device);
    if (!is_alone) (void)pthread_mutex_unlock(&store->lock);
  }
  return tdm_output_pool_free_idle(session->outputs, device) || found;
}

void tdm_session_begin_keeping(tdm_session *session) {
  session->keeper.give_back = give_back;
  tdm_context_add_keeper(session->context, &session->keeper);
}

/* ---- Rates and momenta ----------------------------------------------------------------------- */

void tdm_session_get_rates(tdm_session *session, double *rates, double *momenta) {
  (void)pthread_mutex_lock(&session->rates_lock);
  memcpy(rates, session->learning_rates, sizeof session->learning_rates);
  memcpy(momenta, session->momenta, sizeof session->momenta);
  (void)pthread_mutex_unlock(&session->rates_lock);
}

void tdm_session_put_rates(tdm_session *session, const double *rates, const double *momenta) {
  (void)pthread_mutex_lock(&session->rates_lock);
  memcpy(session->learning_rates, rates, sizeof session->learning_rates);
  memcpy(session->momenta, momenta, sizeof session->momenta);
  (void)pthread_mutex_unlock(&session->rates_lock);
}

/* Sets the rates of groups first to first + count. */
static void set_rates(tdm_session *session, size_t first, size_t count, const double *rates) {
  (void)pthread_mutex_lock(&session->rates_lock);
  memcpy(session->learning_rates + first, rates, count * sizeof *rates);
  (void)pthread_mutex_unlock(&session->rates_lock);
}

void tdm_session_begin_rates(tdm_session *session) {
  for (size_t g = 0; g < TDM_MAX_UPDATE_GROUPS; g++)
    session->momenta[g] = -1;
  for (size_t g = 0; g < session->groups.count; g++)
    session->learning_rates[g] = session->groups.optimizers[g].learning_rate;
}

static tdm_status check_rate(const char *where, double learning_rate) {
  if (tdm_is_learning_rate(learning_rate)) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "%s: a learning rate of %g, and it must be finite and not negative", where,
                  learning_rate);
}

tdm_status tdm_session_set_learning_rate(tdm_session *session, double learning_rate) {
  static const char where[] = "tdm_session_set_learning_rate";
  if (!session) return tdm_fail(TDM_INVALID_ARGUMENT, "%s: no session", where);
  TDM_TRY(tdm_context_check(session->context));
  const tdm_optimizer *optimizers = session->groups.optimizers;
  const double first = optimizers[0].learning_rate;
  const size_t count = first == 0.0 || session->groups.count == 0 ? 1 : session->groups.count;
  double rates[1 + TDM_MAX_PARAMETER_GROUPS] = {learning_rate};
  TDM_TRY(check_rate(where, learning_rate));
  for (size_t g = 1; g < count; g++) {
    rates[g] = learning_rate * (optimizers[g].learning_rate / first);
    TDM_TRY(check_rate(where, rates[g]));
  }
  set_rates(session, 0, count, rates);
  return TDM_OK;
}

tdm_status tdm_session_set_group_learning_rate(tdm_session *session, size_t group,
                                               double learning_rate) {
  const size_t count = session && session->groups.count ? session->groups.count - 1 : 0;
  if (group >= count)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "tdm_session_set_group_learning_rate: there is no group %zu of %zu", group,
                    count);
  TDM_TRY(tdm_context_check(session->context));
  TDM_TRY(check_rate("tdm_session_set_group_learning_rate", learning_rate));
  set_rates(session, 1 + group, 1, &learning_rate);
  return TDM_OK;
}

/* Sets the momenta of groups first to last. */
static tdm_status set_momenta(tdm_session *session, const char *where, size_t first, size_t last,
                              double momentum) {
  TDM_TRY(tdm_context_check(session->context));
  if (!tdm_is_momentum(momentum))
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s: a momentum of %g, and it must lie in [0, 1)", where,
                    momentum);
  size_t count = 0;
  (void)pthread_mutex_lock(&session->rates_lock);
  for (size_t g = first; g <= last; g++)
    if (tdm_update_group_has_momentum(&session->groups, g)) {
      session->momenta[g] = momentum;
      count++;
    }
  (void)pthread_mutex_unlock(&session->rates_lock);
  if (count > 0) return TDM_OK;
  const tdm_optimizer_rule *rule = session->groups.optimizers[first].rule;
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "%s: %s has no momentum to change: make sgd or rmsprop with one that is not 0, "
                  "or take adam or its kin, whose momentum is beta1",
                  where, rule ? rule->name : "what trains nothing");
}

tdm_status tdm_session_set_momentum(tdm_session *session, double momentum) {
  static const char where[] = "tdm_session_set_momentum";
  if (!session) return tdm_fail(TDM_INVALID_ARGUMENT, "%s: no session", where);
  if (session->groups.count == 0)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s: the session does not train", where);
  return set_momenta(session, where, 0, session->groups.count - 1, momentum);
}

tdm_status tdm_session_set_group_momentum(tdm_session *session, size_t group, double momentum) {
  static const char where[] = "tdm_session_set_group_momentum";
  const size_t count = session && session->groups.count ? session->groups.count - 1 : 0;
  if (group >= count)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s: there is no group %zu of %zu", where, group, count);
  return set_momenta(session, where, 1 + group, 1 + group, momentum);
}
