/* The table of run ids: an id is a slot's generation and its index + 1. Invariant: a slot's
 * generation rises with every run that it holds, so that an old id finds nothing. */
#include "graph/run/run_table.h"

void tdm_run_table_init(tdm_run_table *table, const tdm_allocator *allocator, uint32_t limit) {
  *table = (tdm_run_table){.allocator = allocator, .limit = limit};
  (void)pthread_mutex_init(&table->lock, NULL); /* glibc's mutexes need no resources */
}

void tdm_run_table_deinit(tdm_run_table *table) {
  if (!table->allocator) return;
  tdm_release(table->allocator, table->places, table->capacity * sizeof *table->places);
  (void)pthread_mutex_destroy(&table->lock);
}

static tdm_status check_locked(tdm_run_table *table) {
  if (table->limit == 0 || table->used < table->limit) return TDM_OK;
  table->refused = true;
  return tdm_fail(TDM_RESOURCE_EXHAUSTED, "%u runs of the session are under way, its limit",
                  table->used);
}

tdm_status tdm_run_table_check(tdm_run_table *table) {
  (void)pthread_mutex_lock(&table->lock);
  const tdm_status status = check_locked(table);
  (void)pthread_mutex_unlock(&table->lock);
  return status;
}

static tdm_status add_locked(tdm_run_table *table, struct tdm_run_state *run, uint64_t *out_id) {
  TDM_TRY(check_locked(table));
  if (table->free == 0) {
    TDM_TRY(tdm_array_reserve(table->allocator, (void **)&table->places, &table->capacity,
                              table->count + 1, sizeof *table->places, "runs"));
    table->places[table->count++] = (tdm_run_place){0};
    table->free = (uint32_t)table->count;
  }
  const uint32_t number = table->free;
  tdm_run_place *place = &table->places[number - 1];
  table->free = place->next_free;
  place->run = run;
  place->generation++;
  table->used++;
  *out_id = (uint64_t)place->generation << 32 | number;
  return TDM_OK;
}

tdm_status tdm_run_table_add(tdm_run_table *table, struct tdm_run_state *run, uint64_t *out_id) {
  (void)pthread_mutex_lock(&table->lock);
  const tdm_status status = add_locked(table, run, out_id);
  (void)pthread_mutex_unlock(&table->lock);
  return status;
}

bool tdm_run_table_remove(tdm_run_table *table, uint64_t id) {
  const uint32_t number = (uint32_t)id;
  (void)pthread_mutex_lock(&table->lock);
  tdm_run_place *place = &table->places[number - 1];
  place->run = NULL;
  place->next_free = table->free;
  table->free = number;
  table->used--;
  const bool refused = table->refused;
  table->refused = false;
  (void)pthread_mutex_unlock(&table->lock);
  return refused;
}

struct tdm_run_state *tdm_run_table_find(const tdm_run_table *table, uint64_t id) {
  const uint32_t number = (uint32_t)id;
  if (number == 0 || number > table->count) return NULL;
  const tdm_run_place *place = &table->places[number - 1];
  return place->generation == (uint32_t)(id >> 32) ? place->run : NULL;
}
