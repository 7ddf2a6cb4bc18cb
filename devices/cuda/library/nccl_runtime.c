/* NCCL's table filled by its library, opened at first use: a program built with this starts where
 * it is missing. Invariant: functions only translate calls, as in api_runtime.c. Without NCCL's
 * header at build time there is no NCCL, and absence returns that reason. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "devices/cuda/library/nccl.h"

#if __has_include(<nccl.h>)
#include <nccl.h>

#define LIBRARY "libnccl.so.2"

_Static_assert(sizeof(ncclUniqueId) == TDM_NCCL_ID_BYTES, "an id has as many bytes");
_Static_assert(ncclInProgress == (int)TDM_NCCL_IN_PROGRESS, "codes are NCCL's own");
_Static_assert(ncclRemoteError == (int)TDM_NCCL_REMOTE_ERROR, "codes are NCCL's own");

static struct {
  pthread_once_t once;
  bool opened;
  char reason[160]; /* why it is missing */
  __typeof__(&ncclGetVersion) version;
  __typeof__(&ncclGetErrorString) error_text;
  __typeof__(&ncclGetLastError) last_error;
  __typeof__(&ncclGetUniqueId) unique_id;
  __typeof__(&ncclCommInitRankConfig) init;
  __typeof__(&ncclCommGetAsyncError) async_error;
  __typeof__(&ncclCommAbort) abort;
  __typeof__(&ncclAllReduce) all_reduce;
  __typeof__(&ncclSend) send;
  __typeof__(&ncclRecv) receive;
} nccl = {.once = PTHREAD_ONCE_INIT};

/* The library stays open: its threads end with the process. */
static void open_library(void) {
  void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) {
    const char *words = dlerror();
    (void)snprintf(nccl.reason, sizeof nccl.reason, "%s",
                   words ? words : LIBRARY " cannot be opened");
    return;
  }
  const struct {
    const char *name;
    void **function;
  } symbols[] = {
      {"ncclGetVersion", (void **)&nccl.version},
      {"ncclGetErrorString", (void **)&nccl.error_text},
      {"ncclGetLastError", (void **)&nccl.last_error},
      {"ncclGetUniqueId", (void **)&nccl.unique_id},
      {"ncclCommInitRankConfig", (void **)&nccl.init},
      {"ncclCommGetAsyncError", (void **)&nccl.async_error},
      {"ncclCommAbort", (void **)&nccl.abort},
      {"ncclAllReduce", (void **)&nccl.all_reduce},
      {"ncclSend", (void **)&nccl.send},
      {"ncclRecv", (void **)&nccl.receive},
  };
  for (size_t i = 0; i < sizeof(symbols) / sizeof symbols[0]; i++) {
    *symbols[i].function = dlsym(library, symbols[i].name);
    if (*symbols[i].function) continue;
    (void)snprintf(nccl.reason, sizeof nccl.reason, LIBRARY " lacks %s", symbols[i].name);
    (void)dlclose(library);
    return;
  }
  nccl.opened = true;
}

static const char *absence(void) {
  (void)pthread_once(&nccl.once, open_library);
  return nccl.opened ? NULL : nccl.reason;
}

static tdm_nccl_code version(int *out_version) {
  return (tdm_nccl_code)nccl.version(out_version);
}

static const char *error_text(tdm_nccl_code code) {
  return nccl.error_text((ncclResult_t)code);
}

static const char *last_error(tdm_nccl_communicator communicator) {
  const char *words = nccl.last_error((ncclComm_t)(void *)communicator);
  return words ? words : "";
}

static tdm_nccl_code unique_id(unsigned char *out_id) {
  ncclUniqueId id;
  const ncclResult_t result = nccl.unique_id(&id);
  memcpy(out_id, &id, sizeof id);
  return (tdm_nccl_code)result;
}

static tdm_nccl_code init(tdm_nccl_communicator *out, int count, const unsigned char *id,
                          int index) {
  ncclUniqueId known;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t made = NULL;
  memcpy(&known, id, sizeof(known));
  config.blocking = 0;
  const ncclResult_t result = nccl.init(&made, count, known, index, &config);
  const bool begun = result == ncclSuccess || result == ncclInProgress;
  if (!begun && made) (void)nccl.abort(made);
  *out = begun ? (tdm_nccl_communicator)(void *)made : NULL;
  return (tdm_nccl_code)result;
}

static tdm_nccl_code async_error(tdm_nccl_communicator communicator, tdm_nccl_code *out_error) {
  ncclResult_t error = ncclSuccess;
  const ncclResult_t result = nccl.async_error((ncclComm_t)(void *)communicator, &error);
  *out_error = (tdm_nccl_code)error;
  return (tdm_nccl_code)result;
}

static tdm_nccl_code abort_communicator(tdm_nccl_communicator communicator) {
  return (tdm_nccl_code)nccl.abort((ncclComm_t)(void *)communicator);
}

static tdm_nccl_code all_reduce(tdm_nccl_communicator communicator, void *memory, size_t count,
                                tdm_dtype dtype, tdm_cuda_stream stream) {
  const ncclDataType_t type = dtype == TDM_FLOAT64 ? ncclFloat64 : ncclFloat32;
  return (tdm_nccl_code)nccl.all_reduce(memory, memory, count, type, ncclSum,
                                        (ncclComm_t)(void *)communicator,
                                        (cudaStream_t)(void *)stream);
}

static tdm_nccl_code send_bytes(tdm_nccl_communicator communicator, const void *memory,
                                size_t bytes, int partner, tdm_cuda_stream stream) {
  return (tdm_nccl_code)nccl.send(memory, bytes, ncclInt8, partner,
                                  (ncclComm_t)(void *)communicator, (cudaStream_t)(void *)stream);
}

static tdm_nccl_code receive_bytes(tdm_nccl_communicator communicator, void *memory, size_t bytes,
                                   int partner, tdm_cuda_stream stream) {
  return (tdm_nccl_code)nccl.receive(memory, bytes, ncclInt8, partner,
                                     (ncclComm_t)(void *)communicator,
                                     (cudaStream_t)(void *)stream);
}

const tdm_nccl_api *tdm_nccl_api_linked(void) {
  static const tdm_nccl_api api = {
      .absence = absence,
      .version = version,
      .error_text = error_text,
      .last_error = last_error,
      .unique_id = unique_id,
      .init = init,
      .async_error = async_error,
      .abort = abort_communicator,
      .all_reduce = all_reduce,
      .send = send_bytes,
      .receive = receive_bytes,
  };
  return &api;
}

#else

static const char *absence(void) {
  return "built without NCCL: the toolkit has no nccl.h";
}

/* Only absence may be called. */
const tdm_nccl_api *tdm_nccl_api_linked(void) {
  static const tdm_nccl_api api = {.absence = absence};
  return &api;
}

#endif
