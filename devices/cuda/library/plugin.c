/* The plug-in's side: its table, and functions of the library under their own names, so that
 * kernels are the same whether linked or opened. Invariant: functions only forward calls. */
#include "devices/cuda/library/plugin.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "core/status.h"
#include "devices/cuda/library/kernels.h"

static const tdm_cuda_host *_Atomic host;

static const tdm_cuda_library *open_plugin(const tdm_cuda_host *its_host) {
  static const tdm_cuda_library library = {
      .api = tdm_cuda_api_linked,
      .nccl = tdm_nccl_api_linked,
      .each_kernel = tdm_cuda_each_kernel,
  };
  atomic_store(&host, its_host);
  return &library;
}

TDM_API extern const tdm_cuda_plugin tdm_cuda_plugin_table;
const tdm_cuda_plugin tdm_cuda_plugin_table = {
    .interface = TDM_CUDA_INTERFACE,
    .open = open_plugin,
};

/* ---- Functions of the library for kernels ---------------------------------------------------- */

tdm_status tdm_fail(tdm_status status, const char *format, ...) {
  char text[TDM_MESSAGE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return host->fail(status, text);
}

tdm_status tdm_fail_memory(size_t bytes, const char *what) {
  return host->fail_memory(bytes, what);
}

size_t tdm_dtype_bytes(tdm_dtype dtype) {
  return host->dtype_bytes(dtype);
}

bool tdm_dtype_is_floating(tdm_dtype dtype) {
  return host->dtype_is_floating(dtype);
}

int64_t tdm_shape_count(const tdm_shape *shape) {
  return host->shape_count(shape);
}

tdm_status tdm_cuda_kernel_stream_launch(tdm_cuda_kernel_stream *stream, tdm_cuda_launch *launch) {
  return host->launch(stream, launch);
}

tdm_status tdm_cuda_kernel_stream_fill(tdm_cuda_kernel_stream *stream, void *to, int byte,
                                       size_t bytes) {
  return host->fill(stream, to, byte, bytes);
}

tdm_status tdm_cuda_kernel_stream_copy(tdm_cuda_kernel_stream *stream, void *to, const void *from,
                                       size_t bytes) {
  return host->copy(stream, to, from, bytes);
}

tdm_status tdm_cuda_kernel_stream_product(tdm_cuda_kernel_stream *stream,
                                          const tdm_cuda_product *product) {
  return host->product(stream, product);
}

tdm_cuda_report *tdm_cuda_kernel_stream_report(tdm_cuda_kernel_stream *stream,
                                               tdm_cuda_report_kind kind, int64_t bound) {
  return host->report(stream, kind, bound);
}
