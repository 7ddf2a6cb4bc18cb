/* NCCL's own library: found or reported as missing, and failing with a message on machines without
 * a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "devices/cuda/library/nccl.h"

static void nccl_is_opened_or_told_as_missing(void **state) {
  (void)state;
  const tdm_nccl_api *nccl = tdm_nccl_api_linked();
  const char *reason = nccl->absence();
  if (reason) {
    assert_true(reason[0] != '\0');
    print_message("passed over: %s\n", reason);
    skip();
  }
  int version = 0;
  assert_int_equal(nccl->version(&version), TDM_NCCL_SUCCESS);
  assert_true(version >= TDM_NCCL_LEAST_VERSION);
  assert_true(nccl->error_text(TDM_NCCL_REMOTE_ERROR)[0] != '\0');
  assert_non_null(nccl->last_error(NULL));
  unsigned char id[TDM_NCCL_ID_BYTES];
  assert_int_equal(nccl->unique_id(id), TDM_NCCL_SUCCESS);
}

/* The only present member of two fails, or stays in progress until it is aborted. */
static void joining_waits_for_nobody(void **state) {
  (void)state;
  const tdm_nccl_api *nccl = tdm_nccl_api_linked();
  if (nccl->absence()) skip();
  unsigned char id[TDM_NCCL_ID_BYTES];
  tdm_nccl_communicator communicator = NULL;
  assert_int_equal(nccl->unique_id(id), TDM_NCCL_SUCCESS);
  const tdm_nccl_code code = nccl->init(&communicator, 2, id, 0);
  const bool begun = code == TDM_NCCL_SUCCESS || code == TDM_NCCL_IN_PROGRESS;
  assert_int_equal(communicator != NULL, begun);
  if (begun) assert_int_equal(nccl->abort(communicator), TDM_NCCL_SUCCESS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nccl_is_opened_or_told_as_missing),
      cmocka_unit_test(joining_waits_for_nobody),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
