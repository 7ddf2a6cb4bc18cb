/* Reports of kernels made into statuses. */
#ifndef TANDEM_DEVICES_CUDA_LIBRARY_REPORTS_H
#define TANDEM_DEVICES_CUDA_LIBRARY_REPORTS_H

#include "devices/cuda/library/kernel_stream.h"

/* TDM_OK if the kernel found nothing wrong, else what it reports, in the words of the cpu's
 * kernels. */
tdm_status tdm_cuda_report_read(const tdm_cuda_report *report);

#endif
