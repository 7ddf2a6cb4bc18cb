/* Random graphs that keep values between runs, on random devices. Outputs, observed values and kept
 * values of each run equal those of an interpreter, which evaluates each value at its place in the
 * description.
 *
 *     bazel run //tests/graph/run:sequence_seeds_test -- 50000 1000
 *
 * takes 50,000 seeds from 1,000 on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "tests/graph/group.h"
#include "tests/graph/seed_range.h"
#include "tests/options.h"

enum { ROWS = 4, WIDTH = 2, KEPTS = 3, STEPS = 24, MOST_VALUES = 4 + 2 * STEPS, RUNS = 5 };

typedef enum drawn_kind {
  FED,
  KEPT,
  WEIGHT,
  SUM,
  HALF,
  PART, /* reads or writes rows from row `start` on */
  VIEW,
  JOINED,
  WRITTEN, /* v with the rows of u from `start` on */
  KEEPS,   /* u, whole */
  SLOPE,   /* gradient of sum(u * weight) with respect to weight: u */
  SEEN,
} drawn_kind;

typedef struct drawn {
  drawn_kind kind;
  int u, v;    /* the values that it reads; -1: none */
  int kept;    /* kept value whose memory it reads or writes; -1: none */
  int version; /* version of that value: the value that was kept, or the last one written */
  int start, rows;
  bool is_output, is_needed;
  tdm_value handle;
  float numbers[ROWS * WIDTH];
} drawn;

/* FED, the kept values, the WEIGHT, then the results of nodes, as the graph describes it. */
static drawn values[MOST_VALUES];
static int count;
static int latest[KEPTS]; /* versions */
static int keepers[KEPTS];
static uint64_t drawing;

static int draw(int below) {
  drawing = tdm_hash_mix(drawing, 1);
  return (int)(drawing % (uint64_t)below);
}

/* ---- Describing ------------------------------------------------------------------------------ */

enum { FIRST_KEPT = 1, THE_WEIGHT = FIRST_KEPT + KEPTS };

static drawn *add(drawn_kind kind, int u, int v, int rows, tdm_value handle) {
  drawn *made = &values[count++];
  *made = (drawn){.kind = kind, .u = u, .v = v, .kept = -1, .rows = rows, .handle = handle};
  return made;
}

/* A view shows the memory of u. */
static void show(drawn *made, int u) {
  made->kept = values[u].kept;
  made->version = values[u].version;
}

/* Returns false for old values after a write, which must not be read. */
static bool may_be_read(int value) {
  const drawn *of = &values[value];
  return of->kind != KEEPS && (of->kept < 0 || of->version == latest[of->kept]);
}

static bool is_made_of(int value, int other) {
  const drawn *of = &values[value];
  return value == other || (of->u >= 0 && is_made_of(of->u, other)) ||
         (of->v >= 0 && is_made_of(of->v, other));
}

/* Returns a value with this many rows (0: any number), or -1 if none was found. */
static int pick(int rows) {
  for (int tries = 0; tries < 50; tries++) {
    const int value = draw(count);
    if (may_be_read(value) && (rows == 0 || values[value].rows == rows)) return value;
  }
  return -1;
}

static void place(tdm_graph *graph) {
  static const char *const devices[] = {"cpu:0", "cpu:1", "sim:0", "sim:1"};
  tdm_place(graph, devices[draw(4)]);
}

static void describe_split(tdm_graph *graph, const char *name, int u) {
  const int rows = values[u].rows;
  if (rows < 2) return;
  const int first = 1 + draw(rows - 1);
  tdm_value parts[2];
  tdm_split(graph, name, values[u].handle, 0, (const tdm_dim[]){first, rows - first}, 2, parts);
  show(add(PART, u, -1, first, parts[0]), u);
  drawn *rest = add(PART, u, -1, rows - first, parts[1]);
  rest->start = first;
  show(rest, u);
}

static void describe_write(tdm_graph *graph, const char *name, int u) {
  const int kept = draw(KEPTS), start = draw(ROWS - values[u].rows + 1), before = latest[kept];
  const tdm_value indices = tdm_arange(graph, NULL, TDM_INT64, start, start + values[u].rows, 1);
  latest[kept] = count;
  drawn *made = add(WRITTEN, u, before, ROWS,
                    tdm_keep_rows(graph, name, values[before].handle, values[u].handle, indices));
  made->start = start;
  made->kept = kept;
  made->version = latest[kept];
}

static void describe_keeper(tdm_graph *graph, const char *name, int u) {
  const int kept = draw(KEPTS);
  if (keepers[kept] >= 0 || values[u].rows < ROWS) return;
  tdm_keep(graph, name, values[latest[kept]].handle, values[u].handle);
  keepers[kept] = count;
  add(KEEPS, u, -1, ROWS, (tdm_value){0, 0})->kept = kept;
}

static void describe_slope(tdm_graph *graph, const char *name, int u) {
  if (values[u].rows < ROWS || is_made_of(u, THE_WEIGHT)) return;
  const tdm_value weight = values[THE_WEIGHT].handle;
  const tdm_value product = tdm_mul(graph, NULL, values[u].handle, weight);
  const tdm_value loss = tdm_sum(graph, NULL, product, NULL, 0, false);
  add(SLOPE, u, THE_WEIGHT, ROWS, tdm_gradient_of(graph, name, loss, weight));
}

static void describe_pair(tdm_graph *graph, const char *name, int u, bool joins) {
  const int v = pick(joins ? 0 : values[u].rows);
  if (v < 0 || (joins && values[u].rows + values[v].rows > ROWS)) return;
  const tdm_value both[] = {values[u].handle, values[v].handle};
  if (joins)
    add(JOINED, u, v, values[u].rows + values[v].rows, tdm_concat(graph, name, both, 2, 0));
  else
    add(SUM, u, v, values[u].rows, tdm_add(graph, name, both[0], both[1]));
}

static void describe_step(tdm_graph *graph) {
  char name[16];
  (void)snprintf(name, sizeof name, "%d", count);
  place(graph);
  const int u = pick(0);
  if (u < 0) return;
  const tdm_value of = values[u].handle;
  switch (draw(11)) {
  case 0:
  case 1:
    describe_pair(graph, name, u, false);
    break;
  case 2:
    describe_pair(graph, name, u, true);
    break;
  case 3:
    add(HALF, u, -1, values[u].rows, tdm_mul_scalar(graph, name, of, 0.5));
    break;
  case 4:
    describe_split(graph, name, u);
    break;
  case 5:
    show(add(VIEW, u, -1, values[u].rows,
             tdm_reshape(graph, name, of, tdm_shape_of(2, TDM_INFER, WIDTH))),
         u);
    break;
  case 6:
    describe_keeper(graph, name, u);
    break;
  case 7:
    describe_slope(graph, name, u);
    break;
  case 8:
    show(add(SEEN, u, -1, values[u].rows, tdm_observe(graph, name, of)), u);
    break;
  default:
    describe_write(graph, name, u);
  }
}

static void describe_inputs(tdm_graph *graph) {
  static const char *const names[KEPTS] = {"kept0", "kept1", "kept2"};
  const tdm_shape shape = tdm_shape_of(2, ROWS, WIDTH);
  count = 0;
  add(FED, -1, -1, ROWS, tdm_input(graph, "x", TDM_FLOAT32, shape));
  for (int k = 0; k < KEPTS; k++) {
    place(graph);
    latest[k] = count;
    keepers[k] = -1;
    drawn *made = add(KEPT, -1, -1, ROWS, tdm_kept(graph, names[k], TDM_FLOAT32, shape));
    made->kept = k;
    made->version = latest[k];
  }
  place(graph);
  add(WEIGHT, -1, -1, ROWS, tdm_parameter(graph, "w", TDM_FLOAT32, shape, NULL));
}

static tdm_graph *describe(void) {
  tdm_graph *graph = tdm_graph_create(context);
  describe_inputs(graph);
  for (int step = 0; step < STEPS; step++)
    describe_step(graph);
  for (int i = 0; i < count; i++) {
    char name[16];
    values[i].is_output = may_be_read(i) && draw(2);
    (void)snprintf(name, sizeof name, "o%d", i);
    if (values[i].is_output && draw(4) == 0)
      tdm_output_on(graph, name, values[i].handle, NULL);
    else if (values[i].is_output)
      tdm_output(graph, name, values[i].handle);
  }
  return graph;
}

/* ---- Interpreting ---------------------------------------------------------------------------- */

/* A run computes the values that its outputs need, and writes all kept values that are needed. */
static void mark_needed(void) {
  for (bool more = true; more;) {
    more = false;
    for (int i = count; i-- > 0;) {
      drawn *of = &values[i];
      const bool writes = of->kind == WRITTEN || of->kind == KEEPS;
      const bool was = of->is_needed;
      of->is_needed |= writes && values[FIRST_KEPT + of->kept].is_needed;
      more |= of->is_needed != was;
      for (int k = 0; k < 2 && of->is_needed; k++) {
        const int read = k ? of->v : of->u;
        if (read < 0 || values[read].is_needed) continue;
        values[read].is_needed = more = true;
      }
    }
  }
}

/* Returns element i of the result for u (of u_count elements) and v. */
static float element_of(const drawn *of, int i, const float *u, int u_count, const float *v) {
  const int start = of->start * WIDTH;
  switch (of->kind) {
  case WEIGHT:
    return 0;
  case SUM:
    return u[i] + v[i];
  case HALF:
    return u[i] / 2;
  case PART:
    return u[start + i];
  case JOINED:
    return i < u_count ? u[i] : v[i - u_count];
  case WRITTEN:
    return i >= start && i < start + u_count ? u[i - start] : v[i];
  default:
    return u[i];
  }
}

static void make(drawn *of, const float *x, const float (*kept)[ROWS * WIDTH]) {
  const float *first = of->kind == KEPT ? kept[of->kept] : x;
  const float *u = of->u < 0 ? first : values[of->u].numbers;
  const float *v = of->v < 0 ? NULL : values[of->v].numbers;
  const int u_count = of->u < 0 ? ROWS * WIDTH : values[of->u].rows * WIDTH;
  for (int i = 0; i < of->rows * WIDTH; i++)
    of->numbers[i] = element_of(of, i, u, u_count, v);
}

/* Updates kept to the values after the run. */
static void interpret(const float *x, float (*kept)[ROWS * WIDTH]) {
  float before[KEPTS][ROWS * WIDTH];
  memcpy(before, kept, sizeof before);
  for (int i = 0; i < count; i++) {
    make(&values[i], x, before);
    if (values[i].kind == WRITTEN && values[i].is_needed)
      memcpy(kept[values[i].kept], values[i].numbers, sizeof before[0]);
  }
  for (int k = 0; k < KEPTS; k++)
    if (keepers[k] >= 0 && values[keepers[k]].is_needed)
      memcpy(kept[k], values[keepers[k]].numbers, sizeof before[0]);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static uint64_t seed;

static void assert_is(const tdm_tensor *found, const float *wanted, const char *what, int number) {
  float numbers[ROWS * WIDTH];
  const size_t bytes = (size_t)tdm_tensor_shape(found).dims[0] * WIDTH * sizeof(float);
  assert_ok(tdm_tensor_read(found, numbers, bytes));
  if (memcmp(numbers, wanted, bytes) != 0)
    fail_msg("seed %llu: %s %d begins with %g, not %g", (unsigned long long)seed, what, number,
             (double)numbers[0], (double)wanted[0]);
}

static void see(void *user, const tdm_observation *observation) {
  (void)user;
  const int number = atoi(observation->name);
  assert_is(observation->tensor, values[number].numbers, "observed value", number);
}

static size_t choose_fetches(tdm_fetch *fetches, char (*names)[16], int *numbers) {
  const int rare = draw(3);
  size_t chosen = 0;
  for (int i = 0; i < count; i++) {
    values[i].is_needed = values[i].is_output && draw(rare + 1) == 0;
    if (!values[i].is_needed) continue;
    (void)snprintf(names[chosen], sizeof names[chosen], "o%d", i);
    fetches[chosen] = (tdm_fetch){.name = names[chosen]};
    numbers[chosen++] = i;
  }
  return chosen;
}

static void run_once_more(tdm_sequence *sequence, float (*kept)[ROWS * WIDTH]) {
  tdm_fetch fetches[MOST_VALUES];
  char names[MOST_VALUES][16];
  int numbers[MOST_VALUES];
  const size_t chosen = choose_fetches(fetches, names, numbers);
  if (chosen == 0) return;
  float x[ROWS * WIDTH];
  for (int i = 0; i < ROWS * WIDTH; i++)
    x[i] = (float)(1 + draw(64));
  mark_needed();
  interpret(x, kept);
  tdm_tensor *fed = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH), x);
  assert_ok(tdm_sequence_run(sequence, &(tdm_feed){"x", fed, false}, 1, fetches, chosen));
  tdm_tensor_release(fed);
  for (size_t i = 0; i < chosen; i++) {
    assert_is(fetches[i].tensor, values[numbers[i]].numbers, "output", numbers[i]);
    tdm_tensor_release(fetches[i].tensor);
  }
  for (int k = 0; k < KEPTS; k++) {
    char name[16];
    tdm_tensor *left = NULL;
    (void)snprintf(name, sizeof name, "kept%d", k);
    assert_ok(tdm_sequence_get(sequence, name, &left));
    assert_is(left, kept[k], "kept value", k);
    tdm_tensor_release(left);
  }
}

/* Two sequences take turns. */
static void run_seed(void) {
  drawing = tdm_hash_mix(0, seed);
  tdm_graph *graph = describe();
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.observer = see, o.depth = 1 + draw(3),
              o.unfused = draw(4) == 0, o.unmerged = draw(2), o.deterministic = draw(2));
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  if (!session) {
    /* A loss that reads a slope has none itself. */
    assert_non_null(strstr(tdm_last_message(), "a gradient is not differentiated again"));
    return;
  }
  tdm_sequence *sequences[] = {tdm_sequence_create(session), tdm_sequence_create(session)};
  float kept[2][KEPTS][ROWS * WIDTH] = {{{0}}};
  for (int run = 0; run < RUNS; run++) {
    const int turn = draw(2);
    run_once_more(sequences[turn], kept[turn]);
  }
  tdm_sequence_release(sequences[0]);
  tdm_sequence_release(sequences[1]);
  tdm_session_release(session);
}

static void values_are_what_they_were_where_they_are_described(void **unused) {
  (void)unused;
  const seed_range range = seed_range_of(1, 300);
  for (int i = 0; i < range.count; i++) {
    seed = range.first + (uint64_t)i;
    run_seed();
  }
}

int main(int argc, char **argv) {
  seed_range_read(argc, argv);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_are_what_they_were_where_they_are_described),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
