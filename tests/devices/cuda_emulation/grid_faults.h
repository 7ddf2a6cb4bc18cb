/* Kernels with planted faults, and some without. Each works on data (GRID_FAULT_COUNT). */
#ifndef TANDEM_TESTS_DEVICES_CUDA_EMULATION_GRID_FAULTS_H
#define TANDEM_TESTS_DEVICES_CUDA_EMULATION_GRID_FAULTS_H

#include "devices/cuda/library/kernel_stream.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GRID_FAULT_COUNT = 256 };

typedef enum grid_fault {
  GRID_REVERSE, /* no fault: reverses twice, adding 1 each time */
  GRID_MISSING_BARRIER_BEFORE,
  GRID_MISSING_BARRIER_AFTER,
  GRID_DIVERGENT_BARRIER,
  GRID_BARRIER_AFTER_RETURN,
  GRID_ABSENT_LANE,
  GRID_DIVERGENT_WARP,
  GRID_RETURNED_LANE,
  GRID_EXCHANGES,  /* no fault: exchanges values (see the source) */
  GRID_REDUCTIONS, /* no fault: sets all elements to 0 */
  GRID_BLOCKS_ADD, /* two blocks */
  GRID_SHARED_OVERRUN,
  GRID_OVERRUN,
  GRID_UNSET_SHARED, /* copies what shared memory holds at first */
} grid_fault;

/* Enqueues one block, or two, of GRID_FAULT_COUNT threads. */
tdm_status grid_fault_launch(tdm_cuda_kernel_stream *stream, grid_fault fault,
                             float *data) TDM_WARN_UNUSED;

#ifdef __cplusplus
}
#endif
#endif
