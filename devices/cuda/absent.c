/* The kind in a build without the CUDA toolkit. */
#include "devices/cuda/cuda.h"

const tdm_kind tdm_cuda_kind = {.name = "cuda", .absent = "built without CUDA"};
