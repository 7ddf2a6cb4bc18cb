/* Dtypes of files from which state dicts are loaded: conversions, and refused files. */
#include "tests/checkpoint/dict_model.h"
#include "tests/checkpoint/support.h"
#include "tests/graph/group.h"
#include "tests/options.h"

/* Returns the session's parameters, each converted to dtype. */
static tdm_tensor_list *dict_as(tdm_session *session, tdm_dtype dtype) {
  tdm_tensor_list *list = dict_of(session, NULL);
  tdm_tensor_list *converted = tdm_tensor_list_create(context);
  for (size_t i = 0; i < tdm_tensor_list_count(list); i++) {
    tdm_tensor *tensor = tdm_tensor_list_tensor(list, i);
    const bool is_floating = tdm_dtype_is_floating(tdm_tensor_dtype(tensor));
    tensor = tdm_tensor_to(tensor, NULL, is_floating ? dtype : TDM_DTYPE_NONE);
    assert_ok(tdm_tensor_list_add(converted, tdm_tensor_list_name(list, i), tensor));
    tdm_tensor_release(tensor);
  }
  tdm_tensor_list_release(list);
  return converted;
}

/* Files with another floating dtype, such as those of most other programs, are refused with the
 * option's name, or converted if the option is set. */
static void floating_dtypes_are_converted_if_allowed(void **unused) {
  (void)unused;
  static const tdm_dtype dtypes[] = {TDM_FLOAT64, TDM_FLOAT16, TDM_BFLOAT16};
  char path[512];
  checkpoint_path(path, "converted.safetensors");
  tdm_session *trained = dict_session(context, "block/fc", 4, 1);
  dict_train(trained);
  for (size_t i = 0; i < TDM_COUNT_OF(dtypes); i++) {
    tdm_session *fresh = dict_session(context, "block/fc", 4, 2),
                *untouched = dict_session(context, "block/fc", 4, 2);
    tdm_state_dict_options options = tdm_state_dict_options_default();
    tdm_tensor_list *list = dict_as(trained, dtypes[i]);
    assert_ok(tdm_safetensors_save(list, path));
    assert_status(tdm_state_dict_load(fresh, path, &options), TDM_INVALID_ARGUMENT);
    assert_message("block.fc.weight (float32 [4, 3], not ");
    assert_message(tdm_dtype_name(dtypes[i]));
    assert_message("convert_dtypes");
    assert_same_parameters(fresh, untouched);
    options.convert_dtypes = true;
    assert_ok(tdm_state_dict_load(fresh, path, &options));
    tdm_tensor_list *got = dict_as(fresh, dtypes[i]);
    assert_same_state(got, list); /* the conversion back to the file's dtype is exact */
    tdm_tensor_list_release(got);
    tdm_tensor_list_release(list);
    tdm_session_release(fresh);
    tdm_session_release(untouched);
  }
  tdm_session_release(trained);
}

/* Integers and bools are no floating dtypes, and a shape is never converted. */
static void other_dtypes_are_never_converted(void **unused) {
  (void)unused;
  static const tdm_dtype dtypes[] = {TDM_INT32, TDM_INT64, TDM_UINT8, TDM_BOOL, TDM_FLOAT16};
  tdm_session *session = dict_session(context, "block/fc", 4, 1);
  tdm_state_dict_options options = tdm_state_dict_options_default();
  options.convert_dtypes = true;
  options.allow_missing = true;
  for (size_t i = 0; i < TDM_COUNT_OF(dtypes); i++) {
    const int64_t width = tdm_dtype_is_floating(dtypes[i]) ? 5 : 3;
    tdm_tensor *tensor =
        tdm_tensor_create(context, "cpu:0", dtypes[i], tdm_shape_of(2, (int64_t)4, width));
    tdm_tensor_list *list = tdm_tensor_list_create(context);
    assert_ok(tdm_tensor_list_add(list, "block.fc.weight", tensor));
    assert_status(tdm_session_load_state_dict(session, list, &options), TDM_INVALID_ARGUMENT);
    assert_message("block.fc.weight (float32 [4, 3], not ");
    assert_message(tdm_dtype_name(dtypes[i]));
    assert_null(strstr(tdm_last_message(), "convert_dtypes"));
    tdm_tensor_list_release(list);
    tdm_tensor_release(tensor);
  }
  tdm_session_release(session);
}

/* A parameter in a dtype that Tandem does not support is a misfit like others; a tensor that is no
 * parameter may have any. */
static void unsupported_dtypes_are_misfits(void **unused) {
  (void)unused;
  static const char header[] =
      "{\"head.bias\":{\"dtype\":\"F8_E4M3\",\"shape\":[2],\"data_offsets\":[0,2]},"
      "\"scale\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[2,4]}}";
  const uint64_t size = sizeof header - 1;
  char path[512];
  checkpoint_path(path, "float8.safetensors");
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  fwrite(&size, 8, 1, file);
  fwrite(header, 1, size, file);
  fwrite("\1\2\3\4", 1, 4, file);
  (void)fclose(file);
  tdm_session *session = dict_session(context, "block/fc", 4, 1);
  tdm_state_dict_options options = tdm_state_dict_options_default();
  options.convert_dtypes = options.allow_missing = true;
  assert_status(tdm_state_dict_load(session, path, &options), TDM_INVALID_ARGUMENT);
  assert_message("unexpected: scale");
  assert_message("head.bias (float32 [2], not F8_E4M3 [2])");
  const tdm_name_rule rule = {"head.bias", NULL};
  options.rules = &rule;
  options.rule_count = 1;
  options.allow_unexpected = true;
  assert_ok(tdm_state_dict_load(session, path, &options));
  tdm_tensor_list *list = tdm_safetensors_load(context, path);
  assert_status(tdm_store_load(tdm_session_store(session), list), TDM_UNSUPPORTED);
  assert_message("tensor \"head.bias\": dtype F8_E4M3 is not supported");
  assert_status(tdm_session_load(session, list), TDM_INVALID_ARGUMENT); /* no checkpoint */
  tdm_tensor_list_release(list);
  tdm_session_release(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(floating_dtypes_are_converted_if_allowed),
      cmocka_unit_test(other_dtypes_are_never_converted),
      cmocka_unit_test(unsupported_dtypes_are_misfits),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
