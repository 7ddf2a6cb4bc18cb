/* A flight's record of failures: which commands fail, which message is reported, and the state in
 * the next run. */
#include <string.h>

#include "tests/devices/support.h"

enum { IDS = 6 };

typedef struct fixture {
  uint8_t failed_ids[IDS];
  tdm_flight flight;
} fixture;

static void begin(fixture *made) {
  memset(made, 0, sizeof *made);
  made->flight.failed_ids = made->failed_ids;
  tdm_flight_reset(&made->flight, IDS);
}

static void assert_failed(const fixture *made, const char *ids) {
  for (int i = 0; i < IDS; i++)
    if (made->failed_ids[i] != (ids[i] == 'x')) fail_msg("id %d: %d", i, made->failed_ids[i]);
}

static bool spoils(fixture *made, uint32_t id, const uint32_t *dependencies, uint32_t count) {
  const tdm_command command = {
      .id = id, .dependencies = dependencies, .dependency_count = (uint8_t)count};
  return tdm_flight_spoiled(&made->flight, &command);
}

static void the_earliest_failure_is_told(void **state) {
  (void)state;
  fixture made;
  char text[TDM_MESSAGE_BYTES];
  begin(&made);
  assert_status(tdm_flight_read_failure(&made.flight, text), TDM_INTERNAL); /* it has not failed */
  assert_string_equal(text, "");
  assert_int_equal(made.flight.failure.id, UINT32_MAX);
  tdm_flight_fail(&made.flight, 4, TDM_IO, "four");
  assert_status(tdm_flight_read_failure(&made.flight, text), TDM_IO);
  assert_string_equal(text, "four");
  tdm_flight_fail(&made.flight, 4, TDM_UNAVAILABLE, "again");
  tdm_flight_fail(&made.flight, 5, TDM_UNAVAILABLE, "five");
  assert_status(tdm_flight_read_failure(&made.flight, text), TDM_IO);
  assert_string_equal(text, "four");
  tdm_flight_fail(&made.flight, 0, TDM_OUT_OF_MEMORY, "none");
  assert_status(tdm_flight_read_failure(&made.flight, text), TDM_OUT_OF_MEMORY);
  assert_string_equal(text, "none");
  assert_int_equal(made.flight.failure.id, 0);
  assert_int_equal(atomic_load(&made.flight.failed), 1);
  assert_failed(&made, "x   xx");
}

static void failures_go_to_those_that_depend_on_them(void **state) {
  (void)state;
  static const uint32_t first[] = {1, 2}, last[] = {2, 1};
  fixture made;
  begin(&made);
  tdm_flight_mark_failed(&made.flight, 1); /* the flight has not failed yet */
  assert_false(spoils(&made, 3, first, 2));
  begin(&made);
  tdm_flight_fail(&made.flight, 1, TDM_IO, "one");
  assert_false(spoils(&made, 2, NULL, 0));
  assert_true(spoils(&made, 1, NULL, 0));
  assert_false(spoils(&made, 3, &first[1], 1));
  assert_failed(&made, " x    ");
  assert_true(spoils(&made, 3, first, 2));
  assert_true(spoils(&made, 4, last, 2));
  assert_failed(&made, " x xx ");
  tdm_flight_reset(&made.flight, IDS);
  assert_failed(&made, "      ");
  assert_false(spoils(&made, 3, first, 2));
  assert_int_equal(atomic_load(&made.flight.failed), 0);
  assert_int_equal(made.flight.failure.id, UINT32_MAX);
  assert_int_equal(made.flight.failure.status, TDM_OK);
  assert_string_equal(made.flight.failure.message, "");
}

static void who_is_stopped_first_says_with_what(void **state) {
  (void)state;
  fixture made;
  char text[TDM_MESSAGE_BYTES];
  begin(&made);
  assert_false(spoils(&made, 2, NULL, 0));
  assert_true(tdm_flight_stop(&made.flight, TDM_CANCELLED));
  assert_false(tdm_flight_stop(&made.flight, TDM_DEADLINE_EXCEEDED));
  assert_status(tdm_flight_close(&made.flight), TDM_CANCELLED);
  assert_true(spoils(&made, 2, NULL, 0));
  assert_failed(&made, "  x   ");
  assert_status(tdm_flight_read_failure(&made.flight, text), TDM_CANCELLED);
  assert_string_equal(text, "the run was stopped");
  tdm_flight_fail(&made.flight, 3, TDM_IO, "three"); /* with a more specific message */
  assert_status(tdm_flight_read_failure(&made.flight, text), TDM_IO);
  assert_string_equal(text, "three");
  tdm_flight_reset(&made.flight, IDS);
  assert_false(spoils(&made, 2, NULL, 0));
  for (int i = 0; i < 2; i++)
    assert_ok(tdm_flight_close(&made.flight));
  assert_false(tdm_flight_stop(&made.flight, TDM_CANCELLED));
  assert_int_equal(atomic_load(&made.flight.failed), 0);
  tdm_flight_fail(&made.flight, 3, TDM_IO, "three");
  assert_false(spoils(&made, 2, NULL, 0)); /* a closed flight is not a stopped one */
  assert_status(tdm_flight_read_failure(&made.flight, text), TDM_IO);
  tdm_flight_reset(&made.flight, IDS);
  assert_true(tdm_flight_stop(&made.flight, TDM_CANCELLED));
}

/* The command that waited, after other waits; none if no command follows. */
static void a_wait_fails_the_command_behind_it(void **state) {
  (void)state;
  tdm_command commands[] = {
      {.kind = TDM_COMMAND_EXECUTE, .id = 0}, {.kind = TDM_COMMAND_WAIT, .id = 1},
      {.kind = TDM_COMMAND_WAIT, .id = 2},    {.kind = TDM_COMMAND_COPY, .id = 3},
      {.kind = TDM_COMMAND_EXECUTE, .id = 4}, {.kind = TDM_COMMAND_WAIT, .id = 5}};
  const tdm_program program = {.commands = commands, .count = IDS};
  for (uint32_t cursor = 1; cursor < IDS; cursor += cursor == 2 ? 3 : 1) {
    fixture made;
    begin(&made);
    (void)tdm_fail(TDM_IO, "why");
    tdm_flight_fail_after_wait(&made.flight, &program, cursor, TDM_IO);
    assert_failed(&made, cursor == 5 ? "      " : "   x  ");
    assert_string_equal(made.flight.failure.message, cursor == 5 ? "" : "why");
    assert_int_equal(made.flight.failure.status, cursor == 5 ? TDM_OK : TDM_IO);
  }
}

static void points_are_counted_from_where_programs_begin(void **state) {
  (void)state;
  tdm_queue queues[2];
  const tdm_program programs[2] = {{.queue = &queues[0]}, {.queue = &queues[1]}};
  uint64_t own[2] = {100, 200};
  const uint64_t before[2] = {50, TDM_BASE_NONE};
  tdm_flight flight = {.programs = programs, .program_bases = own, .previous_bases = before};
  uint64_t sequence = 0;
  tdm_wait wait = {.program = 1, .position = 7};
  assert_ptr_equal(tdm_flight_awaited(&flight, &wait, &sequence), &queues[1]);
  assert_int_equal(sequence, 207);
  wait.previous = true;
  assert_null(tdm_flight_awaited(&flight, &wait, &sequence)); /* it was not in the run before */
  wait.program = 0;
  assert_ptr_equal(tdm_flight_awaited(&flight, &wait, &sequence), &queues[0]);
  assert_int_equal(sequence, 57);
  flight.previous_bases = NULL;
  assert_null(tdm_flight_awaited(&flight, &wait, &sequence));
}

static void operands_have_the_bytes_of_their_shapes(void **state) {
  (void)state;
  tdm_spec spec = {.dtype = TDM_FLOAT64, .shape = tdm_shape_of(2, 3, 5)};
  assert_int_equal(tdm_operand_bytes(&spec), 120);
  spec.shape = tdm_shape_of(2, 0, 5);
  assert_int_equal(tdm_operand_bytes(&spec), 0);
  spec.format = TDM_FORMAT_DENSE + 1; /* known only to its kernel */
  assert_int_equal(tdm_operand_bytes(&spec), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_earliest_failure_is_told),
      cmocka_unit_test(failures_go_to_those_that_depend_on_them),
      cmocka_unit_test(who_is_stopped_first_says_with_what),
      cmocka_unit_test(a_wait_fails_the_command_behind_it),
      cmocka_unit_test(points_are_counted_from_where_programs_begin),
      cmocka_unit_test(operands_have_the_bytes_of_their_shapes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
