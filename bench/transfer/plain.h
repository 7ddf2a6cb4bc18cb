/* Copies without the library, for comparison in the same run: memcpy and non-temporal stores on a
 * cpu device's cores, and the CUDA driver's own copies. Their cases begin with "plain_", and go by
 * the names of the library's otherwise. */
#ifndef BENCH_TRANSFER_PLAIN_H
#define BENCH_TRANSFER_PLAIN_H

#include "bench/transfer/options.h"
#include "bench/transfer/results.h"
#include "devices/context/context.h"

/* Each measures what the options' cases, devices, memories and sizes admit, and calls told after
 * each case with the index of its first result. */
typedef void (*plain_told)(void *user, size_t first, const char *title);

/* One thread, bound to each cpu device's cores, memory of that device. */
tdm_status plain_host(tdm_context *context, const transfer_options *given, results *out_results,
                      plain_told told, void *user) TDM_WARN_UNUSED;
/* A cudaMemcpyAsync loop; nothing where there is no GPU. */
tdm_status plain_cuda(const transfer_options *given, results *out_results, plain_told told,
                      void *user) TDM_WARN_UNUSED;
/* Is name one of these cases? */
bool plain_host_has_case(const char *name);
bool plain_cuda_has_case(const char *name);
/* Print a line for each, for --help. */
void plain_host_print_cases(void);
void plain_cuda_print_cases(void);

#endif
