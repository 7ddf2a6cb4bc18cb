/* Checkpoints that are damaged, or of another model: the message names the tensor, and session and
 * loader are unchanged. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "tests/checkpoint/support.h"

static tdm_context *context;
static const trainer_options plain = {.device_map = "*=" TEST_KIND ":0", .seed = 987654321};

static int begin_group(void **unused) {
  (void)unused;
  context = graph_context();
  return 0;
}

static int end_group(void **unused) {
  (void)unused;
  tdm_context_release(context);
  return 0;
}

static void save_trained(const trainer_options *options, char *path, const char *name) {
  trainer made = trainer_create(context, options);
  for (int i = 0; i < 3; i++)
    (void)trainer_step(&made);
  assert_ok(tdm_checkpoint_save(made.session, made.loader, checkpoint_path(path, name)));
  trainer_release(&made);
}

/* A trainer after one step must refuse path with this status and these words. */
static void expect_refused(const trainer_options *options, const char *path, tdm_status status,
                           const char *word, const char *other) {
  trainer made = trainer_create(context, options);
  (void)trainer_step(&made);
  tdm_tensor_list *before = state_of(made.session);
  assert_status(tdm_checkpoint_load(made.session, made.loader, path), status);
  assert_message(word);
  assert_message(other);
  tdm_tensor_list *after = state_of(made.session);
  assert_same_state(after, before);
  assert_int_equal(tdm_session_step(made.session), 1);
  int64_t batch;
  tdm_loader_position(made.loader, NULL, &batch);
  assert_int_equal(batch, 1);
  (void)trainer_step(&made);
  tdm_tensor_list_release(before);
  tdm_tensor_list_release(after);
  trainer_release(&made);
}

static char *read_file(const char *path, size_t *out_size) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  char *bytes = malloc(1 << 20);
  *out_size = fread(bytes, 1, 1 << 20, file);
  (void)fclose(file);
  return bytes;
}

static void write_file(const char *path, const char *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  (void)fclose(file);
}

/* Writes a copy of the file in which one bit of a tensor's contents is flipped. */
static void flip(const char *path, const char *damaged, const char *tensor) {
  tdm_tensor_list *list = tdm_safetensors_load(context, path);
  const tdm_tensor *found = tdm_tensor_list_find(list, tensor);
  assert_non_null(found);
  size_t size;
  char *bytes = read_file(path, &size);
  char *at = memmem(bytes, size, tdm_tensor_data(found), tdm_tensor_bytes(found));
  assert_non_null(at);
  at[tdm_tensor_bytes(found) / 2] ^= 4;
  write_file(damaged, bytes, size);
  free(bytes);
  tdm_tensor_list_release(list);
}

static void damage_is_found_and_named(void **unused) {
  (void)unused;
  static const char *const tensors[] = {
      "first.weight",    "norm.running_var",  "optimizer/second.bias/exp_avg_sq",
      "checkpoint/seed", "checkpoint/loader", "checkpoint/optimizer"};
  char path[512], damaged[512];
  save_trained(&plain, path, "good.safetensors");
  checkpoint_path(damaged, "damaged.safetensors");
  for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
    flip(path, damaged, tensors[i]);
    expect_refused(&plain, damaged, TDM_CORRUPT_DATA, tensors[i], "damaged.safetensors");
  }
  size_t size;
  char *bytes = read_file(path, &size);
  write_file(damaged, bytes, size - 5);
  expect_refused(&plain, damaged, TDM_CORRUPT_DATA, "damaged.safetensors", "");
  free(bytes);
  checkpoint_path(damaged, "absent.safetensors");
  expect_refused(&plain, damaged, TDM_UNAVAILABLE, "absent.safetensors", "");
}

static void what_does_not_fit_is_named(void **unused) {
  (void)unused;
  char path[512];
  save_trained(&plain, path, "fits.safetensors");
  const tdm_optimizer sgd = tdm_sgd(0.1);
  trainer_options options = plain;
  options.classes = 5;
  expect_refused(&options, path, TDM_INVALID_ARGUMENT, "second.weight", "[5, 8]");
  options = plain;
  options.optimizer = &sgd;
  expect_refused(&options, path, TDM_INVALID_ARGUMENT, "\"adam\"", "\"sgd\"");
  options = plain;
  options.batch_size = 3;
  expect_refused(&options, path, TDM_INVALID_ARGUMENT, "checkpoint/loader",
                 "batch size was 4, and is 3 here");
  const tdm_optimizer adagrad = tdm_adagrad(0.1);
  options = plain;
  options.optimizer = &adagrad;
  save_trained(&options, path, "fits.safetensors");
  options.has_table = true;
  expect_refused(&options, path, TDM_INVALID_ARGUMENT, "table.weight", "missing");
}

static void other_files_are_no_checkpoints(void **unused) {
  (void)unused;
  char path[512];
  trainer made = trainer_create(context, &plain);
  tdm_tensor_list *state = state_of(made.session);
  assert_ok(tdm_safetensors_save(state, checkpoint_path(path, "plain.safetensors")));
  tdm_tensor_list_release(state);
  expect_refused(&plain, path, TDM_INVALID_ARGUMENT, "no checkpoint", "plain.safetensors");
  assert_ok(tdm_checkpoint_save(made.session, NULL, path));
  expect_refused(&plain, path, TDM_INVALID_ARGUMENT, "checkpoint/loader", "missing");
  assert_status(tdm_checkpoint_load(NULL, NULL, path), TDM_INVALID_ARGUMENT);
  checkpoint_path(path, "no such folder/x");
  assert_true(tdm_checkpoint_save(made.session, NULL, path) != TDM_OK);
  assert_message("no such folder");
  trainer_release(&made);
}

/* Lists without files: one tensor left out, one more, one of another shape. */
static void lists_are_checked_by_name(void **unused) {
  (void)unused;
  trainer made = trainer_create(context, &plain);
  (void)trainer_step(&made);
  tdm_tensor_list *whole;
  assert_ok(tdm_session_save(made.session, &whole));
  static const char *const left_out[] = {"second.bias", "optimizer/first.weight/step",
                                         "norm.num_batches_tracked", "checkpoint/step"};
  for (size_t k = 0; k < sizeof left_out / sizeof left_out[0]; k++) {
    tdm_tensor_list *list = tdm_tensor_list_create(context);
    for (size_t i = 0; i < tdm_tensor_list_count(whole); i++)
      if (strcmp(tdm_tensor_list_name(whole, i), left_out[k]) != 0)
        assert_ok(tdm_tensor_list_add(list, tdm_tensor_list_name(whole, i),
                                      tdm_tensor_list_tensor(whole, i)));
    assert_status(tdm_session_load(made.session, list), TDM_INVALID_ARGUMENT);
    assert_message(left_out[k]);
    assert_message("missing");
    tdm_tensor_list_release(list);
  }
  static const char *const added[] = {"third.weight", "optimizer/third.weight/exp_avg",
                                      "optimizer/first.weight/other"}; /* has the bias's shape */
  trainer fresh = trainer_create(context, &plain);
  for (size_t k = 0; k < sizeof added / sizeof added[0]; k++) {
    tdm_tensor_list *list;
    assert_ok(tdm_session_save(made.session, &list));
    tdm_tensor *tensor = tdm_tensor_list_find(whole, "second.bias");
    assert_ok(tdm_tensor_list_add(list, added[k], tensor));
    assert_status(tdm_session_load(fresh.session, list), TDM_INVALID_ARGUMENT);
    assert_message(added[k]);
    assert_int_equal(tdm_session_step(fresh.session), 0);
    tdm_tensor_list_release(list);
  }
  assert_ok(tdm_session_load(fresh.session, whole));
  assert_int_equal(tdm_session_step(fresh.session), 1);
  tdm_tensor_list_release(whole);
  trainer_release(&fresh);
  trainer_release(&made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(damage_is_found_and_named),
      cmocka_unit_test(what_does_not_fit_is_named),
      cmocka_unit_test(other_files_are_no_checkpoints),
      cmocka_unit_test(lists_are_checked_by_name),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
