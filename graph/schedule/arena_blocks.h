/* One arena while storage is placed in plan order: blocks that cover it from 0 to top, in order of
 * address, with free ones also in bins by size. A free block keeps the ends of its former contents:
 * only a step after all of them may use it. */
#ifndef TANDEM_GRAPH_SCHEDULE_ARENA_BLOCKS_H
#define TANDEM_GRAPH_SCHEDULE_ARENA_BLOCKS_H

#include "graph/schedule/lifetimes.h"

#define TDM_ARENA_BINS 256

typedef struct tdm_arena_block tdm_arena_block;

/* The blocks of all arenas, in one array. */
typedef struct tdm_arena_pool {
  const tdm_allocator *allocator;
  tdm_arena_block *blocks;
  size_t count, capacity;
  uint32_t unused; /* first unused block, index + 1, linked by next; 0: none */
} tdm_arena_pool;

typedef struct tdm_arena {
  uint64_t top;
  uint64_t live_bytes, peak_bytes; /* bytes that are placed and not released */
  uint32_t topmost;                /* block + 1; 0: empty */
  uint32_t lowest;                 /* block + 1 */
  uint32_t block_count;
  uint64_t search_credit;               /* blocks that may still be inspected */
  uint64_t filled[TDM_ARENA_BINS / 64]; /* bit: bin is not empty */
  uint32_t bins[TDM_ARENA_BINS];        /* block + 1; 0: empty */
} tdm_arena;

void tdm_arena_pool_init(tdm_arena_pool *pool, const tdm_allocator *allocator);
void tdm_arena_pool_deinit(tdm_arena_pool *pool);

/* Places lifetime, whose first step is the current one; *out_block is for release. Fails with
 * OUT_OF_MEMORY. */
tdm_status tdm_arena_place(tdm_arena *arena, tdm_arena_pool *pool, const tdm_lifetimes *lifetimes,
                           const tdm_lifetime *lifetime, uint64_t *out_offset,
                           uint32_t *out_block) TDM_WARN_UNUSED;
/* Releases block after the last step, in plan order, that accesses it. */
void tdm_arena_release(tdm_arena *arena, tdm_arena_pool *pool, const tdm_lifetimes *lifetimes,
                       uint32_t block, tdm_ends ends);

#endif
