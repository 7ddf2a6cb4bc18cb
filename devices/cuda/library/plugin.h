/* The interface between the library and libtandem_cuda.so. The library provides the functions that
 * kernels call, and gets CUDA's calls and the kernels. Invariant: a plug-in calls the library only
 * through tdm_cuda_host, so that a program linked with either form of the library may open it. Both
 * were built with the same headers, which is checked by `interface`. */
#ifndef TANDEM_DEVICES_CUDA_LIBRARY_PLUGIN_H
#define TANDEM_DEVICES_CUDA_LIBRARY_PLUGIN_H

#include "devices/cuda/library/interface_digest.h" /* TDM_CUDA_INTERFACE: a digest of the headers */
#include "devices/cuda/library/kernel_stream.h"
#include "devices/cuda/library/library.h"

/* Functions under the names that they have in the library, except fail, which is tdm_fail with a
 * finished text. */
typedef struct tdm_cuda_host {
  tdm_status (*fail)(tdm_status status, const char *text);
  tdm_status (*fail_memory)(size_t bytes, const char *what);
  size_t (*dtype_bytes)(tdm_dtype dtype);
  bool (*dtype_is_floating)(tdm_dtype dtype);
  int64_t (*shape_count)(const tdm_shape *shape);
  tdm_status (*launch)(tdm_cuda_kernel_stream *stream, tdm_cuda_launch *launch);
  tdm_status (*fill)(tdm_cuda_kernel_stream *stream, void *to, int byte, size_t bytes);
  tdm_status (*copy)(tdm_cuda_kernel_stream *stream, void *to, const void *from, size_t bytes);
  tdm_status (*product)(tdm_cuda_kernel_stream *stream, const tdm_cuda_product *product);
  tdm_cuda_report *(*report)(tdm_cuda_kernel_stream *stream, tdm_cuda_report_kind kind,
                             int64_t bound);
} tdm_cuda_host;

typedef struct tdm_cuda_plugin {
  const char *interface; /* TDM_CUDA_INTERFACE; the rest is valid only if it is equal */
  /* Returns the plug-in's library, which is static. host lives until the process ends. Any
   * thread. */
  const tdm_cuda_library *(*open)(const tdm_cuda_host *host);
} tdm_cuda_plugin;

/* The symbol of the plug-in's table. */
#define TDM_CUDA_PLUGIN_SYMBOL "tdm_cuda_plugin_table"

#endif
