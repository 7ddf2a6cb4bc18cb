/* The table filled by NVIDIA's runtime, linked statically, and by cuBLAS, opened at first use. So a
 * program built with this starts on a machine without a driver and cuBLAS. Invariant: functions
 * here only translate calls and make no decisions. */
#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>

#include "devices/cuda/library/api.h"

/* Clears the runtime's last error, which it keeps until it is read. Otherwise it could be mistaken
 * for the failure of a later call. */
static tdm_cuda_code code_of(cudaError_t error) {
  if (error != cudaSuccess) (void)cudaGetLastError();
  return (tdm_cuda_code)error;
}

static const char *error_text(tdm_cuda_code code) {
  if (code < TDM_CUDA_BLAS) return cudaGetErrorString((cudaError_t)code);
  switch (code - TDM_CUDA_BLAS) {
  case CUBLAS_STATUS_NOT_INITIALIZED:
    return "cuBLAS is not initialised";
  case CUBLAS_STATUS_ALLOC_FAILED:
    return "cuBLAS is short of memory";
  case CUBLAS_STATUS_ARCH_MISMATCH:
    return "cuBLAS does not know this GPU";
  case CUBLAS_STATUS_EXECUTION_FAILED:
    return "cuBLAS could not execute";
  default:
    return "cuBLAS refused";
  }
}

/* ---- Devices --------------------------------------------------------------------------------- */

static tdm_cuda_code driver_version(int *out_version) {
  return code_of(cudaDriverGetVersion(out_version));
}

static int runtime_version(void) {
  return CUDART_VERSION;
}

static tdm_cuda_code device_count(int *out_count) {
  *out_count = 0;
  return code_of(cudaGetDeviceCount(out_count));
}

static tdm_cuda_code properties(int ordinal, tdm_cuda_properties *out_properties) {
  *out_properties = (tdm_cuda_properties){0};
  struct cudaDeviceProp found;
  const cudaError_t error = cudaGetDeviceProperties(&found, ordinal);
  if (error != cudaSuccess) return code_of(error);
  (void)snprintf(out_properties->name, sizeof out_properties->name, "%s", found.name);
  out_properties->memory_bytes = found.totalGlobalMem;
  out_properties->major = found.major;
  out_properties->minor = found.minor;
  return code_of(cudaDeviceGetPCIBusId(out_properties->pci_bus_id,
                                       sizeof out_properties->pci_bus_id, ordinal));
}

static tdm_cuda_code device_set(int ordinal) {
  return code_of(cudaSetDevice(ordinal));
}

/* Entering and leaving a device uses the driver's stack of contexts. cudaSetDevice would also open
 * the device that it restores, which may be unused. The functions belong to the driver. Their codes
 * have cudaError_t's numbers, and cudaGetDeviceCount has initialized the driver. */
static tdm_cuda_code driver_call(const char *name, void **out_function) {
  enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, out_function, 12000, cudaEnableDefault, &found);
  if (error != cudaSuccess) return code_of(error);
  return found == cudaDriverEntryPointSuccess ? TDM_CUDA_SUCCESS : TDM_CUDA_INSUFFICIENT_DRIVER;
}

/* The context is never released: it also holds the runtime's state, which other users of the device
 * in this process would lose. */
static tdm_cuda_code context_retain(tdm_cuda_context *out, int ordinal) {
  __typeof__(&cuDevicePrimaryCtxRetain) retain = NULL;
  *out = NULL;
  const tdm_cuda_code code = driver_call("cuDevicePrimaryCtxRetain", (void **)&retain);
  if (code != TDM_CUDA_SUCCESS) return code;
  return (tdm_cuda_code)retain((CUcontext *)(void *)out, (CUdevice)ordinal);
}

static tdm_cuda_code context_push(tdm_cuda_context context) {
  __typeof__(&cuCtxPushCurrent) push = NULL;
  const tdm_cuda_code code = driver_call("cuCtxPushCurrent", (void **)&push);
  return code != TDM_CUDA_SUCCESS ? code : (tdm_cuda_code)push((CUcontext)(void *)context);
}

static tdm_cuda_code context_pop(void) {
  __typeof__(&cuCtxPopCurrent) pop = NULL;
  CUcontext popped;
  const tdm_cuda_code code = driver_call("cuCtxPopCurrent", (void **)&pop);
  return code != TDM_CUDA_SUCCESS ? code : (tdm_cuda_code)pop(&popped);
}

static tdm_cuda_code peer_possible(int *out_possible, int ordinal, int peer) {
  return code_of(cudaDeviceCanAccessPeer(out_possible, ordinal, peer));
}

static tdm_cuda_code peer_enable(int peer) {
  return code_of(cudaDeviceEnablePeerAccess(peer, 0));
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static tdm_cuda_code memory(size_t *out_bytes, size_t *out_free_bytes) {
  *out_bytes = *out_free_bytes = 0;
  return code_of(cudaMemGetInfo(out_free_bytes, out_bytes));
}

static tdm_cuda_code allocate(void **out, size_t bytes) {
  *out = NULL;
  return code_of(cudaMalloc(out, bytes));
}

static tdm_cuda_code release(void *memory) {
  return code_of(cudaFree(memory));
}

static tdm_cuda_code allocate_pinned(void **out, size_t bytes) {
  *out = NULL;
  return code_of(cudaHostAlloc(out, bytes, cudaHostAllocPortable | cudaHostAllocMapped));
}

static tdm_cuda_code release_pinned(void *memory) {
  return code_of(cudaFreeHost(memory));
}

static tdm_cuda_code pin(void *memory, size_t bytes) {
  return code_of(cudaHostRegister(memory, bytes, cudaHostRegisterPortable));
}

static tdm_cuda_code unpin(void *memory) {
  return code_of(cudaHostUnregister(memory));
}

static enum cudaMemcpyKind kind_of(tdm_cuda_direction direction) {
  switch (direction) {
  case TDM_CUDA_TO_DEVICE:
    return cudaMemcpyHostToDevice;
  case TDM_CUDA_TO_HOST:
    return cudaMemcpyDeviceToHost;
  default:
    return cudaMemcpyDefault;
  }
}

/* cudaMemcpy returns early for some directions; the wait makes all of them synchronous. */
static tdm_cuda_code copy(void *to, const void *from, size_t bytes, tdm_cuda_direction direction) {
  const cudaError_t error = cudaMemcpy(to, from, bytes, kind_of(direction));
  if (error != cudaSuccess) return code_of(error);
  return code_of(cudaStreamSynchronize(cudaStreamLegacy));
}

static tdm_cuda_code copy_async(void *to, const void *from, size_t bytes,
                                tdm_cuda_direction direction, tdm_cuda_stream stream) {
  return code_of(
      cudaMemcpyAsync(to, from, bytes, kind_of(direction), (cudaStream_t)(void *)stream));
}

static tdm_cuda_code copy_peer_async(void *to, int to_ordinal, const void *from, int from_ordinal,
                                     size_t bytes, tdm_cuda_stream stream) {
  return code_of(
      cudaMemcpyPeerAsync(to, to_ordinal, from, from_ordinal, bytes, (cudaStream_t)(void *)stream));
}

static tdm_cuda_code fill_async(void *to, int byte, size_t bytes, tdm_cuda_stream stream) {
  return code_of(cudaMemsetAsync(to, byte, bytes, (cudaStream_t)(void *)stream));
}

/* ---- Streams, events, launches --------------------------------------------------------------- */

/* A stream's default priority is 0, the lowest. */
static tdm_cuda_code stream_create(tdm_cuda_stream *out, bool urgent) {
  int least = 0, greatest = 0;
  *out = NULL;
  const cudaError_t error =
      urgent ? cudaDeviceGetStreamPriorityRange(&least, &greatest) : cudaSuccess;
  if (error != cudaSuccess) return code_of(error);
  return code_of(
      cudaStreamCreateWithPriority((cudaStream_t *)(void *)out, cudaStreamNonBlocking, greatest));
}

static tdm_cuda_code stream_destroy(tdm_cuda_stream stream) {
  return code_of(cudaStreamDestroy((cudaStream_t)(void *)stream));
}

static tdm_cuda_code stream_synchronize(tdm_cuda_stream stream) {
  return code_of(cudaStreamSynchronize((cudaStream_t)(void *)stream));
}

static tdm_cuda_code stream_query(tdm_cuda_stream stream) {
  return code_of(cudaStreamQuery((cudaStream_t)(void *)stream));
}

static tdm_cuda_code stream_wait(tdm_cuda_stream stream, tdm_cuda_event event) {
  return code_of(cudaStreamWaitEvent((cudaStream_t)(void *)stream, (cudaEvent_t)(void *)event, 0));
}

static tdm_cuda_code event_create(tdm_cuda_event *out) {
  *out = NULL;
  return code_of(cudaEventCreateWithFlags((cudaEvent_t *)(void *)out,
                                          cudaEventDisableTiming | cudaEventBlockingSync));
}

static tdm_cuda_code event_create_timed(tdm_cuda_event *out) {
  *out = NULL;
  return code_of(cudaEventCreateWithFlags((cudaEvent_t *)(void *)out, cudaEventDefault));
}

static tdm_cuda_code event_elapsed(double *out_ns, tdm_cuda_event begin, tdm_cuda_event end) {
  float passed_ms = 0;
  const tdm_cuda_code code = code_of(
      cudaEventElapsedTime(&passed_ms, (cudaEvent_t)(void *)begin, (cudaEvent_t)(void *)end));
  *out_ns = (double)passed_ms * 1e6;
  return code;
}

static tdm_cuda_code event_destroy(tdm_cuda_event event) {
  return code_of(cudaEventDestroy((cudaEvent_t)(void *)event));
}

static tdm_cuda_code event_record(tdm_cuda_event event, tdm_cuda_stream stream) {
  return code_of(cudaEventRecord((cudaEvent_t)(void *)event, (cudaStream_t)(void *)stream));
}

static tdm_cuda_code event_query(tdm_cuda_event event) {
  return code_of(cudaEventQuery((cudaEvent_t)(void *)event));
}

static tdm_cuda_code event_synchronize(tdm_cuda_event event) {
  return code_of(cudaEventSynchronize((cudaEvent_t)(void *)event));
}

static tdm_cuda_code launch(const tdm_cuda_launch *wanted) {
  const dim3 blocks = {wanted->blocks, 1, 1};
  const dim3 threads = {wanted->threads, 1, 1};
  return code_of(cudaLaunchKernel(wanted->function, blocks, threads, wanted->arguments, 0,
                                  (cudaStream_t)(void *)wanted->stream));
}

/* ---- cuBLAS ---------------------------------------------------------------------------------- */

/* Calls use the library's own symbols, with the types of the header. */
struct tdm_cuda_blas_opaque {
  void *library;
  cublasHandle_t handle;
  __typeof__(&cublasCreate_v2) create;
  __typeof__(&cublasDestroy_v2) destroy;
  __typeof__(&cublasSetStream_v2) set_stream;
  __typeof__(&cublasSetMathMode) set_math_mode;
  __typeof__(&cublasSgemm_v2_64) product32;
  __typeof__(&cublasDgemm_v2_64) product64;
};

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define LIBRARY "libcublas.so." TEXT(CUBLAS_VER_MAJOR)

static tdm_cuda_code blas_code(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? TDM_CUDA_SUCCESS : TDM_CUDA_BLAS + (int)status;
}

static tdm_cuda_code blas_destroy(tdm_cuda_blas blas) {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  if (blas->handle) status = blas->destroy(blas->handle);
  if (blas->library) (void)dlclose(blas->library);
  free(blas);
  return blas_code(status);
}

/* Returns false if a symbol is missing. */
static bool find_symbols(tdm_cuda_blas blas) {
  const struct {
    const char *name;
    void **function;
  } symbols[] = {
      {"cublasCreate_v2", (void **)&blas->create},
      {"cublasDestroy_v2", (void **)&blas->destroy},
      {"cublasSetStream_v2", (void **)&blas->set_stream},
      {"cublasSetMathMode", (void **)&blas->set_math_mode},
      {"cublasSgemm_v2_64", (void **)&blas->product32},
      {"cublasDgemm_v2_64", (void **)&blas->product64},
  };
  for (size_t i = 0; i < sizeof(symbols) / sizeof symbols[0]; i++) {
    *symbols[i].function = dlsym(blas->library, symbols[i].name);
    if (!*symbols[i].function) return false;
  }
  return true;
}

/* The library stays open: closing it would unmap code that the driver and exiting threads still
 * call. If it returns NULL, dlerror has the calling thread's reason. */
static void *open_library(void) {
  return dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
}

static const char *blas_absence(void) {
  void *library = open_library();
  if (!library) {
    const char *words = dlerror();
    return words ? words : LIBRARY " cannot be opened";
  }
  struct tdm_cuda_blas_opaque blas = {.library = library};
  const bool whole = find_symbols(&blas);
  (void)dlclose(library);
  return whole ? NULL : LIBRARY " lacks a function";
}

static tdm_cuda_code blas_open(tdm_cuda_blas blas, bool tf32, const char **out_reason) {
  blas->library = open_library();
  if (!blas->library) {
    *out_reason = LIBRARY " cannot be opened";
    return TDM_CUDA_UNKNOWN;
  }
  if (!find_symbols(blas)) {
    *out_reason = LIBRARY " lacks a function";
    return TDM_CUDA_UNKNOWN;
  }
  cublasStatus_t status = blas->create(&blas->handle);
  /* The default mode rounds nothing to TF32; the user may set NVIDIA_TF32_OVERRIDE. */
  if (status == CUBLAS_STATUS_SUCCESS) {
    status =
        blas->set_math_mode(blas->handle, tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH);
  }
  return blas_code(status);
}

static tdm_cuda_code blas_create(tdm_cuda_blas *out, bool tf32, const char **out_reason) {
  *out = NULL;
  *out_reason = NULL;
  tdm_cuda_blas blas = calloc(1, sizeof *blas);
  if (!blas) return TDM_CUDA_BLAS + CUBLAS_STATUS_ALLOC_FAILED;
  const tdm_cuda_code code = blas_open(blas, tf32, out_reason);
  if (code != TDM_CUDA_SUCCESS) {
    (void)blas_destroy(blas);
    return code;
  }
  *out = blas;
  return TDM_CUDA_SUCCESS;
}

static tdm_cuda_code blas_set_stream(tdm_cuda_blas blas, tdm_cuda_stream stream) {
  return blas_code(blas->set_stream(blas->handle, (cudaStream_t)(void *)stream));
}

/* cuBLAS is column-major. Read that way, a row-major matrix is its transpose, and c' (n, m) = b'
 * (n, k) a' (k, m). */
static tdm_cuda_code blas_product(tdm_cuda_blas blas, const tdm_cuda_product *product) {
  const cublasOperation_t a = product->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t b = product->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  if (product->dtype == TDM_FLOAT64) {
    const double one = 1;
    return blas_code(blas->product64(blas->handle, b, a, product->n, product->m, product->k, &one,
                                     product->b, product->b_stride, product->a, product->a_stride,
                                     &product->beta, product->c, product->c_stride));
  }
  const float one = 1;
  const float beta = (float)product->beta;
  return blas_code(blas->product32(blas->handle, b, a, product->n, product->m, product->k, &one,
                                   product->b, product->b_stride, product->a, product->a_stride,
                                   &beta, product->c, product->c_stride));
}

/* ---- Ranges ---------------------------------------------------------------------------------- */

static void range_begin(const char *name) {
  (void)nvtxRangePushA(name);
}

static void range_end(void) {
  (void)nvtxRangePop();
}

/* ---- The table ------------------------------------------------------------------------------- */

const tdm_cuda_api *tdm_cuda_api_linked(void) {
  static const tdm_cuda_api api = {
      .error_text = error_text,
      .driver_version = driver_version,
      .runtime_version = runtime_version,
      .device_count = device_count,
      .properties = properties,
      .device_set = device_set,
      .context_retain = context_retain,
      .context_push = context_push,
      .context_pop = context_pop,
      .peer_possible = peer_possible,
      .peer_enable = peer_enable,
      .memory = memory,
      .allocate = allocate,
      .release = release,
      .allocate_pinned = allocate_pinned,
      .release_pinned = release_pinned,
      .pin = pin,
      .unpin = unpin,
      .copy = copy,
      .copy_async = copy_async,
      .copy_peer_async = copy_peer_async,
      .fill_async = fill_async,
      .stream_create = stream_create,
      .stream_destroy = stream_destroy,
      .stream_synchronize = stream_synchronize,
      .stream_query = stream_query,
      .stream_wait = stream_wait,
      .event_create = event_create,
      .event_create_timed = event_create_timed,
      .event_elapsed = event_elapsed,
      .event_destroy = event_destroy,
      .event_record = event_record,
      .event_query = event_query,
      .event_synchronize = event_synchronize,
      .launch = launch,
      .blas_absence = blas_absence,
      .blas_create = blas_create,
      .blas_destroy = blas_destroy,
      .blas_set_stream = blas_set_stream,
      .blas_product = blas_product,
      .range_begin = range_begin,
      .range_end = range_end,
  };
  return &api;
}
