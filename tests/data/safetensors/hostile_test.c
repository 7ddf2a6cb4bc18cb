/* Invalid safetensors files: each is refused with its status and a message that names file and
 * field, and no resource is lost. */
#define _GNU_SOURCE /* mkdir, truncate */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/safetensors/safetensors.h"
#include "tests/data/safetensors/files.h"
#include "tests/support/faulty_allocator.h"

typedef struct hostile {
  const char *header;
  size_t data_size;
  tdm_status status;
  const char *message;
} hostile;

static void assert_refused(const data_fixture *fixture, const char *path, tdm_status status,
                           const char *message) {
  const int64_t before = tdm_faulty_allocator_outstanding_bytes(fixture->faulty);
  tdm_tensor_list *list = (tdm_tensor_list *)fixture;
  const tdm_status got = tdm_safetensors_read(fixture->context, path, &list);
  if (got != status)
    fail_msg("\"%s\" expected: %s \"%s\"", message, tdm_status_name(got), tdm_last_message());
  assert_null(list);
  assert_message(path);
  assert_message(message);
  assert_null(tdm_safetensors_load(fixture->context, path));
  assert_message(message);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(fixture->faulty), before);
}

static void assert_table_refused(const data_fixture *fixture, const hostile *table, size_t count) {
  for (size_t i = 0; i < count; i++) {
    char file[FILE_LIMIT];
    char path[PATH_BYTES];
    const size_t header_bytes = strlen(table[i].header);
    const size_t size =
        build_file(file, header_bytes, table[i].header, header_bytes, table[i].data_size);
    assert_refused(fixture, write_file(path, "hostile.safetensors", file, size), table[i].status,
                   table[i].message);
  }
}

#define X(text) "{\"x\":" text "}"
#define CORRUPT TDM_CORRUPT_DATA

static void headers_that_are_no_json(void **state) {
  static const hostile table[] = {
      {"", 0, CORRUPT, "byte 0: expected '{'"},
      {" {}", 0, CORRUPT, "byte 0: expected '{'"},
      {"[]", 0, CORRUPT, "byte 0: expected '{'"},
      {"null", 0, CORRUPT, "byte 0: expected '{'"},
      {"{", 0, CORRUPT, "ends where a string"},
      {"{}}", 0, CORRUPT, "expected the end, found '}'"},
      {"{},", 0, CORRUPT, "expected the end"},
      {"{,}", 0, CORRUPT, "expected a string, found ','"},
      {"{x:1}", 0, CORRUPT, "expected a string, found 'x'"},
      {"{'x':1}", 0, CORRUPT, "expected a string"},
      {"{\"x\"}", 0, CORRUPT, "expected ':'"},
      {"{\"x\":}", 0, CORRUPT, "\"x\": header byte 5: expected '{'"},
      {"{\"x\":1}", 0, CORRUPT, "expected '{', found '1'"},
      {"{\"x\":null}", 0, CORRUPT, "expected '{', found 'n'"},
      {"{\"x\":[]}", 0, CORRUPT, "expected '{', found '['"},
      {"{\"x\":{\"x\":{\"x\":{}}}}", 0, CORRUPT, "unknown field \"x\""},
      {X(FIELDS("U8", "[1]", "[0,1]")) "//", 1, CORRUPT, "expected the end"},
      {"{\"x\":" FIELDS("U8", "[1]", "[0,1]") ",}", 1, CORRUPT, "expected a string, found '}'"},
      {"{\"x\":" FIELDS("U8", "[1]", "[0,1]"), 1, CORRUPT, "ends where ',' or '}'"},
      {"{\"\x01\":{}}", 0, CORRUPT, "control character"},
      {"{\"\xFF\":{}}", 0, CORRUPT, "expected UTF-8, found byte 0xFF"},
      {"{\"\xC0\x80\":{}}", 0, CORRUPT, "expected UTF-8"},
      {"{\"\xED\xA0\x80\":{}}", 0, CORRUPT, "expected UTF-8"},
      {"{\"\\x\":{}}", 0, CORRUPT, "expected an escape"},
      {"{\"\\", 0, CORRUPT, "an escape"},
      {"{\"\\u12", 0, CORRUPT, "hexadecimal"},
      {"{\"\\u00G0\":{}}", 0, CORRUPT, "hexadecimal digit, found 'G'"},
      {"{\"\\u0000\":{}}", 0, CORRUPT, "a zero inside a string"},
      {"{\"\\ud800\":{}}", 0, CORRUPT, "surrogate"},
      {"{\"\\udc00\":{}}", 0, CORRUPT, "surrogate"},
      {"{\"\\ud800\\u0041\":{}}", 0, CORRUPT, "surrogate"},
      {"{\"\\ud800\\ud800\":{}}", 0, CORRUPT, "surrogate"},
      {"{\"\\ud800\\udc0G\":{}}", 0, CORRUPT, "hexadecimal digit, found 'G'"},
      {"{\"never closed", 0, CORRUPT, "the end of a string"},
  };
  assert_table_refused(*state, table, sizeof(table) / sizeof table[0]);
}

static void fields_that_do_not_fit(void **state) {
  static const hostile table[] = {
      {X("{}"), 0, CORRUPT, "\"x\": dtype is missing"},
      {X("{\"dtype\":\"U8\"}"), 0, CORRUPT, "\"x\": shape is missing"},
      {X("{\"dtype\":\"U8\",\"shape\":[1]}"), 1, CORRUPT, "\"x\": data_offsets is missing"},
      {X("{\"dtype\":\"U8\",\"dtype\":\"U8\"}"), 0, CORRUPT, "dtype appears twice"},
      {X("{\"shape\":[],\"shape\":[]}"), 0, CORRUPT, "shape appears twice"},
      {X("{\"data_offsets\":[0,0],\"data_offsets\":[0,0]}"), 0, CORRUPT, "data_offsets appears"},
      {X("{\"colour\":\"red\"}"), 0, CORRUPT, "unknown field \"colour\""},
      {X("{\"a name that is longer than any field's\":1}"), 0, CORRUPT, "unknown field \"a name"},
      {X(FIELDS("Q8", "[1]", "[0,1]")), 1, CORRUPT, "dtype: \"Q8\" is no dtype"},
      {X(FIELDS("float32", "[1]", "[0,4]")), 4, CORRUPT, "dtype: \"float32\""},
      {X(FIELDS("f32", "[1]", "[0,4]")), 4, CORRUPT, "dtype: \"f32\""},
      {X(FIELDS("", "[1]", "[0,1]")), 1, CORRUPT, "dtype: \"\""},
      {X(FIELDS("U8AAAAAAAAAAAAAAAAAAAAAAAAAA", "[1]", "[0,1]")), 1, CORRUPT, "is no dtype"},
      {X(FIELDS("I16", "[1]", "[0,1]")), 1, CORRUPT, "shape [1] of I16 has 2 bytes"},
      {X(FIELDS("F8_E4M3", "[1]", "[0,2]")), 2, CORRUPT, "shape [1] of F8_E4M3 has 1 bytes"},
      {X(FIELDS("F4", "[3]", "[0,2]")), 2, CORRUPT, "[3] of F4, 4 bits each, fills no whole"},
      {X(FIELDS("F6_E2M3", "[4]", "[0,4]")), 4, CORRUPT, "shape [4] of F6_E2M3 has 3 bytes"},
      {X(FIELDS("F4", "[4294967296,4294967296]", "[0,0]")), 0, CORRUPT, "be counted"},
      {X(FIELDS("C64", "[1152921504606846976]", "[0,0]")), 0, CORRUPT, "be counted"},
      {X("{\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]}"), 1, CORRUPT, "dtype: header"},
      {X(FIELDS("U8", "1", "[0,1]")), 1, CORRUPT, "shape: header byte"},
      {X(FIELDS("U8", "{}", "[0,1]")), 1, CORRUPT, "shape: header byte"},
      {X(FIELDS("U8", "[-1]", "[0,1]")), 1, CORRUPT, "whole number, 0 or more, found '-'"},
      {X(FIELDS("U8", "[-0]", "[0,0]")), 0, CORRUPT, "found '-'"},
      {X(FIELDS("U8", "[1.0]", "[0,1]")), 1, CORRUPT, "found '.'"},
      {X(FIELDS("U8", "[1e0]", "[0,1]")), 1, CORRUPT, "found 'e'"},
      {X(FIELDS("U8", "[1E0]", "[0,1]")), 1, CORRUPT, "found 'E'"},
      {X(FIELDS("U8", "[01]", "[0,1]")), 1, CORRUPT, "leading zero"},
      {X(FIELDS("U8", "[0x1]", "[0,1]")), 1, CORRUPT, "found 'x'"},
      {X(FIELDS("U8", "[\"1\"]", "[0,1]")), 1, CORRUPT, "shape: header byte"},
      {X(FIELDS("U8", "[[1]]", "[0,1]")), 1, CORRUPT, "shape: header byte"},
      {X(FIELDS("U8", "[1,]", "[0,1]")), 1, CORRUPT, "found ']'"},
      {X(FIELDS("U8", "[1 1]", "[0,1]")), 1, CORRUPT, "expected ',' or ']'"},
      {X(FIELDS("U8", "[true]", "[0,1]")), 1, CORRUPT, "found 't'"},
      {X(FIELDS("U8", "[9223372036854775808]", "[0,1]")), 1, CORRUPT, "beyond 64 bits"},
      {X(FIELDS("U8", "[99999999999999999999999]", "[0,1]")), 1, CORRUPT, "beyond 64 bits"},
      {X(FIELDS("U8", "[1,1,1,1,1,1,1,1,2]", "[0,1]")), 1, CORRUPT,
       "shape of 9 dimensions of U8 has 2 bytes"},
      {X(FIELDS("U8", "[4294967296,4294967296]", "[0,0]")), 0, CORRUPT, "be counted"},
      {X(FIELDS("F32", "[4611686018427387905]", "[0,4]")), 4, CORRUPT, "be counted"},
      {X(FIELDS("F64", "[9223372036854775807]", "[0,0]")), 0, CORRUPT, "be counted"},
      {X(FIELDS("F32", "[0,2305843009213693952]", "[0,0]")), 0, CORRUPT, "be counted"},
      {X(FIELDS("U8", "[1]", "0")), 1, CORRUPT, "data_offsets: header byte"},
      {X(FIELDS("U8", "[1]", "[]")), 1, CORRUPT, "data_offsets: header byte"},
      {X(FIELDS("U8", "[1]", "[0]")), 1, CORRUPT, "data_offsets: header byte"},
      {X(FIELDS("U8", "[1]", "[0,1,2]")), 1, CORRUPT, "data_offsets: header byte"},
      {X(FIELDS("U8", "[1]", "[0,-1]")), 1, CORRUPT, "data_offsets: header byte"},
      {X(FIELDS("U8", "[1]", "[0,18446744073709551615]")), 1, CORRUPT, "beyond 64 bits"},
  };
  assert_table_refused(*state, table, sizeof(table) / sizeof table[0]);
}

#define TWO(a, b) "{\"a\":" a ",\"b\":" b "}"

static void places_that_do_not_tile(void **state) {
  static const hostile table[] = {
      {"{}", 1, CORRUPT, "a hole before its end"},
      {X(FIELDS("U8", "[1]", "[0,1]")), 2, CORRUPT, "a hole before its end"},
      {X(FIELDS("U8", "[1]", "[1,2]")), 2, CORRUPT,
       "\"x\": data_offsets: begins at 1, leaving a hole"},
      {X(FIELDS("U8", "[2]", "[2,0]")), 2, CORRUPT, "runs backwards"},
      {X(FIELDS("U8", "[2]", "[0,2]")), 1, CORRUPT, "but the data has 1 bytes"},
      {X(FIELDS("U8", "[0]", "[9,9]")), 1, CORRUPT, "but the data has 1 bytes"},
      {X(FIELDS("U8", "[0]", "[9223372036854775807,9223372036854775807]")), 0, CORRUPT,
       "but the data has 0"},
      {X(FIELDS("U8", "[2]", "[0,1]")), 1, CORRUPT, "shape [2] of U8 has 2 bytes"},
      {X(FIELDS("F32", "[1]", "[0,1]")), 1, CORRUPT, "shape [1] of F32 has 4 bytes"},
      {X(FIELDS("U8", "[0]", "[0,1]")), 1, CORRUPT, "shape [0] of U8 has 0 bytes"},
      {X(FIELDS("U8", "[]", "[0,0]")), 0, CORRUPT, "shape [] of U8 has 1 bytes"},
      {TWO(FIELDS("U8", "[2]", "[0,2]"), FIELDS("U8", "[2]", "[1,3]")), 3, CORRUPT, "an overlap"},
      {TWO(FIELDS("U8", "[2]", "[0,2]"), FIELDS("U8", "[2]", "[0,2]")), 2, CORRUPT, "an overlap"},
      {TWO(FIELDS("U8", "[4]", "[0,4]"), FIELDS("U8", "[1]", "[1,2]")), 4, CORRUPT, "an overlap"},
      {TWO(FIELDS("U8", "[1]", "[0,1]"), FIELDS("U8", "[1]", "[2,3]")), 3, CORRUPT, "a hole"},
      {TWO(FIELDS("U8", "[1]", "[1,2]"), FIELDS("U8", "[1]", "[2,3]")), 3, CORRUPT, "a hole"},
      {TWO(FIELDS("U8", "[2]", "[0,2]"), FIELDS("U8", "[0]", "[1,1]")), 2, CORRUPT, "an overlap"},
      {"{\"a\":" FIELDS("U8", "[1]", "[0,1]") ",\"a\":" FIELDS("U8", "[1]", "[1,2]") "}", 2,
       CORRUPT, "the name \"a\" appears twice"},
      {"{\"a\":" FIELDS("U8", "[1]", "[0,1]") ",\"\\u0061\":" FIELDS("U8", "[1]", "[1,2]") "}", 2,
       CORRUPT, "the name \"a\" appears twice"},
      {"{\"__metadata__\":[]}", 0, CORRUPT, "__metadata__: header byte"},
      {"{\"__metadata__\":{\"a\":1}}", 0, CORRUPT, "__metadata__: header byte"},
      {"{\"__metadata__\":{\"a\":{}}}", 0, CORRUPT, "__metadata__: header byte"},
      {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, CORRUPT, "key \"a\" appears twice"},
      {"{\"__metadata__\":{\"a\"", 0, CORRUPT, "__metadata__: the header ends"},
      {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, CORRUPT, "\"__metadata__\" appears twice"},
  };
  assert_table_refused(*state, table, sizeof(table) / sizeof table[0]);
}

static void sizes_of_headers_that_lie(void **state) {
  static const struct {
    uint64_t header_size;
    const char *message;
  } table[] = {
      {3, "header size: 3 bytes, but the file ends after 2: truncated"},
      {100000000, "but the file ends"},
      {100000001, "header size: 100000001 bytes, over 100000000"},
      {UINT64_MAX, "header size: 18446744073709551615 bytes, over"},
      {(uint64_t)1 << 63, "over 100000000"},
      {UINT64_MAX - 7, "over 100000000"},
      {1, "ends where"},
      {0, "expected '{'"},
  };
  for (size_t i = 0; i < sizeof(table) / sizeof table[0]; i++) {
    char file[FILE_LIMIT];
    char path[PATH_BYTES];
    const size_t size = build_file(file, table[i].header_size, "{}", 2, 0);
    assert_refused(*state, write_file(path, "sizes.safetensors", file, size), CORRUPT,
                   table[i].message);
  }
}

static void bools_are_zero_or_one(void **state) {
  static const char header[] = X(FIELDS("BOOL", "[4]", "[0,4]"));
  for (int value = 2; value < 256; value += 23) {
    char file[FILE_LIMIT];
    char path[PATH_BYTES];
    char message[64];
    const size_t size = build_file(file, sizeof header - 1, header, sizeof header - 1, 4);
    file[size - 2] = (char)value;
    (void)snprintf(message, sizeof message, "tensor \"x\": byte 2 is %d, not 0 or 1", value);
    assert_refused(*state, write_file(path, "bool.safetensors", file, size), CORRUPT, message);
  }
}

/* A file that is truncated anywhere, or has bytes after its end, is refused. */
static void no_cut_file_is_read(void **state) {
  const data_fixture *fixture = *state;
  static const char header[] = "{\"__metadata__\":{\"k\":\"v\"},\"a\":" FIELDS(
      "F32", "[2,2]", "[0,16]") ",\"b\":" FIELDS("BOOL", "[3]", "[16,19]") "}";
  char file[FILE_LIMIT];
  char path[PATH_BYTES];
  const size_t size = build_file(file, sizeof header - 1, header, sizeof header - 1, 19);
  for (size_t cut = 0; cut < size; cut++)
    assert_refused(fixture, write_file(path, "cut.safetensors", file, cut), CORRUPT,
                   cut < 8 + sizeof header - 1 ? "truncated" : "but the data has");
  tdm_tensor_list *list =
      tdm_safetensors_load(fixture->context, write_file(path, "cut.safetensors", file, size));
  assert_non_null(list);
  tdm_tensor_list_release(list);
  assert_refused(fixture, write_file(path, "cut.safetensors", file, size + 1), CORRUPT, "a hole");
}

static void paths_that_are_no_files(void **state) {
  const data_fixture *fixture = *state;
  char path[PATH_BYTES];
  assert_refused(fixture, temporary_path(path, "absent.safetensors"), TDM_UNAVAILABLE,
                 "No such file");
  assert_int_equal(mkdir(temporary_path(path, "folder.safetensors"), 0777), 0);
  assert_refused(fixture, path, TDM_IO, "is a directory");
  assert_null(tdm_safetensors_load(fixture->context, NULL));
  assert_message("no path");
  assert_null(tdm_safetensors_load(NULL, path));
}

/* Headers of 2 MB of brackets, names or numbers are refused at the first invalid character, without
 * much memory or stack. */
static void deep_and_long_headers_cost_nothing(void **state) {
  const data_fixture *fixture = *state;
  enum { BYTES = 2000000 };
  static const struct {
    const char *begin, *repeat, *message;
  } table[] = {
      {"{", "{", "expected a string"},
      {"{\"x\":{\"shape\":[", "[", "shape: header byte"},
      {"{\"x\":{\"shape\":[1", ",1", "shape: "},
      {"{\"x\":{\"shape\":[1", "1", "beyond 64 bits"},
      {"{\"x", "x", "the end of a string"},
      {"{\"x\":{\"dtype\":\"", "F", "the end of a string"},
      {"{\"__metadata__\":{\"x\":", "{\"x\":", "__metadata__: header byte"},
      {"{", " ", "ends where a string"},
  };
  char *file = malloc(8 + BYTES);
  assert_non_null(file);
  for (size_t i = 0; i < sizeof(table) / sizeof table[0]; i++) {
    const uint64_t header_size = BYTES;
    for (int j = 0; j < 8; j++)
      file[j] = (char)(header_size >> 8 * j & 0xFF);
    const size_t begin = strlen(table[i].begin);
    const size_t repeat = strlen(table[i].repeat);
    memcpy(file + 8, table[i].begin, begin);
    for (size_t j = 0; j < BYTES - begin; j++)
      file[8 + begin + j] = table[i].repeat[j % repeat];
    char path[PATH_BYTES];
    assert_refused(fixture, write_file(path, "long.safetensors", file, 8 + BYTES), CORRUPT,
                   table[i].message);
  }
  free(file);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(headers_that_are_no_json, set_up, tear_down),
      cmocka_unit_test_setup_teardown(fields_that_do_not_fit, set_up, tear_down),
      cmocka_unit_test_setup_teardown(places_that_do_not_tile, set_up, tear_down),
      cmocka_unit_test_setup_teardown(sizes_of_headers_that_lie, set_up, tear_down),
      cmocka_unit_test_setup_teardown(bools_are_zero_or_one, set_up, tear_down),
      cmocka_unit_test_setup_teardown(no_cut_file_is_read, set_up, tear_down),
      cmocka_unit_test_setup_teardown(paths_that_are_no_files, set_up, tear_down),
      cmocka_unit_test_setup_teardown(deep_and_long_headers_cost_nothing, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
