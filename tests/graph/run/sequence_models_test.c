/* Models with values that are kept from run to run. A transformer with kept keys and values has the
 * bits of computing everything again, and so has a recurrent layer with a kept state, on one device
 * and over two. Reads before a write get the value at the beginning of the run. For accelerators of
 * TEST_KIND. */
#include <stdlib.h>

#include "tests/graph/support.h"
#include "tests/options.h"

enum { WORDS = 40, WIDTH = 32, HEADS = 4, LAYERS = 2, LONGEST = 20, PROMPT = 5 };

/* ---- A transformer --------------------------------------------------------------------------- */

/* The operands of an attention layer: keys and values of x itself, or, if the graph keeps them,
 * those of all positions so far. */
typedef struct attention_window {
  bool keeps;
  tdm_value positions; /* (n) of the words that are fed */
  tdm_value hidden;    /* bool (n, LONGEST): keys after the position */
} attention_window;

static tdm_value all_of(tdm_graph *graph, const attention_window *window, const char *name,
                        tdm_value rows) {
  if (!window->keeps) return tdm_reshape(graph, name, rows, tdm_shape_of(3, 1, TDM_INFER, WIDTH));
  tdm_scope_push(graph, name);
  const tdm_value kept = tdm_kept(graph, "cache", TDM_FLOAT32, tdm_shape_of(2, LONGEST, WIDTH));
  const tdm_value cache = tdm_keep_rows(graph, "keep", kept, rows, window->positions);
  const tdm_value all = tdm_reshape(graph, "all", cache, tdm_shape_of(3, 1, LONGEST, WIDTH));
  tdm_scope_pop(graph);
  return all;
}

static tdm_value attend(tdm_graph *graph, const attention_window *window, tdm_value x) {
  const tdm_value q = tdm_linear(graph, "q", x, WIDTH);
  const tdm_value k = all_of(graph, window, "keys", tdm_linear(graph, "k", x, WIDTH));
  const tdm_value v = all_of(graph, window, "values", tdm_linear(graph, "v", x, WIDTH));
  tdm_attention_options options =
      OPTIONS(tdm_attention_options, o.heads = HEADS, o.causal = !window->keeps);
  if (window->keeps) options.mask = window->hidden;
  const tdm_value y = tdm_attention(
      graph, "attention", tdm_reshape(graph, "queries", q, tdm_shape_of(3, 1, TDM_INFER, WIDTH)), k,
      v, &options);
  return tdm_linear(graph, "out", tdm_reshape(graph, "rows", y, tdm_shape_of(2, TDM_INFER, WIDTH)),
                    WIDTH);
}

/* ids (n), positions (n), and if it keeps, keys (LONGEST), 0, 1, 2, ... -> "scores" (n, WORDS). */
static tdm_graph *transformer(tdm_context *context, bool keeps, const char *const devices[LAYERS]) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_dim n = tdm_dim_named("n");
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, n));
  attention_window window = {
      keeps, tdm_input(graph, "positions", TDM_INT64, tdm_shape_of(1, n)), {0, 0}};
  if (keeps) {
    const tdm_value keys = tdm_input(graph, "keys", TDM_INT64, tdm_shape_of(1, LONGEST));
    const tdm_value column =
        tdm_reshape(graph, "column", window.positions, tdm_shape_of(2, TDM_INFER, 1));
    const tdm_value row = tdm_reshape(graph, "row", keys, tdm_shape_of(2, 1, LONGEST));
    window.hidden = tdm_compare(graph, "hidden", row, TDM_GREATER, column);
  }
  tdm_value x = tdm_add(graph, "x", tdm_embedding(graph, "words", ids, WORDS, WIDTH),
                        tdm_embedding(graph, "places", window.positions, LONGEST, WIDTH));
  for (int l = 0; l < LAYERS; l++) {
    tdm_scope_push(graph, l == 0 ? "first" : "second");
    tdm_place(graph, devices[l]);
    x = tdm_add(graph, "attended", x, attend(graph, &window, tdm_layer_norm(graph, "norm1", x, 1)));
    const tdm_value wide = tdm_linear(graph, "up", tdm_layer_norm(graph, "norm2", x, 1), 4 * WIDTH);
    x = tdm_add(graph, "y", x, tdm_linear(graph, "down", tdm_gelu(graph, "gelu", wide), WIDTH));
    tdm_scope_pop(graph);
  }
  tdm_output(graph, "scores", tdm_linear(graph, "head", x, WORDS));
  return graph;
}

static const int64_t text[LONGEST] = {3, 17, 0, 39, 5, 5, 21, 8, 30, 2,
                                      9, 11, 3, 3,  7, 1, 38, 4, 12, 6};

/* Returns the scores of words [first, end). */
static tdm_tensor *scores_of(tdm_session *session, tdm_sequence *sequence, int first, int end) {
  int64_t places[LONGEST];
  for (int i = 0; i < LONGEST; i++)
    places[i] = i;
  tdm_context *context = tdm_session_context(session);
  const tdm_shape some = tdm_shape_of(1, end - first);
  tdm_tensor *ids = tdm_tensor_from(context, TDM_INT64, some, text + first);
  tdm_tensor *positions = tdm_tensor_from(context, TDM_INT64, some, places + first);
  tdm_tensor *keys = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, LONGEST), places);
  const tdm_feed feeds[] = {
      {"ids", ids, false}, {"positions", positions, false}, {"keys", keys, false}};
  tdm_fetch fetch = {"scores", NULL};
  assert_ok(sequence ? tdm_sequence_run(sequence, feeds, 3, &fetch, 1)
                     : tdm_run(session, feeds, 2, &fetch, 1));
  tdm_tensor_release(ids);
  tdm_tensor_release(positions);
  tdm_tensor_release(keys);
  return fetch.tensor;
}

static void assert_last_row(const tdm_tensor *kept, const tdm_tensor *whole, int rows) {
  const int64_t last = tdm_tensor_shape(kept).dims[0] - 1;
  assert_memory_equal((const float *)tdm_tensor_data(kept) + last * WORDS,
                      (const float *)tdm_tensor_data(whole) + (rows - 1) * WORDS,
                      WORDS * sizeof(float));
}

static void kept_keys_and_values_give_the_same_bits(const char *first, const char *second) {
  tdm_context *context = graph_context();
  tdm_store *store = tdm_store_create(context);
  const char *const devices[LAYERS] = {first, second};
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.store = store, o.deterministic = true);
  tdm_session *whole = run_session(transformer(context, false, devices), &options);
  tdm_session *kept = run_session(transformer(context, true, devices), &options);
  tdm_sequence *sequence = tdm_sequence_create(kept), *other = NULL;
  assert_non_null(sequence);
  for (int end = PROMPT; end <= LONGEST; end++) {
    tdm_tensor *expected = scores_of(whole, NULL, 0, end);
    tdm_tensor *found = scores_of(kept, sequence, end == PROMPT ? 0 : end - 1, end);
    assert_last_row(found, expected, end);
    tdm_tensor_release(found);
    if (other) { /* a copy, made after the prompt, goes the same way */
      found = scores_of(kept, other, end - 1, end);
      assert_last_row(found, expected, end);
      tdm_tensor_release(found);
    }
    tdm_tensor_release(expected);
    if (end == PROMPT) other = tdm_sequence_copy(sequence);
  }
  tdm_sequence_release(other);
  tdm_sequence_release(sequence);
  tdm_session_release(kept);
  tdm_session_release(whole);
  tdm_store_release(store);
  tdm_context_release(context);
}

static void a_transformer_on_one_device(void **unused) {
  (void)unused;
  kept_keys_and_values_give_the_same_bits("cpu:0", "cpu:0");
  kept_keys_and_values_give_the_same_bits(TEST_KIND ":0", TEST_KIND ":0");
}

static void a_transformer_over_two_devices(void **unused) {
  (void)unused;
  kept_keys_and_values_give_the_same_bits("cpu:0", "cpu:1");
  kept_keys_and_values_give_the_same_bits("cpu:1", TEST_KIND ":0");
  kept_keys_and_values_give_the_same_bits(TEST_KIND ":1", TEST_KIND ":0");
}

/* ---- A recurrent layer ----------------------------------------------------------------------- */

enum { STEPS = 8, FEATURES = 6, HIDDEN = 10 };

/* x (steps, 1, FEATURES) -> "y" (steps, 1, HIDDEN), from the state that the run before has left. */
static tdm_graph *recurrent(tdm_context *context, bool keeps, const char *device) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x =
      tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(3, tdm_dim_named("steps"), 1, FEATURES));
  tdm_place(graph, device);
  tdm_rnn_options options = tdm_rnn_options_default();
  tdm_value h = {0, 0}, c = {0, 0}, h_n, c_n;
  if (keeps) {
    options.h0 = h = tdm_kept(graph, "h", TDM_FLOAT32, tdm_shape_of(3, 1, 1, HIDDEN));
    options.c0 = c = tdm_kept(graph, "c", TDM_FLOAT32, tdm_shape_of(3, 1, 1, HIDDEN));
  }
  const tdm_value y = tdm_lstm(graph, "lstm", x, HIDDEN, &options, &h_n, &c_n);
  if (keeps) {
    tdm_keep(graph, "keep_h", h, h_n);
    tdm_keep(graph, "keep_c", c, c_n);
  }
  tdm_output(graph, "y", y);
  return graph;
}

static tdm_tensor *steps_of(tdm_session *session, tdm_sequence *sequence, int first, int end) {
  float numbers[STEPS * FEATURES];
  for (int i = 0; i < STEPS * FEATURES; i++)
    numbers[i] = (float)(i * 37 % 23) / 11 - 1;
  tdm_tensor *x =
      tdm_tensor_from(tdm_session_context(session), TDM_FLOAT32,
                      tdm_shape_of(3, end - first, 1, FEATURES), numbers + first * FEATURES);
  const tdm_feed feed = {"x", x, false};
  tdm_fetch fetch = {"y", NULL};
  assert_ok(sequence ? tdm_sequence_run(sequence, &feed, 1, &fetch, 1)
                     : tdm_run(session, &feed, 1, &fetch, 1));
  tdm_tensor_release(x);
  return fetch.tensor;
}

static void a_kept_state_gives_the_same_bits(const char *device) {
  tdm_context *context = graph_context();
  tdm_store *store = tdm_store_create(context);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.store = store, o.deterministic = true);
  tdm_session *whole = run_session(recurrent(context, false, device), &options);
  tdm_session *kept = run_session(recurrent(context, true, device), &options);
  tdm_sequence *sequence = tdm_sequence_create(kept);
  tdm_tensor *expected = steps_of(whole, NULL, 0, STEPS);
  for (int i = 0; i < STEPS; i++) {
    tdm_tensor *found = steps_of(kept, sequence, i, i + 1);
    assert_memory_equal(tdm_tensor_data(found),
                        (const float *)tdm_tensor_data(expected) + (size_t)i * HIDDEN,
                        HIDDEN * sizeof(float));
    tdm_tensor_release(found);
  }
  tdm_tensor_release(expected);
  tdm_sequence_release(sequence);
  tdm_session_release(kept);
  tdm_session_release(whole);
  tdm_store_release(store);
  tdm_context_release(context);
}

static void a_recurrent_layer_at_any_placement(void **unused) {
  (void)unused;
  a_kept_state_gives_the_same_bits("cpu:0");
  a_kept_state_gives_the_same_bits("cpu:1");
  a_kept_state_gives_the_same_bits(TEST_KIND ":0");
}

/* ---- Reads after the write ------------------------------------------------------------------- */

enum { PLACES = 6 };

static tdm_value kept_vector(tdm_graph *graph, const char *name) {
  return tdm_kept(graph, name, TDM_FLOAT32, tdm_shape_of(1, 2));
}

static float kept_number(tdm_sequence *sequence, const char *name) {
  tdm_tensor *tensor = NULL;
  float numbers[2];
  assert_ok(tdm_sequence_get(sequence, name, &tensor));
  assert_ok(tdm_tensor_read(tensor, numbers, sizeof numbers));
  tdm_tensor_release(tensor);
  return numbers[0];
}

/* newest <- x, middle <- newest, oldest <- middle, each with the values before the run, in the
 * order that overwrites the source of the next one; and two that exchange their values. */
static void kept_values_become_one_another(const char *first, const char *second) {
  tdm_context *context = graph_context();
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(1, 2));
  tdm_place(graph, first);
  const tdm_value newest = kept_vector(graph, "newest"), left = kept_vector(graph, "left");
  const tdm_value middle = kept_vector(graph, "middle");
  tdm_place(graph, second);
  const tdm_value oldest = kept_vector(graph, "oldest"), right = kept_vector(graph, "right");
  tdm_keep(graph, "1", newest, x);
  tdm_keep(graph, "2", middle, newest);
  tdm_keep(graph, "3", oldest, middle);
  tdm_keep(graph, "4", left, tdm_reshape(graph, "view", right, tdm_shape_of(1, TDM_INFER)));
  tdm_keep(graph, "5", right, left);
  tdm_value sum = tdm_add(graph, "a", tdm_add(graph, "b", newest, middle), oldest);
  sum = tdm_add(graph, "c", sum, tdm_add(graph, "d", left, right));
  tdm_output(graph, "sum", sum);
  tdm_session *session = run_session(graph, NULL);
  tdm_sequence *sequence = tdm_sequence_create(session);
  assert_non_null(sequence);
  tdm_tensor *seven = tdm_tensor_full(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(1, 2), 7);
  assert_ok(tdm_sequence_set(sequence, "left", seven));
  tdm_tensor_release(seven);
  for (int run = 1; run <= 4; run++) {
    tdm_tensor *fed =
        tdm_tensor_full(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(1, 2), (double)run);
    tdm_fetch fetch = {.name = "sum"};
    assert_ok(tdm_sequence_run(sequence, &(tdm_feed){"x", fed, false}, 1, &fetch, 1));
    tdm_tensor_release(fed);
    tdm_tensor_release(fetch.tensor);
    assert_true(kept_number(sequence, "newest") == (float)run);
    assert_true(kept_number(sequence, "middle") == (float)(run - 1));
    assert_true(kept_number(sequence, "oldest") == (float)(run > 1 ? run - 2 : 0));
    assert_true(kept_number(sequence, "left") == (run % 2 == 0 ? 7 : 0));
    assert_true(kept_number(sequence, "right") == (run % 2 == 0 ? 0 : 7));
  }
  tdm_sequence_release(sequence);
  tdm_session_release(session);
  tdm_context_release(context);
}

static void kept_values_become_one_another_anywhere(void **unused) {
  (void)unused;
  kept_values_become_one_another("cpu:0", "cpu:0");
  kept_values_become_one_another("cpu:0", "cpu:1");
  kept_values_become_one_another(TEST_KIND ":0", TEST_KIND ":0");
  kept_values_become_one_another("cpu:1", TEST_KIND ":0");
}

/* A value is kept before a write, and written after it. */
static void a_kept_value_is_written_behind(const char *first, const char *second) {
  tdm_context *context = graph_context();
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(1, 2));
  tdm_place(graph, first);
  const tdm_value one = kept_vector(graph, "one");
  const tdm_value all = tdm_arange(graph, "all", TDM_INT64, 0, 2, 1);
  const tdm_value once = tdm_keep_rows(graph, "once", one, x, all);
  tdm_keep(graph, "1", once, once);
  const tdm_value twice =
      tdm_keep_rows(graph, "twice", once, tdm_mul_scalar(graph, "scale", x, 2), all);
  tdm_place(graph, second);
  const tdm_value other = kept_vector(graph, "other");
  tdm_keep(graph, "2", other, twice);
  tdm_output(graph, "sum", tdm_add(graph, "sum", other, twice));
  tdm_session *session = run_session(graph, NULL);
  tdm_sequence *sequence = tdm_sequence_create(session);
  assert_non_null(sequence);
  tdm_tensor *fed = tdm_tensor_full(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(1, 2), 3);
  tdm_fetch fetch = {.name = "sum"};
  assert_ok(tdm_sequence_run(sequence, &(tdm_feed){"x", fed, false}, 1, &fetch, 1));
  assert_true(*(const float *)tdm_tensor_data(fetch.tensor) == 6);
  assert_true(kept_number(sequence, "one") == 3);
  assert_true(kept_number(sequence, "other") == 6);
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(fed);
  tdm_sequence_release(sequence);
  tdm_session_release(session);
  tdm_context_release(context);
}

static void a_kept_value_is_written_behind_anywhere(void **unused) {
  (void)unused;
  a_kept_value_is_written_behind("cpu:0", "cpu:0");
  a_kept_value_is_written_behind("cpu:1", TEST_KIND ":0");
  a_kept_value_is_written_behind(TEST_KIND ":0", "cpu:0");
}

static void see_kept(void *user, const tdm_observation *observation) {
  assert_ok(tdm_tensor_read(observation->tensor, user, PLACES * sizeof(float)));
}

/* A window to which each run prepends x, and moves all others by one place. Its gradient by
 * weights, and an observer, receive it as it was before the run. */
static void a_window_moves_on(const char *device) {
  tdm_context *context = graph_context();
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 1, 1));
  tdm_place(graph, device);
  const tdm_value window = tdm_kept(graph, "window", TDM_FLOAT32, tdm_shape_of(2, PLACES, 1));
  const tdm_value weights =
      tdm_parameter(graph, "weights", TDM_FLOAT32, tdm_shape_of(2, PLACES, 1), NULL);
  const tdm_value seen = tdm_observe(graph, "seen", window);
  const tdm_value loss =
      tdm_sum(graph, "loss", tdm_mul(graph, "product", seen, weights), NULL, 0, false);
  tdm_value parts[2];
  tdm_split(graph, "parts", window, 0, (const tdm_dim[]){PLACES - 1, 1}, 2, parts);
  const tdm_value moved = tdm_keep_rows(graph, "move", window, parts[0],
                                        tdm_arange(graph, "behind", TDM_INT64, 1, PLACES, 1));
  const tdm_value whole =
      tdm_keep_rows(graph, "put", moved, x, tdm_arange(graph, "front", TDM_INT64, 0, 1, 1));
  tdm_output(graph, "window", whole);
  tdm_output(graph, "loss", loss);
  tdm_output(graph, "d_weights", tdm_gradient_of(graph, "d_weights", loss, weights));
  float observed[PLACES], expected[PLACES] = {0};
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.observer = see_kept, o.observer_user = observed);
  tdm_session *session = run_session(graph, &options);
  tdm_sequence *sequence = tdm_sequence_create(session);
  assert_non_null(sequence);
  for (int run = 1; run <= PLACES + 2; run++) {
    tdm_tensor *fed =
        tdm_tensor_full(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 1, 1), (double)run);
    tdm_fetch fetches[] = {{.name = "d_weights"}, {.name = "window"}, {.name = "loss"}};
    assert_ok(tdm_sequence_run(sequence, &(tdm_feed){"x", fed, false}, 1, fetches, 3));
    assert_memory_equal(observed, expected, sizeof expected);
    assert_memory_equal(tdm_tensor_data(fetches[0].tensor), expected, sizeof expected);
    memmove(expected + 1, expected, (PLACES - 1) * sizeof *expected);
    expected[0] = (float)run;
    assert_memory_equal(tdm_tensor_data(fetches[1].tensor), expected, sizeof expected);
    for (size_t k = 0; k < TDM_COUNT_OF(fetches); k++)
      tdm_tensor_release(fetches[k].tensor);
    tdm_tensor_release(fed);
  }
  char *plan = printed(session, print_explain, NULL, TDM_PLAN_TEXT);
  assert_non_null(strstr(plan, "parts -> move, ")); /* reads the earlier value */
  free(plan);
  tdm_sequence_release(sequence);
  tdm_session_release(session);
  tdm_context_release(context);
}

static void a_window_moves_on_anywhere(void **unused) {
  (void)unused;
  a_window_moves_on("cpu:0");
  a_window_moves_on("cpu:1");
  a_window_moves_on(TEST_KIND ":0");
}

/* Work on rows that kept ids select is done on the table, and the rows are gathered after a write
 * of the ids. The gathered rows are those of the ids at the beginning of the run. */
static void kept_ids_pick_before_they_are_written(void **unused) {
  (void)unused;
  enum { IDS = 16 };
  tdm_context *context = graph_context();
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_INT64, tdm_shape_of(1, IDS));
  const tdm_value ids = tdm_kept(graph, "ids", TDM_INT64, tdm_shape_of(1, IDS));
  const tdm_value rows = tdm_embedding(graph, "table", ids, 2, 1);
  const tdm_value written =
      tdm_keep_rows(graph, "put", ids, x, tdm_arange(graph, "all", TDM_INT64, 0, IDS, 1));
  tdm_output(graph, "y", tdm_linear(graph, "fc", rows, 1));
  tdm_output(graph, "ids", written);
  tdm_session *session = run_session(graph, NULL);
  tdm_sequence *sequence = tdm_sequence_create(session);
  assert_non_null(sequence);
  int64_t ones[IDS];
  for (int i = 0; i < IDS; i++)
    ones[i] = 1;
  tdm_tensor *fed = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, IDS), ones);
  float found[2];
  for (int run = 0; run < 2; run++) {
    tdm_fetch fetches[] = {{.name = "y"}, {.name = "ids"}};
    assert_ok(tdm_sequence_run(sequence, &(tdm_feed){"x", fed, false}, 1, fetches, 2));
    found[run] = *(const float *)tdm_tensor_data(fetches[0].tensor);
    tdm_tensor_release(fetches[0].tensor);
    tdm_tensor_release(fetches[1].tensor);
  }
  assert_true(found[0] != found[1]);
  tdm_tensor_release(fed);
  tdm_sequence_release(sequence);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* Checks kept rows of one number each. */
static void numbers_are_kept_by_index(void **unused) {
  (void)unused;
  enum { NUMBERS = 6 };
  tdm_context *context = graph_context();
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(1, 2));
  const tdm_value at = tdm_input(graph, "at", TDM_INT64, tdm_shape_of(1, 2));
  tdm_place(graph, TEST_KIND ":0");
  const tdm_value kept = tdm_kept(graph, "cache", TDM_FLOAT32, tdm_shape_of(1, NUMBERS));
  tdm_output(graph, "cache", tdm_keep_rows(graph, "put", kept, x, at));
  tdm_session *session = run_session(graph, NULL);
  tdm_sequence *sequence = tdm_sequence_create(session);
  float found[NUMBERS], wanted[NUMBERS] = {0};
  for (int64_t i = 0; i < 3; i++) {
    const float numbers[] = {(float)i + 1, (float)i + 10};
    const int64_t places_of[] = {i, NUMBERS - 1};
    tdm_tensor *fed[] = {tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(1, 2), numbers),
                         tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, 2), places_of)};
    tdm_fetch fetch = {"cache", NULL};
    assert_ok(tdm_sequence_run(
        sequence, (const tdm_feed[]){{"x", fed[0], false}, {"at", fed[1], false}}, 2, &fetch, 1));
    memcpy(found, tdm_tensor_data(fetch.tensor), sizeof found);
    wanted[i] = numbers[0];
    wanted[NUMBERS - 1] = numbers[1];
    assert_memory_equal(found, wanted, sizeof wanted);
    tdm_tensor_release(fetch.tensor);
    tdm_tensor_release(fed[0]);
    tdm_tensor_release(fed[1]);
  }
  tdm_sequence_release(sequence);
  tdm_session_release(session);
  graph = tdm_graph_create(context);
  const tdm_value few = tdm_input(graph, "few", TDM_FLOAT32, tdm_shape_of(1, 2));
  const tdm_value many = tdm_input(graph, "many", TDM_INT64, tdm_shape_of(1, 3));
  const tdm_value numbers_of = tdm_kept(graph, "numbers", TDM_FLOAT32, tdm_shape_of(1, NUMBERS));
  (void)tdm_keep_rows(graph, "put", numbers_of, few, many);
  assert_status(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
  assert_message("rows is float32 [2], and must be float32 [3]");
  tdm_graph_release(graph);
  graph = tdm_graph_create(context);
  const tdm_value one = tdm_input(graph, "at", TDM_INT64, tdm_shape_of(1, 1));
  const tdm_value number = tdm_kept(graph, "number", TDM_FLOAT32, tdm_shape_scalar());
  (void)tdm_keep_rows(graph, "put", number, one, one);
  assert_status(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
  assert_message("is a scalar and has no rows");
  tdm_graph_release(graph);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_are_kept_by_index),
      cmocka_unit_test(a_transformer_on_one_device),
      cmocka_unit_test(a_transformer_over_two_devices),
      cmocka_unit_test(a_recurrent_layer_at_any_placement),
      cmocka_unit_test(kept_values_become_one_another_anywhere),
      cmocka_unit_test(a_kept_value_is_written_behind_anywhere),
      cmocka_unit_test(a_window_moves_on_anywhere),
      cmocka_unit_test(kept_ids_pick_before_they_are_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
