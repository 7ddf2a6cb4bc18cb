/* Sorts elements along a dimension. x is seen as (outer, size, inner). Invariant: pairs of key and
 * position are distinct, so every algorithm gives the same order. */
#include <string.h>

#include "core/status.h"
#include "devices/kernels/axis_sizes.h"
#include "devices/kernels/cpu/family.h"
#include "devices/kernels/moves/sort.h"

/* Slots of each thread. Slots share the rows, and each has separate memory. */
#define SLOTS_OF_THREAD 4
#define RUN 16 /* entries of a run, which is sorted by insertion */
#define FEW 8  /* a heap is used if the row has this many times more entries than results */

/* An element by its rank among all numbers, and its place in the row. */
typedef struct entry {
  uint64_t key;
  int64_t place;
} entry;

typedef struct sort_state {
  axis_sizes sizes;
  tdm_dtype dtype;
  int64_t count; /* results of a row */
  int64_t slots;
  bool descending;
  bool splits;
} sort_state;

static tdm_status sort_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_sort_attributes *attributes = request->attributes;
  sort_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  axis_sizes_read(&state->sizes, &request->inputs[0], attributes->dimension);
  state->dtype = request->inputs[0].dtype;
  const axis_sizes *sizes = &state->sizes;
  state->count = attributes->count > 0 ? attributes->count : sizes->size;
  state->descending = attributes->descending != 0;
  state->slots =
      lesser_of(sizes->outer * sizes->inner, SLOTS_OF_THREAD * (int64_t)request->team_size);
  answer->workspace_bytes = (size_t)(state->slots * 2 * sizes->size) * sizeof(entry);
  state->splits = answer->splits =
      tdm_cpu_splits(request, (double)count_of(&request->inputs[0]) * 16);
  return TDM_OK;
}

/* Maps numbers to integers in the same order: 0 and -0 are equal, a NaN is after all numbers. */
static inline uint64_t key_of_real(double x) {
  const double value = x + 0.0;
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint64_t sign = UINT64_C(1) << 63;
  return value != value ? UINT64_MAX : (bits & sign) != 0 ? ~bits : bits | sign;
}

static inline uint64_t key_of_integer(int64_t x) {
  return (uint64_t)x ^ UINT64_C(1) << 63;
}

static inline bool is_before(entry a, entry b) {
  return a.key < b.key || (a.key == b.key && a.place < b.place);
}

/* ---- All of a row ---------------------------------------------------------------------------- */

static void sort_run(entry *entries, int64_t count) {
  for (int64_t i = 1; i < count; i++) {
    const entry moved = entries[i];
    int64_t at = i;
    for (; at > 0 && is_before(moved, entries[at - 1]); at--)
      entries[at] = entries[at - 1];
    entries[at] = moved;
  }
}

/* Merges two neighbouring sorted runs, from[begin..middle) and from[middle..end). */
static void merge(const entry *from, entry *to, int64_t begin, int64_t middle, int64_t end) {
  int64_t left = begin, right = middle;
  for (int64_t i = begin; i < end; i++) {
    const bool takes_left = left < middle && (right == end || is_before(from[left], from[right]));
    to[i] = takes_left ? from[left++] : from[right++];
  }
}

/* Sorts entries (count), with `spare` of the same size; returns the buffer that holds the sorted
 * entries. */
static entry *sort_entries(entry *entries, entry *spare, int64_t count) {
  for (int64_t i = 0; i < count; i += RUN)
    sort_run(entries + i, lesser_of(RUN, count - i));
  for (int64_t width = RUN; width < count; width *= 2) {
    for (int64_t i = 0; i < count; i += 2 * width)
      merge(entries, spare, i, lesser_of(i + width, count), lesser_of(i + 2 * width, count));
    entry *const sorted = spare;
    spare = entries;
    entries = sorted;
  }
  return entries;
}

/* ---- The first of a row ---------------------------------------------------------------------- */

/* Moves `moved` to its place below `at` in a heap whose last entry in order is on top. */
static void sink(entry *heap, int64_t count, int64_t at, entry moved) {
  for (int64_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
    if (child + 1 < count && is_before(heap[child], heap[child + 1])) child++;
    if (!is_before(moved, heap[child])) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = moved;
}

/* Moves the first `wanted` of entries (count) to the front, unordered. */
static void select_first(entry *entries, int64_t count, int64_t wanted) {
  for (int64_t i = wanted / 2 - 1; i >= 0; i--)
    sink(entries, wanted, i, entries[i]);
  for (int64_t i = wanted; i < count; i++)
    if (is_before(entries[i], entries[0])) sink(entries, wanted, 0, entries[i]);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Entries (size) of a row that begins with element `first` of x, elements `inner` apart. */
#define MAKE_ENTRIES(dtype, number, key_of)                                                        \
  case dtype:                                                                                      \
    for (int64_t i = 0; i < size; i++)                                                             \
      entries[i] = (entry){key_of(((const number *)x)[first + i * step]) ^ reversed, i};           \
    break;

static void make_entries(const sort_state *state, const void *x, int64_t first, entry *entries) {
  const int64_t size = state->sizes.size, step = state->sizes.inner;
  const uint64_t reversed = state->descending ? UINT64_MAX : 0;
  switch (state->dtype) {
    MAKE_ENTRIES(TDM_FLOAT32, float, key_of_real)
    MAKE_ENTRIES(TDM_FLOAT64, double, key_of_real)
    MAKE_ENTRIES(TDM_INT32, int32_t, key_of_integer)
    MAKE_ENTRIES(TDM_INT64, int64_t, key_of_integer)
  default:
    MAKE_ENTRIES(TDM_UINT8, uint8_t, key_of_integer) /* bool too */
  }
}

/* The elements of x that `sorted` (count) names, elements `inner` apart on both sides. */
#define TAKE_ELEMENTS(word)                                                                        \
  static void take_##word(const sort_state *state, const word *x, const entry *sorted,             \
                          word *values) {                                                          \
    for (int64_t i = 0; i < state->count; i++)                                                     \
      values[i * state->sizes.inner] = x[sorted[i].place * state->sizes.inner];                    \
  }
TAKE_ELEMENTS(uint8_t)
TAKE_ELEMENTS(uint32_t)
TAKE_ELEMENTS(uint64_t)

static void take_elements(const sort_state *state, const void *x, int64_t first,
                          const entry *sorted, void *values, int64_t out) {
  switch (tdm_dtype_bytes(state->dtype)) {
  case sizeof(uint32_t):
    take_uint32_t(state, (const uint32_t *)x + first, sorted, (uint32_t *)values + out);
    break;
  case sizeof(uint64_t):
    take_uint64_t(state, (const uint64_t *)x + first, sorted, (uint64_t *)values + out);
    break;
  default:
    take_uint8_t(state, (const uint8_t *)x + first, sorted, (uint8_t *)values + out);
  }
}

/* Sorts a row that begins with element `first` of x: writes values and indices from element `out`
 * on. */
static void sort_row(const tdm_kernel_call *call, int64_t first, int64_t out, entry *entries) {
  const sort_state *state = call->state;
  const int64_t size = state->sizes.size, step = state->sizes.inner;
  int64_t *indices = (int64_t *)call->outputs[1] + out;
  make_entries(state, call->inputs[0], first, entries);
  int64_t left = size;
  if (state->count > 0 && state->count <= size / FEW) {
    select_first(entries, size, state->count);
    left = state->count;
  }
  const entry *sorted = sort_entries(entries, entries + size, left);
  take_elements(state, call->inputs[0], first, sorted, call->outputs[0], out);
  for (int64_t i = 0; i < state->count; i++)
    indices[i * step] = sorted[i].place;
}

static void sort_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const sort_state *state = call->state;
  const int64_t size = state->sizes.size, inner = state->sizes.inner;
  const int64_t rows = state->sizes.outer * inner;
  for (int64_t slot = begin; slot < end; slot++) {
    entry *entries = (entry *)call->workspace + slot * 2 * size;
    for (int64_t row = slot * rows / state->slots; row < (slot + 1) * rows / state->slots; row++) {
      const int64_t outer = row / inner, column = row % inner;
      sort_row(call, outer * size * inner + column, outer * state->count * inner + column, entries);
    }
  }
}

static tdm_status sort_execute(const tdm_kernel_call *call) {
  const sort_state *state = call->state;
  tdm_team_run(state->splits ? call->team : NULL, state->slots, 1, sort_range, (void *)call);
  return TDM_OK;
}

KERNELS(sort, KERNEL_OF_ALL(TDM_OP_SORT, sort_prepare, sort_execute, NULL))
