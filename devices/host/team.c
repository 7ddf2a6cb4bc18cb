/* The team on OpenMP: the only file that opens parallel regions. In each region a thread begins
 * with the same share, so that its cache holds what it wrote in the previous region. A thread that
 * is done takes pieces from the ends of the other shares, because a static split would wait for one
 * delayed thread. Since a region still ends with its last thread, a team that costs more than it
 * gains drops one thread for a while. */
#define _GNU_SOURCE /* pthread_getattr_default_np, affinity */
#include "devices/host/team.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/park.h"
#include "core/status.h"
#include "core/thread.h"

/* Grains of one thread's share of a region that no thread has taken yet: the first in the lower
 * half of the word, the end in the upper half. Each share has its own cache line. */
typedef struct share {
  _Alignas(64) _Atomic uint64_t left;
} share;

struct tdm_team {
  const tdm_allocator *allocator;
  const tdm_topology *topology;
  const tdm_core_range *range;
  size_t size;
  share *shares; /* (size) of the region in progress */
  void *share_memory;
  /* Only the opening thread accesses these: */
  bool bound;             /* the threads exist and are bound to their cores */
  size_t active;          /* threads that regions use now */
  int64_t debt_ns;        /* accumulated cost of the last thread; negative: its gain */
  uint64_t rest_until_ns; /* end of the current rest; only used while active < size */
  uint64_t rest;          /* length of the next rest, as a multiple of the debt */
};

/* A piece is a quarter of what is left of a share. So the last ones are small, to balance a delayed
 * thread, and they are few. */
enum { PART_OF_LEFT = 4, MOST_PARTS = 32 };

enum { MOST_GRAINS = 1 << 30 }; /* the maximum that half a word can count */

enum {
  MOST_DEBT_NS = 500000,  /* debt at which the team rests */
  MOST_LOSS_NS = 4000000, /* maximum that one region counts: a longer one was an exception */
  /* Initial credit of a team, also after a rest. A new thread may wait for its core for a time
   * slice of another process, and one late region is an exception. */
  FIRST_CREDIT_NS = MOST_LOSS_NS,
  MOST_CREDIT_NS = 20000000, /* limit of the debt that earlier gains compensate: some time slices */
  LEAST_GAIN_NS = 2000000,   /* gain after which the next rest is as short as the first one */
  LEAST_REST = 20, /* times the loss, so that retrying costs at most a twentieth of the time;
                    * doubled each time that a retry ends in debt again */
  LONGEST_REST = 160,
};

/* ---- Stacks ---------------------------------------------------------------------------------- */

#define LEAST_STACK_BYTES ((size_t)512 << 10)

/* Returns the bytes of an OpenMP size ("2m", "512", in KiB without a unit); 0: none. */
static size_t read_size(const char *text) {
  static const char units[] = "bkmg";
  if (!text) return 0;
  char *end = NULL;
  const unsigned long long count = strtoull(text, &end, 10);
  if (end == text || count > UINT32_MAX) return 0;
  while (*end == ' ')
    end++;
  const char unit = *end ? (char)(*end | 0x20) : 'k'; /* in lower case */
  const char *found = strchr(units, unit);
  return found ? (size_t)count << 10 * (found - units) : 0;
}

tdm_status tdm_team_check_stacks(const char *device) {
  const char *source = "OMP_STACKSIZE";
  size_t bytes = read_size(getenv(source));
  if (bytes == 0) bytes = read_size(getenv(source = "GOMP_STACKSIZE"));
  pthread_attr_t defaults;
  if (bytes == 0 && pthread_getattr_default_np(&defaults) == 0) {
    source = "ulimit -s";
    (void)pthread_attr_getstacksize(&defaults, &bytes);
    (void)pthread_attr_destroy(&defaults);
  }
  if (bytes == 0 || bytes >= LEAST_STACK_BYTES) return TDM_OK;
  return tdm_fail(TDM_UNAVAILABLE,
                  "%s: threads of its team would have a stack of %zu KiB (%s), expected at least "
                  "%zu KiB. Set OMP_STACKSIZE=1m before the program starts",
                  device, bytes >> 10, source, LEAST_STACK_BYTES >> 10);
}

/* ---- Life ------------------------------------------------------------------------------------ */

/* Returns the size of the shares, with room to align them. */
static size_t share_bytes(const tdm_team *team) {
  return (team->size + 1) * sizeof(share);
}

tdm_status tdm_team_create(const tdm_allocator *allocator, const tdm_topology *topology,
                           const tdm_core_range *range, size_t size, tdm_team **out_team) {
  *out_team = NULL;
  tdm_team *team = tdm_allocate(allocator, sizeof *team, "a team of threads");
  if (!team) return TDM_OUT_OF_MEMORY;
  *team = (tdm_team){
      .allocator = allocator, .topology = topology, .range = range, .size = size < 1 ? 1 : size};
  team->active = team->size;
  team->debt_ns = -FIRST_CREDIT_NS;
  team->rest = LEAST_REST;
  team->share_memory = tdm_allocate(allocator, share_bytes(team), "shares of a team");
  if (!team->share_memory) {
    tdm_team_destroy(team);
    return TDM_OUT_OF_MEMORY;
  }
  team->shares = (share *)(((uintptr_t)team->share_memory + 63) & ~(uintptr_t)63);
  *out_team = team;
  return TDM_OK;
}

void tdm_team_destroy(tdm_team *team) {
  if (!team) return;
  tdm_release(team->allocator, team->share_memory, share_bytes(team));
  tdm_release(team->allocator, team, sizeof *team);
}

size_t tdm_team_size(const tdm_team *team) {
  return !team ? 1 : team->size;
}

size_t tdm_team_active(const tdm_team *team) {
  return !team ? 1 : team->active;
}

/* Protects this thread's binding: LLVM's OpenMP sets a thread that calls it for the first time to
 * the process's cores (KMP_AFFINITY without noreset). */
static void meet_openmp(void) {
  static _Thread_local bool met;
  if (met) return;
  met = true;
  cpu_set_t cores;
  const bool known = sched_getaffinity(0, sizeof cores, &cores) == 0;
  (void)omp_get_max_threads();
  if (known) (void)sched_setaffinity(0, sizeof cores, &cores);
}

int tdm_team_serial_enter(void) {
  meet_openmp();
  const int saved = omp_get_max_threads();
  if (saved != 1) omp_set_num_threads(1);
  return saved;
}

void tdm_team_serial_leave(int saved) {
  if (saved != 1) omp_set_num_threads(saved);
}

static void bind_threads(tdm_team *team) {
  team->bound = true;
  if (!team->topology || !team->range) return;
#pragma omp parallel num_threads((int)team->active)
  {
    /* The owner has bound the opening thread, if necessary. If OpenMP has places, it bound that
     * thread to the first one when this region began. */
    if (omp_get_thread_num() != 0 || omp_get_num_places() > 0)
      (void)tdm_topology_bind_thread(team->topology, team->range);
  }
}

/* Removes one thread, for so long that the loss is small in comparison. */
static void begin_rest(tdm_team *team, uint64_t now_ns) {
  team->rest_until_ns = now_ns + (uint64_t)(team->debt_ns + FIRST_CREDIT_NS) * team->rest;
  if (team->rest < LONGEST_REST) team->rest *= 2;
  team->active--;
  team->debt_ns = -FIRST_CREDIT_NS;
  team->bound = false;
}

/* Restores all threads. Those that had ended are new and have to be bound. */
static void end_rest(tdm_team *team) {
  team->active = team->size;
  team->debt_ns = -FIRST_CREDIT_NS;
  team->bound = false;
}

/* Compares a region's time with the estimate for one thread fewer: the CPU time of its pieces,
 * divided among those threads. It exposes a thread that came late, or that held a piece while it
 * did not run. */
static void judge(tdm_team *team, uint64_t begin_ns, uint64_t end_ns, uint64_t worked_ns) {
  const int64_t lost_ns = (int64_t)(end_ns - begin_ns) - (int64_t)(worked_ns / (team->active - 1));
  team->debt_ns += lost_ns < MOST_LOSS_NS ? lost_ns : MOST_LOSS_NS;
  if (team->debt_ns < -FIRST_CREDIT_NS - LEAST_GAIN_NS) team->rest = LEAST_REST;
  if (team->debt_ns < -MOST_CREDIT_NS) team->debt_ns = -MOST_CREDIT_NS;
  if (team->debt_ns > MOST_DEBT_NS) begin_rest(team, end_ns);
}

typedef struct team_region {
  int64_t count;
  int64_t grain;
  uint32_t least; /* minimum grains of a piece, unless a share has fewer left */
  void (*body)(void *user, int64_t begin, int64_t end);
  void *user;
} team_region;

static void deal(tdm_team *team, uint64_t grains) {
  for (size_t i = 0; i < team->active; i++) {
    const uint64_t first = grains * i / team->active;
    const uint64_t end = grains * (i + 1) / team->active;
    atomic_store_explicit(&team->shares[i].left, end << 32 | first, memory_order_relaxed);
  }
}

/* Takes a piece from the beginning or the end of a share. Returns false if nothing is left. */
static bool take_piece(share *from, bool last, uint32_t least, uint32_t *out_begin,
                       uint32_t *out_end) {
  uint64_t left = atomic_load_explicit(&from->left, memory_order_relaxed);
  for (;;) {
    const uint32_t first = (uint32_t)left, end = (uint32_t)(left >> 32);
    if (first >= end) return false;
    uint32_t taken = (end - first) / PART_OF_LEFT;
    if (taken < least) taken = least < end - first ? least : end - first;
    *out_begin = last ? end - taken : first;
    *out_end = *out_begin + taken;
    const uint64_t rest = last ? left - ((uint64_t)taken << 32) : left + taken;
    if (atomic_compare_exchange_weak_explicit(&from->left, &left, rest, memory_order_relaxed,
                                              memory_order_relaxed))
      return true;
  }
}

/* Executes that thread's next piece: from its own share, then from the others. Returns false if
 * there is none. */
static bool run_piece(tdm_team *team, const team_region *region, size_t thread) {
  uint32_t first = 0, end = 0;
  bool took = false;
  for (size_t i = 0; i < team->active && !took; i++)
    took =
        take_piece(&team->shares[(thread + i) % team->active], i > 0, region->least, &first, &end);
  if (!took) return false;
  const int64_t last = (int64_t)end * region->grain;
  region->body(region->user, (int64_t)first * region->grain,
               last < region->count ? last : region->count);
  return true;
}

/* Runs a region and returns the CPU time of all pieces. */
static uint64_t run_region(tdm_team *team, const team_region *region) {
  _Atomic uint64_t worked_ns = 0;
#pragma omp parallel num_threads((int)team->active) default(shared)
  {
    const size_t thread = (size_t)omp_get_thread_num();
    const uint64_t before_ns = tdm_thread_cpu_ns();
    if (run_piece(team, region, thread)) {
      while (run_piece(team, region, thread))
        continue;
      atomic_fetch_add_explicit(&worked_ns, tdm_thread_cpu_ns() - before_ns, memory_order_relaxed);
    }
  }
  return atomic_load_explicit(&worked_ns, memory_order_relaxed);
}

void tdm_team_run(tdm_team *team, int64_t count, int64_t grain,
                  void (*body)(void *user, int64_t begin, int64_t end), void *user) {
  if (count <= 0 || !body) return;
  if (grain < 1) grain = 1;
  /* Within a region the team is busy, and its shares are in use. */
  if (!team || team->size == 1 || count <= grain || omp_in_parallel()) {
    body(user, 0, count);
    return;
  }
  uint64_t begin_ns = tdm_time_ns();
  if (team->active < team->size && begin_ns >= team->rest_until_ns) end_rest(team);
  if (team->active == 1) {
    body(user, 0, count);
    return;
  }
  if (!team->bound) {
    bind_threads(team);
    begin_ns = tdm_time_ns();
  }
  while (count / grain >= MOST_GRAINS)
    grain *= 2;
  const uint64_t grains = (uint64_t)((count + grain - 1) / grain);
  const uint64_t least = grains / (team->active * MOST_PARTS);
  const team_region region = {.count = count,
                              .grain = grain,
                              .least = least < 1 ? 1 : (uint32_t)least,
                              .body = body,
                              .user = user};
  deal(team, grains);
  const uint64_t worked_ns = run_region(team, &region);
  judge(team, begin_ns, tdm_time_ns(), worked_ns);
}
