/* Sorts elements along a dimension by Batcher's bitonic sort (K. E. Batcher, "Sorting networks and
 * their applications", AFIPS 1968), all rows at once. Each row has `capacity` entries, a power of
 * two; entries after its own elements are sorted last. Exchanges that fit shared memory are one
 * launch, wider exchanges are launches of their own. Invariant: pairs of keys and places are
 * distinct, so there is one order. */
#include <string.h>

#include "devices/kernels/axis_sizes.h"
#include "devices/kernels/cuda/kernel.h"
#include "devices/kernels/moves/sort.h"

static const int64_t PIECE = 2 * BLOCK; /* entries that a block sorts by itself */

struct sort_state : axis_sizes {
  int64_t count;    /* results of a row */
  int64_t capacity; /* entries of a row */
  int64_t entries;  /* entries of all rows, rounded up to whole pieces */
  bool descending;
};

static tdm_status sort_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_sort_attributes *attributes = attributes_of<tdm_sort_attributes>(request);
  sort_state *state = state_create<sort_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  axis_sizes_read(state, &request->inputs[0], attributes->dimension);
  state->count = attributes->count > 0 ? attributes->count : state->size;
  state->descending = attributes->descending != 0;
  state->capacity = 2;
  while (state->capacity < state->size)
    state->capacity *= 2;
  state->entries = ceil_div(state->outer * state->inner * state->capacity, PIECE) * PIECE;
  answer->workspace_bytes = (size_t)state->entries * (sizeof(uint64_t) + sizeof(int64_t));
  return TDM_OK;
}

/* ---- Entries --------------------------------------------------------------------------------- */

/* Maps numbers to integers in the same order: 0 and -0 are equal, a NaN is after all numbers. */
static __device__ inline uint64_t key_of(double x) {
  const double value = x + 0.0;
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint64_t sign = (uint64_t)1 << 63;
  return value != value ? UINT64_MAX : (bits & sign) != 0 ? ~bits : bits | sign;
}

static __device__ inline uint64_t key_of(int64_t x) {
  return (uint64_t)x ^ (uint64_t)1 << 63;
}

static __device__ inline uint64_t key_of(float x) {
  return key_of((double)x);
}

static __device__ inline uint64_t key_of(int32_t x) {
  return key_of((int64_t)x);
}

static __device__ inline uint64_t key_of(uint8_t x) {
  return key_of((int64_t)x);
}

/* keys, places: (entries), rows of `capacity`; x: (outer, size, inner). Entries after a row's
 * elements have the last key, and places above all others. */
template <class number>
static __global__ void make_entries(const number *x, uint64_t *keys, int64_t *places, int64_t size,
                                    int64_t inner, int64_t rows, int64_t capacity, bool descending,
                                    int64_t entries) {
  EACH_ELEMENT(i, entries) {
    const int64_t row = i / capacity, place = i % capacity;
    const bool there = row < rows && place < size;
    const int64_t from = (row / inner * size + place) * inner + row % inner;
    const uint64_t reversed = descending ? UINT64_MAX : 0;
    keys[i] = there ? key_of(x[from]) ^ reversed : UINT64_MAX;
    places[i] = place;
  }
}

/* Puts a pair of entries in order, or in reverse. */
static __device__ inline void exchange(uint64_t *keys, int64_t *places, int64_t low, int64_t high,
                                       bool ascends) {
  const uint64_t a = keys[low], b = keys[high];
  const int64_t of_a = places[low], of_b = places[high];
  if ((a > b || (a == b && of_a > of_b)) != ascends) return;
  keys[low] = b;
  keys[high] = a;
  places[low] = of_b;
  places[high] = of_a;
}

/* Returns the position of the lower entry of thread `pair` if partners are `distance` apart. */
static __device__ inline int64_t lower_of(int64_t pair, int64_t distance) {
  return pair / distance * 2 * distance + pair % distance;
}

/* Returns true if that entry of its row belongs to a range of `width` entries that is sorted in
 * ascending order. The last range of a row is. */
static __device__ inline bool ascends_at(int64_t entry, int64_t capacity, int64_t width) {
  return (entry & (capacity - 1) & width) == 0;
}

/* Sorts a block's piece of entries, for the widths first..last, from distance PIECE / 2 down. */
static __global__ void sort_entries(uint64_t *keys, int64_t *places, int64_t capacity,
                                    int64_t first_width, int64_t last_width) {
  TDM_SHARED(uint64_t, piece_keys, PIECE);
  TDM_SHARED(int64_t, piece_places, PIECE);
  const int64_t base = (int64_t)blockIdx.x * PIECE;
  EACH_OF_BLOCK(i, PIECE) {
    piece_keys[i] = keys[base + i];
    piece_places[i] = places[base + i];
  }
  __syncthreads();
  for (int64_t width = first_width; width <= last_width; width *= 2) {
    for (int64_t distance = width < PIECE ? width / 2 : PIECE / 2; distance > 0; distance /= 2) {
      const int64_t low = lower_of(threadIdx.x, distance);
      exchange(piece_keys, piece_places, low, low + distance,
               ascends_at(base + low, capacity, width));
      __syncthreads();
    }
  }
  EACH_OF_BLOCK(i, PIECE) {
    keys[base + i] = piece_keys[i];
    places[base + i] = piece_places[i];
  }
}

/* Executes one exchange of entries (2 pairs) whose distance exceeds a piece. */
static __global__ void exchange_entries(uint64_t *keys, int64_t *places, int64_t pairs,
                                        int64_t capacity, int64_t width, int64_t distance) {
  EACH_ELEMENT(pair, pairs) {
    const int64_t low = lower_of(pair, distance);
    exchange(keys, places, low, low + distance, ascends_at(low, capacity, width));
  }
}

/* values, indices: (outer, count, inner), wanted elements in all. */
template <class number>
static __global__ void take_first(const number *x, const int64_t *places, number *values,
                                  int64_t *indices, int64_t size, int64_t inner, int64_t count,
                                  int64_t capacity, int64_t wanted) {
  EACH_ELEMENT(i, wanted) {
    const int64_t outer = i / inner / count, rank = i / inner % count, column = i % inner;
    const int64_t place = places[(outer * inner + column) * capacity + rank];
    values[i] = x[(outer * size + place) * inner + column];
    indices[i] = place;
  }
}

/* ---- Launches -------------------------------------------------------------------------------- */

static tdm_status sort_all(const tdm_kernel_call *call, const sort_state *state, uint64_t *keys,
                           int64_t *places) {
  const int64_t capacity = state->capacity, pieces = state->entries / PIECE;
  TDM_TRY(kernel_launch(call, "sort_entries", sort_entries, pieces, BLOCK, keys, places, capacity,
                        2, capacity < PIECE ? capacity : PIECE));
  for (int64_t width = 2 * PIECE; width <= capacity; width *= 2) {
    for (int64_t distance = width / 2; distance >= PIECE; distance /= 2) {
      TDM_TRY(kernel_launch(call, "exchange_entries", exchange_entries,
                            blocks_for(state->entries / 2), BLOCK, keys, places, state->entries / 2,
                            capacity, width, distance));
    }
    TDM_TRY(kernel_launch(call, "sort_entries", sort_entries, pieces, BLOCK, keys, places, capacity,
                          width, width));
  }
  return TDM_OK;
}

template <class number> static tdm_status run_sort(const tdm_kernel_call *call) {
  const sort_state *state = state_of<sort_state>(call);
  uint64_t *keys = static_cast<uint64_t *>(call->workspace);
  int64_t *places = reinterpret_cast<int64_t *>(keys + state->entries);
  const int64_t rows = state->outer * state->inner, wanted = rows * state->count;
  if (wanted == 0) return TDM_OK;
  TDM_TRY(kernel_launch(call, "make_entries", make_entries<number>, blocks_for(state->entries),
                        BLOCK, input_of<number>(call, 0), keys, places, state->size, state->inner,
                        rows, state->capacity, state->descending, state->entries));
  TDM_TRY(sort_all(call, state, keys, places));
  return kernel_launch(call, "take_first", take_first<number>, blocks_for(wanted), BLOCK,
                       input_of<number>(call, 0), places, output_of<number>(call, 0),
                       output_of<int64_t>(call, 1), state->size, state->inner, state->count,
                       state->capacity, wanted);
}

#define LISTED(dtype, number) KERNEL_OF(dtype, TDM_OP_SORT, sort_prepare, run_sort<number>, 0)
TYPED_KERNELS(sort, LISTED(TDM_FLOAT32, float), LISTED(TDM_FLOAT64, double),
              LISTED(TDM_INT32, int32_t), LISTED(TDM_INT64, int64_t), LISTED(TDM_UINT8, uint8_t),
              LISTED(TDM_BOOL, uint8_t))
