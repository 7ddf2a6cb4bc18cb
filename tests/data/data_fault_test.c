/* Every allocation of every call fails once, and from there on: an error arrives, nothing leaks,
 * hangs or is overwritten, and what worked before works after. */
#include <stdlib.h>
#include <string.h>

#include "data/dataset.h"
#include "data/safetensors/safetensors.h"
#include "tests/data/safetensors/files.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

/* Does one thing and releases all its resources; returns true if everything succeeded. */
typedef bool (*attempt_function)(tdm_context *context);

/* Lets allocation n fail. Returns true if there was one. */
static bool fails_well(const data_fixture *fixture, attempt_function attempt, uint64_t n,
                       bool from_on) {
  tdm_faulty_allocator *faulty = fixture->faulty;
  const int64_t before = tdm_faulty_allocator_outstanding_bytes(faulty);
  (void)tdm_fail(TDM_INTERNAL, "no message");
  tdm_faulty_allocator_arm(faulty, n, from_on);
  const bool worked = attempt(fixture->context);
  const uint64_t failures = tdm_faulty_allocator_failures(faulty);
  tdm_faulty_allocator_arm(faulty, 0, false);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), before);
  assert_int_equal(worked, failures == 0);
  if (failures > 0) assert_message("out of memory");
  return failures > 0;
}

static void sweep(const data_fixture *fixture, attempt_function attempt) {
  if (!attempt(fixture->context)) fail_msg("without a fault: %s", tdm_last_message());
  for (int from_on = 0; from_on < 2; from_on++) {
    uint64_t n = 1;
    while (fails_well(fixture, attempt, n, from_on))
      n++;
    assert_true(n > 3);
  }
}

static bool read_all(tdm_loader *loader, size_t fields) {
  if (!loader) return false;
  bool worked = true;
  int64_t rows = 1;
  while (worked && rows > 0) {
    tdm_tensor *batch[TDM_DATASET_MAX_FIELDS];
    worked = tdm_loader_next(loader, batch, TDM_DATASET_MAX_FIELDS, &rows) == TDM_OK;
    if (worked && rows > 0) tdm_batch_release(batch, fields);
    if (!worked) assert_true(!batch[0] && rows == 0);
  }
  tdm_loader_release(loader);
  return worked;
}

static bool load_items(tdm_context *context, int prefetch) {
  static const int32_t groups[] = {2, 1, 2, 1, 2, 0, 0, 0, 1, 9, 8, 7};
  int64_t x[12] = {0};
  tdm_tensor *tensor = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(2, 12, 1), x);
  if (!tensor) return false;
  const char *const name = "x";
  tdm_dataset *dataset = tdm_dataset_from_tensors(context, &name, &tensor, 1);
  tdm_tensor_release(tensor);
  if (!dataset) return false;
  const tdm_loader_options options = OPTIONS(tdm_loader_options, o.batch_size = 2, o.shuffle = true,
                                             o.prefetch = prefetch, o.groups = groups);
  tdm_loader *loader = tdm_loader_create(dataset, &options);
  tdm_dataset_release(dataset);
  return read_all(loader, 1);
}

static bool load_in_place(tdm_context *context) {
  return load_items(context, 0);
}

static bool load_ahead(tdm_context *context) {
  return load_items(context, 3);
}

static bool load_file(tdm_context *context) {
  char path[PATH_BYTES];
  tdm_tensor_list *list = tdm_safetensors_load(context, temporary_path(path, "in.safetensors"));
  tdm_tensor_list_release(list);
  return list != NULL;
}

static tdm_tensor_list *list_to_save;

static bool save_file(tdm_context *context) {
  (void)context;
  char path[PATH_BYTES];
  write_text(path, "out.safetensors", "old");
  const bool worked = tdm_safetensors_save(list_to_save, path) == TDM_OK;
  char *contents = read_file(path, NULL);
  assert_int_equal(strcmp(contents, "old") != 0, worked);
  free(contents);
  assert_int_equal(count_files("out.safetensors"), 1);
  return worked;
}

static void loaders_survive(void **state) {
  sweep(*state, load_in_place);
  sweep(*state, load_ahead);
}

static void safetensors_survive(void **state) {
  const data_fixture *fixture = *state;
  static const char header[] =
      "{\"__metadata__\":{\"k\":\"v\"},\"a\":" FIELDS("F32", "[2,2]", "[0,16]") ",\"b\":" FIELDS(
          "BOOL", "[3]", "[16,19]") ",\"c\":" FIELDS("F64", "[1]",
                                                     "[19,27]") ",\"d\":" FIELDS("F64", "[0]",
                                                                                 "[27,27]") "}";
  char file[FILE_LIMIT];
  char path[PATH_BYTES];
  const size_t size = build_file(file, sizeof header - 1, header, sizeof header - 1, 27);
  write_file(path, "in.safetensors", file, size);
  sweep(fixture, load_file);
  list_to_save = tdm_tensor_list_create(fixture->context);
  for (int i = 0; i < 4; i++) {
    char name[] = {(char)('a' + i), '\0'};
    tdm_tensor *tensor = tdm_tensor_zeros(fixture->context, i % 2 ? "sim:0" : "cpu:0", TDM_FLOAT32,
                                          tdm_shape_of(1, 100));
    assert_int_equal(tdm_tensor_list_add(list_to_save, name, tensor), TDM_OK);
    tdm_tensor_release(tensor);
  }
  sweep(fixture, save_file);
  tdm_tensor_list_release(list_to_save);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(loaders_survive, set_up, tear_down),
      cmocka_unit_test_setup_teardown(safetensors_survive, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
