/* Executes the blocks of a launch on the CPU: the threads of a block are fibers, which are
 * scheduled in an order that tests select. Invariant: undefined behaviour of CUDA (a divergent
 * barrier, a shuffle with absent lanes, writing past shared memory) ends the process with a message
 * that names the place. */
#ifndef TANDEM_TESTS_DEVICES_CUDA_EMULATION_GRID_H
#define TANDEM_TESTS_DEVICES_CUDA_EMULATION_GRID_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which of the runnable threads continues, and which block comes first. */
typedef enum grid_order {
  GRID_ASCENDING,  /* the lowest thread, as far as it gets */
  GRID_DESCENDING, /* the highest */
  GRID_RANDOM,     /* warps by random priorities, which change now and then; any lane */
} grid_order;

/* For launches that begin afterwards, on any thread. */
void grid_set_order(grid_order order, uint64_t seed);

/* Runs a launch on the calling thread; arguments are as the kernel is to see them. */
void emulated_run_blocks(const void *function, void **arguments,
                         void (*call)(const void *function, void **arguments), const char *name,
                         uint32_t blocks, uint32_t threads);

/* ---- For kernels, by way of grid_cuda.h ------------------------------------------------------ */

typedef struct grid_index {
  uint32_t x;
} grid_index;

typedef struct grid_thread {
  grid_index thread;
  grid_index block;
  grid_index block_extent;
  grid_index grid_extent;
} grid_thread;

/* The thread that runs; set before every switch. */
extern __thread const grid_thread *grid_current;

typedef enum grid_exchange {
  GRID_SHUFFLE,      /* argument: the lane to read */
  GRID_SHUFFLE_UP,   /* reads from a lane that many lanes below */
  GRID_SHUFFLE_DOWN, /* reads from a lane that many lanes above */
  GRID_SHUFFLE_XOR,
  GRID_BALLOT,
  GRID_SYNCHRONIZE,
} grid_exchange;

/* Waits for the other threads of the block. site: file and line of the call, which must be equal
 * for all of them. */
void grid_barrier(const char *site);
/* Exchanges values between the lanes of mask. A lane without a partner keeps its value. */
uint64_t grid_warp(grid_exchange kind, uint32_t mask, uint64_t value, uint32_t argument,
                   const char *site);
/* Returns the block's shared memory for key, the same for all its threads; NaN at first. */
void *grid_shared(const void *key, size_t bytes, const char *site);

#ifdef __cplusplus
}
#endif
#endif
