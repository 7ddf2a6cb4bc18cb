/* Addresses and arenas. Invariant: see memory.h. An arena's map records for every unit whether a
 * block uses it. An arena with one large block is freed together with the block. */
#include "devices/cuda/memory.h"

#include <string.h>
#include <sys/mman.h>

#include "core/allocate.h"
#include "devices/cuda/library/errors.h"

enum { UNIT_BYTES = 512, ARENA_UNITS = 16384 };
static const size_t arena_bytes = (size_t)UNIT_BYTES * ARENA_UNITS;
static const size_t shared_block_bytes = (size_t)UNIT_BYTES * ARENA_UNITS / 8; /* upper limit */
static const size_t least_range_bytes = (size_t)32 << 30;
enum { RANGE_TIMES = 4 }; /* address space as a multiple of the GPU's memory */
static const size_t granule_bytes = (size_t)1 << TDM_CUDA_GRANULE_BITS;

struct tdm_cuda_arena {
  tdm_cuda_arena *next;
  char *memory; /* address on the GPU */
  size_t bytes;
  bool alone;                /* contains one block of any size; only with red zones */
  uint32_t used_count;       /* number of used units */
  uint8_t used[ARENA_UNITS]; /* map of used units of a shared arena; unused if the arena is one
                              * large block */
};

/* ---- Arenas ---------------------------------------------------------------------------------- */

static bool is_shared(const tdm_cuda_arena *arena) {
  return !arena->alone && arena->bytes == arena_bytes;
}

static size_t units_of(size_t bytes) {
  return bytes == 0 ? 1 : (bytes + UNIT_BYTES - 1) / UNIT_BYTES;
}

static tdm_status arena_create(tdm_cuda_memory *memory, size_t bytes, tdm_cuda_arena **out_arena) {
  *out_arena = NULL;
  tdm_cuda_arena *arena = tdm_allocate(memory->allocator, sizeof *arena, "an arena's map");
  if (!arena) return TDM_OUT_OF_MEMORY;
  const tdm_cuda_api *api = memory->gpu->api;
  void *begin = NULL;
  tdm_status status = tdm_cuda_gpu_enter(memory->gpu);
  if (status == TDM_OK) {
    status = tdm_cuda_check(api, api->allocate(&begin, bytes), "memory of a GPU");
    tdm_cuda_gpu_leave(memory->gpu);
  }
  if (status != TDM_OK) {
    tdm_release(memory->allocator, arena, sizeof *arena);
    return status;
  }
  arena->memory = begin;
  arena->bytes = bytes;
  arena->next = memory->arenas;
  memory->arenas = arena;
  *out_arena = arena;
  return TDM_OK;
}

static void arena_destroy(tdm_cuda_memory *memory, tdm_cuda_arena *arena) {
  tdm_cuda_arena **link = &memory->arenas;
  while (*link != arena)
    link = &(*link)->next;
  *link = arena->next;
  const tdm_status status = tdm_cuda_gpu_enter(memory->gpu);
  (void)memory->gpu->api->release(arena->memory);
  if (status == TDM_OK) tdm_cuda_gpu_leave(memory->gpu);
  tdm_release(memory->allocator, arena, sizeof *arena);
}

/* Returns the first run of free units, or NULL if there is none. */
static char *arena_take(tdm_cuda_arena *arena, size_t units) {
  if (!is_shared(arena) || arena->used_count + units > ARENA_UNITS) return NULL;
  size_t run = 0;
  for (size_t i = 0; i < ARENA_UNITS; i++) {
    run = arena->used[i] ? 0 : run + 1;
    if (run != units) continue;
    memset(&arena->used[i + 1 - units], 1, units);
    arena->used_count += (uint32_t)units;
    return arena->memory + (i + 1 - units) * UNIT_BYTES;
  }
  return NULL;
}

/* Fills a fresh block and returns when that is done. The host fills the beginning, which is then
 * copied and doubled. A copy costs the host the same time whatever its size. */
static tdm_status fill(tdm_cuda_memory *memory, char *block, size_t bytes) {
  const tdm_cuda_api *api = memory->gpu->api;
  unsigned char pattern[4096];
  memset(pattern, TDM_RED_ZONES_BYTE, sizeof pattern);
  TDM_TRY(tdm_cuda_gpu_enter(memory->gpu));
  size_t length = bytes < sizeof pattern ? bytes : sizeof pattern;
  tdm_cuda_code code = api->copy(block, pattern, length, TDM_CUDA_TO_DEVICE);
  for (size_t done = length; done < bytes && code == TDM_CUDA_SUCCESS; done += length) {
    length = bytes - done < done ? bytes - done : done;
    code = api->copy(block + done, block, length, TDM_CUDA_ON_DEVICE);
  }
  tdm_cuda_gpu_leave(memory->gpu);
  return tdm_cuda_check(api, code, "filling memory of a GPU");
}

/* Allocates exactly that many bytes, so that no accessible memory follows the block. */
static tdm_status take_alone(tdm_cuda_memory *memory, size_t bytes, char **out) {
  tdm_cuda_arena *arena;
  TDM_TRY(arena_create(memory, bytes, &arena));
  arena->alone = true;
  if (memory->red_zones == TDM_RED_ZONES_FILLED) {
    const tdm_status status = fill(memory, arena->memory, bytes);
    if (status != TDM_OK) {
      arena_destroy(memory, arena);
      return status;
    }
  }
  *out = arena->memory;
  return TDM_OK;
}

static tdm_status take_block(tdm_cuda_memory *memory, size_t bytes, char **out) {
  *out = NULL;
  tdm_cuda_arena *arena;
  if (memory->red_zones != TDM_RED_ZONES_NONE) return take_alone(memory, bytes, out);
  if (bytes > shared_block_bytes) {
    /* An arena of one block never has the size of a shared one, so the size distinguishes them. */
    size_t whole = units_of(bytes) * UNIT_BYTES;
    if (whole == arena_bytes) whole += UNIT_BYTES;
    TDM_TRY(arena_create(memory, whole, &arena));
    *out = arena->memory;
    return TDM_OK;
  }
  const size_t units = units_of(bytes);
  for (arena = memory->arenas; arena; arena = arena->next) {
    *out = arena_take(arena, units);
    if (*out) return TDM_OK;
  }
  TDM_TRY(arena_create(memory, arena_bytes, &arena));
  *out = arena_take(arena, units);
  return TDM_OK;
}

static void give_back(tdm_cuda_memory *memory, char *block, size_t bytes) {
  tdm_cuda_arena *arena = memory->arenas;
  while (arena && (size_t)(block - arena->memory) >= arena->bytes)
    arena = arena->next;
  if (!arena) return;
  if (!is_shared(arena)) {
    arena_destroy(memory, arena);
    return;
  }
  const size_t units = units_of(bytes);
  memset(&arena->used[(size_t)(block - arena->memory) / UNIT_BYTES], 0, units);
  arena->used_count -= (uint32_t)units;
}

/* ---- Addresses ------------------------------------------------------------------------------- */

static void *reserve(size_t bytes, int protection) {
  void *memory = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

tdm_status tdm_cuda_memory_init(tdm_cuda_memory *memory, tdm_cuda_gpu *gpu, size_t gpu_bytes,
                                tdm_red_zones red_zones, const tdm_allocator *allocator) {
  size_t range_bytes = gpu_bytes / granule_bytes * granule_bytes * RANGE_TIMES;
  if (range_bytes < least_range_bytes) range_bytes = least_range_bytes;
  *memory = (tdm_cuda_memory){.gpu = gpu,
                              .red_zones = red_zones,
                              .allocator = allocator,
                              .range_bytes = range_bytes,
                              .granule_count = range_bytes / granule_bytes};
  if (pthread_mutex_init(&memory->mutex, NULL) != 0)
    return tdm_fail(TDM_OUT_OF_MEMORY, "no mutex for the memory of a cuda device");
  memory->has_mutex = true;
  memory->begin = (tdm_address)reserve(range_bytes, PROT_NONE);
  if (memory->begin == 0) return tdm_fail_memory(range_bytes, "the addresses of a cuda device");
  /* Zero pages that are never touched cost nothing. */
  const size_t table_bytes = memory->granule_count * sizeof(tdm_cuda_granule);
  memory->granules = reserve(table_bytes, PROT_READ | PROT_WRITE);
  if (!memory->granules) return tdm_fail_memory(table_bytes, "the table of a cuda device");
  return TDM_OK;
}

void tdm_cuda_memory_deinit(tdm_cuda_memory *memory) {
  while (memory->arenas)
    arena_destroy(memory, memory->arenas);
  if (memory->begin != 0) (void)munmap((void *)memory->begin, memory->range_bytes);
  if (memory->granules)
    (void)munmap(memory->granules, memory->granule_count * sizeof(tdm_cuda_granule));
  if (memory->has_mutex) (void)pthread_mutex_destroy(&memory->mutex);
  *memory = (tdm_cuda_memory){0};
}

/* Returns a run of free granules in [from, to), or SIZE_MAX if there is none. The caller holds the
 * mutex. */
static size_t find_run(const tdm_cuda_memory *memory, size_t count, size_t from, size_t to) {
  size_t run = 0;
  for (size_t i = from; i < to; i++) {
    const tdm_cuda_granule *granule = &memory->granules[i];
    run = atomic_load_explicit(&granule->remain, memory_order_relaxed) == 0 ? run + 1 : 0;
    if (run == count) return i + 1 - count;
  }
  return SIZE_MAX;
}

/* The caller holds the mutex. */
static tdm_status allocate_locked(tdm_cuda_memory *memory, size_t bytes, tdm_address *out_address) {
  const size_t size = bytes == 0 ? 1 : bytes;
  const size_t count = (size + granule_bytes - 1) / granule_bytes;
  size_t first = find_run(memory, count, memory->cursor, memory->granule_count);
  if (first == SIZE_MAX) first = find_run(memory, count, 0, memory->granule_count);
  if (first == SIZE_MAX) return tdm_fail_memory(bytes, "a cuda device's addresses");
  char *block;
  TDM_TRY(take_block(memory, size, &block));
  for (size_t i = 0; i < count; i++) {
    tdm_cuda_granule *granule = &memory->granules[first + i];
    atomic_store_explicit(&granule->memory, block + i * granule_bytes, memory_order_relaxed);
    atomic_store_explicit(&granule->remain, size - i * granule_bytes, memory_order_release);
  }
  memory->cursor = first + count;
  *out_address = memory->begin + first * granule_bytes;
  return TDM_OK;
}

tdm_status tdm_cuda_memory_allocate(tdm_cuda_memory *memory, size_t bytes,
                                    tdm_address *out_address) {
  *out_address = 0;
  if (bytes > memory->range_bytes) return tdm_fail_memory(bytes, "a cuda device");
  (void)pthread_mutex_lock(&memory->mutex);
  const tdm_status status = allocate_locked(memory, bytes, out_address);
  (void)pthread_mutex_unlock(&memory->mutex);
  return status;
}

void tdm_cuda_memory_release(tdm_cuda_memory *memory, tdm_address address) {
  if (address == 0) return;
  const size_t first = (address - memory->begin) / granule_bytes;
  (void)pthread_mutex_lock(&memory->mutex);
  tdm_cuda_granule *granules = &memory->granules[first];
  const size_t size = atomic_load_explicit(&granules[0].remain, memory_order_relaxed);
  char *block = atomic_load_explicit(&granules[0].memory, memory_order_relaxed);
  for (size_t i = 0; i * granule_bytes < size; i++) {
    atomic_store_explicit(&granules[i].remain, 0, memory_order_relaxed);
    atomic_store_explicit(&granules[i].memory, NULL, memory_order_release);
  }
  give_back(memory, block, size);
  (void)pthread_mutex_unlock(&memory->mutex);
}
