/* The table of the emulation, and what tests set. Invariant: every function counts itself and may
 * be made to fail; one that gives something back does so all the same. */
#include "tests/devices/cuda_emulation/emulation.h"

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { LONGEST_PAUSE_NS = 200000 };

static struct {
  _Atomic int driver;
  _Atomic int device_count;
  _Atomic uint64_t calls;
  _Atomic uint64_t fail_at;
  _Atomic int fail_code;
  _Atomic bool from_on;
  _Atomic bool lost;
  _Atomic uint64_t jitter;
  _Atomic uint64_t delay_ns;
  _Atomic bool held;
  _Atomic int64_t outstanding;
} settings = {.device_count = 2};

static _Thread_local int current_ordinal;

/* ---- What tests set -------------------------------------------------------------------------- */

void emulation_set_driver(emulated_driver driver, int device_count) {
  atomic_store(&settings.driver, (int)driver);
  atomic_store(&settings.device_count, device_count);
}

void emulation_fail_at(uint64_t n, tdm_cuda_code code, bool from_on) {
  atomic_store(&settings.fail_at, 0);
  atomic_store(&settings.calls, 0);
  atomic_store(&settings.fail_code, code);
  atomic_store(&settings.from_on, from_on);
  atomic_store(&settings.fail_at, n);
}

uint64_t emulation_calls(void) {
  return atomic_load(&settings.calls);
}

void emulation_lose(bool lost) {
  atomic_store(&settings.lost, lost);
}

void emulation_set_jitter(uint64_t seed) {
  atomic_store(&settings.jitter, seed);
}

void emulation_hold(bool held) {
  atomic_store(&settings.held, held);
}

void emulation_set_delay(uint64_t delay_ns) {
  atomic_store(&settings.delay_ns, delay_ns);
}

size_t emulation_outstanding(void) {
  return (size_t)atomic_load(&settings.outstanding);
}

void emulated_count(int change) {
  atomic_fetch_add(&settings.outstanding, change);
}

int emulated_ordinal(void) {
  return current_ordinal;
}

tdm_cuda_code emulated_glance(void) {
  if (atomic_load(&settings.lost)) return EMULATED_LOST;
  const uint64_t fail_at = atomic_load(&settings.fail_at);
  const bool failing = fail_at != 0 && atomic_load(&settings.from_on);
  return failing && atomic_load(&settings.calls) >= fail_at ? atomic_load(&settings.fail_code)
                                                            : TDM_CUDA_SUCCESS;
}

tdm_cuda_code emulated_strike(void) {
  if (atomic_load(&settings.lost)) return EMULATED_LOST;
  const uint64_t call = atomic_fetch_add(&settings.calls, 1) + 1;
  const uint64_t fail_at = atomic_load(&settings.fail_at);
  if (fail_at == 0 || call < fail_at) return TDM_CUDA_SUCCESS;
  if (call > fail_at && !atomic_load(&settings.from_on)) return TDM_CUDA_SUCCESS;
  return atomic_load(&settings.fail_code);
}

void emulated_pause(void) {
  const struct timespec moment = {.tv_nsec = 100000};
  while (atomic_load(&settings.held))
    (void)nanosleep(&moment, NULL);
  const uint64_t delay_ns = atomic_load(&settings.delay_ns);
  if (delay_ns != 0) {
    const struct timespec delay = {.tv_nsec = (long)(delay_ns % 1000000000)};
    (void)nanosleep(&delay, NULL);
  }
  uint64_t state = atomic_load(&settings.jitter);
  if (state == 0) return;
  state = state * 6364136223846793005u + 1442695040888963407u;
  atomic_store(&settings.jitter, state == 0 ? 1 : state); /* a lost update changes nothing */
  if ((state >> 60) > 3) return;
  const struct timespec pause = {.tv_nsec = (long)((state >> 33) % LONGEST_PAUSE_NS)};
  (void)nanosleep(&pause, NULL);
}

/* ---- Devices --------------------------------------------------------------------------------- */

static const char *error_text(tdm_cuda_code code) {
  return code == EMULATED_LOST ? "emulated launch failure" : "emulated error";
}

static tdm_cuda_code driver_version(int *out_version) {
  const int driver = atomic_load(&settings.driver);
  *out_version = driver == EMULATED_NO_DRIVER ? 0 : driver == EMULATED_OLD_DRIVER ? 9000 : 13000;
  return TDM_CUDA_SUCCESS;
}

static tdm_cuda_code device_count(int *out_count) {
  *out_count = 0;
  const tdm_cuda_code code = emulated_strike();
  if (code != TDM_CUDA_SUCCESS) return code;
  switch (atomic_load(&settings.driver)) {
  case EMULATED_NO_DRIVER:
  case EMULATED_OLD_DRIVER:
    return TDM_CUDA_INSUFFICIENT_DRIVER;
  case EMULATED_NO_DEVICE:
    return TDM_CUDA_NO_DEVICE;
  default:
    *out_count = atomic_load(&settings.device_count);
    return TDM_CUDA_SUCCESS;
  }
}

bool emulated_is_device(int ordinal) {
  return ordinal >= 0 && ordinal < atomic_load(&settings.device_count);
}

static tdm_cuda_code properties(int ordinal, tdm_cuda_properties *out_properties) {
  const tdm_cuda_code code = emulated_strike();
  if (code != TDM_CUDA_SUCCESS) return code;
  if (!emulated_is_device(ordinal)) return TDM_CUDA_INVALID_VALUE;
  *out_properties = (tdm_cuda_properties){.name = "emulated", .memory_bytes = (size_t)8 << 30};
  (void)snprintf(out_properties->pci_bus_id, sizeof(out_properties->pci_bus_id), "0000:%02x:00.0",
                 ordinal);
  return TDM_CUDA_SUCCESS;
}

static tdm_cuda_code device_get(int *out_ordinal) {
  const tdm_cuda_code code = emulated_strike();
  if (code == TDM_CUDA_SUCCESS) *out_ordinal = current_ordinal;
  return code;
}

static tdm_cuda_code device_set(int ordinal) {
  const tdm_cuda_code code = emulated_strike();
  if (code != TDM_CUDA_SUCCESS) return code;
  if (!emulated_is_device(ordinal)) return TDM_CUDA_INVALID_VALUE;
  current_ordinal = ordinal;
  return TDM_CUDA_SUCCESS;
}

static tdm_cuda_code peer_possible(int *out_possible, int ordinal, int peer) {
  const tdm_cuda_code code = emulated_strike();
  *out_possible = code == TDM_CUDA_SUCCESS && ordinal < peer; /* one way only, to see both */
  return code;
}

static tdm_cuda_code peer_enable(int peer) {
  (void)peer;
  return emulated_strike();
}

/* ---- Ranges ---------------------------------------------------------------------------------- */

static _Thread_local int open_ranges;

static void range_begin(const char *name) {
  if (name == NULL || open_ranges++ != 0) emulated_misuse("a range without a name, or inside one");
}

static void range_end(void) {
  if (open_ranges-- != 1) emulated_misuse("a range that did not begin");
}

/* ---- The table ------------------------------------------------------------------------------- */

const tdm_cuda_api *tdm_cuda_api_linked(void) {
  static const tdm_cuda_api api = {
      .error_text = error_text,
      .driver_version = driver_version,
      .device_count = device_count,
      .properties = properties,
      .device_get = device_get,
      .device_set = device_set,
      .peer_possible = peer_possible,
      .peer_enable = peer_enable,
      .allocate = emulated_allocate,
      .release = emulated_release,
      .allocate_pinned = emulated_allocate_pinned,
      .release_pinned = emulated_release_pinned,
      .pin = emulated_pin,
      .unpin = emulated_unpin,
      .copy = emulated_copy,
      .copy_async = emulated_copy_async,
      .copy_peer_async = emulated_copy_peer_async,
      .fill_async = emulated_fill_async,
      .stream_create = emulated_stream_create,
      .stream_destroy = emulated_stream_destroy,
      .stream_synchronize = emulated_stream_synchronize,
      .stream_wait = emulated_stream_wait,
      .event_create = emulated_event_create,
      .event_create_timed = emulated_event_create_timed,
      .event_elapsed = emulated_event_elapsed,
      .event_destroy = emulated_event_destroy,
      .event_record = emulated_event_record,
      .event_query = emulated_event_query,
      .event_synchronize = emulated_event_synchronize,
      .launch = emulated_launch,
      .blas_create = emulated_blas_create,
      .blas_destroy = emulated_blas_destroy,
      .blas_set_stream = emulated_blas_set_stream,
      .blas_product = emulated_blas_product,
      .range_begin = range_begin,
      .range_end = range_end,
  };
  return &api;
}
