/* Translates CUDA's codes, and is the only file that interprets them. Invariant: a missing driver,
 * a missing device, a lack of memory, a lost device and a bad call result in different statuses. */
#include "devices/cuda/library/errors.h"

#include <stdio.h>

bool tdm_cuda_is_lost(tdm_cuda_code code) {
  switch (code) {
  case 214: /* uncorrectable memory error */
  case 220: /* uncorrectable error of NVLink */
  case 226: /* an error that the GPU has contained */
  case 700: /* illegal address */
  case 702: /* a kernel ran too long */
  case 709: /* the context was destroyed */
  case 710: /* a kernel's assertion */
  case 714: /* stack */
  case 715: /* illegal instruction */
  case 716: /* misaligned address */
  case 717: /* address space */
  case 718: /* program counter */
  case 719: /* launch failure */
  case 721: /* a kernel kept tensor memory */
  case 810: /* ended by the server of the multi-process service */
  case 911: /* a device outside of CUDA */
  case TDM_CUDA_UNKNOWN:
    return true;
  default:
    return false;
  }
}

/* Returns true if the machine's configuration prevents any use of the device, or use by this
 * process. */
static bool does_not_begin(tdm_cuda_code code) {
  switch (code) {
  case 3:   /* the driver and the runtime fail to start */
  case 34:  /* a stub in place of the driver */
  case 36:  /* a driver that lacks the call */
  case 46:  /* devices are busy, or reserved for another process */
  case 102: /* no license for the device */
  case 127: /* the runtime fails to start */
  case 216: /* reserved for another thread */
  case 218: /* kernels that the driver should compile and could not: */
  case 221:
  case 222:
  case 223:
  case 304: /* the system refused */
  case 800: /* the operation is not permitted */
    return true;
  default:
    return code >= 802 && code <= 809; /* the system is not ready; drivers differ; services */
  }
}

static tdm_status status_of(tdm_cuda_code code) {
  if (tdm_cuda_is_lost(code)) return TDM_DEVICE_LOST;
  switch (code) {
  case TDM_CUDA_OUT_OF_MEMORY:
  case TDM_CUDA_BLAS_ALLOC_FAILED:
    return TDM_OUT_OF_MEMORY;
  case 712: /* memory is pinned already */
  case 713: /* memory is not pinned */
    return TDM_INVALID_ARGUMENT;
  case TDM_CUDA_INSUFFICIENT_DRIVER:
  case TDM_CUDA_NO_DEVICE:
  case TDM_CUDA_NO_BINARY:
  case TDM_CUDA_BLAS_NOT_INITIALIZED:
  case TDM_CUDA_BLAS_ARCH_MISMATCH:
    return TDM_UNAVAILABLE;
  case 801: /* the operation is not supported on this system */
    return TDM_UNSUPPORTED;
  default:
    return does_not_begin(code) ? TDM_UNAVAILABLE
                                : TDM_INTERNAL; /* a call that should not have been made */
  }
}

static const char *words_for(tdm_status status) {
  switch (status) {
  case TDM_DEVICE_LOST:
    return "the device is lost";
  case TDM_OUT_OF_MEMORY:
    return "out of memory";
  case TDM_UNAVAILABLE:
    return "the device is not available";
  case TDM_UNSUPPORTED:
    return "this system does not have it";
  default:
    return "CUDA refused";
  }
}

tdm_status tdm_cuda_fail(const tdm_cuda_api *api, tdm_cuda_code code, const char *what) {
  const tdm_status status = status_of(code);
  return tdm_fail(status, "%s: %s (%s, code %d)", what, words_for(status), api->error_text(code),
                  code);
}

/* Writes "13.0" for 13000. */
static void print_version(int version, char out_text[16]) {
  (void)snprintf(out_text, 16, "%d.%d", version / 1000, version % 1000 / 10);
}

/* Returns a text about the installed and the required driver. Within one major version of CUDA the
 * driver of the oldest release suffices, and nvidia-smi lists drivers by release. */
static const char *old_driver(const tdm_cuda_api *api, int version) {
  static _Thread_local char words[160];
  char has[16], needs[16];
  const int needed = api->runtime_version();
  print_version(version, has);
  print_version(needed / 1000 * 1000, needs);
  (void)snprintf(words, sizeof(words),
                 "driver too old: CUDA's here serves CUDA %s, this build needs CUDA %s%s", has,
                 needs, needed / 1000 == 13 ? ", release 580 or newer" : " or newer");
  return words;
}

/* Returns a text for a driver that exists but fails every call with this code. */
static const char *silent_driver(const tdm_cuda_api *api, tdm_cuda_code code) {
  static _Thread_local char words[200];
  (void)snprintf(words, sizeof(words), "%s: %.120s (code %d)",
                 tdm_cuda_is_lost(code)
                     ? "device lost: CUDA's driver says that its devices are gone"
                     : "the driver does not start",
                 api->error_text(code), code);
  return words;
}

const char *tdm_cuda_blas_absence(const tdm_cuda_api *api) {
  static _Thread_local char words[360];
  const char *reason = api->blas_absence();
  if (!reason) return NULL;
  (void)snprintf(words, sizeof(words),
                 "no cuBLAS: %.200s; CUDA %d brings it (pip: nvidia-cublas), and LD_LIBRARY_PATH "
                 "names its folder",
                 reason, api->runtime_version() / 1000);
  return words;
}

const char *tdm_cuda_absence(const tdm_cuda_api *api, tdm_cuda_code code) {
  int version = 0;
  switch (code) {
  case TDM_CUDA_SUCCESS:
  case TDM_CUDA_NO_DEVICE:
    return "no device: CUDA's driver finds no GPU that it may use";
  case TDM_CUDA_INSUFFICIENT_DRIVER:
    if (api->driver_version(&version) != TDM_CUDA_SUCCESS || version == 0)
      return "no driver: CUDA's is not installed";
    return old_driver(api, version);
  default:
    return silent_driver(api, code);
  }
}
