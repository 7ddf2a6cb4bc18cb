/* The table of the emulation, and what tests set. Invariant: every function counts itself and may
 * be made to fail; one that gives something back does so all the same. */
#include "tests/devices/cuda_emulation/emulation.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LONGEST_PAUSE_NS = 200000, MOST_DEVICES = 16, MOST_PUSHED = 8 };

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
  _Atomic bool full;
  _Atomic bool hidden_blas;
  _Atomic uint64_t opened;                /* GPUs, by ordinal */
  _Atomic uint64_t reached[MOST_DEVICES]; /* GPUs that each of them may reach, by ordinal */
  _Atomic uint64_t fault_at;
  _Atomic int fault_ordinal;
  _Atomic int fault_code;
  _Atomic int lost_codes[MOST_DEVICES]; /* error of a GPU without a context, or 0 */
  _Atomic uint64_t done[EMULATED_SORTS];
} settings = {.device_count = 2};

/* The GPU that a thread has selected, and above it those that it has pushed. */
static _Thread_local int current_ordinal;
static _Thread_local int pushed[MOST_PUSHED];
static _Thread_local int pushed_count;

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

void emulation_fill(bool full) {
  atomic_store(&settings.full, full);
}

bool emulated_is_full(void) {
  return atomic_load(&settings.full);
}

void emulation_hide_blas(bool hidden) {
  atomic_store(&settings.hidden_blas, hidden);
}

bool emulated_blas_is_hidden(void) {
  return atomic_load(&settings.hidden_blas);
}

void emulation_close(void) {
  atomic_store(&settings.opened, 0);
  for (size_t i = 0; i < MOST_DEVICES; i++)
    atomic_store(&settings.reached[i], 0);
}

bool emulation_opened(int ordinal) {
  return (atomic_load(&settings.opened) >> ordinal & 1) != 0;
}

void emulated_open(int ordinal) {
  atomic_fetch_or(&settings.opened, (uint64_t)1 << ordinal);
}

void emulation_fault_at(uint64_t n, int ordinal, tdm_cuda_code code) {
  atomic_store(&settings.fault_at, 0);
  for (size_t i = 0; i < MOST_DEVICES; i++)
    atomic_store(&settings.lost_codes[i], 0);
  atomic_store(&settings.fault_ordinal, ordinal);
  atomic_store(&settings.fault_code, code);
  atomic_store(&settings.fault_at, n);
}

bool emulated_faults(int ordinal) {
  if (atomic_load(&settings.fault_at) == 0 || atomic_load(&settings.fault_ordinal) != ordinal)
    return false;
  if (atomic_fetch_sub(&settings.fault_at, 1) != 1) return false;
  atomic_store(&settings.lost_codes[ordinal], atomic_load(&settings.fault_code));
  return true;
}

/* Returns 0 if the GPU works. */
static int lost_code(int ordinal) {
  if (atomic_load(&settings.lost)) return EMULATED_LOST;
  return ordinal < 0 ? 0 : atomic_load(&settings.lost_codes[ordinal]);
}

bool emulated_is_lost(int ordinal) {
  return lost_code(ordinal) != 0;
}

void emulated_did(emulated_sort sort) {
  atomic_fetch_add(&settings.done[sort], 1);
}

emulation_work emulation_work_done(void) {
  return (emulation_work){.launches = atomic_load(&settings.done[EMULATED_LAUNCH]),
                          .products = atomic_load(&settings.done[EMULATED_PRODUCT]),
                          .fills = atomic_load(&settings.done[EMULATED_FILL]),
                          .copies = atomic_load(&settings.done[EMULATED_COPY]),
                          .records = atomic_load(&settings.done[EMULATED_RECORD]),
                          .stream_waits = atomic_load(&settings.done[EMULATED_STREAM_WAIT]),
                          .host_waits = atomic_load(&settings.done[EMULATED_HOST_WAIT]),
                          .holds = atomic_load(&settings.done[EMULATED_HOLD])};
}

/* Writes the requested operations, in the order of emulated_sort, to the file in EMULATED_WORK, for
 * tests of whole programs. */
__attribute__((destructor)) static void write_work(void) {
  const char *path = getenv("EMULATED_WORK");
  FILE *file = !path ? NULL : fopen(path, "w");
  if (!file) return;
  for (int i = 0; i < EMULATED_SORTS; i++)
    fprintf(file, "%llu\n", (unsigned long long)atomic_load(&settings.done[i]));
  (void)fclose(file);
}

int emulated_ordinal(void) {
  return pushed_count > 0 ? pushed[pushed_count - 1] : current_ordinal;
}

int emulated_opened_ordinal(void) {
  emulated_open(emulated_ordinal());
  return emulated_ordinal();
}

tdm_cuda_code emulated_glance(int ordinal) {
  if (lost_code(ordinal) != 0) return lost_code(ordinal);
  const uint64_t fail_at = atomic_load(&settings.fail_at);
  const bool failing = fail_at != 0 && atomic_load(&settings.from_on);
  return failing && atomic_load(&settings.calls) >= fail_at ? atomic_load(&settings.fail_code)
                                                            : TDM_CUDA_SUCCESS;
}

tdm_cuda_code emulated_strike(int ordinal) {
  if (lost_code(ordinal) != 0) return lost_code(ordinal);
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
  *out_version = driver == EMULATED_NO_DRIVER ? 0 : driver == EMULATED_OLD_DRIVER ? 12040 : 13000;
  return TDM_CUDA_SUCCESS;
}

static int runtime_version(void) {
  return 13000;
}

static tdm_cuda_code device_count(int *out_count) {
  *out_count = 0;
  const tdm_cuda_code code = emulated_strike(-1);
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
  const tdm_cuda_code code = emulated_strike(-1);
  if (code != TDM_CUDA_SUCCESS) return code;
  if (!emulated_is_device(ordinal)) return TDM_CUDA_INVALID_VALUE;
  *out_properties = (tdm_cuda_properties){.name = "emulated", .memory_bytes = (size_t)8 << 30};
  (void)snprintf(out_properties->pci_bus_id, sizeof out_properties->pci_bus_id, "0000:%02x:00.0",
                 ordinal);
  return TDM_CUDA_SUCCESS;
}

static tdm_cuda_code device_set(int ordinal) {
  if (!emulated_is_device(ordinal)) return TDM_CUDA_INVALID_VALUE;
  const tdm_cuda_code code = emulated_strike(ordinal);
  if (code != TDM_CUDA_SUCCESS) return code;
  emulated_open(ordinal);
  current_ordinal = ordinal;
  return TDM_CUDA_SUCCESS;
}

/* A context is as good as its device's number; NULL is none. */
static tdm_cuda_code context_retain(tdm_cuda_context *out, int ordinal) {
  *out = NULL;
  if (!emulated_is_device(ordinal)) return TDM_CUDA_INVALID_VALUE;
  const tdm_cuda_code code = emulated_strike(ordinal);
  if (code != TDM_CUDA_SUCCESS) return code;
  emulated_open(ordinal);
  *out = (tdm_cuda_context)(uintptr_t)(ordinal + 1);
  return TDM_CUDA_SUCCESS;
}

static tdm_cuda_code context_push(tdm_cuda_context context) {
  const int ordinal = (int)(uintptr_t)context - 1;
  if (!emulated_is_device(ordinal)) return TDM_CUDA_INVALID_VALUE;
  const tdm_cuda_code code = emulated_strike(-1);
  if (code != TDM_CUDA_SUCCESS) return code;
  if (pushed_count == MOST_PUSHED) emulated_misuse("contexts are pushed and not popped");
  pushed[pushed_count++] = ordinal;
  return TDM_CUDA_SUCCESS;
}

/* Removes the context for any result. */
static tdm_cuda_code context_pop(void) {
  if (pushed_count == 0) emulated_misuse("a context is popped that nobody pushed");
  pushed_count--;
  return emulated_strike(-1);
}

static tdm_cuda_code peer_possible(int *out_possible, int ordinal, int peer) {
  const tdm_cuda_code code = emulated_strike(-1);
  *out_possible = code == TDM_CUDA_SUCCESS && ordinal < peer; /* one way only, to see both */
  return code;
}

/* A second call returns that the peer is already enabled, which is not an error. */
static tdm_cuda_code peer_enable(int peer) {
  if (!emulated_is_device(peer)) return TDM_CUDA_INVALID_VALUE;
  emulated_open(peer);
  const int ordinal = emulated_opened_ordinal();
  const tdm_cuda_code code = emulated_strike(ordinal);
  if (code != TDM_CUDA_SUCCESS) return code;
  const uint64_t bit = (uint64_t)1 << peer;
  const bool again = (atomic_fetch_or(&settings.reached[ordinal], bit) & bit) != 0;
  return again ? TDM_CUDA_PEER_ENABLED : TDM_CUDA_SUCCESS;
}

/* ---- Ranges ---------------------------------------------------------------------------------- */

static _Thread_local int open_ranges;

static void range_begin(const char *name) {
  if (!name || open_ranges++ != 0) emulated_misuse("a range without a name, or inside one");
}

static void range_end(void) {
  if (open_ranges-- != 1) emulated_misuse("a range that did not begin");
}

/* ---- The table ------------------------------------------------------------------------------- */

const tdm_cuda_api *tdm_cuda_api_linked(void) {
  static const tdm_cuda_api api = {
      .error_text = error_text,
      .driver_version = driver_version,
      .runtime_version = runtime_version,
      .device_count = device_count,
      .properties = properties,
      .device_set = device_set,
      .context_retain = context_retain,
      .context_push = context_push,
      .context_pop = context_pop,
      .peer_possible = peer_possible,
      .peer_enable = peer_enable,
      .memory = emulated_memory,
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
      .stream_query = emulated_stream_query,
      .stream_wait = emulated_stream_wait,
      .event_create = emulated_event_create,
      .event_create_timed = emulated_event_create_timed,
      .event_elapsed = emulated_event_elapsed,
      .event_destroy = emulated_event_destroy,
      .event_record = emulated_event_record,
      .event_query = emulated_event_query,
      .event_synchronize = emulated_event_synchronize,
      .launch = emulated_launch,
      .blas_absence = emulated_blas_absence,
      .blas_create = emulated_blas_create,
      .blas_destroy = emulated_blas_destroy,
      .blas_set_stream = emulated_blas_set_stream,
      .blas_product = emulated_blas_product,
      .range_begin = range_begin,
      .range_end = range_end,
  };
  return &api;
}
