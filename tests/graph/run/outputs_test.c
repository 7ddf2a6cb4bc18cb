/* Memory of delivered outputs: used again for outputs of about its size, never for much smaller
 * ones, which would keep it. */
#include "tests/graph/support.h"

enum { SMALL_ROWS = 1000 };

static const size_t row_bytes = MODEL_WIDTH * sizeof(float);

/* Delivers "scores" of so many rows; the memory that holds them is told, and let go. */
static tdm_storage *deliver(tdm_session *session, tdm_context *context, int64_t rows,
                            size_t *out_bytes) {
  test_batch batch;
  test_batch_make(&batch, context, rows, 1);
  tdm_tensor *scores = run_once(session, &batch, "scores");
  tdm_storage *storage = scores->storage;
  *out_bytes = storage->memory.bytes;
  assert_true(*out_bytes >= (size_t)rows * row_bytes);
  tdm_tensor_release(scores);
  test_batch_release(&batch);
  return storage;
}

static void outputs_take_memory_of_their_size(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_session *session = run_session(seed_graph(context, "cpu:0", "cpu:0", NULL), NULL);
  size_t bytes = 0;
  const tdm_storage *large = deliver(session, context, 26 * SMALL_ROWS / 10, &bytes);
  const tdm_storage *small = deliver(session, context, SMALL_ROWS, &bytes);
  assert_ptr_not_equal(small, large);
  assert_true(bytes <= 2 * SMALL_ROWS * row_bytes + 4096);
  /* More than half of it is used. */
  assert_ptr_equal(deliver(session, context, 14 * SMALL_ROWS / 10, &bytes), large);
  assert_ptr_equal(deliver(session, context, 8 * SMALL_ROWS / 10, &bytes), small);
  assert_ptr_equal(deliver(session, context, 26 * SMALL_ROWS / 10, &bytes), large);
  tdm_session_release(session);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(outputs_take_memory_of_their_size),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
