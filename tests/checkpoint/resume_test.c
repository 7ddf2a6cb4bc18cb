/* Training that continues from a checkpoint has the bits of uninterrupted training: losses,
 * parameters, states and statistics, in plain, mixed, wrapped and micro-batched models. */
#include "tests/checkpoint/support.h"
#include "tests/graph/group.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

enum { BEFORE = 4, AFTER = 9 }; /* steps; an epoch has six */

static const trainer_options varieties[] = {
    {.device_map = "*=cpu:0", .seed = 3, .prefetch = 3},
    {.device_map = "*=" TEST_KIND ":0", .seed = 3},
    {.device_map = "first=cpu:0,*=" TEST_KIND ":0", .seed = 3, .micro_batches = 2},
    {.seed = 3, .wrapped = "cpu:0," TEST_KIND ":0"},
    {.device_map = "table=cpu:0,*=" TEST_KIND ":0", .seed = 3, .has_table = true, .prefetch = 2},
};

static void go_on(trainer *made, double *out_losses) {
  for (int i = 0; i < AFTER; i++)
    out_losses[i] = trainer_step(made);
}

/* Returns true if the bits are equal. */
static bool same_loss(double a, double b) {
  uint64_t bits[2];
  memcpy(&bits[0], &a, sizeof a);
  memcpy(&bits[1], &b, sizeof b);
  return bits[0] == bits[1];
}

static void assert_same_losses(const double *a, const double *b) {
  for (int i = 0; i < AFTER; i++)
    if (!same_loss(a[i], b[i])) fail_msg("step %d: loss %.17g, not %.17g", i, a[i], b[i]);
}

static void assert_same_trainers(trainer *a, trainer *b) {
  tdm_tensor_list *mine = state_of(a->session);
  tdm_tensor_list *other = state_of(b->session);
  assert_same_state(mine, other);
  tdm_tensor_list_release(mine);
  tdm_tensor_list_release(other);
  assert_int_equal(tdm_session_step(a->session), tdm_session_step(b->session));
}

static void check_variety(const trainer_options *options) {
  char path[512];
  double losses[AFTER], resumed[AFTER];
  checkpoint_path(path, "resume.safetensors");
  trainer whole = trainer_create(context, options);
  for (int i = 0; i < BEFORE; i++)
    (void)trainer_step(&whole);
  assert_ok(tdm_session_set_learning_rate(whole.session, 0.01));
  if (!options->has_table) assert_ok(tdm_session_set_momentum(whole.session, 0.6));
  assert_ok(tdm_checkpoint_save(whole.session, whole.loader, path));
  go_on(&whole, losses);

  trainer_options others =
      *options; /* the seed comes from the checkpoint; prefetch does not matter */
  others.seed = 77;
  others.prefetch = 1;
  trainer later = trainer_create(context, &others);
  assert_ok(tdm_checkpoint_load(later.session, later.loader, path));
  assert_int_equal(tdm_session_step(later.session), BEFORE);
  uint64_t epoch;
  int64_t batch;
  tdm_loader_position(later.loader, &epoch, &batch);
  assert_int_equal(epoch, 0);
  assert_int_equal(batch, BEFORE);
  go_on(&later, resumed);
  assert_same_losses(resumed, losses);
  assert_same_trainers(&later, &whole);

  /* returns to an earlier position */
  assert_ok(tdm_checkpoint_load(whole.session, whole.loader, path));
  go_on(&whole, resumed);
  assert_same_losses(resumed, losses);
  assert_same_trainers(&later, &whole);
  trainer_release(&later);
  trainer_release(&whole);
}

static void every_variety_goes_on_bitwise(void **unused) {
  (void)unused;
  for (size_t i = 0; i < sizeof varieties / sizeof varieties[0]; i++)
    check_variety(&varieties[i]);
}

/* States that are smaller than their parameter, for a session that has none of them yet. */
static void states_of_rows_and_columns_go_on(void **unused) {
  (void)unused;
  char path[512];
  double losses[AFTER], resumed[AFTER];
  checkpoint_path(path, "factored.safetensors");
  const tdm_optimizer optimizer = tdm_adafactor(0.1);
  trainer_options options = varieties[0];
  options.optimizer = &optimizer;
  trainer whole = trainer_create(context, &options);
  for (int i = 0; i < BEFORE; i++)
    (void)trainer_step(&whole);
  assert_ok(tdm_checkpoint_save(whole.session, whole.loader, path));
  go_on(&whole, losses);
  trainer later = trainer_create(context, &options);
  assert_ok(tdm_checkpoint_load(later.session, later.loader, path));
  go_on(&later, resumed);
  assert_same_losses(resumed, losses);
  assert_same_trainers(&later, &whole);
  trainer_release(&later);
  trainer_release(&whole);
}

/* Checks that results depend on the contents of a checkpoint; otherwise the test above could not
 * fail. */
static void what_is_kept_matters(void **unused) {
  (void)unused;
  char path[512];
  double losses[AFTER], others[AFTER];
  checkpoint_path(path, "matters.safetensors");
  trainer whole = trainer_create(context, &varieties[1]);
  for (int i = 0; i < BEFORE; i++)
    (void)trainer_step(&whole);
  assert_ok(tdm_checkpoint_save(whole.session, whole.loader, path));
  go_on(&whole, losses);
  for (int without = 0; without < 2; without++) {
    trainer later = trainer_create(context, &varieties[1]);
    assert_ok(tdm_checkpoint_load(later.session, without == 0 ? NULL : later.loader, path));
    if (without == 1) { /* the parameters, but not the step */
      tdm_tensor_list *state = state_of(later.session);
      trainer_release(&later);
      later = trainer_create(context, &varieties[1]);
      assert_ok(tdm_store_load(tdm_session_store(later.session), state));
      assert_ok(tdm_loader_start_at(later.loader, 0, BEFORE));
      tdm_tensor_list_release(state);
    }
    go_on(&later, others);
    int same = 0;
    for (int i = 0; i < AFTER; i++)
      same += same_loss(others[i], losses[i]);
    assert_true(same < AFTER);
    trainer_release(&later);
  }
  trainer_release(&whole);
}

/* A load that fails returns no list. */
static void a_load_that_fails_keeps_no_memory(void **unused) {
  (void)unused;
  tdm_faulty_allocator *counted = tdm_faulty_allocator_create();
  const tdm_allocator allocator = tdm_faulty_allocator_view(counted);
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.allocator = &allocator, o.cpu_devices = 1);
  tdm_context *own = tdm_context_create(&options);
  assert_non_null(own);
  tdm_session *session = run_session(seed_graph(own, NULL, NULL, NULL), NULL);
  tdm_tensor_list *back = NULL;
  assert_status(tdm_checkpoint_load_with(session, NULL, "/nowhere", &back), TDM_UNAVAILABLE);
  assert_null(back);
  tdm_session_release(session);
  tdm_context_release(own);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(counted), 0);
  tdm_faulty_allocator_destroy(counted);
}

static void what_is_the_callers_own_comes_back(void **unused) {
  (void)unused;
  char path[512];
  checkpoint_path(path, "own.safetensors");
  trainer made = trainer_create(context, &varieties[0]);
  const double sums[] = {0.1, 1.0 / 3};
  tdm_tensor *tensor = tdm_tensor_from(context, TDM_FLOAT64, tdm_shape_of(1, 2), sums);
  tdm_tensor_list *own = tdm_tensor_list_create(context);
  assert_ok(tdm_tensor_list_add(own, "sums", tensor));
  assert_ok(tdm_tensor_list_add(own, "first.weight", tensor)); /* no parameter of that name */
  assert_ok(tdm_checkpoint_save_with(made.session, made.loader, own, path));
  tdm_tensor_list *back = NULL;
  assert_ok(tdm_checkpoint_load_with(made.session, made.loader, path, &back));
  assert_same_state(back, own);
  tdm_tensor_list_release(back);
  assert_ok(tdm_checkpoint_load(made.session, made.loader, path));
  assert_ok(tdm_state_dict_load(made.session, path, NULL));
  assert_ok(tdm_checkpoint_save(made.session, made.loader, path));
  assert_ok(tdm_checkpoint_load_with(made.session, NULL, path, &back));
  assert_int_equal(tdm_tensor_list_count(back), 0);
  tdm_tensor_list_release(back);
  assert_status(tdm_checkpoint_load_with(made.session, NULL, "/nowhere", &back), TDM_UNAVAILABLE);
  assert_null(back);
  tdm_tensor_list_release(own);
  tdm_tensor_release(tensor);
  trainer_release(&made);
}

static void what_lies_on_a_device_comes_back(void **unused) {
  (void)unused;
  char path[512];
  checkpoint_path(path, "device.safetensors");
  trainer made = trainer_create(context, &varieties[0]);
  tdm_tensor_list *own = tdm_tensor_list_create(context), *back = NULL;
  tdm_tensor *tensor =
      tdm_tensor_rand(context, TEST_KIND ":0", TDM_FLOAT32, tdm_shape_of(2, 3, 5), 1);
  assert_ok(tdm_tensor_list_add(own, "state", tensor));
  assert_ok(tdm_checkpoint_save_with(made.session, NULL, own, path));
  assert_ok(tdm_checkpoint_load_with(made.session, NULL, path, &back));
  float saved[15];
  assert_ok(tdm_tensor_read(tensor, saved, sizeof saved));
  assert_memory_equal(tdm_tensor_data(tdm_tensor_list_find(back, "state")), saved, sizeof saved);
  tdm_tensor_list_release(back);
  tdm_tensor_list_release(own);
  tdm_tensor_release(tensor);
  trainer_release(&made);
}

static void a_loader_starts_where_it_is_told(void **unused) {
  (void)unused;
  trainer made = trainer_create(context, &varieties[0]);
  int64_t batch;
  assert_ok(tdm_loader_start_at(made.loader, 5, 6)); /* at the end of an epoch */
  tdm_tensor *fields[3];
  int64_t rows = -1;
  assert_ok(tdm_loader_next(made.loader, fields, 3, &rows));
  assert_int_equal(rows, 0);
  tdm_loader_position(made.loader, NULL, &batch);
  assert_int_equal(batch, 6);
  assert_status(tdm_loader_start_at(made.loader, 0, 7), TDM_INVALID_ARGUMENT);
  assert_message("batch 7, of 6");
  assert_status(tdm_loader_start_at(made.loader, 0, -1), TDM_INVALID_ARGUMENT);
  trainer_release(&made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_variety_goes_on_bitwise),
      cmocka_unit_test(states_of_rows_and_columns_go_on),
      cmocka_unit_test(what_is_kept_matters),
      cmocka_unit_test(a_load_that_fails_keeps_no_memory),
      cmocka_unit_test(what_is_the_callers_own_comes_back),
      cmocka_unit_test(what_lies_on_a_device_comes_back),
      cmocka_unit_test(a_loader_starts_where_it_is_told),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
