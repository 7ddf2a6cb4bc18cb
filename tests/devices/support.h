/* Helpers for tests of devices: a context with two devices of each kind, kernels with predictable
 * effects, and a flight that is built command by command. Invariant: a test_flight owns its arrays
 * and may be run any number of times. */
#ifndef TANDEM_TESTS_DEVICES_SUPPORT_H
#define TANDEM_TESTS_DEVICES_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/allocate.h"
#include "devices/context/context.h"
#include "devices/tensors/tensor.h"

#define assert_ok(expression)                                                                      \
  do {                                                                                             \
    const tdm_status assert_status_ = (expression);                                                \
    if (assert_status_ != TDM_OK) {                                                                \
      fail_msg("%s: %s: %s", #expression, tdm_status_name(assert_status_), tdm_last_message());    \
    }                                                                                              \
  } while (0)
#define assert_status(expression, expected)                                                        \
  assert_string_equal(tdm_status_name(expression), tdm_status_name(expected))
#define assert_message(part)                                                                       \
  do {                                                                                             \
    if (!strstr(tdm_last_message(), part))                                                         \
      fail_msg("\"%s\" is not in the message \"%s\"", part, tdm_last_message());                   \
  } while (0)

/* Creates a context with two cpu and two sim devices, links without cost, the test kernels
 * registered. settings NULL: of ideal links. */
tdm_context *test_context(const char *sim_settings);
tdm_device *test_device(tdm_context *context, const char *name);

/* For int64 operands: every element of out becomes 31 * out + sum of the inputs + attribute. The
 * first input is the same memory as the output. */
extern const tdm_kernel test_mix_kernel; /* "test_mix" */
/* Fails always: "the kernel that fails". */
extern const tdm_kernel test_failing_kernel; /* "test_failing" */
/* Like mix, but sleeps for attribute microseconds first. */
extern const tdm_kernel test_slow_kernel; /* "test_slow" */
/* Twins of these for devices that do not execute them, NULL at the end; test_context registers
 * them. Defined by a file that the test links in addition to this one. */
extern const tdm_kernel *const test_twins[];
/* Returns the variant of the kernel for device if there is one, otherwise the kernel. */
const tdm_kernel *test_kernel_on(const tdm_device *device, const tdm_kernel *kernel);
/* Returns a device for direct copies to and from device `name`, of another kind if possible. */
const char *test_partner(const char *name);
/* Returns tdm_direct_queue, which is NULL only between two kinds that the host cannot address. */
tdm_queue *test_route(const tdm_device *from, const tdm_device *to);
int64_t test_mix(int64_t out, const int64_t *inputs, size_t input_count, int64_t attribute);

/* ---- Flights --------------------------------------------------------------------------------- */

enum { TEST_MOST_PROGRAMS = 10, TEST_MOST_COMMANDS = 96, TEST_MOST_BASES = 64 };
enum { TEST_MOST_IDS = TEST_MOST_PROGRAMS * TEST_MOST_COMMANDS };

typedef struct test_mix_attributes {
  int64_t value;
  int64_t input_count; /* number of inputs without the first, which is the output */
} test_mix_attributes;

typedef struct test_command_data {
  tdm_spec specs[8];
  tdm_operand operands[8];
  uint32_t dependencies[8];
  test_mix_attributes attributes;
} test_command_data;

typedef struct test_flight {
  tdm_flight flight;
  tdm_context *context;
  tdm_program programs[TEST_MOST_PROGRAMS];
  uint32_t program_count;
  uint64_t program_bases[TEST_MOST_PROGRAMS];
  tdm_submission submissions[TEST_MOST_PROGRAMS];
  tdm_command commands[TEST_MOST_PROGRAMS][TEST_MOST_COMMANDS];
  test_command_data data[TEST_MOST_PROGRAMS][TEST_MOST_COMMANDS];
  tdm_address bases[TEST_MOST_BASES];
  tdm_memory memories[TEST_MOST_BASES];
  uint32_t base_count;
  uint8_t conditions[8];
  uint8_t failed_ids[TEST_MOST_IDS];
  tdm_command_times times[TEST_MOST_IDS];
  tdm_run_scalars scalars;
  uint32_t id_count;
  _Atomic uint32_t settled_count;
  uint32_t bell; /* doorbell of the context, rung when settled */
} test_flight;

test_flight *test_flight_create(tdm_context *context);
void test_flight_destroy(test_flight *test);

/* Adds a base of `count` int64 on device, all `value`; owned by the flight. */
uint32_t test_base(test_flight *test, tdm_device *device, size_t count, int64_t value);
/* Its first element now; the flight has settled. */
int64_t test_value(test_flight *test, uint32_t base);
uint32_t test_program(test_flight *test, tdm_queue *queue);

/* Each appends a command to program and returns it. Ids are given in the order of the calls. */
tdm_command *test_execute(test_flight *test, uint32_t program, const tdm_kernel *kernel,
                          uint32_t out_base, const uint32_t *in_bases, size_t in_count,
                          int64_t attribute);
tdm_command *test_copy(test_flight *test, uint32_t program, uint32_t from_base, uint32_t to_base);
tdm_command *test_wait(test_flight *test, uint32_t program, const tdm_command *for_command);
tdm_command *test_gate(test_flight *test, uint32_t program);
void test_depend(test_flight *test, tdm_command *command, const tdm_command *on);

/* Submits all programs and waits until the flight has settled, but no longer than a minute. */
void test_run(test_flight *test, bool adopt);
void test_submit(test_flight *test, bool adopt);
void test_join(test_flight *test);
bool test_has_failed(const test_flight *test, const tdm_command *command);
/* All points of the flight's programs are reached. */
void assert_reached(const test_flight *test);

#endif
