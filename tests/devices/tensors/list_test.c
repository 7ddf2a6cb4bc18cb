/* Lists of named tensors: their contents in order, and nothing after them. */
#include <stdio.h>

#include "tests/devices/support.h"

static void a_list_has_what_was_added(void **state) {
  (void)state;
  enum { MOST = 20 };
  tdm_context *context = test_context(NULL);
  tdm_tensor_list *list = tdm_tensor_list_create(context);
  tdm_tensor *tensors[MOST];
  assert_non_null(list);
  for (size_t count = 0; count < MOST; count++) {
    char name[16];
    assert_int_equal(tdm_tensor_list_count(list), count);
    assert_null(tdm_tensor_list_name(list, count));
    assert_null(tdm_tensor_list_tensor(list, count));
    (void)snprintf(name, sizeof name, "t%zu", count);
    assert_null(tdm_tensor_list_find(list, name));
    tensors[count] = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(1, 1));
    assert_non_null(tensors[count]);
    assert_ok(tdm_tensor_list_add(list, name, tensors[count]));
    assert_status(tdm_tensor_list_add(list, name, tensors[count]), TDM_INVALID_ARGUMENT);
    for (size_t i = 0; i <= count; i++) {
      (void)snprintf(name, sizeof name, "t%zu", i);
      assert_string_equal(tdm_tensor_list_name(list, i), name);
      assert_ptr_equal(tdm_tensor_list_tensor(list, i), tensors[i]);
      assert_ptr_equal(tdm_tensor_list_find(list, name), tensors[i]);
    }
  }
  assert_status(tdm_tensor_list_add(NULL, "x", tensors[0]), TDM_INVALID_ARGUMENT);
  assert_string_equal(tdm_last_message(), "a list of tensors: the list is NULL");
  assert_status(tdm_tensor_list_add(list, NULL, tensors[0]), TDM_INVALID_ARGUMENT);
  assert_string_equal(tdm_last_message(), "a list of tensors: the name is NULL");
  assert_status(tdm_tensor_list_add(list, "x", NULL), TDM_INVALID_ARGUMENT);
  assert_string_equal(tdm_last_message(), "a list of tensors: the tensor is NULL");
  assert_int_equal(tdm_tensor_list_count(NULL), 0);
  assert_null(tdm_tensor_list_name(NULL, 0));
  assert_null(tdm_tensor_list_find(NULL, "t0"));
  assert_null(tdm_tensor_list_find(list, NULL));
  for (size_t i = 0; i < MOST; i++)
    tdm_tensor_release(tensors[i]);
  tdm_tensor_list_release(list);
  tdm_tensor_list_release(NULL);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_list_has_what_was_added)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
