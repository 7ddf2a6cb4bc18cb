/* NCCL's table with functions of the test instead of NCCL's library: communicators whose
 * initialisation succeeds or fails, and all other calls. A communicator left by a failed
 * initialisation is aborted, and no other one is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "devices/cuda/library/nccl.h"

#if __has_include(<nccl.h>)
#include <nccl.h>

static struct {
  ncclResult_t result; /* result of functions that create a communicator */
  ncclComm_t made;     /* communicator that the call created */
  ncclComm_t aborted;
  int aborts;
  const char *missing; /* a function that the library has not, or "" the library itself */
  const char *words;   /* text of the latest error */
  /* The latest transfer or sum. */
  char call; /* 'a', 's' or 'r' */
  const void *memory[2];
  size_t count;
  ncclDataType_t type;
  int partner;
  ncclComm_t communicator;
  cudaStream_t stream;
} double_of;

static const unsigned char known_id[TDM_NCCL_ID_BYTES] = "whoever has this may join";

static ncclResult_t init(ncclComm_t *comm, int count, ncclUniqueId id, int rank,
                         ncclConfig_t *config) {
  assert_memory_equal(&id, known_id, sizeof id);
  assert_int_equal(count, 2);
  assert_int_equal(rank, 1);
  assert_int_equal(config->blocking, 0);
  *comm = double_of.made;
  return double_of.result;
}

static ncclResult_t abort_it(ncclComm_t comm) {
  double_of.aborted = comm;
  double_of.aborts++;
  return ncclSuccess;
}

static ncclResult_t version(int *out_version) {
  *out_version = 22809;
  return ncclSystemError;
}

static const char *error_text(ncclResult_t result) {
  return result == ncclRemoteError ? "the other side" : "another";
}

static const char *last_error(ncclComm_t comm) {
  assert_null(comm);
  return double_of.words;
}

static ncclResult_t unique_id(ncclUniqueId *out_id) {
  memcpy(out_id, known_id, sizeof known_id);
  return ncclInternalError;
}

static ncclResult_t async_error(ncclComm_t comm, ncclResult_t *out_error) {
  double_of.communicator = comm;
  *out_error = ncclRemoteError;
  return ncclInvalidUsage;
}

static ncclResult_t note(char call, const void *from, const void *to, size_t count,
                         ncclDataType_t type, int partner, ncclComm_t comm, cudaStream_t stream) {
  double_of.call = call;
  double_of.memory[0] = from;
  double_of.memory[1] = to;
  double_of.count = count;
  double_of.type = type;
  double_of.partner = partner;
  double_of.communicator = comm;
  double_of.stream = stream;
  return double_of.result;
}

static ncclResult_t all_reduce(const void *from, void *to, size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  assert_int_equal(operation, ncclSum);
  return note('a', from, to, count, type, -1, comm, stream);
}

static ncclResult_t send_it(const void *memory, size_t count, ncclDataType_t type, int partner,
                            ncclComm_t comm, cudaStream_t stream) {
  return note('s', memory, NULL, count, type, partner, comm, stream);
}

static ncclResult_t receive(void *memory, size_t count, ncclDataType_t type, int partner,
                            ncclComm_t comm, cudaStream_t stream) {
  return note('r', memory, NULL, count, type, partner, comm, stream);
}

static const struct {
  const char *name;
  void *function;
} symbols[] = {{"ncclGetVersion", (void *)version},
               {"ncclGetErrorString", (void *)error_text},
               {"ncclGetLastError", (void *)last_error},
               {"ncclGetUniqueId", (void *)unique_id},
               {"ncclCommInitRankConfig", (void *)init},
               {"ncclCommGetAsyncError", (void *)async_error},
               {"ncclCommAbort", (void *)abort_it},
               {"ncclAllReduce", (void *)all_reduce},
               {"ncclSend", (void *)send_it},
               {"ncclRecv", (void *)receive}};
enum { SYMBOLS = sizeof(symbols) / sizeof symbols[0] };

/* Replacements for dlopen and related functions of the program (--wrap). */
void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlsym(void *library, const char *name);
char *__wrap_dlerror(void);
int __wrap_dlclose(void *library);

void *__wrap_dlopen(const char *name, int flags) {
  (void)flags;
  assert_string_equal(name, "libnccl.so.2");
  return double_of.missing && !*double_of.missing ? NULL : &double_of;
}

void *__wrap_dlsym(void *library, const char *name) {
  assert_ptr_equal(library, &double_of);
  if (double_of.missing && strcmp(double_of.missing, name) == 0) return NULL;
  for (size_t i = 0; i < SYMBOLS; i++)
    if (strcmp(symbols[i].name, name) == 0) return symbols[i].function;
  fail_msg("%s is asked for", name);
  return NULL;
}

char *__wrap_dlerror(void) {
  static char words[] = "libnccl.so.2: not there";
  return words;
}

int __wrap_dlclose(void *library) {
  assert_ptr_equal(library, &double_of);
  return 0;
}

/* The library is opened once in a process, so another one looks. */
static bool is_told(const char *missing, const char *words) {
  const pid_t child = fork();
  if (child == 0) {
    double_of.missing = missing;
    const char *absence = tdm_nccl_api_linked()->absence();
    _exit(absence && strcmp(absence, words) == 0 ? 0 : 1);
  }
  int status = 1;
  assert_true(child > 0 && waitpid(child, &status, 0) == child);
  return status == 0;
}

/* Before anything in this process has opened it. */
static void what_is_missing_is_told(void **state) {
  (void)state;
  assert_true(is_told("", "libnccl.so.2: not there"));
  for (size_t i = 0; i < SYMBOLS; i++) {
    char words[64];
    (void)snprintf(words, sizeof words, "libnccl.so.2 lacks %s", symbols[i].name);
    assert_true(is_told(symbols[i].name, words));
  }
}

/* Initialises one of two members. Expects this result, this number of aborts, and whether there is
 * a communicator. */
static void expect(ncclResult_t result, bool makes, bool is_there, int aborts) {
  static char memory;
  const tdm_nccl_api *nccl = tdm_nccl_api_linked();
  assert_null(nccl->absence());
  tdm_nccl_communicator communicator = (tdm_nccl_communicator)(void *)&memory;
  double_of.result = result;
  double_of.made = makes ? (ncclComm_t)(void *)&memory : NULL;
  double_of.aborted = NULL;
  double_of.aborts = 0;
  assert_int_equal(nccl->init(&communicator, 2, known_id, 1), result);
  assert_int_equal(double_of.aborts, aborts);
  assert_ptr_equal(communicator, is_there ? double_of.made : NULL);
  assert_ptr_equal(double_of.aborted, aborts > 0 ? double_of.made : NULL);
}

static void what_has_begun_is_handed_out(void **state) {
  (void)state;
  expect(ncclSuccess, true, true, 0);
  expect(ncclInProgress, true, true, 0);
}

static void what_a_failed_beginning_leaves_is_aborted(void **state) {
  (void)state;
  expect(ncclSystemError, true, false, 1);
  expect(ncclInvalidUsage, false, false, 0);
}

static void what_is_asked_goes_to_the_library(void **state) {
  (void)state;
  const tdm_nccl_api *nccl = tdm_nccl_api_linked();
  assert_null(nccl->absence());
  int number = 0;
  assert_int_equal(nccl->version(&number), ncclSystemError);
  assert_int_equal(number, 22809);
  assert_string_equal(nccl->error_text(ncclRemoteError), "the other side");
  double_of.words = NULL;
  assert_string_equal(nccl->last_error(NULL), "");
  double_of.words = "why";
  assert_string_equal(nccl->last_error(NULL), "why");
  unsigned char id[TDM_NCCL_ID_BYTES] = {0};
  assert_int_equal(nccl->unique_id(id), ncclInternalError);
  assert_memory_equal(id, known_id, sizeof id);
  static char memory, communicator_memory, stream_memory;
  const tdm_nccl_communicator communicator = (tdm_nccl_communicator)(void *)&communicator_memory;
  tdm_nccl_code error = 0;
  assert_int_equal(nccl->async_error(communicator, &error), ncclInvalidUsage);
  assert_int_equal(error, ncclRemoteError);
  assert_ptr_equal((void *)double_of.communicator, &communicator_memory);
  const tdm_cuda_stream stream = (tdm_cuda_stream)(void *)&stream_memory;
  static const struct {
    char call;
    tdm_dtype dtype;
    ncclDataType_t type;
  } calls[] = {{'a', TDM_FLOAT32, ncclFloat32},
               {'a', TDM_FLOAT64, ncclFloat64},
               {'s', TDM_UINT8, ncclInt8},
               {'r', TDM_UINT8, ncclInt8}};
  double_of.result = ncclInProgress;
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
    const char call = calls[i].call;
    const tdm_nccl_code code =
        call == 'a'   ? nccl->all_reduce(communicator, &memory, 12, calls[i].dtype, stream)
        : call == 's' ? nccl->send(communicator, &memory, 12, 3, stream)
                      : nccl->receive(communicator, &memory, 12, 3, stream);
    assert_int_equal(code, ncclInProgress);
    assert_int_equal(double_of.call, call);
    assert_ptr_equal(double_of.memory[0], &memory);
    assert_ptr_equal(double_of.memory[1], call == 'a' ? &memory : NULL);
    assert_int_equal(double_of.count, 12);
    assert_int_equal(double_of.type, calls[i].type);
    assert_int_equal(double_of.partner, call == 'a' ? -1 : 3);
    assert_ptr_equal((void *)double_of.communicator, &communicator_memory);
    assert_ptr_equal((void *)double_of.stream, &stream_memory);
  }
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
#if __has_include(<nccl.h>)
    cmocka_unit_test(what_is_missing_is_told),
    cmocka_unit_test(what_has_begun_is_handed_out),
    cmocka_unit_test(what_a_failed_beginning_leaves_is_aborted),
    cmocka_unit_test(what_is_asked_goes_to_the_library),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
