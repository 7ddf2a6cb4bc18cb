/* Mutated headers: the reader never crashes, and accepts exactly what an oracle accepts that is
 * built on another JSON library (jansson). */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "data/safetensors/safetensors.h"
#include "tests/data/safetensors/files.h"
#include "tests/support/faulty_allocator.h"

enum { MUTATIONS = 20000, HEADER_LIMIT = 2048, DATA_BYTES = 49 };

static const char *const seeds[] = {
    "{\"__metadata__\":{\"format\":\"pt\",\"by\":\"t\\u00e9st\"},\"rnn.weight_ih\":" FIELDS(
        "F32", "[2,3]",
        "[0,24]") ",\"rnn.bias\":" FIELDS("F64", "[2]",
                                          "[24,40]") ",\"mask\":" FIELDS("BOOL", "[9]",
                                                                         "[40,49]") "}    ",
    "{\"a\":" FIELDS("U8", "[0,7]", "[0,0]") ",\"b\":" FIELDS(
        "I64", "[]",
        "[9,17]") ",\"c\":" FIELDS("BF16", "[4,2,2]",
                                   "[17,49]") ",\"gr\xC3\xBC\xC3\x9F\\n\":" FIELDS("U8", "[9]",
                                                                                   "[0,9]") "}",
    "{\"scale\":" FIELDS("F4", "[2,3]", "[0,3]") ",\"w\":" FIELDS(
        "F6_E2M3", "[8]", "[3,9]") ",\"b\":" FIELDS("C64", "[5]", "[9,49]") "}",
    "{\"x\":" FIELDS("U16", "[4,1,1,1,1,1,1,1,1,1,3,2]", "[1,49]") ",\"y\":" FIELDS("F8_E4M3", "[]",
                                                                                    "[0,1]") "}",
    "{ \"x\" : {\"shape\": [1, 7, 1, 7, 1, 1], \"data_offsets\": [ 0 , 49 ], \"dtype\": \"U8\"} }",
};

/* ---- The oracle --------------------------------------------------------------------------------
 */

typedef struct place {
  long long begin, end;
} place;

static int dtype_bits(const char *name) {
  static const char *const names[] = {"F32", "F64",     "I32",     "I64", "U8",  "BOOL",
                                      "F16", "BF16",    "F4",      "C64", "I16", "F8_E4M3",
                                      "I8",  "F6_E2M3", "F8_E8M0", "U16", "U32", "U64"};
  static const int bits[] = {32, 64, 32, 64, 8, 8, 16, 16, 4, 64, 16, 8, 8, 6, 8, 16, 32, 64};
  for (size_t i = 0; name && i < TDM_COUNT_OF(names); i++)
    if (strcmp(name, names[i]) == 0) return bits[i];
  return 0;
}

/* Returns true if the fields describe a tensor, without comparing it with other tensors. */
static bool is_tensor(const json_t *fields, place *out_place) {
  const json_t *shape = json_object_get(fields, "shape");
  const json_t *offsets = json_object_get(fields, "data_offsets");
  const int bits = dtype_bits(json_string_value(json_object_get(fields, "dtype")));
  if (json_object_size(fields) != 3 || bits == 0 || !json_is_array(shape) ||
      !json_is_array(offsets) || json_array_size(offsets) != 2) {
    return false;
  }
  bool has_zero = false;
  bool is_huge = false;
  __int128 bytes = bits; /* bits, up to the end */
  for (size_t i = 0; i < json_array_size(shape); i++) {
    const json_t *dim = json_array_get(shape, i);
    if (!json_is_integer(dim) || json_integer_value(dim) < 0) return false;
    has_zero = has_zero || json_integer_value(dim) == 0;
    if (!has_zero && !is_huge) bytes *= json_integer_value(dim);
    is_huge = is_huge || bytes / 8 > INT64_MAX;
  }
  if (has_zero) bytes = 0;
  if ((is_huge && !has_zero) || bytes % 8 != 0) return false;
  bytes /= 8;
  for (size_t i = 0; i < 2; i++)
    if (!json_is_integer(json_array_get(offsets, i))) return false;
  out_place->begin = json_integer_value(json_array_get(offsets, 0));
  out_place->end = json_integer_value(json_array_get(offsets, 1));
  return out_place->begin >= 0 && out_place->begin <= out_place->end &&
         out_place->end - out_place->begin == bytes;
}

static bool is_metadata(json_t *metadata) {
  const char *key = NULL;
  json_t *value = NULL;
  if (!json_is_object(metadata)) return false;
  json_object_foreach(metadata, key, value) {
    if (!json_is_string(value)) return false;
  }
  return true;
}

static int compare_places(const void *left, const void *right) {
  const place *a = left;
  const place *b = right;
  if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
  return a->end < b->end ? -1 : a->end > b->end;
}

static bool is_header(json_t *root) {
  place places[HEADER_LIMIT];
  size_t count = 0;
  const char *key = NULL;
  json_t *value = NULL;
  if (!json_is_object(root)) return false;
  json_object_foreach(root, key, value) {
    if (strcmp(key, "__metadata__") == 0) {
      if (!is_metadata(value)) return false;
    } else if (!is_tensor(value, &places[count++])) {
      return false;
    }
  }
  qsort(places, count, sizeof *places, compare_places);
  long long reached = 0;
  for (size_t i = 0; i < count; i++) {
    if (places[i].begin != reached) return false;
    reached = places[i].end;
  }
  return reached == DATA_BYTES;
}

static bool oracle_accepts(const char *header, size_t bytes) {
  if (bytes == 0 || header[0] != '{') return false;
  json_t *root = json_loadb(header, bytes, JSON_REJECT_DUPLICATES, NULL);
  const bool accepts = root && is_header(root);
  json_decref(root);
  return accepts;
}

/* ---- Mutations ---------------------------------------------------------------------------------
 */

static uint32_t draw(uint64_t *state, uint32_t bound) {
  const tdm_random random = {.seed = 20, .stream = 24};
  return tdm_random_uint32(&random, (*state)++) % bound;
}

static void replace(char *header, size_t *bytes, size_t at, size_t removed, const char *text,
                    size_t added) {
  if (*bytes - removed + added > HEADER_LIMIT) return;
  memmove(header + at + added, header + at + removed, *bytes - at - removed);
  memcpy(header + at, text, added);
  *bytes = *bytes - removed + added;
}

static void mutate(char *header, size_t *bytes, uint64_t *state) {
  static const char *const pieces[] = {"{",
                                       "}",
                                       "[",
                                       "]",
                                       ":",
                                       ",",
                                       "\"",
                                       "\\",
                                       "0",
                                       "1",
                                       "9",
                                       "-",
                                       ".",
                                       "e5",
                                       "null",
                                       "true",
                                       "\n",
                                       " ",
                                       "\t",
                                       "24",
                                       "49",
                                       "F32",
                                       "U8",
                                       "F4",
                                       "F6_E2M3",
                                       "F8_E4M3",
                                       "I16",
                                       "[]",
                                       "{}",
                                       "\\u00",
                                       "\"a\"",
                                       "\\ud83d",
                                       "\xC3",
                                       "\xA9",
                                       "\x80",
                                       "\xFF",
                                       "\x01",
                                       "9223372036854775807",
                                       "18446744073709551616",
                                       "\"dtype\":\"U8\",",
                                       "[0,0]",
                                       "\"shape\":[]"};
  const uint32_t kind = draw(state, 6);
  if (*bytes == 0) return;
  const size_t at = draw(state, (uint32_t)*bytes);
  size_t length = 1 + draw(state, 40);
  if (length > *bytes - at) length = *bytes - at;
  if (kind == 0) header[at] = (char)draw(state, 256);
  if (kind == 1) replace(header, bytes, at, 1, "", 0);
  if (kind == 2 || kind == 3) {
    const char *piece = pieces[draw(state, (uint32_t)TDM_COUNT_OF(pieces))];
    replace(header, bytes, at, kind == 2 ? 0 : 1, piece, strlen(piece));
  }
  if (kind == 4) { /* a stretch appears again somewhere */
    char copy[64];
    memcpy(copy, header + at, length);
    replace(header, bytes, draw(state, (uint32_t)*bytes), 0, copy, length);
  }
  if (kind == 5) replace(header, bytes, at, length, "", 0);
}

/* jansson takes "-0" for 0; the format's reference reader does not, nor do we. */
static bool has_minus_zero(const char *header, size_t bytes) {
  for (size_t i = 0; i + 1 < bytes; i++)
    if (header[i] == '-' && header[i + 1] == '0') return true;
  return false;
}

static void mutated_headers_agree_with_the_oracle(void **state) {
  (void)state;
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  uint64_t drawn = 0;
  int accepted = 0;
  for (int i = 0; i < MUTATIONS; i++) {
    char header[HEADER_LIMIT];
    const char *seed = seeds[(size_t)i % TDM_COUNT_OF(seeds)];
    size_t bytes = 0;
    replace(header, &bytes, 0, 0, seed, strlen(seed));
    const uint32_t count = draw(&drawn, 4); /* 0 mutations now and then: the seed itself */
    for (uint32_t j = 0; j < count; j++)
      mutate(header, &bytes, &drawn);
    /* A separate block, so that a sanitizer detects a read past the end. */
    char *exact = malloc(bytes + (bytes == 0));
    assert_non_null(exact);
    memcpy(exact, header, bytes);
    tdm_safetensors_header parsed;
    const bool theirs = oracle_accepts(exact, bytes);
    const tdm_status status = tdm_safetensors_parse(&parsed, &allocator, exact, bytes, DATA_BYTES);
    const bool ours = status == TDM_OK;
    if (ours != theirs && !has_minus_zero(header, bytes)) {
      fail_msg("mutation %d: we %s %.*s", i, ours ? "accept" : tdm_last_message(), (int)bytes,
               header);
    }
    if (!ours) assert_true(status == TDM_CORRUPT_DATA || status == TDM_UNSUPPORTED);
    accepted += ours;
    tdm_safetensors_header_deinit(&parsed);
    free(exact);
    assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
  }
  tdm_faulty_allocator_destroy(faulty);
  /* Both sides were seen, and not by a hair. */
  assert_true(accepted > MUTATIONS / 5 && accepted < MUTATIONS * 4 / 5);
}

/* Mutates files, including the size field and the data. */
static void mutated_files_never_crash(void **state) {
  const data_fixture *fixture = *state;
  uint64_t drawn = (uint64_t)1 << 40;
  int accepted = 0;
  for (int i = 0; i < 1000; i++) {
    char file[FILE_LIMIT];
    char path[PATH_BYTES];
    const char *seed = seeds[(size_t)i % TDM_COUNT_OF(seeds)];
    size_t size = build_file(file, strlen(seed), seed, strlen(seed), DATA_BYTES);
    const uint32_t count = draw(&drawn, 3);
    for (uint32_t j = 0; j < count; j++) {
      const size_t at = draw(&drawn, j == 0 ? (uint32_t)size : 8);
      file[at] = (char)draw(&drawn, 256);
    }
    if (draw(&drawn, 4) == 0) size -= draw(&drawn, 16);
    write_file(path, "fuzz.safetensors", file, size);
    tdm_tensor_list *list = tdm_safetensors_load(fixture->context, path);
    accepted += list != NULL;
    for (size_t j = 0; j < tdm_tensor_list_count(list); j++) {
      const tdm_tensor *tensor = tdm_tensor_list_tensor(list, j);
      if (!tensor) assert_int_equal(tdm_last_status(), TDM_UNSUPPORTED);
      if (!tensor) continue;
      char copy[DATA_BYTES];
      assert_true(tdm_tensor_bytes(tensor) <= DATA_BYTES);
      assert_int_equal(tdm_tensor_read(tensor, copy, tdm_tensor_bytes(tensor)), TDM_OK);
    }
    tdm_tensor_list_release(list);
  }
  assert_true(accepted > 100 && accepted < 900);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(mutated_headers_agree_with_the_oracle),
      cmocka_unit_test_setup_teardown(mutated_files_never_crash, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
