/* Best fit over bins of sizes (four to a power of two, as in Masmano, Ripoll, Crespo, Real: "TLSF:
 * a new dynamic memory allocator for real-time systems", ECRTS 2004), with a bounded number of
 * inspected blocks. Invariant: two free neighbours are one block unless neither's ends cover the
 * other's. */
#include "graph/schedule/arena_blocks.h"

#define LOOKS_PER_BIN 8
#define LOOKS 32

struct tdm_arena_block {
  uint64_t offset, bytes;
  tdm_ends ends;           /* accesses that must precede the next use, if the block is free */
  uint32_t below, above;   /* neighbours by address, + 1 */
  uint32_t previous, next; /* neighbours in its bin, + 1 */
  bool free;
};

void tdm_arena_pool_init(tdm_arena_pool *pool, const tdm_allocator *allocator) {
  *pool = (tdm_arena_pool){.allocator = allocator};
}

void tdm_arena_pool_deinit(tdm_arena_pool *pool) {
  tdm_release(pool->allocator, pool->blocks, pool->capacity * sizeof(tdm_arena_block));
}

static inline tdm_arena_block *block_at(const tdm_arena_pool *pool, uint32_t block) {
  return &pool->blocks[block - 1];
}

/* ---- Bins ------------------------------------------------------------------------------------ */

static inline uint32_t bin_of(uint64_t bytes) {
  const uint64_t units = bytes / TDM_ARENA_ALIGNMENT;
  if (units < 4) return (uint32_t)units;
  const uint32_t power = 63 - (uint32_t)__builtin_clzll(units);
  return (power - 1) * 4 + (uint32_t)(units >> (power - 2) & 3);
}

/* Returns the first nonempty bin from bin on, which may be TDM_ARENA_BINS; TDM_ARENA_BINS if there
 * is none. */
static inline uint32_t next_filled(const tdm_arena *arena, uint32_t bin) {
  for (uint32_t word = bin / 64; word < TDM_ARENA_BINS / 64; word++) {
    uint64_t bits = arena->filled[word];
    if (word == bin / 64) bits &= UINT64_MAX << (bin % 64);
    if (bits != 0) return word * 64 + (uint32_t)__builtin_ctzll(bits);
  }
  return TDM_ARENA_BINS;
}

static void bin_insert(tdm_arena *arena, tdm_arena_pool *pool, uint32_t block) {
  tdm_arena_block *self = block_at(pool, block);
  const uint32_t bin = bin_of(self->bytes);
  self->free = true;
  self->previous = 0;
  self->next = arena->bins[bin];
  if (self->next != 0) block_at(pool, self->next)->previous = block;
  arena->bins[bin] = block;
  arena->filled[bin / 64] |= (uint64_t)1 << (bin % 64);
}

static void bin_remove(tdm_arena *arena, tdm_arena_pool *pool, uint32_t block) {
  tdm_arena_block *self = block_at(pool, block);
  const uint32_t bin = bin_of(self->bytes);
  self->free = false;
  if (self->next != 0) block_at(pool, self->next)->previous = self->previous;
  if (self->previous != 0) {
    block_at(pool, self->previous)->next = self->next;
    return;
  }
  arena->bins[bin] = self->next;
  if (self->next == 0) arena->filled[bin / 64] &= ~((uint64_t)1 << (bin % 64));
}

/* ---- Blocks in order of address -------------------------------------------------------------- */

/* Inserts a new block right above `below` (0: at the bottom). Returns its number, or 0 if memory is
 * short. */
static uint32_t block_insert(tdm_arena *arena, tdm_arena_pool *pool, uint32_t below,
                             uint64_t offset, uint64_t bytes) {
  uint32_t block = pool->unused;
  if (block != 0) {
    pool->unused = block_at(pool, block)->next;
  } else {
    if (pool->count == pool->capacity &&
        tdm_array_reserve(pool->allocator, (void **)&pool->blocks, &pool->capacity, pool->count + 1,
                          sizeof(tdm_arena_block), "blocks of an arena") != TDM_OK) {
      return 0;
    }
    block = (uint32_t)++pool->count;
  }
  const uint32_t above = below == 0 ? arena->lowest : block_at(pool, below)->above;
  *block_at(pool, block) =
      (tdm_arena_block){.offset = offset, .bytes = bytes, .below = below, .above = above};
  if (below != 0) block_at(pool, below)->above = block;
  if (below == 0) arena->lowest = block;
  if (above != 0) block_at(pool, above)->below = block;
  if (above == 0) arena->topmost = block;
  arena->block_count++;
  return block;
}

/* Merges the block above, which is in no bin, into block. */
static void block_absorb_above(tdm_arena *arena, tdm_arena_pool *pool, uint32_t block) {
  tdm_arena_block *self = block_at(pool, block);
  const uint32_t gone = self->above;
  tdm_arena_block *other = block_at(pool, gone);
  self->bytes += other->bytes;
  self->above = other->above;
  if (self->above != 0) block_at(pool, self->above)->below = block;
  if (self->above == 0) arena->topmost = block;
  other->next = pool->unused;
  pool->unused = gone;
  arena->block_count--;
}

/* ---- Finding a block ------------------------------------------------------------------------- */

/* Returns the smallest of the first few blocks of a bin that is large enough and whose ends have
 * happened before lifetime begins; otherwise 0. */
static uint32_t best_of_bin(const tdm_arena *arena, const tdm_arena_pool *pool,
                            const tdm_lifetimes *lifetimes, uint32_t bin,
                            const tdm_lifetime *lifetime) {
  const uint64_t bytes = lifetime->bytes;
  uint32_t best = 0;
  uint32_t looks = LOOKS_PER_BIN;
  for (uint32_t block = arena->bins[bin]; block != 0 && looks > 0; looks--) {
    const tdm_arena_block *self = block_at(pool, block);
    const bool better =
        self->bytes >= bytes && (best == 0 || self->bytes < block_at(pool, best)->bytes);
    if (better && tdm_ends_before_life(lifetimes, self->ends, lifetime)) {
      best = block;
      if (self->bytes == bytes) break;
    }
    block = self->next;
  }
  return best;
}

static uint32_t best_fit(const tdm_arena *arena, const tdm_arena_pool *pool,
                         const tdm_lifetimes *lifetimes, const tdm_lifetime *lifetime) {
  uint32_t bin = next_filled(arena, bin_of(lifetime->bytes));
  for (uint32_t looks = 0; bin < TDM_ARENA_BINS && looks < LOOKS; looks += LOOKS_PER_BIN) {
    const uint32_t best = best_of_bin(arena, pool, lifetimes, bin, lifetime);
    if (best != 0) return best;
    bin = next_filled(arena, bin + 1);
  }
  return 0;
}

/* Merges free neighbours that lifetime may use into one block of enough bytes. Returns 0 if there
 * is no such run. Inspects every block, as long as the arena's credit lasts. */
static uint32_t join_fit(tdm_arena *arena, tdm_arena_pool *pool, const tdm_lifetimes *lifetimes,
                         const tdm_lifetime *lifetime) {
  const uint64_t bytes = lifetime->bytes;
  if (arena->search_credit < arena->block_count) return 0;
  arena->search_credit -= arena->block_count;
  uint32_t first = 0;
  uint64_t sum = 0;
  for (uint32_t block = arena->lowest; block != 0 && sum < bytes;) {
    const tdm_arena_block *self = block_at(pool, block);
    const bool usable = self->free && tdm_ends_before_life(lifetimes, self->ends, lifetime);
    if (!usable) sum = 0;
    if (usable && sum == 0) first = block;
    if (usable) sum += self->bytes;
    block = self->above;
  }
  if (sum < bytes) return 0;
  bin_remove(arena, pool, first);
  while (block_at(pool, first)->bytes < bytes) {
    bin_remove(arena, pool, block_at(pool, first)->above);
    block_absorb_above(arena, pool, first);
  }
  /* A step after the first step is also after the ends of the former contents. */
  block_at(pool, first)->ends = (tdm_ends){.step = lifetime->first};
  bin_insert(arena, pool, first);
  return first;
}

/* Takes free room at the top: a free block there grows, or a new block is added. Returns 0 if
 * memory is short. */
static uint32_t grow(tdm_arena *arena, tdm_arena_pool *pool, const tdm_lifetimes *lifetimes,
                     const tdm_lifetime *lifetime) {
  const uint64_t bytes = lifetime->bytes;
  uint32_t block = arena->topmost;
  const tdm_arena_block *top = block == 0 ? NULL : block_at(pool, block);
  if (top && top->free && tdm_ends_before_life(lifetimes, top->ends, lifetime)) {
    if (top->bytes >= bytes) return block;
    bin_remove(arena, pool, block);
    arena->top += bytes - top->bytes;
    block_at(pool, block)->bytes = bytes;
  } else {
    block = block_insert(arena, pool, arena->topmost, arena->top, bytes);
    if (block == 0) return 0;
    arena->top += bytes;
  }
  bin_insert(arena, pool, block);
  return block;
}

tdm_status tdm_arena_place(tdm_arena *arena, tdm_arena_pool *pool, const tdm_lifetimes *lifetimes,
                           const tdm_lifetime *lifetime, uint64_t *out_offset,
                           uint32_t *out_block) {
  const uint64_t bytes = lifetime->bytes;
  uint32_t block = best_fit(arena, pool, lifetimes, lifetime);
  if (block == 0) block = join_fit(arena, pool, lifetimes, lifetime);
  if (block == 0) block = grow(arena, pool, lifetimes, lifetime);
  if (block == 0) return TDM_OUT_OF_MEMORY;
  bin_remove(arena, pool, block);
  const uint64_t rest = block_at(pool, block)->bytes - bytes;
  if (rest > 0) {
    const uint64_t offset = block_at(pool, block)->offset + bytes;
    const uint32_t remainder = block_insert(arena, pool, block, offset, rest);
    if (remainder == 0) return TDM_OUT_OF_MEMORY;
    block_at(pool, remainder)->ends = block_at(pool, block)->ends;
    block_at(pool, block)->bytes = bytes;
    bin_insert(arena, pool, remainder);
  }
  arena->live_bytes += bytes;
  if (arena->peak_bytes < arena->live_bytes) arena->peak_bytes = arena->live_bytes;
  *out_offset = block_at(pool, block)->offset;
  *out_block = block;
  return TDM_OK;
}

/* Merges lower and the block above it if both are free and the ends of one cover those of the
 * other. lower is in no bin; the other one leaves its bin when merged. */
static bool join_pair(tdm_arena *arena, tdm_arena_pool *pool, const tdm_lifetimes *lifetimes,
                      uint32_t lower, uint32_t upper, uint32_t binned) {
  if (lower == 0 || upper == 0 || !block_at(pool, binned)->free) return false;
  const tdm_ends a = block_at(pool, lower)->ends;
  const tdm_ends b = block_at(pool, upper)->ends;
  tdm_ends joined = a;
  if (tdm_ends_covered(lifetimes, a, b)) {
    joined = b;
  } else if (!tdm_ends_covered(lifetimes, b, a)) {
    return false;
  }
  bin_remove(arena, pool, binned);
  block_absorb_above(arena, pool, lower);
  block_at(pool, lower)->ends = joined;
  return true;
}

void tdm_arena_release(tdm_arena *arena, tdm_arena_pool *pool, const tdm_lifetimes *lifetimes,
                       uint32_t block, tdm_ends ends) {
  tdm_arena_block *self = block_at(pool, block);
  arena->live_bytes -= self->bytes;
  self->ends = ends;
  const uint32_t below = self->below;
  (void)join_pair(arena, pool, lifetimes, block, self->above, self->above);
  if (join_pair(arena, pool, lifetimes, below, block, below)) block = below;
  bin_insert(arena, pool, block);
}
