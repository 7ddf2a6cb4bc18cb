/* The library as a shared object, opened if CUDA's driver finds a GPU. Invariant: without a driver
 * nothing else is opened. A plug-in that was built with other headers is refused. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "core/plugin.h"
#include "core/status.h"
#include "devices/cuda/library/errors.h"
#include "devices/cuda/library/library.h"
#include "devices/cuda/library/plugin.h"

#ifndef TDM_CUDA_PASSED_OVER
#define TDM_CUDA_PASSED_OVER ""
#endif

enum { REASON_BYTES = 512 };

/* ---- The driver ------------------------------------------------------------------------------ */

/* The driver's own functions, called before the plug-in is opened. Their codes have cudaError_t's
 * numbers. */
typedef tdm_cuda_code (*driver_init)(unsigned flags);
typedef tdm_cuda_code (*driver_device_count)(int *out_count);
typedef tdm_cuda_code (*driver_error_text)(tdm_cuda_code code, const char **out_text);

/* The driver stays open, as with CUDA's runtime. */
static void *open_driver(void) {
  return dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
}

static tdm_cuda_code no_driver_version(int *out_version) {
  *out_version = 0;
  return TDM_CUDA_SUCCESS;
}

static const char *error_text(tdm_cuda_code code) {
  void *driver = open_driver();
  const driver_error_text ask =
      driver ? (driver_error_text)dlsym(driver, "cuGetErrorString") : NULL;
  const char *text = NULL;
  if (!ask || ask(code, &text) != TDM_CUDA_SUCCESS || !text) text = "it does not say why";
  if (driver) (void)dlclose(driver);
  return text;
}

/* Only what messages about an unusable driver need. */
static const tdm_cuda_api no_driver = {.error_text = error_text,
                                       .driver_version = no_driver_version};

static tdm_cuda_code count_gpus(int *out_count) {
  *out_count = 0;
  void *driver = open_driver();
  if (!driver) return TDM_CUDA_INSUFFICIENT_DRIVER;
  const driver_init init = (driver_init)dlsym(driver, "cuInit");
  const driver_device_count device_count = (driver_device_count)dlsym(driver, "cuDeviceGetCount");
  tdm_cuda_code code = TDM_CUDA_INSUFFICIENT_DRIVER;
  if (init && device_count) code = init(0);
  if (code == TDM_CUDA_SUCCESS) code = device_count(out_count);
  (void)dlclose(driver);
  return code;
}

/* ---- The plug-in ----------------------------------------------------------------------------- */

static tdm_status fail_text(tdm_status status, const char *text) {
  return tdm_fail(status, "%s", text);
}

static const tdm_cuda_host host = {
    .fail = fail_text,
    .fail_memory = tdm_fail_memory,
    .dtype_bytes = tdm_dtype_bytes,
    .dtype_is_floating = tdm_dtype_is_floating,
    .shape_count = tdm_shape_count,
    .launch = tdm_cuda_kernel_stream_launch,
    .fill = tdm_cuda_kernel_stream_fill,
    .copy = tdm_cuda_kernel_stream_copy,
    .product = tdm_cuda_kernel_stream_product,
    .report = tdm_cuda_kernel_stream_report,
};

static char *reason_text(void) {
  static _Thread_local char words[REASON_BYTES];
  return words;
}

const tdm_cuda_library *tdm_cuda_library_open(const char **out_reason) {
  void *object;
  *out_reason = NULL;
  if (tdm_plugin_open("cuda", "TANDEM_CUDA_PATH", &object) != TDM_OK) {
    (void)snprintf(reason_text(), REASON_BYTES, "no kernels: %s", tdm_last_message());
    *out_reason = reason_text();
    return NULL;
  }
  if (!object) {
    *out_reason = "no kernels: libtandem_cuda.so is neither in TANDEM_CUDA_PATH nor next to "
                  "the library (Debian: libtandem-cuda)" TDM_CUDA_PASSED_OVER;
    return NULL;
  }
  const tdm_cuda_plugin *plugin = dlsym(object, TDM_CUDA_PLUGIN_SYMBOL);
  if (!plugin || strcmp(plugin->interface, TDM_CUDA_INTERFACE) != 0) {
    *out_reason = "no kernels: libtandem_cuda.so is of another version than the library; "
                  "both have to be of one";
    return NULL;
  }
  return plugin->open(&host);
}

const tdm_cuda_library *tdm_cuda_library_for_gpus(int *out_gpus, const char **out_reason) {
  *out_gpus = 0;
  int count;
  const tdm_cuda_code code = count_gpus(&count);
  if (code != TDM_CUDA_SUCCESS || count <= 0) {
    *out_reason = tdm_cuda_absence(&no_driver, code);
    return NULL;
  }
  const tdm_cuda_library *library = tdm_cuda_library_open(out_reason);
  if (!library) *out_gpus = count;
  return library;
}
