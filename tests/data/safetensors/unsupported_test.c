/* Safetensors files of other programs: tensors of every dtype of the format and of any number of
 * dimensions are listed; only reading one that Tandem does not support fails. Dtypes, bits and the
 * rule that elements fill whole bytes are those of the reference library (safetensors 0.8). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/safetensors/safetensors.h"
#include "tests/data/safetensors/files.h"

typedef struct format_dtype {
  const char *name;
  const char *shape;
  int rank;
  uint64_t bytes;
  bool is_supported;
} format_dtype;

/* All dtypes of the format; elements of fewer than 8 bits lie without gaps. */
static const format_dtype all[] = {
    {"BOOL", "[3]", 1, 3, true},
    {"F4", "[3,2]", 2, 3, false},
    {"F6_E2M3", "[4]", 1, 3, false},
    {"F6_E3M2", "[2,4,1]", 3, 6, false},
    {"U8", "[2]", 1, 2, true},
    {"I8", "[2]", 1, 2, false},
    {"F8_E5M2", "[5]", 1, 5, false},
    {"F8_E4M3", "[3,3]", 2, 9, false},
    {"F8_E8M0", "[]", 0, 1, false},
    {"F8_E4M3FNUZ", "[2]", 1, 2, false},
    {"F8_E5M2FNUZ", "[2]", 1, 2, false},
    {"I16", "[3]", 1, 6, false},
    {"U16", "[0,3]", 2, 0, false},
    {"F16", "[2]", 1, 4, true},
    {"BF16", "[2]", 1, 4, true},
    {"I32", "[2]", 1, 8, true},
    {"U32", "[2]", 1, 8, false},
    {"F32", "[2]", 1, 8, true},
    {"C64", "[2]", 1, 16, false},
    {"F64", "[2]", 1, 16, true},
    {"I64", "[2]", 1, 16, true},
    {"U64", "[2]", 1, 16, false},
    {"F32", "[1,2,1,1,1,1,1,1,1,1]", 10, 8, false},
};
enum { ALL = sizeof all / sizeof all[0] };

/* Builds a file of all of them, tensor i being called "t<i>"; returns its data's bytes. */
static size_t write_all(char *path, const char *name) {
  char header[FILE_LIMIT / 2] = "{", file[FILE_LIMIT];
  size_t length = 1, begin = 0;
  for (size_t i = 0; i < ALL; i++) {
    length += (size_t)snprintf(
        header + length, sizeof header - length,
        "%s\"t%zu\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}", i ? "," : "", i,
        all[i].name, all[i].shape, begin, begin + (size_t)all[i].bytes);
    begin += (size_t)all[i].bytes;
  }
  length += (size_t)snprintf(header + length, sizeof header - length, "}");
  const size_t size = build_file(file, length, header, length, begin);
  write_file(path, name, file, size);
  return begin;
}

static void assert_listed(const tdm_tensor_list *list) {
  assert_int_equal(tdm_tensor_list_count(list), ALL);
  for (size_t i = 0; i < ALL; i++) {
    const tdm_listed_tensor listed = tdm_tensor_list_entry(list, i);
    char name[32], shape[64] = "[", message[128];
    (void)snprintf(name, sizeof name, "t%zu", i);
    assert_string_equal(listed.name, name);
    assert_int_equal(listed.rank, all[i].rank);
    assert_int_equal(listed.bytes, all[i].bytes);
    for (int32_t d = 0; d < listed.rank; d++)
      (void)snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%lld", d ? "," : "",
                     (long long)listed.dims[d]);
    strcat(shape, "]");
    assert_string_equal(shape, all[i].shape);
    assert_int_equal(listed.tensor != NULL, all[i].is_supported);
    assert_ptr_equal(tdm_tensor_list_find(list, name), listed.tensor);
    if (listed.tensor) {
      assert_string_equal(listed.dtype_name, tdm_dtype_name(listed.dtype));
      assert_string_equal(tdm_safetensors_dtype_name(listed.dtype), all[i].name);
      continue;
    }
    assert_int_equal(tdm_last_status(), TDM_UNSUPPORTED);
    if (all[i].rank > TDM_MAX_RANK)
      (void)snprintf(message, sizeof message, "tensor \"%s\": float32 of 10 dimensions is not",
                     name);
    else
      (void)snprintf(message, sizeof message, "tensor \"%s\": dtype %s is not supported", name,
                     all[i].name);
    assert_message(message);
    assert_null(tdm_tensor_list_tensor(list, i));
    assert_message(message);
  }
}

static void every_dtype_is_listed(void **state) {
  const data_fixture *fixture = *state;
  char path[PATH_BYTES];
  write_all(path, "all.safetensors");
  tdm_tensor_list *list = tdm_safetensors_load(fixture->context, path);
  if (!list) fail_msg("%s", tdm_last_message());
  assert_listed(list);
  tdm_tensor_list_release(list);
  list = tdm_safetensors_map(fixture->context, path);
  if (!list) fail_msg("%s", tdm_last_message());
  assert_listed(list);
  tdm_tensor_list_release(list);
}

static void tensors_beside_unsupported_ones_have_their_values(void **state) {
  const data_fixture *fixture = *state;
  static const char header[] =
      "{\"scale\":" FIELDS("F8_E4M3", "[3]", "[0,3]") ",\"w\":" FIELDS("F32", "[2]", "[3,11]") "}";
  static const unsigned char wanted[] = {1, 0, 1, 0, 1, 0, 1, 0};
  char path[PATH_BYTES], file[FILE_LIMIT];
  const size_t size = build_file(file, sizeof header - 1, header, sizeof header - 1, 11);
  write_file(path, "beside.safetensors", file, size);
  tdm_tensor_list *list = tdm_safetensors_load(fixture->context, path);
  if (!list) fail_msg("%s", tdm_last_message());
  assert_memory_equal(tdm_tensor_data(tdm_tensor_list_find(list, "w")), wanted, sizeof wanted);
  tdm_tensor *w = tdm_tensor_load(fixture->context, path, "w");
  assert_non_null(w);
  assert_memory_equal(tdm_tensor_data(w), wanted, sizeof wanted);
  tdm_tensor_release(w);
  assert_null(tdm_tensor_load(fixture->context, path, "scale"));
  assert_int_equal(tdm_last_status(), TDM_UNSUPPORTED);
  assert_message("beside.safetensors: tensor \"scale\": dtype F8_E4M3 is not supported");
  tdm_tensor_list_release(list);
}

/* Saving would lose the tensor's values. */
static void a_list_with_one_is_not_saved(void **state) {
  const data_fixture *fixture = *state;
  char path[PATH_BYTES], out[PATH_BYTES];
  write_all(path, "all.safetensors");
  tdm_tensor_list *list = tdm_safetensors_load(fixture->context, path);
  temporary_path(out, "copy.safetensors");
  assert_int_equal(tdm_safetensors_save(list, out), TDM_UNSUPPORTED);
  assert_message("copy.safetensors: tensor \"t1\": dtype F4 is not supported");
  temporary_path(out, "copy.safetensors.index.json");
  assert_int_equal(tdm_safetensors_save(list, out), TDM_UNSUPPORTED);
  assert_message("tensor \"t1\": dtype F4 is not supported");
  tdm_tensor_list_release(list);
}

static void an_index_lists_them_too(void **state) {
  const data_fixture *fixture = *state;
  char path[PATH_BYTES], index[FILE_LIMIT] = "{\"weight_map\":{";
  write_all(path, "parts-00001-of-00001.safetensors");
  for (size_t i = 0; i < ALL; i++)
    (void)snprintf(index + strlen(index), sizeof index - strlen(index),
                   "%s\"t%zu\":\"parts-00001-of-00001.safetensors\"", i ? "," : "", i);
  strcat(index, "}}");
  write_text(path, "parts.safetensors.index.json", index);
  tdm_tensor_list *list = tdm_safetensors_load(fixture->context, path);
  if (!list) fail_msg("%s", tdm_last_message());
  assert_listed(list);
  tdm_tensor_list_release(list);
}

/* Reads 1 to 9 elements of 4 and of 6 bits. Only counts that fill whole bytes are accepted, and
 * only with the right size. */
static void elements_of_few_bits_fill_whole_bytes(void **state) {
  const data_fixture *fixture = *state;
  static const struct {
    const char *name;
    int bits;
  } types[] = {{"F4", 4}, {"F6_E2M3", 6}, {"F6_E3M2", 6}};
  for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
    for (int count = 1; count < 10; count++)
      for (int more = -1; more < 2; more++) {
        const int bytes = (count * types[t].bits + 7) / 8 + more;
        const bool is_whole = count * types[t].bits % 8 == 0;
        char header[256], file[FILE_LIMIT], path[PATH_BYTES];
        const int length =
            snprintf(header, sizeof header,
                     "{\"x\":{\"dtype\":\"%s\",\"shape\":[%d],\"data_offsets\":[0,%d]}}",
                     types[t].name, count, bytes);
        const size_t size =
            build_file(file, (uint64_t)length, header, (size_t)length, (size_t)bytes);
        tdm_tensor_list *list = tdm_safetensors_load(
            fixture->context, write_file(path, "bits.safetensors", file, size));
        assert_int_equal(list != NULL, is_whole && more == 0);
        if (!list) assert_int_equal(tdm_last_status(), TDM_CORRUPT_DATA);
        if (!list) assert_message(is_whole ? "bytes" : "fills no whole bytes");
        tdm_tensor_list_release(list);
      }
}

static void an_index_out_of_range_describes_nothing(void **state) {
  const data_fixture *fixture = *state;
  tdm_tensor_list *list = tdm_tensor_list_create(fixture->context);
  assert_null(tdm_tensor_list_entry(list, 0).name);
  assert_null(tdm_tensor_list_entry(NULL, 0).name);
  tdm_tensor_list_release(list);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(every_dtype_is_listed, set_up, tear_down),
      cmocka_unit_test_setup_teardown(tensors_beside_unsupported_ones_have_their_values, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(a_list_with_one_is_not_saved, set_up, tear_down),
      cmocka_unit_test_setup_teardown(an_index_lists_them_too, set_up, tear_down),
      cmocka_unit_test_setup_teardown(elements_of_few_bits_fill_whole_bytes, set_up, tear_down),
      cmocka_unit_test_setup_teardown(an_index_out_of_range_describes_nothing, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
