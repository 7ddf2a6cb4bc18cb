/* Saving: the contents of the file, complete replacement of the old file or none, and refused
 * tensors. */
#define _GNU_SOURCE /* mkdir, setrlimit, umask */
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/safetensors/safetensors.h"
#include "tests/data/safetensors/files.h"

/* Returns a list of one tensor "x" of count bytes. */
static tdm_tensor_list *make_list(const data_fixture *fixture, const char *name, int64_t count) {
  tdm_tensor *tensor =
      tdm_tensor_full(fixture->context, "cpu:0", TDM_UINT8, tdm_shape_of(1, count), 7);
  tdm_tensor_list *list = tdm_tensor_list_create(fixture->context);
  assert_int_equal(tdm_tensor_list_add(list, name, tensor), TDM_OK);
  tdm_tensor_release(tensor);
  return list;
}

/* The file's layout, read by another JSON library: padded, aligned, without holes. */
static void the_layout_is_the_format_s(void **state) {
  const data_fixture *fixture = *state;
  static const tdm_dtype dtypes[] = {TDM_UINT8, TDM_FLOAT64, TDM_BOOL, TDM_FLOAT16, TDM_FLOAT32};
  static const char *const names[] = {"U8", "F64", "BOOL", "F16", "F32"};
  tdm_tensor_list *list = tdm_tensor_list_create(fixture->context);
  for (int i = 0; i < 5; i++) {
    static const char zeros[24];
    tdm_tensor *tensor = tdm_tensor_create(fixture->context, i % 2 ? "sim:0" : "cpu:0", dtypes[i],
                                           tdm_shape_of(1, 3));
    assert_int_equal(tdm_tensor_write(tensor, zeros, tdm_tensor_bytes(tensor)), TDM_OK);
    assert_int_equal(tdm_tensor_list_add(list, names[i], tensor), TDM_OK);
    tdm_tensor_release(tensor);
  }
  char path[PATH_BYTES];
  if (tdm_safetensors_save(list, temporary_path(path, "layout.safetensors")) != TDM_OK)
    fail_msg("not saved: %s", tdm_last_message());
  size_t size = 0;
  char *file = read_file(path, &size);
  size_t header_bytes = 0;
  for (int i = 7; i >= 0; i--)
    header_bytes = header_bytes << 8 | (unsigned char)file[i];
  assert_int_equal(header_bytes % 8, 0);
  assert_int_equal(size, 8 + header_bytes + 3 * (1 + 8 + 1 + 2 + 4));
  json_t *root = json_loadb(file + 8, header_bytes, JSON_REJECT_DUPLICATES, NULL);
  assert_non_null(root);
  assert_int_equal(json_object_size(root), 5);
  for (int i = 0; i < 5; i++) {
    json_t *entry = json_object_get(root, names[i]);
    const json_t *offsets = json_object_get(entry, "data_offsets");
    assert_string_equal(json_string_value(json_object_get(entry, "dtype")), names[i]);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(entry, "shape"), 0)), 3);
    assert_int_equal(
        json_integer_value(json_array_get(offsets, 0)) % (json_int_t)tdm_dtype_bytes(dtypes[i]), 0);
  }
  json_decref(root);
  free(file);
  tdm_tensor_list_release(list);
}

static void an_empty_list_is_a_file(void **state) {
  const data_fixture *fixture = *state;
  char path[PATH_BYTES];
  tdm_tensor_list *list = tdm_tensor_list_create(fixture->context);
  assert_int_equal(tdm_safetensors_save(list, temporary_path(path, "empty.safetensors")), TDM_OK);
  tdm_tensor_list_release(list);
  list = tdm_safetensors_load(fixture->context, path);
  assert_non_null(list);
  assert_int_equal(tdm_tensor_list_count(list), 0);
  tdm_tensor_list_release(list);
}

static void an_old_file_is_replaced(void **state) {
  const data_fixture *fixture = *state;
  char path[PATH_BYTES];
  write_text(path, "old.safetensors", "something else that is rather long, so that it shows");
  assert_int_equal(chmod(path, 0640), 0);
  tdm_tensor_list *list = make_list(fixture, "x", 5);
  assert_int_equal(tdm_safetensors_save(list, path), TDM_OK);
  struct stat about;
  assert_int_equal(stat(path, &about), 0);
  assert_int_equal(about.st_mode & 07777, 0640); /* the permissions do not change */
  tdm_tensor_list *again = tdm_safetensors_load(fixture->context, path);
  assert_non_null(again);
  /* Saving over the file that the tensors are mapped from is legal. */
  assert_int_equal(tdm_safetensors_save(again, path), TDM_OK);
  assert_memory_equal(tdm_tensor_data(tdm_tensor_list_find(again, "x")), "\7\7\7\7\7", 5);
  tdm_tensor_list_release(again);
  tdm_tensor_list_release(list);
  assert_int_equal(count_files("old.safetensors"), 1);
}

/* A name without a folder means the current one. */
static void a_bare_name_is_saved_here(void **state) {
  const data_fixture *fixture = *state;
  char path[PATH_BYTES];
  char before[PATH_BYTES];
  assert_non_null(getcwd(before, sizeof before));
  (void)temporary_path(path, "");
  assert_int_equal(chdir(path), 0);
  tdm_tensor_list *list = make_list(fixture, "x", 5);
  assert_int_equal(tdm_safetensors_save(list, "bare.safetensors"), TDM_OK);
  assert_int_equal(access("bare.safetensors", R_OK), 0);
  assert_int_equal(chdir(before), 0);
  tdm_tensor_list_release(list);
}

static void assert_not_saved(const tdm_tensor_list *list, const char *path, tdm_status status,
                             const char *message) {
  const tdm_status got = tdm_safetensors_save(list, path);
  if (got != status)
    fail_msg("\"%s\" expected: %s \"%s\"", message, tdm_status_name(got), tdm_last_message());
  assert_message(path);
  assert_message(message);
}

static void places_where_nothing_can_be_saved(void **state) {
  const data_fixture *fixture = *state;
  char path[PATH_BYTES];
  tdm_tensor_list *list = make_list(fixture, "x", 5);
  assert_not_saved(list, temporary_path(path, "nowhere/x.safetensors"), TDM_IO,
                   "No such file or directory");
  write_text(path, "plain", "a file");
  assert_not_saved(list, temporary_path(path, "plain/x.safetensors"), TDM_IO, "Not a directory");
  assert_int_equal(mkdir(temporary_path(path, "taken"), 0777), 0);
  assert_not_saved(list, path, TDM_IO, "is a directory");
  assert_int_equal(count_files("taken"), 1);
  assert_int_equal(rmdir(path), 0); /* still empty */
  assert_not_saved(list, "/dev/null", TDM_IO, "no regular file");
  assert_int_equal(tdm_safetensors_save(list, ""), TDM_INVALID_ARGUMENT);
  assert_int_equal(tdm_safetensors_save(list, NULL), TDM_INVALID_ARGUMENT);
  assert_int_equal(tdm_safetensors_save(NULL, path), TDM_INVALID_ARGUMENT);
  char *plain = read_file(temporary_path(path, "plain"), NULL);
  assert_string_equal(plain, "a file");
  free(plain);
  tdm_tensor_list_release(list);
}

/* A limit of 4096 bytes simulates a full disk: the old file stays, and the new one is deleted. */
static void a_failing_write_leaves_the_old_file(void **state) {
  const data_fixture *fixture = *state;
  char path[PATH_BYTES];
  write_text(path, "kept.safetensors", "the old contents");
  tdm_tensor_list *list = make_list(fixture, "x", 100000);
  struct rlimit before;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  const struct rlimit small = {.rlim_cur = 4096, .rlim_max = before.rlim_max};
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  const tdm_status status = tdm_safetensors_save(list, path);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  (void)signal(SIGXFSZ, handler);
  assert_int_equal(status, TDM_IO);
  assert_message("cannot write: File too large");
  assert_message(path);
  char *kept = read_file(path, NULL);
  assert_string_equal(kept, "the old contents");
  free(kept);
  assert_int_equal(count_files("kept.safetensors"), 1);
  tdm_tensor_list_release(list);
}

static void tensors_that_cannot_be_saved(void **state) {
  const data_fixture *fixture = *state;
  char path[PATH_BYTES];
  write_text(path, "refused.safetensors", "old");
  tdm_tensor_list *list = make_list(fixture, "__metadata__", 5);
  assert_not_saved(list, path, TDM_INVALID_ARGUMENT, "__metadata__");
  tdm_tensor_list_release(list);
  list = make_list(fixture, "x\xFF", 5);
  assert_not_saved(list, path, TDM_INVALID_ARGUMENT, "not UTF-8");
  tdm_tensor_list_release(list);
  list = tdm_tensor_list_create(fixture->context);
  const unsigned char odd[] = {0, 1, 2};
  tdm_tensor *tensor = tdm_tensor_from(fixture->context, TDM_BOOL, tdm_shape_of(1, 3), odd);
  assert_int_equal(tdm_tensor_list_add(list, "mask", tensor), TDM_OK);
  tdm_tensor_release(tensor);
  assert_not_saved(list, path, TDM_INVALID_ARGUMENT, "tensor \"mask\": bool 2 is 2");
  tdm_tensor_list_release(list);
  char *kept = read_file(path, NULL);
  assert_string_equal(kept, "old");
  free(kept);
  assert_int_equal(count_files("refused.safetensors"), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(the_layout_is_the_format_s, set_up, tear_down),
      cmocka_unit_test_setup_teardown(an_empty_list_is_a_file, set_up, tear_down),
      cmocka_unit_test_setup_teardown(an_old_file_is_replaced, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_bare_name_is_saved_here, set_up, tear_down),
      cmocka_unit_test_setup_teardown(places_where_nothing_can_be_saved, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_failing_write_leaves_the_old_file, set_up, tear_down),
      cmocka_unit_test_setup_teardown(tensors_that_cannot_be_saved, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
