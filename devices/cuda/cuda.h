/* The kind "cuda": GPUs by the CUDA runtime. In a build without the toolkit the kind is absent,
 * with that reason. */
#ifndef TANDEM_DEVICES_CUDA_CUDA_H
#define TANDEM_DEVICES_CUDA_CUDA_H

#include "devices/contract/kind.h"

extern const tdm_kind tdm_cuda_kind;

#endif
