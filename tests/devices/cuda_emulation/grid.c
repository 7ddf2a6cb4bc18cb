/* The scheduler of a block's threads, its barrier and its warps. Invariant: a thread continues only
 * when every thread that it has to meet has arrived at the same place in the source. */
#include "tests/devices/cuda_emulation/grid.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/devices/cuda_emulation/grid_state.h"

__thread const grid_thread *grid_current;

static _Atomic int order_set;
static _Atomic uint64_t seed_set = 1;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t worker_key;
static _Thread_local grid_worker *own_worker;

void grid_set_order(grid_order order, uint64_t seed) {
  atomic_store(&order_set, (int)order);
  atomic_store(&seed_set, seed);
}

/* ---- Workers --------------------------------------------------------------------------------- */

static void worker_destroy(void *user) {
  grid_worker *worker = user;
  for (size_t i = 0; i < GRID_MOST_THREADS; i++)
    fiber_deinit(&worker->fibers[i]);
  grid_shared_deinit(&worker->shared);
  free(worker);
  own_worker = NULL;
}

/* The main thread's worker is still there when the process ends. */
static void last_worker_destroy(void) {
  if (own_worker) worker_destroy(own_worker);
}

static void key_create(void) {
  if (pthread_key_create(&worker_key, worker_destroy) != 0) abort();
  if (atexit(last_worker_destroy) != 0) abort();
}

grid_worker *grid_worker_get(void) {
  if (own_worker) return own_worker;
  (void)pthread_once(&once, key_create);
  own_worker = calloc(1, sizeof *own_worker);
  if (!own_worker || pthread_setspecific(worker_key, own_worker) != 0) abort();
  return own_worker;
}

grid_lane *grid_lane_current(void) {
  return &grid_worker_get()->lanes[grid_current->thread.x];
}

void grid_misuse(const char *format, ...) {
  va_list arguments;
  fprintf(stderr, "emulated CUDA: kernel %s", grid_worker_get()->name);
  if (grid_current)
    fprintf(stderr, ", block %u, thread %u", grid_current->block.x, grid_current->thread.x);
  fprintf(stderr, ": ");
  va_start(arguments, format);
  /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it is, in the line above */
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fprintf(stderr, "\n");
  abort();
}

/* ---- Whose turn it is ------------------------------------------------------------------------ */

/* Returns the next number of xorshift64* (Vigna, "An experimental exploration of Marsaglia's
 * xorshift generators, scrambled", ACM TOMS 42, 2016). */
static uint64_t random_next(grid_worker *worker) {
  worker->random ^= worker->random >> 12;
  worker->random ^= worker->random << 25;
  worker->random ^= worker->random >> 27;
  return worker->random * 0x2545F4914F6CDD1Du;
}

static uint32_t random_below(grid_worker *worker, uint32_t bound) {
  return (uint32_t)((random_next(worker) >> 32) * bound >> 32);
}

static uint32_t warps_of(const grid_worker *worker) {
  return (worker->threads + GRID_LANES - 1) / GRID_LANES;
}

static void priorities_shuffle(grid_worker *worker) {
  for (uint32_t i = warps_of(worker); i > 1; i--) {
    const uint32_t j = random_below(worker, i);
    const uint32_t kept = worker->priorities[i - 1];
    worker->priorities[i - 1] = worker->priorities[j];
    worker->priorities[j] = kept;
  }
}

static void priorities_init(grid_worker *worker) {
  const uint32_t warps = warps_of(worker);
  for (uint32_t i = 0; i < warps; i++)
    worker->priorities[i] = worker->order == GRID_DESCENDING ? warps - 1 - i : i;
  if (worker->order == GRID_RANDOM) priorities_shuffle(worker);
}

static void lane_make_ready(grid_worker *worker, uint32_t lane) {
  worker->lanes[lane].state = LANE_READY;
  worker->ready[lane / GRID_LANES] |= 1u << lane % GRID_LANES;
}

/* The lane of a non-zero set that goes first. */
static uint32_t choose_lane(grid_worker *worker, uint32_t set) {
  if (worker->order == GRID_ASCENDING) return (uint32_t)__builtin_ctz(set);
  if (worker->order == GRID_DESCENDING) return 31 - (uint32_t)__builtin_clz(set);
  for (uint32_t skip = random_below(worker, (uint32_t)__builtin_popcount(set)); skip > 0; skip--)
    set &= set - 1;
  return (uint32_t)__builtin_ctz(set);
}

/* Takes the next lane; false: none is ready. */
static bool take_lane(grid_worker *worker, uint32_t *out_lane) {
  if (worker->order == GRID_RANDOM && random_below(worker, 64) == 0) priorities_shuffle(worker);
  for (uint32_t i = 0; i < warps_of(worker); i++) {
    const uint32_t warp = worker->priorities[i];
    if (worker->ready[warp] == 0) continue;
    const uint32_t lane = choose_lane(worker, worker->ready[warp]);
    worker->ready[warp] &= ~(1u << lane);
    *out_lane = warp * GRID_LANES + lane;
    return true;
  }
  return false;
}

/* ---- Meeting --------------------------------------------------------------------------------- */

/* Places are strings. Most comparisons are of the same pointer, and comparing the text costs more
 * than everything else here under AddressSanitizer. */
static bool same_site(const char *a, const char *b) {
  return a == b || strcmp(a, b) == 0;
}

static void wait_at(grid_lane *lane, lane_state state, const char *site) {
  lane->state = state;
  lane->site = site;
  fiber_yield(lane->fiber);
}

void grid_barrier(const char *site) {
  grid_worker *worker = grid_worker_get();
  if (worker->barrier_site && !same_site(worker->barrier_site, site))
    grid_misuse("divergent barriers, at %s and at %s", worker->barrier_site, site);
  worker->barrier_site = site;
  worker->at_barrier++;
  char *token = grid_token(worker, 0);
  ORDER_BEFORE(token);
  wait_at(grid_lane_current(), LANE_AT_BARRIER, site);
  ORDER_AFTER(token);
}

static void barrier_open(grid_worker *worker) {
  if (worker->running != worker->threads) {
    grid_misuse("barrier at %s, but %u threads of the block have returned", worker->barrier_site,
                worker->threads - worker->running);
  }
  for (uint32_t i = 0; i < worker->threads; i++)
    lane_make_ready(worker, i);
  worker->at_barrier = 0;
  worker->barrier_site = NULL;
  worker->meetings[0]++;
}

/* Returns the lane that `lane` of the warp reads. */
static uint32_t partner_of(const grid_lane *self, uint32_t lane) {
  uint32_t partner = self->argument;
  if (self->kind == GRID_SHUFFLE) partner = self->argument % GRID_LANES;
  if (self->kind == GRID_SHUFFLE_UP) partner = lane - self->argument;
  if (self->kind == GRID_SHUFFLE_DOWN) partner = lane + self->argument;
  if (self->kind == GRID_SHUFFLE_XOR) partner = lane ^ self->argument;
  return partner < GRID_LANES ? partner : lane;
}

/* All lanes of the mask have arrived: distributes their exchanged values. */
static void warp_open(grid_worker *worker, uint32_t warp, uint32_t mask) {
  grid_lane *lanes = &worker->lanes[warp * GRID_LANES];
  uint64_t received[GRID_LANES] = {0};
  uint32_t ballot = 0;
  worker->meetings[1 + warp]++;
  worker->at_warp[warp] &= ~mask;
  for (uint32_t i = 0; i < GRID_LANES; i++) {
    if ((mask >> i & 1) == 0) continue;
    const uint32_t partner = partner_of(&lanes[i], i);
    if (lanes[i].kind < GRID_BALLOT && (mask >> partner & 1) == 0)
      grid_misuse("%s: reads lane %u, which is not in the mask", lanes[i].site, partner);
    received[i] = lanes[partner].value;
    if (lanes[i].value != 0) ballot |= 1u << i;
  }
  for (uint32_t i = 0; i < GRID_LANES; i++) {
    if ((mask >> i & 1) == 0) continue;
    lanes[i].value = lanes[i].kind == GRID_BALLOT ? ballot : received[i];
    lane_make_ready(worker, warp * GRID_LANES + i);
  }
}

/* Ends the process unless the lane, waiting at a warp's operation, agrees with self. */
static void check_agreement(const grid_lane *lane, const grid_lane *self, const char *site) {
  if ((lane->mask & self->mask) == 0) return;
  if (lane->mask == self->mask && lane->kind == self->kind && same_site(lane->site, site)) return;
  grid_misuse("divergent warp, at %s and at %s, masks %08x and %08x", lane->site, site, lane->mask,
              self->mask);
}

uint64_t grid_warp(grid_exchange kind, uint32_t mask, uint64_t value, uint32_t argument,
                   const char *site) {
  grid_worker *worker = grid_worker_get();
  grid_lane *self = grid_lane_current();
  const uint32_t warp = self->index.thread.x / GRID_LANES;
  const uint32_t own = 1u << self->index.thread.x % GRID_LANES;
  const uint32_t left = worker->threads - warp * GRID_LANES;
  const uint32_t there = left < GRID_LANES ? (1u << left) - 1 : UINT32_MAX;
  if ((mask & own) == 0) grid_misuse("%s: a lane outside its own mask", site);
  if ((mask & ~there) != 0) grid_misuse("%s: the mask names lanes that the block lacks", site);
  if ((mask & worker->done[warp]) != 0) grid_misuse("%s: a lane of the mask has returned", site);
  self->kind = kind;
  self->mask = mask;
  self->value = value;
  self->argument = argument;
  /* Lanes that wait for each other agree already, so one of each such set is checked. */
  for (uint32_t waiting = worker->at_warp[warp]; waiting != 0;) {
    const grid_lane *lane = &worker->lanes[warp * GRID_LANES + (uint32_t)__builtin_ctz(waiting)];
    check_agreement(lane, self, site);
    waiting &= ~lane->mask;
  }
  const uint32_t arrived = (worker->at_warp[warp] & mask) | own;
  self->site = site;
  char *token = grid_token(worker, 1 + warp);
  if (kind == GRID_SYNCHRONIZE) ORDER_BEFORE(token);
  if (arrived == mask) warp_open(worker, warp, mask); /* also self, which yields all the same */
  if (arrived != mask) {
    self->state = LANE_AT_WARP;
    worker->at_warp[warp] |= own;
  }
  fiber_yield(self->fiber);
  if (kind == GRID_SYNCHRONIZE) ORDER_AFTER(token);
  return self->value;
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static void lane_body(void *user) {
  grid_worker *worker = user;
  ORDER_AFTER(&worker->begin_token);
  worker->call(worker->function, worker->arguments);
  ORDER_BEFORE(&worker->end_token);
}

static void block_begin(grid_worker *worker, uint32_t block, uint32_t blocks) {
  const grid_thread index = {
      .block = {block}, .block_extent = {worker->threads}, .grid_extent = {blocks}};
  worker->running = worker->threads;
  worker->at_barrier = 0;
  worker->barrier_site = NULL;
  memset(worker->done, 0, sizeof worker->done);
  memset(worker->at_warp, 0, sizeof worker->at_warp);
  grid_shared_begin(&worker->shared);
  for (uint32_t i = 0; i < worker->threads; i++) {
    worker->lanes[i].index = index;
    worker->lanes[i].index.thread.x = i;
    worker->lanes[i].fiber = &worker->fibers[(i + worker->turn) % worker->threads];
    fiber_begin(worker->lanes[i].fiber, lane_body, worker);
    lane_make_ready(worker, i);
  }
  worker->turn++;
  ORDER_BEFORE(&worker->begin_token);
}

/* No thread can continue: reports where two of them wait. */
static _Noreturn void report_deadlock(const grid_worker *worker) {
  const char *first = NULL, *second = NULL;
  for (uint32_t i = 0; i < worker->threads; i++) {
    const grid_lane *lane = &worker->lanes[i];
    if (lane->state == LANE_DONE) continue;
    if (!first) first = lane->site;
    if (!same_site(first, lane->site)) second = lane->site;
  }
  grid_misuse("deadlock: threads wait at %s and at %s", first, second ? second : first);
}

static void lane_run(grid_worker *worker, uint32_t lane) {
  grid_lane *self = &worker->lanes[lane];
  grid_current = &self->index;
  fiber_resume(self->fiber, &worker->scheduler);
  grid_current = NULL;
  if (!self->fiber->done) return;
  self->state = LANE_DONE;
  worker->done[lane / GRID_LANES] |= 1u << lane % GRID_LANES;
  worker->running--;
}

static void block_run(grid_worker *worker, uint32_t block, uint32_t blocks) {
  block_begin(worker, block, blocks);
  while (worker->running > 0) {
    uint32_t lane;
    if (take_lane(worker, &lane)) {
      lane_run(worker, lane);
    } else if (worker->at_barrier == worker->running) {
      barrier_open(worker);
    } else {
      report_deadlock(worker);
    }
  }
  grid_shared_end(&worker->shared);
}

static uint64_t common_divisor(uint64_t a, uint64_t b) {
  while (b != 0) {
    const uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

void emulated_run_blocks(const void *function, void **arguments,
                         void (*call)(const void *function, void **arguments), const char *name,
                         uint32_t blocks, uint32_t threads) {
  grid_worker *worker = grid_worker_get();
  worker->function = function;
  worker->arguments = arguments;
  worker->call = call;
  worker->name = name;
  worker->threads = threads;
  worker->order = (grid_order)atomic_load(&order_set);
  worker->random = atomic_load(&seed_set) * 0x9E3779B97F4A7C15u | 1;
  if (threads == 0 || threads > GRID_MOST_THREADS) grid_misuse("%u threads a block", threads);
  priorities_init(worker);
  uint64_t stride = worker->order == GRID_RANDOM ? random_below(worker, blocks) | 1 : 1;
  while (common_divisor(stride, blocks) != 1)
    stride += 2; /* every block once */
  for (uint64_t i = 0; i < blocks; i++) {
    const uint64_t block = i * stride % blocks;
    const bool turned = worker->order == GRID_DESCENDING;
    block_run(worker, (uint32_t)(turned ? blocks - 1 - block : block), blocks);
  }
  ORDER_AFTER(&worker->end_token);
}
