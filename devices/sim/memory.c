/* The allocator of sim's addresses. Invariant: see memory.h. A page of the table stays mapped,
 * because translate reads it without a lock. But its memory is returned to the system (it then
 * reads as free) when no block lives in it and the cursor has left it. */
#include "devices/sim/memory.h"

#include <sys/mman.h>

#include "core/status.h"

static const size_t granule_bytes = (size_t)1 << TDM_SIM_GRANULE_BITS;
static const size_t range_bytes = (size_t)1 << TDM_SIM_RANGE_BITS;
static const size_t granule_count = (size_t)1 << (TDM_SIM_RANGE_BITS - TDM_SIM_GRANULE_BITS);
static const size_t page_granules = (size_t)1 << TDM_SIM_PAGE_BITS;

/* Addresses that no process can have. On x86-64 their upper bits differ from each other; on
 * aarch64, which ignores the uppermost eight, bit 55 differs from that of a user's address. */
static const tdm_address first_address = (tdm_address)0x8080 << 48;
_Static_assert(sizeof(tdm_address) == 8, "sim's addresses are beyond those of 32 bits");

static void *map(size_t bytes) {
  void *memory =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

static size_t page_bytes(void) {
  return page_granules * sizeof(tdm_sim_granule);
}

static tdm_sim_granule *page_of(const tdm_sim_memory *memory, size_t granule) {
  return atomic_load_explicit(&memory->pages[granule / page_granules], memory_order_relaxed);
}

tdm_status tdm_sim_memory_init(tdm_sim_memory *memory, size_t index) {
  *memory = (tdm_sim_memory){.begin = first_address + index * range_bytes};
  if (pthread_mutex_init(&memory->mutex, NULL) != 0)
    return tdm_fail(TDM_OUT_OF_MEMORY, "no mutex for the memory of a sim device");
  memory->has_mutex = true;
  return TDM_OK;
}

void tdm_sim_memory_deinit(tdm_sim_memory *memory) {
  for (size_t i = 0; i < TDM_SIM_PAGES; i++) {
    tdm_sim_granule *page = page_of(memory, i * page_granules);
    if (page) (void)munmap(page, page_bytes());
    atomic_store_explicit(&memory->pages[i], NULL, memory_order_relaxed);
  }
  if (memory->has_mutex) (void)pthread_mutex_destroy(&memory->mutex);
  memory->has_mutex = false;
}

/* ---- Under the mutex ------------------------------------------------------------------------- */

/* Returns a run of free granules in [from, to), or SIZE_MAX if there is none. A page that is
 * missing or has no live block is skipped as a whole. */
static size_t find_run(const tdm_sim_memory *memory, size_t count, size_t from, size_t to) {
  size_t free_count = 0;
  for (size_t i = from; i < to;) {
    const size_t page_end = (i / page_granules + 1) * page_granules;
    size_t step = 1;
    if (memory->live[i / page_granules] == 0) {
      step = (page_end < to ? page_end : to) - i;
      free_count += step;
    } else {
      const tdm_sim_granule *entry = &page_of(memory, i)[i % page_granules];
      const bool is_free = atomic_load_explicit(&entry->remain, memory_order_relaxed) == 0;
      free_count = is_free ? free_count + 1 : 0;
    }
    i += step;
    if (free_count >= count) return i - free_count;
  }
  return SIZE_MAX;
}

/* Creates the pages of granules [first, first + count) that are missing. */
static bool make_pages(tdm_sim_memory *memory, size_t first, size_t count) {
  for (size_t i = first / page_granules; i <= (first + count - 1) / page_granules; i++) {
    if (page_of(memory, i * page_granules)) continue;
    tdm_sim_granule *page = map(page_bytes());
    if (!page) return false;
    atomic_store_explicit(&memory->pages[i], page, memory_order_release);
  }
  return true;
}

/* Returns a page of the table to the system if no block lives in it and the cursor has left it. */
static void drop_page(const tdm_sim_memory *memory, size_t index) {
  tdm_sim_granule *page = page_of(memory, index * page_granules);
  if (!page || memory->live[index] != 0 || memory->cursor / page_granules == index) return;
  (void)madvise(page, page_bytes(), MADV_DONTNEED);
}

/* Returns SIZE_MAX if the addresses, or the memory for the table, are used up. */
static size_t take_granules(tdm_sim_memory *memory, size_t count) {
  size_t first = find_run(memory, count, memory->cursor, granule_count);
  if (first == SIZE_MAX) first = find_run(memory, count, 0, granule_count);
  if (first == SIZE_MAX || !make_pages(memory, first, count)) return SIZE_MAX;
  const size_t left = memory->cursor / page_granules;
  memory->cursor = first + count;
  for (size_t i = first; i < first + count; i++)
    memory->live[i / page_granules]++;
  if (left < TDM_SIM_PAGES) drop_page(memory, left);
  return first;
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

tdm_status tdm_sim_memory_allocate(tdm_sim_memory *memory, const char *name, size_t bytes,
                                   tdm_address *out_address) {
  *out_address = 0;
  if (bytes > range_bytes) return tdm_fail_memory(bytes, name);
  const size_t size = bytes == 0 ? 1 : bytes;
  const size_t count = (size + granule_bytes - 1) / granule_bytes;
  char *block = map(count * granule_bytes);
  if (!block) return tdm_fail_memory(bytes, name);
  (void)pthread_mutex_lock(&memory->mutex);
  const size_t first = take_granules(memory, count);
  for (size_t i = 0; i < count && first != SIZE_MAX; i++) {
    tdm_sim_granule *entry = &page_of(memory, first + i)[(first + i) % page_granules];
    atomic_store_explicit(&entry->memory, block + i * granule_bytes, memory_order_relaxed);
    atomic_store_explicit(&entry->remain, size - i * granule_bytes, memory_order_release);
  }
  (void)pthread_mutex_unlock(&memory->mutex);
  if (first == SIZE_MAX) {
    (void)munmap(block, count * granule_bytes);
    return tdm_fail_memory(bytes, name);
  }
  *out_address = memory->begin + first * granule_bytes;
  return TDM_OK;
}

void tdm_sim_memory_release(tdm_sim_memory *memory, tdm_address address) {
  if (address == 0) return;
  const size_t first = (address - memory->begin) / granule_bytes;
  (void)pthread_mutex_lock(&memory->mutex);
  const tdm_sim_granule *begin = &page_of(memory, first)[first % page_granules];
  const size_t size = atomic_load_explicit(&begin->remain, memory_order_relaxed);
  char *block = atomic_load_explicit(&begin->memory, memory_order_relaxed);
  const size_t count = (size + granule_bytes - 1) / granule_bytes;
  for (size_t i = first; i < first + count; i++) {
    tdm_sim_granule *entry = &page_of(memory, i)[i % page_granules];
    atomic_store_explicit(&entry->remain, 0, memory_order_release);
    memory->live[i / page_granules]--;
  }
  for (size_t i = first / page_granules; i <= (first + count - 1) / page_granules; i++)
    drop_page(memory, i);
  (void)pthread_mutex_unlock(&memory->mutex);
  (void)munmap(block, count * granule_bytes);
}
