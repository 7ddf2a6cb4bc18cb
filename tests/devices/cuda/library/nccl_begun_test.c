/* What NCCL's table makes of a communicator that begins, or does not, with NCCL's functions by the
 * test in place of its library: what a failed beginning leaves is aborted, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "devices/cuda/library/nccl.h"

#if __has_include(<nccl.h>)
#include <nccl.h>

static struct {
  ncclResult_t result; /* of what begins a communicator */
  ncclComm_t made;     /* by it */
  ncclComm_t aborted;
  int aborts;
} double_of;

static const unsigned char known_id[TDM_NCCL_ID_BYTES] = "whoever has this may join";

static ncclResult_t init(ncclComm_t *comm, int count, ncclUniqueId id, int rank,
                         ncclConfig_t *config) {
  assert_memory_equal(&id, known_id, sizeof(id));
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

static void uncalled(void) {
  fail_msg("another of NCCL's functions is called");
}

/* What dlopen and dlsym of the program are (--wrap). */
void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlsym(void *library, const char *name);

void *__wrap_dlopen(const char *name, int flags) {
  (void)flags;
  assert_string_equal(name, "libnccl.so.2");
  return &double_of;
}

void *__wrap_dlsym(void *library, const char *name) {
  assert_ptr_equal(library, &double_of);
  if (strcmp(name, "ncclCommInitRankConfig") == 0) return (void *)init;
  if (strcmp(name, "ncclCommAbort") == 0) return (void *)abort_it;
  return (void *)uncalled;
}

/* Begins one of two; what it answers, how often it aborts, and whether there is a communicator. */
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
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
#if __has_include(<nccl.h>)
    cmocka_unit_test(what_has_begun_is_handed_out),
    cmocka_unit_test(what_a_failed_beginning_leaves_is_aborted),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
