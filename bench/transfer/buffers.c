/* Buffers by kind of memory, filled and compared piece by piece with the library's copies, on any
 * device. */
#include "bench/transfer/buffers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = 4 << 20 };

const char *host_memory_name(host_memory kind) {
  static const char *const names[] = {"pageable", "pinned", "registered"};
  _Static_assert(TDM_COUNT_OF(names) == MEMORY_KINDS, "a name each");
  return names[kind];
}

/* ---- Making ---------------------------------------------------------------------------------- */

/* Returns the memory that the kernel reports as available, or 0 if it does not report it. */
static size_t available_bytes(void) {
  FILE *file = fopen("/proc/meminfo", "r");
  if (!file) return 0;
  char line[128];
  unsigned long long kibibytes = 0;
  while (fgets(line, sizeof line, file))
    if (sscanf(line, "MemAvailable: %llu kB", &kibibytes) == 1) break;
  (void)fclose(file);
  return (size_t)kibibytes * 1024;
}

/* Fails if a buffer would need more than half of the free host memory. */
static tdm_status check_room(size_t bytes) {
  const size_t available = available_bytes();
  if (available > 0 && bytes > available / 2)
    return tdm_fail(TDM_OUT_OF_MEMORY, "%zu MiB are too many: %zu MiB of this machine are free",
                    bytes >> 20, available >> 20);
  return TDM_OK;
}

static tdm_status take_pinned(tdm_context *context, tdm_device *device, tdm_device *other,
                              size_t bytes, buffer *out_buffer) {
  tdm_staging *staging = NULL;
  TDM_TRY(tdm_pool_take(tdm_context_pool(context), other, bytes, &staging));
  if (!staging->pinned) {
    tdm_pool_give_back(tdm_context_pool(context), staging, NULL, 0);
    return tdm_fail(TDM_UNAVAILABLE, "%s does not pin host memory", other->name);
  }
  *out_buffer = (buffer){.memory = {.device = device,
                                    .address = (tdm_address)staging->memory,
                                    .bytes = staging->bytes},
                         .staging = staging,
                         .node = staging->node};
  return TDM_OK;
}

/* The whole pages inside owned become what is copied. */
static tdm_status register_pages(tdm_device *other, size_t bytes, size_t page, buffer *out_buffer) {
  const tdm_address begin = (out_buffer->owned.address + page - 1) / page * page;
  out_buffer->memory.address = begin;
  out_buffer->memory.bytes = (bytes + page - 1) / page * page;
  TDM_TRY(other->ops->pin(other, (void *)begin, out_buffer->memory.bytes));
  out_buffer->pinned_for = other;
  return TDM_OK;
}

tdm_status buffer_create(tdm_context *context, tdm_device *device, tdm_device *other,
                         host_memory kind, size_t bytes, buffer *out_buffer) {
  *out_buffer = (buffer){.node = -1};
  TDM_TRY(check_room(bytes));
  const bool faces_device = device->host_addressable && !other->host_addressable;
  if (faces_device && kind == MEMORY_PINNED)
    return take_pinned(context, device, other, bytes, out_buffer);
  const bool registers = faces_device && kind == MEMORY_REGISTERED;
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  TDM_TRY(device->ops->allocate(device, registers ? bytes + 2 * page : bytes, &out_buffer->owned));
  out_buffer->memory = out_buffer->owned;
  if (device->host_addressable) out_buffer->node = device->node;
  const tdm_status status = registers ? register_pages(other, bytes, page, out_buffer) : TDM_OK;
  if (status != TDM_OK) buffer_release(context, out_buffer);
  return status;
}

void buffer_release(tdm_context *context, buffer *released) {
  if (released->pinned_for) {
    tdm_device *other = released->pinned_for;
    const tdm_memory *memory = &released->memory;
    if (other->ops->unpin(other, (void *)memory->address, memory->bytes) != TDM_OK)
      fprintf(stderr, "transfer: %s\n", tdm_last_message());
  }
  if (released->staging) tdm_pool_give_back(tdm_context_pool(context), released->staging, NULL, 0);
  tdm_device *owner = released->owned.device;
  if (owner) owner->ops->release(owner, &released->owned);
  *released = (buffer){.node = -1};
}

/* ---- Contents -------------------------------------------------------------------------------- */

/* Numbers first .. first + count - 1 of the sequence of seed (a Weyl sequence, mixed as in
 * SplitMix64 by Steele, Lea and Flood, 2014). */
static void draw(uint64_t *out, size_t first, size_t count, uint64_t seed) {
  for (size_t i = 0; i < count; i++) {
    uint64_t mixed = seed + (first + i + 1) * 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    out[i] = mixed ^ (mixed >> 31);
  }
}

typedef struct piece_job {
  tdm_context *context;
  const buffer *subject;
  uint64_t seed;
  uint64_t *scratch;  /* (PIECE_BYTES, or fewer if the buffer is smaller): a piece */
  uint64_t *expected; /* as many bytes; only used to compare */
} piece_job;

static tdm_status write_piece(const piece_job *job, size_t begin, size_t bytes) {
  const tdm_memory here = {.device = tdm_context_device(job->context, 0),
                           .address = (tdm_address)job->scratch,
                           .bytes = bytes};
  const tdm_memory there = {.device = job->subject->memory.device,
                            .address = job->subject->memory.address + begin,
                            .bytes = bytes};
  return tdm_context_copy(job->context, &here, &there, bytes);
}

static tdm_status fill_piece(const piece_job *job, size_t begin, size_t bytes) {
  draw(job->scratch, begin / sizeof(uint64_t), (bytes + 7) / sizeof(uint64_t), job->seed);
  return write_piece(job, begin, bytes);
}

static tdm_status check_piece(const piece_job *job, size_t begin, size_t bytes) {
  const tdm_memory there = {.device = job->subject->memory.device,
                            .address = job->subject->memory.address + begin,
                            .bytes = bytes};
  const tdm_memory here = {.device = tdm_context_device(job->context, 0),
                           .address = (tdm_address)job->scratch,
                           .bytes = bytes};
  TDM_TRY(tdm_context_copy(job->context, &there, &here, bytes));
  draw(job->expected, begin / sizeof(uint64_t), (bytes + 7) / sizeof(uint64_t), job->seed);
  if (memcmp(job->scratch, job->expected, bytes) == 0) return TDM_OK;
  return tdm_fail(TDM_CORRUPT_DATA, "%s: other contents than were copied within %zu bytes at %zu",
                  job->subject->memory.device->name, bytes, begin);
}

static tdm_status each_piece(piece_job *job, size_t bytes,
                             tdm_status (*work)(const piece_job *job, size_t begin, size_t bytes)) {
  const size_t piece_bytes = bytes < PIECE_BYTES ? (bytes + 7) / 8 * 8 : PIECE_BYTES;
  job->scratch = calloc(1, piece_bytes);
  job->expected = calloc(1, piece_bytes);
  tdm_status status = TDM_OK;
  if (!job->scratch || !job->expected) status = tdm_fail(TDM_OUT_OF_MEMORY, "scratch memory");
  for (size_t begin = 0; status == TDM_OK && begin < bytes; begin += PIECE_BYTES) {
    const size_t left = bytes - begin;
    status = work(job, begin, left < PIECE_BYTES ? left : PIECE_BYTES);
  }
  free(job->scratch);
  free(job->expected);
  return status;
}

tdm_status buffer_fill(tdm_context *context, const buffer *filled, size_t bytes, uint64_t seed) {
  piece_job job = {.context = context, .subject = filled, .seed = seed};
  return each_piece(&job, bytes, fill_piece);
}

tdm_status buffer_wipe(tdm_context *context, const buffer *wiped, size_t bytes) {
  piece_job job = {.context = context, .subject = wiped};
  return each_piece(&job, bytes, write_piece);
}

tdm_status buffer_check(tdm_context *context, const buffer *checked, size_t bytes, uint64_t seed) {
  piece_job job = {.context = context, .subject = checked, .seed = seed};
  return each_piece(&job, bytes, check_piece);
}
