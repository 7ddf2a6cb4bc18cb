/* Copies without the library, for comparison in the same run: memcpy and non-temporal stores on a
 * cpu device's cores, and the CUDA driver's own copies. Their cases begin with "plain_", and go by
 * the names of the library's otherwise. */
#ifndef BENCH_TRANSFER_PLAIN_H
#define BENCH_TRANSFER_PLAIN_H

#include "bench/transfer/options.h"
#include "bench/transfer/results.h"
#include "devices/context/context.h"

/* Called after each case with the index of its first result. */
typedef void (*plain_told)(void *user, size_t first, const char *title);

typedef struct plain_copies {
  /* Measures what the options' cases, devices, memories and sizes admit. */
  tdm_status (*measure)(tdm_context *context, const transfer_options *given, results *out_results,
                        plain_told told, void *user);
  /* Its cases. */
  void (*each_case)(void (*tell)(void *user, const char *name, const char *title), void *user);
} plain_copies;

/* One thread, bound to each cpu device's cores, memory of that device. */
extern const plain_copies plain_host;
/* A loop of cudaMemcpyAsync; it measures nothing without a GPU. */
extern const plain_copies plain_cuda;

#endif
