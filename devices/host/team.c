/* The team on OpenMP: the only file that opens parallel regions. Chunks are taken dynamically,
 * since a static split waits for the one thread that was held up. */
#include "devices/host/team.h"

#include <omp.h>
#include <stdatomic.h>

struct tdm_team {
  const tdm_allocator *allocator;
  const tdm_topology *topology;
  const tdm_core_range *range;
  size_t size;
  bool bound; /* the threads exist and sit on their cores; only the opening thread looks */
};

/* Chunks a thread may expect: enough to even out a held up thread, few enough to be cheap. */
enum { CHUNKS_PER_THREAD = 4 };

tdm_status tdm_team_create(const tdm_allocator *allocator, const tdm_topology *topology,
                           const tdm_core_range *range, size_t size, tdm_team **out_team) {
  *out_team = NULL;
  tdm_team *team = tdm_allocate(allocator, sizeof(*team), "a team of threads");
  if (team == NULL) return TDM_OUT_OF_MEMORY;
  *team = (tdm_team){
      .allocator = allocator, .topology = topology, .range = range, .size = size < 1 ? 1 : size};
  *out_team = team;
  return TDM_OK;
}

void tdm_team_destroy(tdm_team *team) {
  if (team != NULL) tdm_release(team->allocator, team, sizeof(*team));
}

size_t tdm_team_size(const tdm_team *team) {
  return team == NULL ? 1 : team->size;
}

int tdm_team_serial_enter(void) {
  const int saved = omp_get_max_threads();
  if (saved != 1) omp_set_num_threads(1);
  return saved;
}

void tdm_team_serial_leave(int saved) {
  if (saved != 1) omp_set_num_threads(saved);
}

static void bind_threads(tdm_team *team) {
  team->bound = true;
  if (team->topology == NULL || team->range == NULL) return;
#pragma omp parallel num_threads((int)team->size)
  {
    /* The opening thread was bound by its owner, if it wanted to be. */
    if (omp_get_thread_num() != 0) (void)tdm_topology_bind_thread(team->topology, team->range);
  }
}

static int64_t chunk_length(int64_t count, int64_t grain, size_t threads) {
  const int64_t wanted = count / ((int64_t)threads * CHUNKS_PER_THREAD);
  return wanted <= grain ? grain : wanted / grain * grain;
}

void tdm_team_run(tdm_team *team, int64_t count, int64_t grain,
                  void (*body)(void *user, int64_t begin, int64_t end), void *user) {
  if (count <= 0) return;
  if (grain < 1) grain = 1;
  if (team == NULL || team->size == 1 || count <= grain) {
    body(user, 0, count);
    return;
  }
  if (!team->bound) bind_threads(team);
  const int64_t chunk = chunk_length(count, grain, team->size);
  _Atomic int64_t next = 0;
#pragma omp parallel num_threads((int)team->size) default(shared)
  {
    for (;;) {
      const int64_t begin = atomic_fetch_add_explicit(&next, chunk, memory_order_relaxed);
      if (begin >= count) break;
      body(user, begin, count - begin < chunk ? count : begin + chunk);
    }
  }
}
