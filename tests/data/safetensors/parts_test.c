/* Safetensors in several files. Tensors that are saved by size load unchanged, earlier files stay
 * until the new ones are complete, and inconsistent indexes are refused by name. */
#define _GNU_SOURCE /* mkdtemp, pthread_barrier_t */
#include <dirent.h>
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/status.h"
#include "data/safetensors/parts.h"
#include "tests/data/safetensors/files.h"

enum { TENSORS = 5, ELEMENTS = 10, ROUNDS = 30 };

/* Creates a separate folder for each test. */
static const char *new_folder(void) {
  static char folder[PATH_BYTES];
  (void)temporary_path(folder, "parts_XXXXXX");
  assert_non_null(mkdtemp(folder));
  return folder;
}

static const char *within(const char *folder, const char *name) {
  static char paths[4][2 * PATH_BYTES];
  static int used;
  char *path = paths[used++ % 4];
  (void)snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

/* t0, t1, ... of ten floats each, that begin with `first` and grow by 1. */
static tdm_tensor_list *make_list(const data_fixture *fixture, int count, float first) {
  tdm_tensor_list *list = tdm_tensor_list_create(fixture->context);
  for (int i = 0; i < count; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "t%d", i);
    tdm_tensor *tensor = tdm_tensor_full(fixture->context, "cpu:0", TDM_FLOAT32,
                                         tdm_shape_of(1, ELEMENTS), first + (float)i);
    assert_int_equal(tdm_tensor_list_add(list, name, tensor), TDM_OK);
    tdm_tensor_release(tensor);
  }
  return list;
}

static void expect_list(const tdm_tensor_list *list, int count, float first) {
  if (!list) fail_msg("%s", tdm_last_message());
  assert_int_equal(tdm_tensor_list_count(list), count);
  for (int i = 0; i < count; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "t%d", i);
    const tdm_tensor *tensor = tdm_tensor_list_find(list, name);
    assert_non_null(tensor);
    const float *values = tdm_tensor_data(tensor);
    for (int k = 0; k < ELEMENTS; k++)
      assert_true(values[k] == first + (float)i);
  }
}

static int files_in(const char *folder) {
  DIR *open = opendir(folder);
  assert_non_null(open);
  int count = 0;
  for (const struct dirent *entry = readdir(open); entry; entry = readdir(open))
    count += entry->d_name[0] != '.';
  assert_int_equal(closedir(open), 0);
  return count;
}

static void save_parts(const data_fixture *fixture, const char *path, int count, float first,
                       int64_t part_bytes) {
  tdm_tensor_list *list = make_list(fixture, count, first);
  if (tdm_safetensors_save_parts(list, path, part_bytes) != TDM_OK)
    fail_msg("%s", tdm_last_message());
  tdm_tensor_list_release(list);
}

static void expect_loaded(const data_fixture *fixture, const char *path, int count, float first) {
  tdm_tensor_list *list = tdm_safetensors_load(fixture->context, path);
  expect_list(list, count, first);
  tdm_tensor_list_release(list);
  list = tdm_safetensors_map(fixture->context, path);
  expect_list(list, count, first);
  tdm_tensor_list_release(list);
}

static void write_index(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

/* ---- Saving ---------------------------------------------------------------------------------- */

/* The convention's names, sizes and index, as another JSON library reads them. */
static void parts_are_those_of_the_convention(void **state) {
  const data_fixture *fixture = *state;
  const char *folder = new_folder();
  char path[2 * PATH_BYTES];
  (void)snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
  save_parts(fixture, path, TENSORS, 1, 2 * ELEMENTS * 4);
  assert_int_equal(files_in(folder), 4);
  json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
  assert_non_null(root);
  assert_int_equal(
      json_integer_value(json_object_get(json_object_get(root, "metadata"), "total_size")),
      TENSORS * ELEMENTS * 4);
  json_t *map = json_object_get(root, "weight_map");
  assert_int_equal(json_object_size(map), TENSORS);
  assert_string_equal(json_string_value(json_object_get(map, "t0")),
                      "model-00001-of-00003.safetensors");
  assert_string_equal(json_string_value(json_object_get(map, "t1")),
                      "model-00001-of-00003.safetensors");
  assert_string_equal(json_string_value(json_object_get(map, "t4")),
                      "model-00003-of-00003.safetensors");
  json_decref(root);
  expect_loaded(fixture, path, TENSORS, 1);
}

/* A tensor that is larger than a part has one for itself; a large limit makes one file. */
static void every_limit_gives_the_same_tensors(void **state) {
  const data_fixture *fixture = *state;
  static const int64_t limits[] = {1, 40, 79, 80, 81, 120, 1000000};
  static const int files[] = {6, 6, 6, 4, 4, 3, 2};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    const char *folder = new_folder();
    const char *path = within(folder, "x.safetensors.index.json");
    save_parts(fixture, path, TENSORS, 2, limits[i]);
    assert_int_equal(files_in(folder), files[i]);
    expect_loaded(fixture, path, TENSORS, 2);
  }
}

/* Only by the name, as for states and checkpoints. */
static void a_path_of_an_index_saves_parts(void **state) {
  const data_fixture *fixture = *state;
  const char *folder = new_folder();
  const char *path = within(folder, "x.safetensors.index.json");
  tdm_tensor_list *list = make_list(fixture, 2, 3);
  assert_int_equal(tdm_safetensors_save(list, path), TDM_OK);
  tdm_tensor_list_release(list);
  assert_int_equal(files_in(folder), 2);
  expect_loaded(fixture, path, 2, 3);
}

/* The new set has other names, and the old one's files are deleted once it is complete. Files that
 * only resemble them, or belong to another set, stay. */
static void a_set_replaces_the_one_before(void **state) {
  const data_fixture *fixture = *state;
  const char *folder = new_folder();
  const char *path = within(folder, "x.safetensors.index.json");
  save_parts(fixture, path, TENSORS, 1, 40);
  save_parts(fixture, within(folder, "y.safetensors.index.json"), 2, 5, 40);
  assert_int_equal(files_in(folder), 6 + 3);
  save_parts(fixture, path, TENSORS, 7, 40);
  assert_int_equal(files_in(folder), 6 + 3);
  assert_int_not_equal(access(within(folder, "x-00001-of-00005.safetensors"), F_OK), 0);
  expect_loaded(fixture, path, TENSORS, 7);
  save_parts(fixture, path, 1, 9, 40);
  expect_loaded(fixture, path, 1, 9);
  expect_loaded(fixture, within(folder, "y.safetensors.index.json"), 2, 5);
}

/* Parts that cannot be written: the old set stays whole, and no other file is left. */
static void a_save_that_fails_leaves_the_old_set(void **state) {
  const data_fixture *fixture = *state;
  const char *folder = new_folder();
  const char *path = within(folder, "x.safetensors.index.json");
  save_parts(fixture, path, TENSORS, 1, 40);
  tdm_tensor_list *list = make_list(fixture, TENSORS, 4);
  tdm_tensor *wrong =
      tdm_tensor_full(fixture->context, "cpu:0", TDM_FLOAT32, tdm_shape_of(1, ELEMENTS), 1);
  assert_int_equal(tdm_tensor_list_add(list, "__metadata__", wrong), TDM_OK);
  tdm_tensor_release(wrong);
  assert_int_equal(tdm_safetensors_save_parts(list, path, 40), TDM_INVALID_ARGUMENT);
  assert_non_null(strstr(tdm_last_message(), "__metadata__"));
  tdm_tensor_list_release(list);
  assert_int_equal(files_in(folder), 6);
  expect_loaded(fixture, path, TENSORS, 1);
}

/* One of two threads that save to one path. */
typedef struct saver {
  const char *path;
  tdm_tensor_list *list;
  pthread_barrier_t *begin;
  tdm_status status;
} saver;

static void *save_beside(void *user) {
  saver *self = user;
  (void)pthread_barrier_wait(self->begin);
  self->status = tdm_safetensors_save_parts(self->list, self->path, 40);
  return NULL;
}

static void saves_beside_one_another_are_not_mixed(void **state) {
  const data_fixture *fixture = *state;
  char path[2 * PATH_BYTES];
  (void)snprintf(path, sizeof path, "%s/x.safetensors.index.json", new_folder());
  pthread_barrier_t begin;
  assert_int_equal(pthread_barrier_init(&begin, NULL, 2), 0);
  for (int round = 0; round < ROUNDS; round++) {
    saver savers[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
      savers[i] = (saver){path, make_list(fixture, TENSORS, i ? 200 : 100), &begin, TDM_OK};
      assert_int_equal(pthread_create(&threads[i], NULL, save_beside, &savers[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
      assert_int_equal(pthread_join(threads[i], NULL), 0);
      assert_int_equal(savers[i].status, TDM_OK);
      tdm_tensor_list_release(savers[i].list);
    }
    tdm_tensor_list *list = tdm_safetensors_load(fixture->context, path);
    if (!list) fail_msg("round %d: %s", round, tdm_last_message());
    const float *first = tdm_tensor_data(tdm_tensor_list_find(list, "t0"));
    expect_list(list, TENSORS, first[0]);
    tdm_tensor_list_release(list);
  }
  assert_int_equal(pthread_barrier_destroy(&begin), 0);
}

/* An existing file that is no index does not fail the save. */
static void an_index_that_cannot_be_read_is_replaced(void **state) {
  const data_fixture *fixture = *state;
  const char *path = within(new_folder(), "x.safetensors.index.json");
  write_index(path, "no index");
  (void)tdm_fail(TDM_CORRUPT_DATA, "what failed before");
  save_parts(fixture, path, 2, 3, 40);
  assert_string_equal(tdm_last_message(), "what failed before");
  expect_loaded(fixture, path, 2, 3);
}

static void what_is_no_set_is_refused(void **state) {
  const data_fixture *fixture = *state;
  const char *folder = new_folder();
  tdm_tensor_list *list = make_list(fixture, 1, 1);
  tdm_tensor_list *empty = tdm_tensor_list_create(fixture->context);
  assert_int_equal(tdm_safetensors_save_parts(list, within(folder, "x.safetensors"), 10),
                   TDM_INVALID_ARGUMENT);
  assert_int_equal(tdm_safetensors_save_parts(list, within(folder, "x.safetensors.index.json"), 0),
                   TDM_INVALID_ARGUMENT);
  assert_int_equal(tdm_safetensors_save_parts(list, within(folder, ".safetensors.index.json"), 10),
                   TDM_INVALID_ARGUMENT);
  assert_int_equal(tdm_safetensors_save_parts(list, NULL, 10), TDM_INVALID_ARGUMENT);
  assert_int_equal(tdm_safetensors_save_parts(NULL, "x", 10), TDM_INVALID_ARGUMENT);
  assert_int_equal(
      tdm_safetensors_save_parts(empty, within(folder, "x.safetensors.index.json"), 10),
      TDM_INVALID_ARGUMENT);
  tdm_tensor_list_release(list);
  tdm_tensor_list_release(empty);
  assert_int_equal(files_in(folder), 0);
}

/* ---- Loading --------------------------------------------------------------------------------- */

/* The folder contains a.safetensors with t0, and b.safetensors with t1. */
static void indexes_that_lie_are_refused(void **state) {
  const data_fixture *fixture = *state;
  static const struct {
    const char *text;
    const char *words;
  } cases[] = {
      {"", "is no JSON"},
      {"[]", "weight_map"},
      {"{}", "weight_map"},
      {"{\"weight_map\": 3}", "weight_map"},
      {"{\"weight_map\": {\"t0\": 3}}", "the file of \"t0\" is no text"},
      {"{\"weight_map\": {\"t0\": \"../a.safetensors\"}}",
       "is not the name of a .safetensors file"},
      {"{\"weight_map\": {\"t0\": \"/etc/passwd\"}}", "is not the name of a .safetensors file"},
      {"{\"weight_map\": {\"t0\": \"x/a.safetensors\"}}", "is not the name of a .safetensors file"},
      {"{\"weight_map\": {\"t0\": \".safetensors\"}}", "is not the name of a .safetensors file"},
      {"{\"weight_map\": {\"t0\": \"\"}}", "is not the name of a .safetensors file"},
      {"{\"weight_map\": {\"t0\": \"a\"}}", "is not the name of a .safetensors file"},
      {"{\"weight_map\": {\"t0\": \"gone.safetensors\"}}", "gone.safetensors"},
      {"{\"weight_map\": {\"t0\": \"b.safetensors\"}}",
       "tensor \"t1\" is in b.safetensors, and by the index in no file"},
      {"{\"weight_map\": {\"t0\": \"a.safetensors\", \"t1\": \"a.safetensors\"}}",
       "tensor \"t1\" is not in a.safetensors"},
      {"{\"weight_map\": {\"t0\": \"b.safetensors\", \"t1\": \"a.safetensors\"}}",
       "tensor \"t1\" is in b.safetensors, and by the index in a.safetensors"},
      {"{\"weight_map\": {\"t0\": \"a.safetensors\", \"t0\": \"a.safetensors\"}}", "is no JSON"},
  };
  const char *folder = new_folder();
  const char *names[] = {"a.safetensors", "b.safetensors"};
  for (int i = 0; i < 2; i++) {
    tdm_tensor_list *all = make_list(fixture, 2, 0);
    tdm_tensor_list *list = tdm_tensor_list_create(fixture->context);
    assert_int_equal(tdm_tensor_list_add(list, tdm_tensor_list_name(all, (size_t)i),
                                         tdm_tensor_list_tensor(all, (size_t)i)),
                     TDM_OK);
    assert_int_equal(tdm_safetensors_save(list, within(folder, names[i])), TDM_OK);
    tdm_tensor_list_release(list);
    tdm_tensor_list_release(all);
  }
  const char *path = within(folder, "x.safetensors.index.json");
  char kept[2 * PATH_BYTES];
  (void)snprintf(kept, sizeof kept, "%s", path);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    write_index(kept, cases[i].text);
    assert_null(tdm_safetensors_load(fixture->context, kept));
    if (!strstr(tdm_last_message(), cases[i].words) ||
        !strstr(tdm_last_message(), "x.safetensors.index.json"))
      fail_msg("case %zu: %s", i, tdm_last_message());
  }
  write_index(kept, "{\"weight_map\": {\"t1\": \"b.safetensors\", \"t0\": \"a.safetensors\"}}");
  expect_loaded(fixture, kept, 2, 0);
  assert_null(tdm_safetensors_load(fixture->context, within(folder, "no.safetensors.index.json")));
  assert_null(tdm_safetensors_load(NULL, kept));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(parts_are_those_of_the_convention, set_up, tear_down),
      cmocka_unit_test_setup_teardown(every_limit_gives_the_same_tensors, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_path_of_an_index_saves_parts, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_set_replaces_the_one_before, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_save_that_fails_leaves_the_old_set, set_up, tear_down),
      cmocka_unit_test_setup_teardown(saves_beside_one_another_are_not_mixed, set_up, tear_down),
      cmocka_unit_test_setup_teardown(an_index_that_cannot_be_read_is_replaced, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_is_no_set_is_refused, set_up, tear_down),
      cmocka_unit_test_setup_teardown(indexes_that_lie_are_refused, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
