/* Measures copies of one thread, by the C library and by non-temporal stores, for comparison with
 * copies between cpu devices. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "bench/transfer/buffers.h"
#include "bench/transfer/measure.h"
#include "bench/transfer/plain.h"
#include "devices/topology/topology.h"

enum { MOST_SAMPLES = 1000 };

typedef struct plain_copy {
  const char *name;
  const char *told;
  void (*copy)(void *to, const void *from, size_t bytes);
} plain_copy;

/* Called through a pointer the compiler cannot see through, or copies of what is not read could be
 * left out. */
static void copy_memcpy(void *to, const void *from, size_t bytes) {
  memcpy(to, from, bytes);
}

#if defined(__SSE2__)
/* Both are aligned to 64. */
static void copy_nontemporal(void *to, const void *from, size_t bytes) {
  __m128i *target = to;
  const __m128i *source = from;
  const size_t count = bytes / sizeof *source / 4 * 4;
  for (size_t i = 0; i < count; i += 4) {
    const __m128i a = _mm_load_si128(source + i);
    const __m128i b = _mm_load_si128(source + i + 1);
    const __m128i c = _mm_load_si128(source + i + 2);
    const __m128i d = _mm_load_si128(source + i + 3);
    _mm_stream_si128(target + i, a);
    _mm_stream_si128(target + i + 1, b);
    _mm_stream_si128(target + i + 2, c);
    _mm_stream_si128(target + i + 3, d);
  }
  _mm_sfence();
  memcpy(target + count, source + count, bytes - count * sizeof *source);
}
#endif

static const plain_copy copies[] = {
    {"plain_memcpy", "one thread's memcpy inside each cpu device", copy_memcpy},
#if defined(__SSE2__)
    {"plain_nontemporal", "one thread's non-temporal stores inside each cpu device",
     copy_nontemporal},
#endif
};

/* ---- One size, on a separate thread ---------------------------------------------------------- */

typedef struct copying {
  tdm_context *context;
  tdm_device *device;
  void (*volatile copy)(void *to, const void *from, size_t bytes);
  void *to;
  const void *from;
  size_t bytes;
  int samples;
  double values[MOST_SAMPLES]; /* GB/s */
} copying;

static void *copy_samples(void *user) {
  copying *mine = user;
  const tdm_core_range *cores = tdm_context_cores(mine->context, mine->device);
  (void)tdm_topology_bind_thread(tdm_context_topology(mine->context), cores);
  const int timed = timed_copies_of(mine->bytes);
  for (int i = 0; i < mine->samples; i++) {
    uint64_t began_ns = 0;
    for (int k = 0; k < WARM_UP_COPIES + timed; k++) {
      if (k == WARM_UP_COPIES) began_ns = tdm_time_ns();
      mine->copy(mine->to, mine->from, mine->bytes);
    }
    const uint64_t took_ns = tdm_time_ns() - began_ns;
    mine->values[i] = (double)mine->bytes * timed / (double)(took_ns ? took_ns : 1);
  }
  return NULL;
}

static tdm_status copy_on_thread(copying *mine) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, copy_samples, mine) != 0)
    return tdm_fail(TDM_OUT_OF_MEMORY, "a thread for plain copies");
  (void)pthread_join(thread, NULL);
  return TDM_OK;
}

static tdm_status copy_between(copying *mine, const buffer *from, const buffer *to, result *made) {
  enum { SEED = 7 };
  TDM_TRY(buffer_fill(mine->context, from, mine->bytes, SEED));
  TDM_TRY(buffer_wipe(mine->context, to, mine->bytes));
  mine->from = (const void *)from->memory.address;
  mine->to = (void *)to->memory.address;
  TDM_TRY(copy_on_thread(mine));
  TDM_TRY(buffer_check(mine->context, to, mine->bytes, SEED));
  result_summarize(made, mine->values, mine->samples, true);
  made->copy_ns = (double)mine->bytes / made->median;
  return TDM_OK;
}

static tdm_status measure_size(tdm_context *context, tdm_device *device, const plain_copy *plain,
                               size_t bytes, int samples, results *out_results) {
  result made = {.case_name = plain->name, .unit = "GB/s", .memory = "-", .bytes = bytes};
  made.node = device->node;
  (void)snprintf(made.from, sizeof made.from, "%s", device->name);
  (void)snprintf(made.to, sizeof made.to, "%s", device->name);
  copying mine = {.context = context,
                  .device = device,
                  .copy = plain->copy,
                  .bytes = bytes,
                  .samples = samples_of(samples, bytes)};
  if (!results_begin(
          out_results, &made,
          copies_weight_ns(1, bytes, mine.samples, WARM_UP_COPIES + timed_copies_of(bytes))))
    return TDM_OK;
  buffer from = {.node = -1};
  buffer to = {.node = -1};
  tdm_status status = buffer_create(context, device, device, MEMORY_PAGEABLE, bytes, &from);
  if (status == TDM_OK)
    status = buffer_create(context, device, device, MEMORY_PAGEABLE, bytes, &to);
  if (status == TDM_OK) {
    status = copy_between(&mine, &from, &to, &made);
  } else if (status == TDM_OUT_OF_MEMORY) {
    (void)snprintf(made.problem, sizeof made.problem, "%s", tdm_last_message());
    status = TDM_OK;
  }
  buffer_release(context, &from);
  buffer_release(context, &to);
  return status == TDM_OK ? results_add(out_results, &made) : status;
}

static tdm_status measure_case(tdm_context *context, const transfer_options *given,
                               const plain_copy *plain, results *out_results) {
  for (size_t i = 0; i < tdm_device_count(context); i++) {
    tdm_device *device = tdm_context_device(context, i);
    if (!device->host_addressable || !list_has(given->devices, device->name)) continue;
    for (size_t k = 0; k < given->size_count; k++)
      TDM_TRY(measure_size(context, device, plain, given->sizes[k], given->samples, out_results));
  }
  return TDM_OK;
}

static tdm_status measure(tdm_context *context, const transfer_options *given, results *out_results,
                          plain_told told, void *user) {
  for (size_t i = 0; i < TDM_COUNT_OF(copies); i++) {
    if (!list_has(given->cases, copies[i].name)) continue;
    const size_t first = out_results->count;
    TDM_TRY(measure_case(context, given, &copies[i], out_results));
    told(user, first, copies[i].told);
  }
  return TDM_OK;
}

/* ---- Names ----------------------------------------------------------------------------------- */

static void each_case(void (*tell)(void *user, const char *name, const char *title), void *user) {
  for (size_t i = 0; i < TDM_COUNT_OF(copies); i++)
    tell(user, copies[i].name, copies[i].told);
}

const plain_copies plain_host = {measure, each_case};
