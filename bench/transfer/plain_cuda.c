/* The driver's own copies under the names of the library's cases, so that the report can set them
 * side by side. */
#include <stdio.h>
#include <string.h>

#include "bench/peers/cuda_copies.h"
#include "bench/transfer/buffers.h"
#include "bench/transfer/measure.h"
#include "bench/transfer/plain.h"

enum { MOST_SAMPLES = 1000 };

typedef struct plain_case {
  const char *name;
  const char *told;
  cuda_copies_direction direction;
} plain_case;

static const plain_case cases[] = {
    {"plain_host_to_device", "the driver's uploads", CUDA_COPIES_UPLOAD},
    {"plain_device_to_host", "the driver's downloads", CUDA_COPIES_DOWNLOAD},
    {"plain_host_to_device_bidirectional", "the driver's uploads, downloads beside them",
     CUDA_COPIES_UPLOAD_BUSY},
    {"plain_device_to_host_bidirectional", "the driver's downloads, uploads beside them",
     CUDA_COPIES_DOWNLOAD_BUSY},
};

static bool is_upload(const plain_case *plain) {
  return plain->direction == CUDA_COPIES_UPLOAD || plain->direction == CUDA_COPIES_UPLOAD_BUSY;
}

/* "cuda:0" into name (16). */
static void name_of(int device, char *name) {
  char text[32];
  (void)snprintf(text, sizeof text, "cuda:%d", device);
  memcpy(name, text, 15);
  name[15] = '\0';
}

static tdm_status measure_size(const plain_case *plain, int device, host_memory memory,
                               size_t bytes, int samples, results *out_results) {
  static const cuda_copies_memory memories[] = {CUDA_COPIES_PAGEABLE, CUDA_COPIES_PINNED,
                                                CUDA_COPIES_REGISTERED};
  const cuda_copies wanted = {.device = device,
                              .direction = plain->direction,
                              .memory = memories[memory],
                              .bytes = bytes,
                              .warm_ups = WARM_UP_COPIES,
                              .timed = timed_copies_of(bytes),
                              .samples = samples_of(samples, bytes)};
  result made = {.case_name = plain->name,
                 .unit = "GB/s",
                 .memory = host_memory_name(memory),
                 .node = -1,
                 .bytes = bytes};
  char *const host = is_upload(plain) ? made.from : made.to;
  char *const gpu = is_upload(plain) ? made.to : made.from;
  memcpy(host, "cpu:0", sizeof "cpu:0");
  name_of(device, gpu);
  if (!results_begin(out_results, &made,
                     copies_weight_ns(1, bytes, wanted.samples, wanted.warm_ups + wanted.timed)))
    return TDM_OK;
  double values[MOST_SAMPLES];
  if (cuda_copies_measure(&wanted, values, made.problem, sizeof made.problem)) {
    for (int i = 0; i < wanted.samples; i++)
      values[i] = (double)bytes * wanted.timed / (values[i] > 0 ? values[i] : 1);
    result_summarize(&made, values, wanted.samples, true);
    made.copy_ns = (double)bytes / made.median;
  }
  return results_add(out_results, &made);
}

static tdm_status measure_case(const transfer_options *given, const plain_case *plain,
                               host_memory memory, results *out_results) {
  const int count = cuda_copies_device_count();
  for (int device = 0; device < count; device++) {
    char name[16];
    name_of(device, name);
    if (!list_has(given->devices, name)) continue;
    for (size_t i = 0; i < given->size_count; i++)
      TDM_TRY(measure_size(plain, device, memory, given->sizes[i], given->samples, out_results));
  }
  return TDM_OK;
}

static tdm_status measure(tdm_context *context, const transfer_options *given, results *out_results,
                          plain_told told, void *user) {
  (void)context;
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    if (!list_has(given->cases, cases[i].name)) continue;
    for (int memory = 0; memory < MEMORY_KINDS; memory++) {
      if (!list_has(given->memories, host_memory_name((host_memory)memory))) continue;
      const size_t first = out_results->count;
      TDM_TRY(measure_case(given, &cases[i], (host_memory)memory, out_results));
      told(user, first, cases[i].told);
    }
  }
  return TDM_OK;
}

static void each_case(void (*tell)(void *user, const char *name, const char *title), void *user) {
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++)
    tell(user, cases[i].name, cases[i].told);
}

const plain_copies plain_cuda = {measure, each_case};
