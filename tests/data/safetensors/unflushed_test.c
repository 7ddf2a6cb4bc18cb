/* Disks that cannot flush: after any failed flush of a save, either the old set or the new one is
 * complete. */
#define _GNU_SOURCE /* mkdtemp */
#include <errno.h>
#include <stdlib.h>

#include "data/safetensors/parts.h"
#include "tests/data/safetensors/files.h"

enum { TENSORS = 4, ELEMENTS = 10, PART_BYTES = 2 * ELEMENTS * sizeof(float), MOST_FLUSHES = 64 };

static int flushes; /* number of flushes since a save began */
static int fail_at; /* which of them fails; 0: none */

int __real_fsync(int descriptor);
int __wrap_fsync(int descriptor);

int __wrap_fsync(int descriptor) {
  if (++flushes != fail_at) return __real_fsync(descriptor);
  errno = EIO;
  return -1;
}

static tdm_status save(const data_fixture *fixture, const char *path, double value, int failing) {
  static const char *const names[TENSORS] = {"a", "b", "c", "d"};
  tdm_tensor_list *list = tdm_tensor_list_create(fixture->context);
  for (int i = 0; i < TENSORS; i++) {
    tdm_tensor *tensor = tdm_tensor_full(fixture->context, "cpu:0", TDM_FLOAT32,
                                         tdm_shape_of(1, ELEMENTS), value);
    assert_int_equal(tdm_tensor_list_add(list, names[i], tensor), TDM_OK);
    tdm_tensor_release(tensor);
  }
  flushes = 0;
  fail_at = failing;
  const tdm_status status = tdm_safetensors_save_parts(list, path, PART_BYTES);
  tdm_tensor_list_release(list);
  return status;
}

/* Returns the value of all tensors of the set. */
static double value_of(const data_fixture *fixture, const char *path) {
  tdm_tensor_list *list = tdm_safetensors_load(fixture->context, path);
  if (!list) fail_msg("%s", tdm_last_message());
  assert_int_equal(tdm_tensor_list_count(list), TENSORS);
  const double value = tdm_tensor_item(tdm_tensor_list_tensor(list, 0), 0);
  for (size_t i = 0; i < TENSORS; i++)
    assert_true(tdm_tensor_item(tdm_tensor_list_tensor(list, i), ELEMENTS - 1) == value);
  tdm_tensor_list_release(list);
  return value;
}

static void every_nth_flush_fails(void **state) {
  const data_fixture *fixture = *state;
  int failures = 0;
  for (int n = 1; n < MOST_FLUSHES; n++) {
    char folder[PATH_BYTES], path[2 * PATH_BYTES];
    (void)temporary_path(folder, "unflushed_XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/model%s", folder, TDM_SAFETENSORS_INDEX);
    assert_int_equal(save(fixture, path, 1, 0), TDM_OK);
    const tdm_status status = save(fixture, path, 2, n);
    const bool failed = flushes >= n;
    failures += failed;
    assert_int_equal(status, failed ? TDM_IO : TDM_OK);
    const double value = value_of(fixture, path);
    assert_true(value == 2 || (failed && value == 1));
    assert_int_equal(save(fixture, path, 3, 0), TDM_OK);
    assert_true(value_of(fixture, path) == 3);
    if (!failed) break;
  }
  assert_int_equal(failures, 6); /* two parts and the index, each with its folder */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(every_nth_flush_fails, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
