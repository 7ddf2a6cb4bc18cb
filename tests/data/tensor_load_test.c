/* Loads one tensor of a file by its name, and reports missing names. */
#include <string.h>

#include "tests/data/support.h"

/* Writes a file with a tensor of each name, whose one element is its place. */
static const char *write_tensors(tdm_context *context, char *path, size_t count,
                                 const char *const *names) {
  tdm_tensor_list *list = tdm_tensor_list_create(context);
  for (size_t i = 0; i < count; i++) {
    const int64_t place = (int64_t)i;
    tdm_tensor *tensor = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, 1), &place);
    assert_int_equal(tdm_tensor_list_add(list, names[i], tensor), TDM_OK);
    tdm_tensor_release(tensor);
  }
  temporary_path(path, "tensors.safetensors");
  assert_int_equal(tdm_safetensors_save(list, path), TDM_OK);
  tdm_tensor_list_release(list);
  return path;
}

static void a_tensor_is_found_by_its_name(void **state) {
  data_fixture *fixture = *state;
  char path[PATH_BYTES];
  static const char *const names[] = {"fc.weight", "fc.bias", "head"};
  write_tensors(fixture->context, path, 3, names);
  for (int64_t i = 0; i < 3; i++) {
    tdm_tensor *tensor = tdm_tensor_load(fixture->context, path, names[i]);
    assert_non_null(tensor);
    assert_int_equal(*(const int64_t *)tdm_tensor_data(tensor), i);
    assert_string_equal(tdm_tensor_device(tensor), "cpu:0");
    tdm_tensor_release(tensor);
  }
  assert_null(tdm_tensor_load(fixture->context, path, "fc.wieght"));
  assert_message("there is no tensor 'fc.wieght'; tensors are: ");
  assert_message("(did you mean 'fc.weight'?)");
  assert_message("tensors.safetensors");
  assert_null(tdm_tensor_load(fixture->context, path, NULL));
  assert_message("there is not one tensor alone; tensors are: ");
}

static void the_only_tensor_needs_no_name(void **state) {
  data_fixture *fixture = *state;
  char path[PATH_BYTES];
  write_tensors(fixture->context, path, 1, (const char *const[]){"all"});
  tdm_tensor *tensor = tdm_tensor_load(fixture->context, path, NULL);
  assert_non_null(tensor);
  assert_int_equal(tdm_tensor_dtype(tensor), TDM_INT64);
  tdm_tensor_release(tensor);
}

static void bad_files_are_told(void **state) {
  data_fixture *fixture = *state;
  char path[PATH_BYTES];
  assert_null(tdm_tensor_load(fixture->context, temporary_path(path, "nowhere"), "all"));
  assert_message("nowhere");
  assert_null(tdm_tensor_load(fixture->context, write_text(path, "short", "{}"), "all"));
  assert_message("short");
  write_text(path, "model.safetensors.index.json", "{\"weight_map\": {}}");
  assert_null(tdm_tensor_load(fixture->context, path, "all"));
  assert_message("is an index of several files");
  assert_null(tdm_tensor_load(fixture->context, NULL, "all"));
  assert_null(tdm_tensor_load(NULL, path, "all"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_tensor_is_found_by_its_name, set_up, tear_down),
      cmocka_unit_test_setup_teardown(the_only_tensor_needs_no_name, set_up, tear_down),
      cmocka_unit_test_setup_teardown(bad_files_are_told, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
