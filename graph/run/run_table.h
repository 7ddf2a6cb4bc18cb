/* Submitted runs of a session by id, from submission until they are delivered. Invariant: under the
 * lock, a run that is found is alive. An id is never used twice. */
#ifndef TANDEM_GRAPH_RUN_RUN_TABLE_H
#define TANDEM_GRAPH_RUN_RUN_TABLE_H

#include <pthread.h>

#include "core/allocate.h"
#include "core/status.h"

struct tdm_run_state;

typedef struct tdm_run_place {
  struct tdm_run_state *run; /* NULL: free */
  uint32_t generation;       /* generation of the latest run here */
  uint32_t next_free;        /* index + 1; 0: none */
} tdm_run_place;

typedef struct tdm_run_table {
  const tdm_allocator *allocator;
  pthread_mutex_t lock;
  tdm_run_place *places; /* (count) */
  size_t count, capacity;
  uint32_t free; /* index + 1; 0: none */
  uint32_t used;
  uint32_t limit; /* limit of used; 0: none */
  bool refused;   /* a run was refused since there was last room */
} tdm_run_table;

void tdm_run_table_init(tdm_run_table *table, const tdm_allocator *allocator, uint32_t limit);
void tdm_run_table_deinit(tdm_run_table *table);
/* Checks that there is room for one more. Fails with RESOURCE_EXHAUSTED; the caller that makes room
 * is then informed. */
tdm_status tdm_run_table_check(tdm_run_table *table) TDM_WARN_UNUSED;
/* Adds a run. Fails with RESOURCE_EXHAUSTED, as above, or OUT_OF_MEMORY. The id is never 0. */
tdm_status tdm_run_table_add(tdm_run_table *table, struct tdm_run_state *run,
                             uint64_t *out_id) TDM_WARN_UNUSED;
/* Removes a run. Returns true if another one was refused before, so that its caller can be notified
 * of the room. */
bool tdm_run_table_remove(tdm_run_table *table, uint64_t id);
/* Returns a run, or NULL if it has been delivered or never existed. The caller holds the lock. */
struct tdm_run_state *tdm_run_table_find(const tdm_run_table *table, uint64_t id);

#endif
