/* Safetensors files that are good: every dtype there and back, from every device, and how tensors
 * lie over the mapping. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/safetensors/safetensors.h"
#include "tests/data/safetensors/files.h"
#include "tests/support/faulty_allocator.h"

static const tdm_dtype dtypes[] = {TDM_FLOAT32, TDM_FLOAT64, TDM_INT32,   TDM_INT64,
                                   TDM_UINT8,   TDM_BOOL,    TDM_FLOAT16, TDM_BFLOAT16};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

static tdm_tensor_list *load_header(const data_fixture *fixture, const char *header,
                                    size_t data_size) {
  char path[PATH_BYTES];
  char file[FILE_LIMIT];
  const size_t size = build_file(file, strlen(header), header, strlen(header), data_size);
  tdm_tensor_list *list =
      tdm_safetensors_load(fixture->context, write_file(path, "good.safetensors", file, size));
  if (!list) fail_msg("%s: %s", header, tdm_last_message());
  return list;
}

static void every_dtype_has_a_name(void **state) {
  (void)state;
  for (size_t i = 0; i < DTYPES; i++) {
    const tdm_safetensors_type *type =
        tdm_safetensors_type_called(tdm_safetensors_dtype_name(dtypes[i]));
    assert_non_null(type);
    assert_int_equal(type->dtype, dtypes[i]);
    assert_int_equal(type->bits, 8 * tdm_dtype_bytes(dtypes[i]));
  }
  assert_null(tdm_safetensors_dtype_name(TDM_DTYPE_NONE));
}

/* Bytes that are legal for every dtype: 0 and 1 in an irregular order. */
static void fill_bytes(unsigned char *bytes, size_t count, unsigned salt) {
  for (size_t i = 0; i < count; i++)
    bytes[i] = (i * i + i / 3 + salt) % 5 < 2;
}

/* Saves and loads every dtype in several shapes, on device. */
static void round_trip(const data_fixture *fixture, const char *device) {
  const tdm_shape shapes[] = {tdm_shape_scalar(), tdm_shape_of(1, 7), tdm_shape_of(3, 2, 3, 5),
                              tdm_shape_of(2, 4, 0), tdm_shape_of(8, 1, 2, 1, 2, 1, 2, 1, 3)};
  enum { SHAPES = sizeof shapes / sizeof shapes[0], BYTES = 256 };
  tdm_tensor_list *list = tdm_tensor_list_create(fixture->context);
  unsigned char data[DTYPES * SHAPES][BYTES];
  for (size_t i = 0; i < DTYPES * SHAPES; i++) {
    char name[32];
    (void)snprintf(name, sizeof(name), "layer%zu.weight", i);
    tdm_tensor *tensor =
        tdm_tensor_create(fixture->context, device, dtypes[i % DTYPES], shapes[i / DTYPES]);
    const size_t bytes = tdm_tensor_bytes(tensor);
    assert_true(bytes <= BYTES);
    fill_bytes(data[i], bytes, (unsigned)i);
    assert_int_equal(tdm_tensor_write(tensor, data[i], bytes), TDM_OK);
    assert_int_equal(tdm_tensor_list_add(list, name, tensor), TDM_OK);
    tdm_tensor_release(tensor);
  }
  char path[PATH_BYTES];
  if (tdm_safetensors_save(list, temporary_path(path, "round.safetensors")) != TDM_OK)
    fail_msg("not saved: %s", tdm_last_message());
  tdm_tensor_list *again = tdm_safetensors_load(fixture->context, path);
  if (!again) fail_msg("not loaded: %s", tdm_last_message());
  assert_int_equal(tdm_tensor_list_count(again), DTYPES * SHAPES);
  for (size_t i = 0; i < DTYPES * SHAPES; i++) {
    assert_string_equal(tdm_tensor_list_name(again, i), tdm_tensor_list_name(list, i));
    const tdm_tensor *tensor = tdm_tensor_list_tensor(again, i);
    const tdm_shape shape = tdm_tensor_shape(tensor);
    assert_int_equal(tdm_tensor_dtype(tensor), dtypes[i % DTYPES]);
    assert_true(tdm_shape_equal(&shape, &shapes[i / DTYPES]));
    assert_string_equal(tdm_tensor_device(tensor), "cpu:0");
    const size_t bytes = tdm_tensor_bytes(tensor);
    if (bytes > 0) assert_memory_equal(tdm_tensor_data(tensor), data[i], bytes);
    assert_int_equal((uintptr_t)tdm_tensor_data(tensor) % tdm_dtype_bytes(dtypes[i % DTYPES]), 0);
  }
  tdm_tensor_list_release(list);
  tdm_tensor_list_release(again);
}

static void every_dtype_there_and_back_from_cpu(void **state) {
  round_trip(*state, "cpu:0");
}

static void every_dtype_there_and_back_from_sim(void **state) {
  round_trip(*state, "sim:0");
}

static void names_of_all_kinds_come_back(void **state) {
  const data_fixture *fixture = *state;
  static const char *const names[] = {"plain",
                                      "a/b.c",
                                      "with \"quotes\"",
                                      "back\\slash",
                                      "tab\tnewline\nbell\a\x01\x1F\x7F",
                                      "gr\xC3\xBC\xC3\x9F",
                                      "\xF0\x9F\x98\x80",
                                      "{}[]:,",
                                      " ",
                                      "dtype"};
  enum { NAMES = sizeof(names) / sizeof names[0] };
  tdm_tensor_list *list = tdm_tensor_list_create(fixture->context);
  for (int32_t i = 0; i < NAMES; i++) {
    tdm_tensor *tensor = tdm_tensor_from(fixture->context, TDM_INT32, tdm_shape_scalar(), &i);
    assert_int_equal(tdm_tensor_list_add(list, names[i], tensor), TDM_OK);
    tdm_tensor_release(tensor);
  }
  char path[PATH_BYTES];
  assert_int_equal(tdm_safetensors_save(list, temporary_path(path, "names.safetensors")), TDM_OK);
  tdm_tensor_list_release(list);
  list = tdm_safetensors_load(fixture->context, path);
  if (!list) fail_msg("%s", tdm_last_message());
  for (int32_t i = 0; i < NAMES; i++) {
    const tdm_tensor *tensor = tdm_tensor_list_find(list, names[i]);
    assert_non_null(tensor);
    assert_int_equal(*(int32_t *)tdm_tensor_data(tensor), i);
  }
  tdm_tensor_list_release(list);
}

static void legal_headers_are_read(void **state) {
  const struct {
    const char *header;
    size_t data_size;
    size_t count;
  } table[] = {
      {"{}", 0, 0},
      {"{}      ", 0, 0},
      {"{ }\n\t\r ", 0, 0},
      {"{\"__metadata__\":{}}", 0, 0},
      {"{\"__metadata__\":{\"format\":\"pt\",\"a\":\"\\\"\"}}", 0, 0},
      {"{\"x\":" FIELDS("U8", "[]", "[0,1]") "}", 1, 1},
      {"{\"\":" FIELDS("U8", "[1]", "[0,1]") "}", 1, 1},
      {"{\"x\" : { \"shape\" : [ 2 , 2 ] , \"data_offsets\" : [ 0 , 4 ] ,\n\"dtype\" : \"BOOL\" "
       "} } ",
       4, 1},
      {"{\"x\":" FIELDS("F32", "[0,2305843009213693951]", "[0,0]") "}", 0, 1},
      /* Empty tensors at the places of others, and an order that is not the one of places. */
      {"{\"c\":" FIELDS("U8", "[3]", "[2,5]") ",\"e\":" FIELDS(
           "F64", "[0]", "[2,2]") ",\"a\":" FIELDS("U8", "[2]",
                                                   "[0,2]") ",\"f\":" FIELDS("U8", "[0]",
                                                                             "[5,5]") "}",
       5, 4},
      {"{\"\\u0061\\uD83D\\ude00\\n\\/\":" FIELDS("\\u00558", "[1]", "[0,1]") "}", 1, 1},
  };
  for (size_t i = 0; i < sizeof(table) / sizeof table[0]; i++) {
    tdm_tensor_list *list = load_header(*state, table[i].header, table[i].data_size);
    assert_int_equal(tdm_tensor_list_count(list), table[i].count);
    if (i == 10) assert_non_null(tdm_tensor_list_find(list, "a\xF0\x9F\x98\x80\n/"));
    tdm_tensor_list_release(list);
  }
}

/* Elements are aligned and correct for any position of data in the file. */
static void unaligned_data_is_copied(void **state) {
  static const char fields[] =
      "{\"pad\":" FIELDS("U8", "[3]", "[0,3]") ",\"x\":" FIELDS("F64", "[2]", "[3,19]") "}";
  for (size_t spaces = 0; spaces < 8; spaces++) {
    char header[256];
    (void)snprintf(header, sizeof header, "%s%*s", fields, (int)spaces, "");
    tdm_tensor_list *list = load_header(*state, header, 19);
    tdm_tensor *x = tdm_tensor_list_find(list, "x");
    const unsigned char wanted[] = {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0};
    assert_int_equal((uintptr_t)tdm_tensor_data(x) % 8, 0);
    assert_memory_equal(tdm_tensor_data(x), wanted, 16);
    tdm_tensor_list_release(list);
  }
}

/* Tensors outlive the list, and writing to one changes neither the file nor another load. */
static void a_tensor_keeps_the_mapping(void **state) {
  const data_fixture *fixture = *state;
  tdm_tensor_list *list = load_header(
      fixture, "{\"a\":" FIELDS("U8", "[4]", "[0,4]") ",\"b\":" FIELDS("U8", "[4]", "[4,8]") "}",
      8);
  tdm_tensor *a = tdm_tensor_retain(tdm_tensor_list_find(list, "a"));
  tdm_tensor *b = tdm_tensor_slice(tdm_tensor_list_find(list, "b"), 1, 4);
  tdm_tensor_list_release(list);
  assert_int_equal(tdm_tensor_write(a, "\7\7\7\7", 4), TDM_OK);
  assert_memory_equal(tdm_tensor_data(a), "\7\7\7\7", 4);
  char path[PATH_BYTES];
  tdm_tensor_list *again =
      tdm_safetensors_load(fixture->context, temporary_path(path, "good.safetensors"));
  assert_memory_equal(tdm_tensor_data(tdm_tensor_list_find(again, "a")), "\0\1\0\1", 4);
  tdm_tensor_list_release(again);
  tdm_tensor_release(a);
  assert_memory_equal(tdm_tensor_data(b), "\1\0\1", 3);
  tdm_tensor_release(b);
}

static void big_data_is_mapped_and_not_copied(void **state) {
  const data_fixture *fixture = *state;
  tdm_tensor *big =
      tdm_tensor_full(fixture->context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 1024, 1024), 0.5);
  tdm_tensor_list *list = tdm_tensor_list_create(fixture->context);
  assert_int_equal(tdm_tensor_list_add(list, "big", big), TDM_OK);
  char path[PATH_BYTES];
  assert_int_equal(tdm_safetensors_save(list, temporary_path(path, "big.safetensors")), TDM_OK);
  tdm_tensor_list_release(list);
  tdm_tensor_release(big);
  const int64_t before = tdm_faulty_allocator_outstanding_bytes(fixture->faulty);
  list = tdm_safetensors_load(fixture->context, path);
  assert_non_null(list);
  assert_true(tdm_faulty_allocator_outstanding_bytes(fixture->faulty) - before < 65536);
  const float *data = tdm_tensor_data(tdm_tensor_list_find(list, "big")); /* (1024, 1024) */
  for (int i = 0; i < 1024 * 1024; i += 1023)
    assert_true(data[i] == 0.5F);
  tdm_tensor_list_release(list);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_dtype_has_a_name),
      cmocka_unit_test_setup_teardown(every_dtype_there_and_back_from_cpu, set_up, tear_down),
      cmocka_unit_test_setup_teardown(every_dtype_there_and_back_from_sim, set_up, tear_down),
      cmocka_unit_test_setup_teardown(names_of_all_kinds_come_back, set_up, tear_down),
      cmocka_unit_test_setup_teardown(legal_headers_are_read, set_up, tear_down),
      cmocka_unit_test_setup_teardown(unaligned_data_is_copied, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_tensor_keeps_the_mapping, set_up, tear_down),
      cmocka_unit_test_setup_teardown(big_data_is_mapped_and_not_copied, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
