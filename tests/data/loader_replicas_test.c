/* Items are distributed to replicas by the rule of PyTorch's DistributedSampler: the items of each
 * replica, repeated and omitted items, refused calls. */
#include <string.h>

#include "data/loader_state.h"
#include "tests/data/support.h"
#include "tests/options.h"

enum { MOST = 32 };

/* Reads all values of an epoch in order. Returns their number. */
static int64_t read_epoch(tdm_loader *loader, uint64_t epoch, int64_t *values) {
  int64_t count = 0, rows = 0;
  tdm_tensor *batch[1];
  assert_int_equal(tdm_loader_start(loader, epoch), TDM_OK);
  for (;;) {
    assert_int_equal(tdm_loader_next(loader, batch, 1, &rows), TDM_OK);
    if (rows == 0) return count;
    memcpy(values + count, tdm_tensor_data(batch[0]), (size_t)rows * sizeof *values);
    count += rows;
    tdm_tensor_release(batch[0]);
  }
}

static tdm_loader *make_loader(const data_fixture *fixture, int64_t length,
                               const tdm_loader_options *options) {
  tdm_dataset *dataset = make_counting_dataset(fixture->context, length);
  tdm_loader *loader = tdm_loader_create(dataset, options);
  tdm_dataset_release(dataset);
  return loader;
}

static const struct {
  int64_t length;
  int replicas;
  int64_t batch_size;
  bool drop_last;
  int64_t padded, dropped;
  int64_t count;
  int64_t values[16];
} cases[] = {
    /* replica 0 has 0, 3, 6, 9; replica 1 has 1, 4, 7, 0; replica 2 has 2, 5, 8, 1 */
    {10, 3, 6, false, 2, 0, 12, {0, 3, 1, 4, 2, 5, 6, 9, 7, 0, 8, 1}},
    {10, 3, 9, false, 2, 0, 12, {0, 3, 6, 1, 4, 7, 2, 5, 8, 9, 0, 1}},
    {10, 3, 9, true, 0, 1, 9, {0, 3, 6, 1, 4, 7, 2, 5, 8}},
    {10, 3, 6, true, 0, 4, 6, {0, 3, 1, 4, 2, 5}},
    {2, 5, 5, false, 3, 0, 5, {0, 1, 0, 1, 0}},
    {2, 5, 5, true, 0, 2, 0, {0}},
    {8, 2, 4, false, 0, 0, 8, {0, 2, 1, 3, 4, 6, 5, 7}},
    {3, 1, 1, false, 0, 0, 3, {0, 1, 2}},
    {4, 2, 2, false, 0, 0, 4, {0, 1, 2, 3}},
};

static void replicas_take_turns(void **state) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const tdm_loader_options options =
        OPTIONS(tdm_loader_options, o.batch_size = cases[i].batch_size,
                o.drop_last = cases[i].drop_last, o.replicas = cases[i].replicas);
    tdm_loader *loader = make_loader(*state, cases[i].length, &options);
    assert_non_null(loader);
    int64_t values[MOST], padded, dropped;
    const int64_t count = read_epoch(loader, 0, values);
    tdm_loader_counts(loader, &padded, &dropped);
    if (count != cases[i].count || padded != cases[i].padded || dropped != cases[i].dropped)
      fail_msg("case %zu: %lld rows, %lld padded, %lld dropped", i, (long long)count,
               (long long)padded, (long long)dropped);
    assert_memory_equal(values, cases[i].values, (size_t)count * sizeof *values);
    tdm_loader_release(loader);
  }
}

/* All replicas share one order, whose items are distributed as without shuffling. */
static void the_order_that_is_dealt_is_that_of_one_process(void **state) {
  enum { LENGTH = 12, REPLICAS = 3 };
  int64_t plain[MOST], dealt[MOST];
  tdm_loader_options options =
      OPTIONS(tdm_loader_options, o.batch_size = LENGTH, o.shuffle = true, o.seed = 5);
  tdm_loader *alone = make_loader(*state, LENGTH, &options);
  options.replicas = REPLICAS;
  options.prefetch = 2;
  tdm_loader *shared = make_loader(*state, LENGTH, &options);
  for (uint64_t epoch = 0; epoch < 3; epoch++) {
    assert_int_equal(read_epoch(alone, epoch, plain), LENGTH);
    assert_int_equal(read_epoch(shared, epoch, dealt), LENGTH);
    for (int r = 0; r < REPLICAS; r++)
      for (int k = 0; k < LENGTH / REPLICAS; k++)
        assert_int_equal(dealt[r * (LENGTH / REPLICAS) + k], plain[k * REPLICAS + r]);
  }
  tdm_loader_release(alone);
  tdm_loader_release(shared);
}

static void counts_without_replicas(void **state) {
  tdm_loader_options options = OPTIONS(tdm_loader_options, o.batch_size = 30);
  int64_t padded = -1, dropped = -1;
  tdm_loader *loader = make_loader(*state, 100, &options);
  tdm_loader_counts(loader, &padded, &dropped);
  assert_int_equal(padded, 0);
  assert_int_equal(dropped, 0);
  tdm_loader_release(loader);
  options.drop_last = true;
  loader = make_loader(*state, 100, &options);
  tdm_loader_counts(loader, NULL, &dropped);
  assert_int_equal(dropped, 10);
  tdm_loader_release(loader);
  tdm_loader_counts(NULL, &padded, &dropped);
  assert_int_equal(dropped, 0);
}

static void refused(const data_fixture *fixture, const tdm_loader_options *options,
                    const char *message) {
  assert_null(make_loader(fixture, 10, options));
  assert_message(message);
}

static void what_does_not_fit_is_refused(void **state) {
  static const int32_t groups[10] = {0};
  static const double none[] = {0, 0};
  refused(*state, WITH(tdm_loader_options, o.replicas = -1), "replicas is -1, expected 1 or more");
  refused(*state, WITH(tdm_loader_options, o.replicas = 2, o.groups = groups),
          "replicas is 2, expected 1, since items have groups");
  refused(*state, WITH(tdm_loader_options, o.replicas = 3, o.batch_size = 4), "a multiple");
  refused(*state, WITH(tdm_loader_options, o.weights = none), "without devices");
  refused(*state, WITH(tdm_loader_options, o.whole = "value"), "without devices");
  refused(*state, WITH(tdm_loader_options, o.devices = "cpu:7"), "cpu:7");
  refused(*state, WITH(tdm_loader_options, o.devices = "cpu:0,cpu:0", o.weights = none),
          "all weights are 0");
  refused(*state, WITH(tdm_loader_options, o.devices = "cpu:0", o.whole = "value"),
          "does not skip fields");
}

/* A checkpoint of replicas cannot be resumed without them, and the other way round. */
static void the_order_is_part_of_a_position(void **state) {
  const data_fixture *fixture = *state;
  tdm_loader_options options = OPTIONS(tdm_loader_options, o.batch_size = 4);
  tdm_loader *alone = make_loader(fixture, 8, &options);
  options.replicas = 2;
  tdm_loader *shared = make_loader(fixture, 8, &options);
  tdm_tensor_list *list = tdm_tensor_list_create(fixture->context);
  uint64_t epoch;
  int64_t batch;
  assert_int_equal(tdm_loader_save(shared, list), TDM_OK);
  assert_int_equal(tdm_loader_saved_position(shared, list, &epoch, &batch), TDM_OK);
  assert_int_equal(tdm_loader_saved_position(alone, list, &epoch, &batch), TDM_INVALID_ARGUMENT);
  tdm_tensor_list_release(list);
  tdm_loader_release(alone);
  tdm_loader_release(shared);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(replicas_take_turns, set_up, tear_down),
      cmocka_unit_test_setup_teardown(the_order_that_is_dealt_is_that_of_one_process, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(counts_without_replicas, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_does_not_fit_is_refused, set_up, tear_down),
      cmocka_unit_test_setup_teardown(the_order_is_part_of_a_position, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
