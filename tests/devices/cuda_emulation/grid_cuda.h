/* The parts of CUDA that kernel sources use, in plain C++ over grid.h. Invariant: included only by
 * devices/kernels/cuda/kernel.h, where a build for the host names this header. */
#ifndef TANDEM_TESTS_DEVICES_CUDA_EMULATION_GRID_CUDA_H
#define TANDEM_TESTS_DEVICES_CUDA_EMULATION_GRID_CUDA_H

#include <string.h>

#include <type_traits>
#include <utility>

#include "devices/cuda/library/api.h"
#include "tests/devices/cuda_emulation/grid.h"

#define __global__
#define __device__
#define __host__
#define __restrict__ __restrict
#define __grid_constant__

/* Few, so that small cases reach a block's second piece of work. */
#define TDM_MOST_BLOCKS 5

#define threadIdx (grid_current->thread)
#define blockIdx (grid_current->block)
#define blockDim (grid_current->block_extent)
#define gridDim (grid_current->grid_extent)

#define GRID_TEXT_(x) #x
#define GRID_TEXT(x) GRID_TEXT_(x)
#define GRID_SITE __FILE__ ":" GRID_TEXT(__LINE__)

#define __syncthreads() grid_barrier(GRID_SITE)
#define __syncwarp(mask) ((void)grid_warp(GRID_SYNCHRONIZE, mask, 0, 0, GRID_SITE))
#define __ballot_sync(mask, predicate)                                                             \
  ((uint32_t)grid_warp(GRID_BALLOT, mask, (predicate) ? 1 : 0, 0, GRID_SITE))
#define __shfl_sync(mask, value, lane)                                                             \
  grid_shuffle_value(GRID_SHUFFLE, mask, value, (uint32_t)(lane), GRID_SITE)
#define __shfl_up_sync(mask, value, delta)                                                         \
  grid_shuffle_value(GRID_SHUFFLE_UP, mask, value, (uint32_t)(delta), GRID_SITE)
#define __shfl_down_sync(mask, value, delta)                                                       \
  grid_shuffle_value(GRID_SHUFFLE_DOWN, mask, value, (uint32_t)(delta), GRID_SITE)
#define __shfl_xor_sync(mask, value, lanes)                                                        \
  grid_shuffle_value(GRID_SHUFFLE_XOR, mask, value, (uint32_t)(lanes), GRID_SITE)

template <class value_type>
static inline value_type grid_shuffle_value(grid_exchange kind, uint32_t mask, value_type value,
                                            uint32_t argument, const char *site) {
  static_assert(sizeof(value) <= sizeof(uint64_t), "at most 8 bytes are shuffled");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(value));
  bits = grid_warp(kind, mask, bits, argument, site);
  memcpy(&value, &bits, sizeof(value));
  return value;
}

/* An array shared by a block. Its static key is distinct for each use and each instantiation. */
#define TDM_SHARED(type, name, count)                                                              \
  static char name##_key;                                                                          \
  type *const name =                                                                               \
      static_cast<type *>(grid_shared(&name##_key, sizeof(type) * (count), GRID_SITE))

template <class... parameters> struct grid_caller {
  template <size_t... at>
  static void unpack(const void *function, void **arguments, std::index_sequence<at...>) {
    auto kernel = reinterpret_cast<void (*)(parameters...)>(const_cast<void *>(function));
    kernel(*static_cast<std::remove_const_t<parameters> *>(arguments[at])...);
  }
  static void call(const void *function, void **arguments) {
    unpack(function, arguments, std::index_sequence_for<parameters...>{});
  }
};

/* Adds to a launch what only the emulation needs: which parameters are pointers, and the call. */
template <class... parameters> static inline void tdm_cuda_describe(tdm_cuda_launch *launch) {
  static_assert((std::is_trivially_copyable_v<std::remove_const_t<parameters>> && ...),
                "parameters of kernels are copied byte by byte");
  const bool pointers[] = {std::is_pointer_v<parameters>..., false};
  for (size_t i = 0; i < sizeof...(parameters); i++)
    launch->pointer_arguments |= static_cast<uint64_t>(pointers[i]) << i;
  launch->call = grid_caller<parameters...>::call;
}

#endif
