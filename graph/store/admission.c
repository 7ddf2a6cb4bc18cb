/* Admission to the store: concurrent runs that read, one that writes, by itself or with those of
 * its chain, and exclusive users, in the order of requesting. Invariant: nothing that could be
 * admitted waits in the queue. start is called without the lock, exactly once. */
#include "graph/store/store.h"

static bool is_idle(const tdm_store *store) {
  return !store->exclusive && !store->first_chained && store->readers == 0;
}

void tdm_store_grow_logs(tdm_store *store) {
  if (!store->growing || !is_idle(store)) return;
  for (tdm_store_entry *entry = store->growing; entry; entry = entry->next_growing) {
    tdm_row_log *log = &entry->log;
    log->retired = log->storage; /* memory is not released under the lock */
    log->storage = log->larger;
    log->larger = NULL;
    log->since = entry->version;
    atomic_store(&log->window, atomic_load(&log->planned_window));
  }
  store->growing = NULL;
}

static bool can_enter(const tdm_store *store, tdm_admission *admission) {
  if (store->exclusive) return false;
  if (!admission->ready) return is_idle(store); /* requires exclusive access */
  if (!admission->ready(admission)) return false;
  const tdm_admission *last = store->last_chained;
  if (admission->writes && store->readers > 0) return false;
  return !last ||
         (admission->chain && admission->chain == last->chain && admission->writes == last->writes);
}

/* Returns true if it has a place in the order. Others only read, in any order. */
static bool is_in_order(const tdm_admission *admission) {
  return admission->writes || admission->chain;
}

static void take_place(tdm_store *store, tdm_admission *admission) {
  if (!admission->ready) {
    store->exclusive = admission;
    (void)pthread_cond_broadcast(&store->granted);
    return;
  }
  if (is_in_order(admission)) {
    admission->ahead = store->last_chained;
    admission->behind = NULL;
    *(admission->ahead ? &admission->ahead->behind : &store->first_chained) = admission;
    store->last_chained = admission;
  } else {
    store->readers++;
  }
  admission->admit(admission);
}

static void give_up_place(tdm_store *store, tdm_admission *admission) {
  if (!is_in_order(admission)) {
    store->readers--;
    return;
  }
  *(admission->ahead ? &admission->ahead->behind : &store->first_chained) = admission->behind;
  *(admission->behind ? &admission->behind->ahead : &store->last_chained) = admission->ahead;
}

static bool enter_locked(tdm_store *store, tdm_admission *admission) {
  if (admission->ready) admission->number = tdm_context_count_run(store->context);
  tdm_store_grow_logs(store);
  if (!store->waiting && can_enter(store, admission)) {
    take_place(store, admission);
    return true;
  }
  admission->waits = true;
  admission->next = NULL;
  admission->before = store->waiting ? store->waiting_last : NULL;
  *(admission->before ? &admission->before->next : &store->waiting) = admission;
  store->waiting_last = admission;
  return false;
}

/* Removes it from any place in the queue. */
static void leave_queue(tdm_store *store, tdm_admission *admission) {
  tdm_admission *behind = admission->next;
  *(admission->before ? &admission->before->next : &store->waiting) = behind;
  *(behind ? &behind->before : &store->waiting_last) = admission->before;
  admission->waits = false;
  admission->next = NULL;
}

bool tdm_store_enter(tdm_store *store, tdm_admission *admission) {
  (void)pthread_mutex_lock(&store->lock);
  const bool admitted = enter_locked(store, admission);
  (void)pthread_mutex_unlock(&store->lock);
  return admitted;
}

void tdm_store_pass_over(tdm_store *store) {
  (void)tdm_context_count_run(store->context);
}

/* Removes those that can enter from the head of the queue, in order. An exclusive user waits for
 * `granted`. It is not in the list, because it may be gone as soon as the lock is released. */
tdm_admission *tdm_store_admit_locked(tdm_store *store) {
  tdm_admission *first = NULL;
  tdm_admission **last = &first;
  tdm_store_grow_logs(store);
  while (store->waiting && can_enter(store, store->waiting)) {
    tdm_admission *admission = store->waiting;
    leave_queue(store, admission);
    take_place(store, admission);
    if (!admission->ready) break;
    *last = admission;
    last = &admission->next;
  }
  return first;
}

/* The runs that this thread has to start. A run that fails at once ends while it is being started
 * and so admits the next. They are started one after the other: a hundred thousand nested starts
 * would exceed the stack. */
typedef struct start_list {
  tdm_admission *first;
  tdm_admission **last; /* where the next admission is appended */
  bool is_under_way;
} start_list;

static _Thread_local start_list starts;

void tdm_store_start(tdm_admission *admitted) {
  if (!starts.first) starts.last = &starts.first;
  *starts.last = admitted;
  while (*starts.last)
    starts.last = &(*starts.last)->next;
  if (starts.is_under_way) return;
  starts.is_under_way = true;
  while (starts.first) {
    tdm_admission *admission = starts.first;
    starts.first = admission->next;
    if (!starts.first) starts.last = &starts.first;
    admission->start(admission);
  }
  starts.is_under_way = false;
}

void tdm_store_end_locked(tdm_store *store, tdm_admission *admission) {
  admission->settle(admission);
  give_up_place(store, admission);
}

bool tdm_store_withdraw(tdm_store *store, tdm_admission *admission, tdm_admission **out_admitted) {
  (void)pthread_mutex_lock(&store->lock);
  const bool waited = admission->waits;
  if (waited) leave_queue(store, admission);
  *out_admitted = waited ? tdm_store_admit_locked(store) : NULL;
  (void)pthread_mutex_unlock(&store->lock);
  return waited;
}

/* The store to which this thread has exclusive access. */
static _Thread_local const tdm_store *alone_in;

bool tdm_store_is_alone(const tdm_store *store) {
  return alone_in == store;
}

void tdm_store_enter_alone(tdm_store *store, tdm_admission *place) {
  *place = (tdm_admission){.ready = NULL};
  (void)pthread_mutex_lock(&store->lock);
  (void)enter_locked(store, place);
  while (store->exclusive != place)
    (void)pthread_cond_wait(&store->granted, &store->lock);
  alone_in = store;
}

void tdm_store_leave_alone(tdm_store *store) {
  alone_in = NULL;
  store->exclusive = NULL;
  tdm_admission *admitted = tdm_store_admit_locked(store);
  (void)pthread_mutex_unlock(&store->lock);
  tdm_store_start(admitted);
}
