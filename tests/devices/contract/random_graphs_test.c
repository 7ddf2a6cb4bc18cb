/* Random graphs of integer counters over all devices of a test's context. Several flights run at a
 * time with exactly the waits that order requires, under delays drawn from a seed. The result
 * always equals that of one thread. Without the waits it does not, which shows that the test
 * detects a missing wait. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/context/route.h"
#include "tests/devices/sanitized.h"
#include "tests/devices/support.h"

enum { VALUES = 12, STEPS = 40, FLIGHTS = 3, ROUNDS = 180 };

typedef struct access {
  const tdm_command *command; /* NULL: none yet */
  uint32_t program;
} access;

typedef struct random_graph {
  test_flight *test;
  uint64_t random;
  uint32_t bases[VALUES];
  int64_t oracle[VALUES];
  access writer[VALUES];
  access readers[VALUES][TEST_MOST_PROGRAMS]; /* the last in each program */
  /* [a][b]: number of commands of program b that have ended whenever program a is at its current
   * position. */
  int64_t known[TEST_MOST_PROGRAMS][TEST_MOST_PROGRAMS];
} random_graph;

static uint32_t draw(random_graph *graph, uint32_t bound) {
  graph->random = graph->random * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(graph->random >> 33) % bound;
}

static uint32_t program_for(test_flight *test, tdm_queue *queue) {
  for (uint32_t i = 0; i < test->program_count; i++)
    if (test->programs[i].queue == queue) return i;
  return test->program_count < TEST_MOST_PROGRAMS ? test_program(test, queue) : UINT32_MAX;
}

static void wait_for(random_graph *graph, uint32_t program, const access *other) {
  if (!other->command || other->program == program) return;
  const int64_t position = other->command - graph->test->programs[other->program].commands;
  if (graph->known[program][other->program] >= position) return;
  test_wait(graph->test, program, other->command);
  graph->known[program][other->program] = position;
}

/* Reading waits for the writer, writing for the writer and all readers. */
static void order(random_graph *graph, uint32_t program, uint32_t value, bool writes) {
  wait_for(graph, program, &graph->writer[value]);
  for (uint32_t i = 0; writes && i < graph->test->program_count; i++)
    wait_for(graph, program, &graph->readers[value][i]);
}

static void record(random_graph *graph, uint32_t program, uint32_t value, bool writes,
                   const tdm_command *command) {
  const access now = {.command = command, .program = program};
  if (!writes) {
    graph->readers[value][program] = now;
    return;
  }
  graph->writer[value] = now;
  memset(graph->readers[value], 0, sizeof graph->readers[value]);
}

static tdm_device *device_of(const random_graph *graph, uint32_t value) {
  return graph->test->memories[graph->bases[value]].device;
}

static bool has_room(const test_flight *test, uint32_t program, uint32_t commands) {
  return program != UINT32_MAX && test->programs[program].count + commands <= TEST_MOST_COMMANDS;
}

/* Adds a node: value <- mix(value, up to two others of its device). */
static void add_mix(random_graph *graph) {
  const uint32_t out = draw(graph, VALUES);
  tdm_device *device = device_of(graph, out);
  const uint32_t program = program_for(graph->test, device->queues[TDM_QUEUE_COMPUTE]);
  if (!has_room(graph->test, program, 1 + 3 * (TEST_MOST_PROGRAMS + 1))) return;
  uint32_t inputs[2];
  uint32_t in_bases[2];
  int64_t values[2];
  size_t count = 0;
  for (uint32_t i = 0; i < 2; i++) {
    const uint32_t in = draw(graph, VALUES);
    if (in == out || device_of(graph, in) != device) continue;
    inputs[count] = in;
    in_bases[count] = graph->bases[in];
    values[count++] = graph->oracle[in];
  }
  const int64_t attribute = draw(graph, 1000);
  for (size_t i = 0; i < count; i++)
    order(graph, program, inputs[i], false);
  order(graph, program, out, true);
  const tdm_command *command = test_execute(graph->test, program, &test_mix_kernel,
                                            graph->bases[out], in_bases, count, attribute);
  for (size_t i = 0; i < count; i++)
    record(graph, program, inputs[i], false, command);
  record(graph, program, out, true, command);
  graph->oracle[out] = test_mix(graph->oracle[out], values, count, attribute);
}

static void add_copy(random_graph *graph) {
  const uint32_t from = draw(graph, VALUES);
  const uint32_t to = draw(graph, VALUES);
  tdm_queue *route = tdm_direct_queue(device_of(graph, from), device_of(graph, to));
  if (from == to || !route) return;
  const uint32_t program = program_for(graph->test, route);
  if (!has_room(graph->test, program, 1 + 2 * (TEST_MOST_PROGRAMS + 1))) return;
  order(graph, program, from, false);
  order(graph, program, to, true);
  const tdm_command *command =
      test_copy(graph->test, program, graph->bases[from], graph->bases[to]);
  record(graph, program, from, false, command);
  record(graph, program, to, true, command);
  graph->oracle[to] = graph->oracle[from];
}

static void build(random_graph *graph, tdm_context *context, uint64_t seed) {
  memset(graph, 0, sizeof *graph);
  memset(graph->known, -1, sizeof graph->known);
  graph->random = seed;
  graph->test = test_flight_create(context);
  for (uint32_t i = 0; i < VALUES; i++) {
    tdm_device *device = tdm_context_device(context, i % tdm_device_count(context));
    graph->oracle[i] = i;
    graph->bases[i] = test_base(graph->test, device, 20, i);
  }
  for (uint32_t step = 0; step < STEPS; step++) {
    if (draw(graph, 3) == 0) {
      add_copy(graph);
    } else {
      add_mix(graph);
    }
  }
}

static bool agrees(random_graph *graph) {
  for (uint32_t i = 0; i < VALUES; i++)
    if (test_value(graph->test, graph->bases[i]) != graph->oracle[i]) return false;
  return true;
}

static tdm_context *delayed_context(uint64_t seed) {
  char settings[96];
  (void)snprintf(settings, sizeof settings, "latency_us=%u,gigabytes_per_second=%u,delay_seed=%u",
                 (unsigned)(seed % 3), (unsigned)(seed % 2 * 4), (unsigned)(seed + 1));
  return test_context(settings);
}

/* Runs several flights at a time on the same queues, each with separate memory. */
static void every_seed_gives_the_result_of_one_thread(void **state) {
  (void)state;
  tdm_context *context = NULL;
  random_graph *graphs = calloc(FLIGHTS, sizeof *graphs);
  assert_non_null(graphs);
  for (uint64_t seed = 0; seed < ROUNDS; seed++) {
    if (seed % 20 == 0) context = delayed_context(seed);
    for (uint64_t i = 0; i < FLIGHTS; i++)
      build(&graphs[i], context, seed * FLIGHTS + i);
    for (uint64_t i = 0; i < FLIGHTS; i++)
      test_submit(graphs[i].test, (seed + i) % 2 == 0);
    for (uint64_t i = 0; i < FLIGHTS; i++)
      test_join(graphs[i].test);
    for (uint64_t i = 0; i < FLIGHTS; i++) {
      assert_int_equal(graphs[i].test->flight.failure.id, UINT32_MAX);
      if (!agrees(&graphs[i])) fail_msg("seed %u differs", (unsigned)(seed * FLIGHTS + i));
      test_flight_destroy(graphs[i].test);
    }
    if (seed % 20 == 19) tdm_context_release(context);
  }
  free(graphs);
}

static void without_waits_some_seed_differs(void **state) {
  (void)state;
  if (test_is_thread_sanitized()) skip(); /* the race is the point here: it would end the program */
  tdm_context *context = delayed_context(3);
  random_graph *graph = calloc(1, sizeof *graph);
  assert_non_null(graph);
  bool differed = false;
  for (uint64_t seed = 0; seed < 200 && !differed; seed++) {
    build(graph, context, seed);
    for (uint32_t i = 0; i < graph->test->program_count; i++) {
      const tdm_program *program = &graph->test->programs[i];
      for (uint32_t k = 0; k < program->count; k++) {
        if (program->commands[k].kind != TDM_COMMAND_WAIT) continue;
        program->commands[k].kind = TDM_COMMAND_NOTHING;
      }
    }
    test_run(graph->test, false);
    differed = !agrees(graph);
    test_flight_destroy(graph->test);
  }
  free(graph);
  tdm_context_release(context);
  assert_true(differed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_seed_gives_the_result_of_one_thread),
      cmocka_unit_test(without_waits_some_seed_differs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
