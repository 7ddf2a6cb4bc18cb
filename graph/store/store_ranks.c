/* Agreement of a job's ranks about a store: whether it is broken, and which of its entries.
 * Invariant: after the agreement a store that is broken on one rank is broken on all of them, with
 * the same parameters and states, so that loading repairs it everywhere. All ranks count the same
 * steps. */
#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "devices/network/network.h"
#include "graph/store/store.h"
#include "tandem/graph/sessions.h"

/* The state of a rank's store, sent as it is. */
typedef struct rank_state {
  uint64_t digest; /* hash of the names, in order */
  uint64_t count;  /* number of entries */
  uint64_t broken; /* tdm_status */
} rank_state;

typedef struct exchange {
  tdm_store *store;
  size_t ranks;
  size_t count;       /* number of entries */
  rank_state *states; /* (ranks) */
  uint8_t *stale;     /* (count): the rank's own; then (ranks, count): those of all ranks */
  size_t stale_bytes;
} exchange;

static rank_state state_of(const tdm_store *store) {
  rank_state own = {.broken = (uint64_t)store->broken};
  for (const tdm_store_entry *entry = store->first; entry; entry = entry->next) {
    own.digest = tdm_hash_string(entry->name, own.digest);
    own.count++;
  }
  return own;
}

static tdm_status open_exchange(exchange *self, tdm_store *store) {
  *self = (exchange){.store = store, .ranks = (size_t)tdm_context_rank_count(store->context)};
  self->count = (size_t)state_of(store).count;
  self->stale_bytes = (self->ranks + 1) * (self->count + 1);
  self->states =
      tdm_allocate(store->allocator, self->ranks * sizeof *self->states, "ranks' stores");
  self->stale = tdm_allocate(store->allocator, self->stale_bytes, "ranks' stores");
  const bool made = self->states && self->stale;
  return tdm_context_agree(store->context, made ? TDM_OK : TDM_OUT_OF_MEMORY);
}

static void close_exchange(exchange *self) {
  const tdm_allocator *allocator = self->store->allocator;
  tdm_release(allocator, self->states, self->ranks * sizeof *self->states);
  tdm_release(allocator, self->stale, self->stale_bytes);
}

static tdm_status check_alike(const exchange *self) {
  for (size_t r = 1; r < self->ranks; r++)
    if (self->states[r].digest != self->states[0].digest ||
        self->states[r].count != self->states[0].count)
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "rank %zu has other parameters than rank 0: all ranks load the same", r);
  return TDM_OK;
}

/* Marks what is stale on one rank as stale on all. */
static tdm_status share_marks(exchange *self) {
  uint8_t *own = self->stale;
  uint8_t *all = own + self->count + 1;
  size_t i = 0;
  for (const tdm_store_entry *entry = self->store->first; entry; entry = entry->next)
    own[i++] = entry->stale;
  TDM_TRY(tdm_network_gather(tdm_context_network(self->store->context), own, self->count + 1, all));
  i = 0;
  for (tdm_store_entry *entry = self->store->first; entry; entry = entry->next, i++)
    for (size_t r = 0; r < self->ranks; r++)
      entry->stale |= all[r * (self->count + 1) + i] != 0;
  return TDM_OK;
}

static tdm_status agree(exchange *self) {
  tdm_store *store = self->store;
  const rank_state own = state_of(store);
  TDM_TRY(tdm_network_gather(tdm_context_network(store->context), &own, sizeof own, self->states));
  TDM_TRY(check_alike(self));
  size_t first = 0;
  while (first < self->ranks && self->states[first].broken == TDM_OK)
    first++;
  if (first == self->ranks) return TDM_OK;
  char cause[64];
  (void)snprintf(cause, sizeof cause, "rank %zu has failed inside its updates", first);
  tdm_store_break(store, (tdm_status)self->states[first].broken, cause);
  return share_marks(self);
}

tdm_status tdm_store_agree(tdm_store *store) {
  if (!tdm_context_network(store->context)) return TDM_OK;
  exchange self;
  tdm_status status = open_exchange(&self, store);
  if (status == TDM_OK) status = agree(&self);
  close_exchange(&self);
  return status;
}
