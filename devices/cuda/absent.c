/* The kind in a build without the CUDA toolkit; where one was found and is too old, it says so. */
#include "devices/cuda/cuda.h"

#ifndef TDM_CUDA_PASSED_OVER
#define TDM_CUDA_PASSED_OVER ""
#endif

const tdm_kind tdm_cuda_kind = {.name = "cuda",
                                .absent = "built without CUDA" TDM_CUDA_PASSED_OVER};
