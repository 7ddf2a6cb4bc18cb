/* The one header that kernel sources include. Under nvcc it is CUDA. For a build on the host, as in
 * tests, TDM_CUDA_HOST_WORDS names a header that defines CUDA's keywords and functions there.
 *
 * Rules for sources: shared memory only by TDM_SHARED; no variables of the device; launches by
 * kernel_launch; parameters are plain values and pointers, none inside a struct; full warps with
 * full masks; one barrier a line; no atomics on floating values. */
#ifndef TANDEM_DEVICES_KERNELS_CUDA_KERNEL_H
#define TANDEM_DEVICES_KERNELS_CUDA_KERNEL_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "devices/cuda/library/kernel_stream.h"
#include "devices/kernels/kernel_list.h"
#include "devices/kernels/kernel_state.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#define TDM_SHARED(type, name, count) __shared__ type name[count]
#define TDM_MOST_BLOCKS (1 << 14)
template <class... parameters> static inline void tdm_cuda_describe(tdm_cuda_launch *) {}
#else
#include TDM_CUDA_HOST_WORDS
#endif

static const int WARP = 32;
static const int BLOCK = 256;
static const int64_t MOST_BLOCKS = TDM_MOST_BLOCKS; /* the most blocks of a loop over all
                                                     * elements */
static const int64_t GRID_LIMIT = INT32_MAX;        /* the most blocks of a CUDA launch */
#define ALL_LANES 0xffffffffu

/* ---- States and operands --------------------------------------------------------------------- */

template <class state_type> static inline state_type *state_create(tdm_kernel_answer *answer) {
  return static_cast<state_type *>(kernel_state_create(answer, sizeof(state_type)));
}

template <class type> static inline const type *state_of(const tdm_kernel_call *call) {
  return static_cast<const type *>(call->state);
}

template <class type> static inline const type *attributes_of(const tdm_kernel_request *request) {
  return static_cast<const type *>(request->attributes);
}

template <class type> static inline const type *attributes_of(const tdm_kernel_call *call) {
  return static_cast<const type *>(call->attributes);
}

template <class type> static inline const type *input_of(const tdm_kernel_call *call, size_t i) {
  return static_cast<const type *>(call->inputs[i]);
}

template <class type> static inline type *output_of(const tdm_kernel_call *call, size_t i) {
  return static_cast<type *>(call->outputs[i]);
}

/* ---- Launching ------------------------------------------------------------------------------- */

static inline tdm_cuda_kernel_stream *kernel_stream_of(const tdm_kernel_call *call) {
  return (tdm_cuda_kernel_stream *)const_cast<void *>(call->stream);
}

template <class value> struct as_is { typedef value type; };

/* Enqueues kernel on the call's stream, one dimension; nothing for no blocks. UNSUPPORTED beyond
 * GRID_LIMIT. */
template <class... parameters>
static tdm_status kernel_launch(const tdm_kernel_call *call, const char *name,
                                void (*kernel)(parameters...), int64_t blocks, int threads,
                                typename as_is<parameters>::type... arguments) {
  if (blocks == 0) return TDM_OK;
  if (blocks > GRID_LIMIT)
    return tdm_fail(TDM_UNSUPPORTED, "%s is too large for a GPU: %lld blocks of threads", name,
                    (long long)blocks);
  void *pointers[] = {const_cast<void *>(static_cast<const void *>(&arguments))...};
  const size_t bytes[] = {sizeof(parameters)...};
  tdm_cuda_launch launch = {};
  launch.function = reinterpret_cast<const void *>(kernel);
  launch.arguments = pointers;
  launch.argument_bytes = bytes;
  launch.argument_count = sizeof...(parameters);
  launch.name = name;
  launch.blocks = (uint32_t)blocks;
  launch.threads = (uint32_t)threads;
  tdm_cuda_describe<parameters...>(&launch);
  return tdm_cuda_kernel_stream_launch(kernel_stream_of(call), &launch);
}

/* Blocks for a loop over count pieces of work, of which a block does one at a time; none for none.
 */
static inline int64_t blocks_of(int64_t count) {
  return count < MOST_BLOCKS ? count : MOST_BLOCKS;
}

/* Blocks for a loop over count elements with `BLOCK` threads each; none for none. */
static inline int64_t blocks_for(int64_t count) {
  return blocks_of(ceil_div(count, BLOCK));
}

/* Threads for work along a row of that many columns: whole warps. */
static inline int threads_for_row(int64_t columns) {
  return columns <= 2 * WARP ? WARP : columns <= 8 * WARP ? 4 * WARP : BLOCK;
}

/* ---- Precisions ------------------------------------------------------------------------------ */

#ifdef TDM_STORED_APART /* as for a narrower dtype: the compiler finds where the two are confused  \
                         */
struct stored_apart {
  stored_apart() = default;
  __host__ __device__ stored_apart(float x) : value(x) {}
  __host__ __device__ operator float() const {
    return value;
  }
  float value;
};
#define TDM_CUDA_PRECISIONS(X, ...) X(stored_apart, float, TDM_FLOAT32, __VA_ARGS__)
#else
/* Does X(stored, real, dtype, ...) of every precision: what lies in memory under that dtype, and
 * what is computed with, to which and from which `stored` converts by itself. */
#define TDM_CUDA_PRECISIONS(X, ...)                                                                \
  X(float, float, TDM_FLOAT32, __VA_ARGS__)                                                        \
  X(double, double, TDM_FLOAT64, __VA_ARGS__)
#endif

template <class stored> struct precision;
#define TDM_CUDA_PRECISION(stored, computed, number, ...)                                          \
  template <> struct precision<stored> {                                                           \
    typedef computed real;                                                                         \
    static const tdm_dtype dtype = number;                                                         \
  };
TDM_CUDA_PRECISIONS(TDM_CUDA_PRECISION)

template <class stored> using real_of = typename precision<stored>::real;

/* ---- A source's kernels ---------------------------------------------------------------------- */

/* Ends a source: defines tdm_cuda_NAME_kernels, which table.c calls, and which visits the kernels
 * that follow, of every precision: in them `stored` is what it stores. */
#define KERNELS(name, ...)                                                                         \
  template <class stored> static tdm_status visit_kernels(tdm_kernel_visitor visit, void *user) {  \
    static const tdm_kernel kernels[] = {__VA_ARGS__};                                             \
    for (const tdm_kernel &kernel : kernels)                                                       \
      TDM_TRY(visit(user, &kernel));                                                               \
    return TDM_OK;                                                                                 \
  }                                                                                                \
  TDM_CUDA_KERNELS(name) {                                                                         \
    TDM_CUDA_PRECISIONS(TDM_CUDA_VISIT)                                                            \
    return TDM_OK;                                                                                 \
  }
#define TDM_CUDA_VISIT(stored, ...) TDM_TRY(visit_kernels<stored>(visit, user));
#define TDM_CUDA_KERNELS(name)                                                                     \
  extern "C" tdm_status tdm_cuda_##name##_kernels(tdm_kernel_visitor visit, void *user)

/* The same of kernels that name their dtypes themselves. */
#define TYPED_KERNELS(name, ...)                                                                   \
  TDM_CUDA_KERNELS(name) {                                                                         \
    static const tdm_kernel kernels[] = {__VA_ARGS__};                                             \
    for (const tdm_kernel &kernel : kernels)                                                       \
      TDM_TRY(visit(user, &kernel));                                                               \
    return TDM_OK;                                                                                 \
  }

#define KERNEL(operation, prepare, execute) ELEMENT_KERNEL(operation, prepare, execute, 0)
/* One that fused nodes know by a number (tdm_kernel.element). */
#define ELEMENT_KERNEL(operation, prepare, execute, element)                                       \
  KERNEL_OF(precision<stored>::dtype, operation, prepare, (execute), element)
#define KERNEL_OF(dtype, operation, prepare, execute, element)                                     \
  {                                                                                                \
    sizeof(tdm_kernel), operation, "cuda", dtype, prepare, execute, kernel_state_release, NULL,    \
        element                                                                                    \
  }
/* KERNEL_OF_NUMBERS lists a kernel for the dtypes of numbers, KERNEL_OF_ALL also for uint8 and
 * bool. execute is instantiated for words of the elements' size. */
#define KERNEL_OF_NUMBERS(operation, prepare, execute)                                             \
  KERNEL_OF(TDM_FLOAT32, operation, prepare, execute<uint32_t>, 0),                                \
      KERNEL_OF(TDM_FLOAT64, operation, prepare, execute<uint64_t>, 0),                            \
      KERNEL_OF(TDM_INT32, operation, prepare, execute<uint32_t>, 0),                              \
      KERNEL_OF(TDM_INT64, operation, prepare, execute<uint64_t>, 0)
#define KERNEL_OF_ALL(operation, prepare, execute)                                                 \
  KERNEL_OF_NUMBERS(operation, prepare, execute),                                                  \
      KERNEL_OF(TDM_UINT8, operation, prepare, execute<uint8_t>, 0),                               \
      KERNEL_OF(TDM_BOOL, operation, prepare, execute<uint8_t>, 0)
/* Lists the 16-bit dtypes too, for kernels that move elements without reading their values. */
#define KERNEL_OF_EVERY(operation, prepare, execute)                                               \
  KERNEL_OF_ALL(operation, prepare, execute),                                                      \
      KERNEL_OF(TDM_FLOAT16, operation, prepare, execute<uint16_t>, 0),                            \
      KERNEL_OF(TDM_BFLOAT16, operation, prepare, execute<uint16_t>, 0)

/* ---- Inside kernels -------------------------------------------------------------------------- */

/* for (int64_t i ...) over [0, count), split over all threads of the grid. */
#define EACH_ELEMENT(i, count)                                                                     \
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (count);                    \
       i += (int64_t)gridDim.x * blockDim.x)

/* for (int64_t i ...) over [0, count), split over the blocks of the grid. */
#define EACH_OF_GRID(i, count) for (int64_t i = blockIdx.x; i < (count); i += gridDim.x)

/* The same over the threads of one block. */
#define EACH_OF_BLOCK(i, count) for (int64_t i = threadIdx.x; i < (count); i += blockDim.x)

static __device__ inline int64_t id_at(const void *ids, bool wide, int64_t position) {
  return wide ? static_cast<const int64_t *>(ids)[position]
              : static_cast<const int32_t *>(ids)[position];
}

#endif
