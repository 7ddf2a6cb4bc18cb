/* The GPU's side of the tests' kernels; attributes as in support.h. */
#ifndef TANDEM_TESTS_DEVICES_SUPPORT_CUDA_H
#define TANDEM_TESTS_DEVICES_SUPPORT_CUDA_H

#include "tandem/devices/devices.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Executes test_mix with at most four inputs in addition to the first. */
tdm_status test_cuda_mix(const tdm_kernel_call *call);
tdm_status test_cuda_slow(const tdm_kernel_call *call);
/* Reports that id 42 at position 3 is outside a table of 10 rows. */
tdm_status test_cuda_report(const tdm_kernel_call *call);

#ifdef __cplusplus
}
#endif
#endif
