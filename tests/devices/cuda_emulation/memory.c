/* Memory of emulated devices, and pinned memory. Invariant: device memory has addresses that are
 * never readable; its bytes are a constant distance away. Every block is filled with NaN, separated
 * from its neighbours, and not reused soon. */
#define _GNU_SOURCE /* memfd_create */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/devices/cuda_emulation/emulation.h"

enum { MOST_BLOCKS = 4096, GUARD_BYTES = 1 << 16, POISON = 0xff, POISON_BYTES = 1 << 20 };
enum { ALREADY_PINNED = 712, NOT_PINNED = 713 };
static const size_t range_bytes = (size_t)64 << 30;
static const size_t most_bytes = (size_t)8 << 30; /* an emulated GPU has no more in one block */

typedef struct block {
  char *begin; /* NULL: free */
  size_t bytes;
  int ordinal;     /* device that owns the memory */
  bool registered; /* pinned where it lay, not allocated here */
} block;

static struct {
  pthread_mutex_t mutex;
  char *addresses;
  char *bytes;
  int poison; /* a file of POISON_BYTES */
  size_t cursor;
  block device[MOST_BLOCKS];
  block pinned[MOST_BLOCKS];
} heap = {.mutex = PTHREAD_MUTEX_INITIALIZER};
static pthread_once_t reserve_once = PTHREAD_ONCE_INIT;

void emulated_misuse(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "emulated CUDA: ");
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\n");
  va_end(arguments);
  abort();
}

static void *reserve_range(void) {
  void *memory =
      mmap(NULL, range_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) emulated_misuse("no addresses");
  return memory;
}

static int make_poison(void) {
  char *filled = malloc(POISON_BYTES);
  const int file = memfd_create("poison", MFD_CLOEXEC);
  if (!filled || file < 0) emulated_misuse("no file of poison");
  memset(filled, POISON, POISON_BYTES);
  if (write(file, filled, POISON_BYTES) != POISON_BYTES) emulated_misuse("no file of poison");
  free(filled);
  return file;
}

static void reserve(void) {
  heap.addresses = reserve_range();
  heap.bytes = reserve_range();
  heap.poison = make_poison();
}

/* Maps copies of the file over these bytes. An arena is large and mostly unwritten, so that
 * unwritten pages cost nothing. */
static void fill_with_poison(char *bytes, size_t count) {
  for (size_t at = 0; at < count; at += POISON_BYTES) {
    const size_t piece = count - at < POISON_BYTES ? count - at : POISON_BYTES;
    const int access = PROT_READ | PROT_WRITE, how = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE;
    if (mmap(bytes + at, piece, access, how, heap.poison, 0) == MAP_FAILED)
      emulated_misuse("no memory");
  }
}

static block *find_free(block *blocks) {
  for (size_t i = 0; i < MOST_BLOCKS; i++)
    if (!blocks[i].begin) return &blocks[i];
  emulated_misuse("more than %d blocks", MOST_BLOCKS);
}

static block *find_block(block *blocks, const void *pointer) {
  for (size_t i = 0; i < MOST_BLOCKS; i++) {
    const size_t inside = (size_t)((const char *)pointer - blocks[i].begin);
    if (blocks[i].begin && inside <= blocks[i].bytes - 1) return &blocks[i];
  }
  return NULL;
}

tdm_cuda_code emulated_memory(size_t *out_bytes, size_t *out_free_bytes) {
  *out_bytes = most_bytes;
  *out_free_bytes = emulated_is_full() ? 0 : most_bytes;
  return emulated_strike(emulated_opened_ordinal());
}

static size_t pages_of(size_t bytes) {
  return (bytes + 4095) / 4096 * 4096;
}

tdm_cuda_code emulated_allocate(void **out, size_t bytes) {
  const tdm_cuda_code code = emulated_strike(emulated_opened_ordinal());
  *out = NULL;
  emulated_did(EMULATED_HOLD);
  if (code != TDM_CUDA_SUCCESS) return code;
  const size_t pages = pages_of(bytes);
  if (pages > most_bytes || emulated_is_full()) return TDM_CUDA_OUT_OF_MEMORY;
  (void)pthread_once(&reserve_once, reserve);
  (void)pthread_mutex_lock(&heap.mutex);
  if (heap.cursor + pages + GUARD_BYTES > range_bytes) heap.cursor = 0;
  char *mine = heap.bytes + heap.cursor;
  fill_with_poison(mine, pages);
  block *taken = find_free(heap.device);
  *taken =
      (block){.begin = heap.addresses + heap.cursor, .bytes = bytes, .ordinal = emulated_ordinal()};
  heap.cursor += pages + GUARD_BYTES;
  *out = taken->begin;
  (void)pthread_mutex_unlock(&heap.mutex);
  emulated_count(1);
  return TDM_CUDA_SUCCESS;
}

/* Checks that the bytes after the block, up to its guard, are unchanged. */
static void check_margin(const block *mine, const char *bytes) {
  for (size_t i = mine->bytes; i < pages_of(mine->bytes); i++) {
    if ((unsigned char)bytes[i] == POISON) continue;
    emulated_misuse("a block of %zu bytes was written %zu bytes behind its end", mine->bytes,
                    i - mine->bytes + 1);
  }
}

tdm_cuda_code emulated_release(void *memory) {
  const tdm_cuda_code code = emulated_strike(emulated_opened_ordinal());
  emulated_did(EMULATED_HOLD);
  (void)pthread_mutex_lock(&heap.mutex);
  block *mine = find_block(heap.device, memory);
  if (!mine || mine->begin != memory) emulated_misuse("%p is no block to release", memory);
  char *bytes = heap.bytes + (mine->begin - heap.addresses);
  check_margin(mine, bytes);
  (void)madvise(bytes, mine->bytes, MADV_DONTNEED);
  (void)mprotect(bytes, mine->bytes, PROT_NONE);
  *mine = (block){0};
  (void)pthread_mutex_unlock(&heap.mutex);
  emulated_count(-1);
  return code;
}

/* ---- Pinned memory --------------------------------------------------------------------------- */

static void add_pinned(block wanted) {
  (void)pthread_mutex_lock(&heap.mutex);
  *find_free(heap.pinned) = wanted;
  (void)pthread_mutex_unlock(&heap.mutex);
  emulated_count(1);
}

/* False: there is no such block. */
static bool remove_pinned(void *memory, bool registered) {
  (void)pthread_mutex_lock(&heap.mutex);
  block *mine = find_block(heap.pinned, memory);
  const bool found = mine && mine->begin == memory && mine->registered == registered;
  if (found) *mine = (block){0};
  (void)pthread_mutex_unlock(&heap.mutex);
  if (found) emulated_count(-1);
  return found;
}

tdm_cuda_code emulated_allocate_pinned(void **out, size_t bytes) {
  const tdm_cuda_code code = emulated_strike(emulated_opened_ordinal());
  emulated_did(EMULATED_HOLD);
  *out = NULL;
  if (code != TDM_CUDA_SUCCESS) return code;
  char *memory = malloc(bytes);
  if (!memory) return TDM_CUDA_OUT_OF_MEMORY;
  memset(memory, POISON, bytes);
  add_pinned((block){.begin = memory, .bytes = bytes});
  *out = memory;
  return TDM_CUDA_SUCCESS;
}

tdm_cuda_code emulated_release_pinned(void *memory) {
  const tdm_cuda_code code = emulated_strike(emulated_opened_ordinal());
  emulated_did(EMULATED_HOLD);
  if (!remove_pinned(memory, false)) emulated_misuse("%p is no pinned block to release", memory);
  free(memory);
  return code;
}

tdm_cuda_code emulated_pin(void *memory, size_t bytes) {
  const tdm_cuda_code code = emulated_strike(emulated_opened_ordinal());
  emulated_did(EMULATED_HOLD);
  if (code != TDM_CUDA_SUCCESS) return code;
  if (bytes == 0 || emulated_is_pinned(memory, 1)) return ALREADY_PINNED;
  add_pinned((block){.begin = memory, .bytes = bytes, .registered = true});
  return TDM_CUDA_SUCCESS;
}

tdm_cuda_code emulated_unpin(void *memory) {
  const tdm_cuda_code code = emulated_strike(emulated_opened_ordinal());
  emulated_did(EMULATED_HOLD);
  return remove_pinned(memory, true) ? code : NOT_PINNED;
}

bool emulated_is_pinned(const void *pointer, size_t bytes) {
  (void)pthread_mutex_lock(&heap.mutex);
  const block *mine = find_block(heap.pinned, pointer);
  const bool pinned = mine && bytes <= mine->bytes - (size_t)((const char *)pointer - mine->begin);
  (void)pthread_mutex_unlock(&heap.mutex);
  return pinned;
}

/* ---- Pointers -------------------------------------------------------------------------------- */

void *emulated_block(const void *pointer, size_t bytes, int ordinal) {
  (void)pthread_mutex_lock(&heap.mutex);
  const block *mine = find_block(heap.device, pointer);
  char *found = NULL;
  if (mine && (ordinal < 0 || mine->ordinal == ordinal)) {
    const size_t inside = (size_t)((const char *)pointer - mine->begin);
    if (bytes <= mine->bytes - inside)
      found = heap.bytes + ((const char *)pointer - heap.addresses);
  }
  (void)pthread_mutex_unlock(&heap.mutex);
  return found;
}

void *emulated_pointer(const void *pointer, int ordinal, const char *what) {
  if (!pointer) return NULL;
  void *found = emulated_block(pointer, 1, ordinal);
  if (found) return found;
  if (!emulated_is_pinned(pointer, 1)) {
    emulated_misuse("%s was handed %p, which is no live memory of device %d, and not pinned", what,
                    pointer, ordinal);
  }
  return (void *)pointer;
}
