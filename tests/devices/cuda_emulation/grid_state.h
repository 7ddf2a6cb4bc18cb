/* Shared declarations of the grid's files: the threads of the running block, and its shared memory.
 * Invariant: one worker per thread of the host, which runs blocks one after another. */
#ifndef TANDEM_TESTS_DEVICES_CUDA_EMULATION_GRID_STATE_H
#define TANDEM_TESTS_DEVICES_CUDA_EMULATION_GRID_STATE_H

#include <stdbool.h>

#include "tests/devices/cuda_emulation/fiber.h"
#include "tests/devices/cuda_emulation/grid.h"

enum { GRID_MOST_THREADS = 1024, GRID_LANES = 32, GRID_WARPS = GRID_MOST_THREADS / GRID_LANES };

typedef enum lane_state { LANE_READY, LANE_AT_BARRIER, LANE_AT_WARP, LANE_DONE } lane_state;

/* With GRID_RACES ThreadSanitizer receives the events that order threads: the begin and end of a
 * grid, barriers and __syncwarp, nothing else. */
#ifdef GRID_RACES
#include <sanitizer/tsan_interface.h>
#define ORDER_BEFORE(token) __tsan_release(token)
#define ORDER_AFTER(token) __tsan_acquire(token)
#else
#define ORDER_BEFORE(token) ((void)(token))
#define ORDER_AFTER(token) ((void)(token))
#endif

/* One thread of the block. */
typedef struct grid_lane {
  fiber *fiber; /* a fiber of the worker */
  grid_thread index;
  lane_state state;
  const char *site; /* name of the barrier or exchange that it waits in */
  grid_exchange kind;
  uint32_t mask;
  uint32_t argument;
  uint64_t value; /* given, then received */
} grid_lane;

enum { SHARED_PLACES = 32, SHARED_MOST_BYTES = 48 << 10, SHARED_ARENA_BYTES = 64 << 10 };

typedef struct shared_place {
  const void *key;
  size_t offset;
  size_t bytes;
  const char *site;
} shared_place;

/* A block's shared memory: data between margins that no thread may write; at its end tokens that
 * represent the block's barrier and warps. */
typedef struct grid_shared_memory {
  char *arena;  /* (SHARED_ARENA_BYTES) */
  char *tokens; /* (GRID_WARPS + 1, 2) of 8 bytes */
  size_t used_bytes;
  size_t data_bytes;
  shared_place places[SHARED_PLACES];
  size_t count;
} grid_shared_memory;

typedef struct grid_worker {
  grid_lane lanes[GRID_MOST_THREADS];
  /* Lane i runs on fiber i + turn, and turn changes from block to block. So the work of a fiber in
   * an earlier block does not order it with its lane of this one. */
  fiber fibers[GRID_MOST_THREADS];
  uint32_t turn;
  fiber scheduler;
  char begin_token, end_token;
  uint32_t meetings[GRID_WARPS + 1]; /* number of completed meetings: of the block, of each warp */
  const void *function;
  void **arguments;
  void (*call)(const void *function, void **arguments);
  const char *name;
  uint32_t threads;
  uint32_t running; /* lanes that are not done */
  uint32_t at_barrier;
  const char *barrier_site;
  uint32_t ready[GRID_WARPS]; /* bit: lane */
  uint32_t done[GRID_WARPS];
  uint32_t at_warp[GRID_WARPS]; /* number of lanes that are LANE_AT_WARP */
  grid_order order;
  uint64_t random;
  uint32_t priorities[GRID_WARPS]; /* warps, first the one that goes first */
  grid_shared_memory shared;
} grid_worker;

/* Returns the present token of the running block's barrier (0), or of warp i (1 + i). Each thread
 * keeps the token with which it arrived: the first to continue may already be at the next
 * meeting. */
static inline char *grid_token(const grid_worker *worker, uint32_t i) {
  return worker->shared.tokens + 8 * (2 * i + worker->meetings[i] % 2);
}

/* Returns the grid of the calling thread, which is created at the first use. */
grid_worker *grid_worker_get(void);
/* The lane that runs. */
grid_lane *grid_lane_current(void);
/* Ends the process: "emulated CUDA: kernel NAME, block B, thread T: ...". */
_Noreturn void grid_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

void grid_shared_begin(grid_shared_memory *shared);
/* Checks the margins. */
void grid_shared_end(grid_shared_memory *shared);
void grid_shared_deinit(grid_shared_memory *shared);

#endif
