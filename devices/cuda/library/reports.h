/* Converts reports of kernels to statuses. */
#ifndef TANDEM_DEVICES_CUDA_LIBRARY_REPORTS_H
#define TANDEM_DEVICES_CUDA_LIBRARY_REPORTS_H

#include "devices/cuda/library/kernel_stream.h"

/* Returns TDM_OK if the kernel found no error. Otherwise fails with a message worded like that of
 * the cpu's kernels. */
tdm_status tdm_cuda_report_read(const tdm_cuda_report *report);

#endif
