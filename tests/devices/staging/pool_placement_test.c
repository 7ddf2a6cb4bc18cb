/* Placement of staging memory: after thousands of requests and reuses each buffer is on the
 * requested node, by the kernel's own report. A system that places one on another node is
 * detected. */
#include "tests/devices/staging/pool_support.h"
#include "tests/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, REQUESTS = 10000, MOST_OUT = 24 };

static uint64_t draw(uint64_t *random) {
  *random = *random * 6364136223846793005u + 1442695040888963407u;
  return *random >> 33;
}

/* REQUESTS takes of mixed sizes, up to MOST_OUT of them out at a time; verify judges each. */
static void churn(tdm_pool *pool, tdm_device *const *devices, size_t device_count,
                  void (*verify)(tdm_device *device, const tdm_staging *staging, void *user),
                  void *user) {
  tdm_staging *out[MOST_OUT] = {NULL};
  uint64_t random = 7;
  for (size_t i = 0; i < REQUESTS; i++) {
    const size_t slot = draw(&random) % MOST_OUT;
    if (out[slot]) tdm_pool_give_back(pool, out[slot], NULL, 0);
    tdm_device *device = devices[draw(&random) % device_count];
    const size_t bytes = 1 + draw(&random) % ((size_t)PAGE << draw(&random) % 6);
    assert_ok(tdm_pool_take(pool, device, bytes, &out[slot]));
    assert_true(out[slot]->bytes >= bytes);
    verify(device, out[slot], user);
  }
}

/* ---- This machine ---------------------------------------------------------------------------- */

static void verify_by_the_kernel(tdm_device *device, const tdm_staging *staging, void *user) {
  const tdm_topology *topology = user;
  const int found = tdm_topology_memory_node(topology, staging->memory, staging->bytes);
  if (found != device->node) {
    fail_msg("%zu bytes for %s are on node %d, not %d", staging->bytes, device->name, found,
             device->node);
  }
  assert_int_equal(staging->node, device->node);
  assert_int_equal(staging->pinned, !device->host_addressable);
}

static void every_buffer_lies_on_the_node_asked_for(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  const tdm_topology *topology = tdm_context_topology(context);
  const int here = 0;
  if (tdm_topology_memory_node(topology, &here, sizeof here) == TDM_NODE_UNKNOWN) {
    print_message("skipped: this kernel does not tell where memory lies\n");
    tdm_context_release(context);
    skip();
  }
  tdm_device *devices[4] = {test_device(context, "cpu:0"), test_device(context, "cpu:1"),
                            test_device(context, "sim:0"), test_device(context, "sim:1")};
  for (size_t i = 0; i < 4; i++)
    assert_true(devices[i]->node >= 0);
  tdm_pool *pool = test_pool(context, &(tdm_staging_pool_options){.cap_bytes = 8 << 20});
  churn(pool, devices, 4, verify_by_the_kernel, (void *)(uintptr_t)topology);
  const tdm_pool_counters counters = test_counters(pool);
  assert_int_equal(counters.taken, REQUESTS);
  assert_int_equal(counters.made + counters.reused, REQUESTS);
  assert_true(counters.reused > REQUESTS / 2);
  assert_int_equal(counters.misplaced, 0);
  assert_int_equal(counters.refused_pins, 0);
  assert_int_equal(counters.refused_binds, 0);
  assert_true(counters.peak_bytes <= counters.cap_bytes);
  tdm_pool_destroy(pool);
  tdm_context_release(context);
}

static void large_buffers_lie_there_too(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  const tdm_topology *topology = tdm_context_topology(context);
  tdm_device *device = test_device(context, "sim:0");
  tdm_pool *pool = test_pool(context, &(tdm_staging_pool_options){.exact = true});
  for (size_t bytes = (2 << 20) - PAGE; bytes <= (4 << 20) + PAGE; bytes += (1 << 20) - PAGE) {
    tdm_staging *staging = NULL;
    assert_ok(tdm_pool_take(pool, device, bytes, &staging));
    assert_int_equal(staging->bytes, bytes);
    memset(staging->memory, 1, bytes);
    const int found = tdm_topology_memory_node(topology, staging->memory, bytes);
    if (found != TDM_NODE_UNKNOWN) assert_int_equal(found, device->node);
  }
  tdm_pool_destroy(pool);
  tdm_context_release(context);
}

/* ---- Machines that lie ----------------------------------------------------------------------- */

typedef struct lying_pool {
  tdm_context *context;
  test_system system;
  tdm_pool_system doubles;
  test_pinner pinner;
  tdm_pool *pool;
  int told; /* warnings in the log */
  char text[TDM_MESSAGE_BYTES];
} lying_pool;

static void keep_warning(void *user, tdm_log_level level, const char *text) {
  lying_pool *lying = user;
  if (level != TDM_LOG_WARNING) return;
  lying->told++;
  (void)snprintf(lying->text, sizeof lying->text, "%s", text);
}

static void lying_pool_init(lying_pool *lying, test_system system) {
  lying->told = 0;
  lying->context =
      tdm_context_create(WITH(tdm_context_options, o.log = keep_warning, o.log_user = lying));
  assert_non_null(lying->context);
  lying->system = system;
  lying->doubles = test_system_of(&lying->system);
  test_pinner_init(&lying->pinner, lying->context);
  lying->pool = test_pool(
      lying->context, &(tdm_staging_pool_options){.system = &lying->doubles, .cap_bytes = 8 << 20});
}

static void lying_pool_deinit(lying_pool *lying) {
  tdm_pool_destroy(lying->pool);
  assert_int_equal(lying->system.mapped_bytes, 0);
  assert_int_equal(lying->pinner.pinned_bytes, 0);
  tdm_context_release(lying->context);
}

static void a_wrong_node_is_detected_when_made(void **state) {
  (void)state;
  lying_pool lying;
  lying_pool_init(&lying, (test_system){.reported = TEST_TRUTH, .wrong_at = 1});
  tdm_staging *staging = NULL;
  assert_ok(tdm_pool_take(lying.pool, &lying.pinner.device, PAGE, &staging));
  assert_int_equal(staging->node, 3); /* the second try succeeded */
  assert_int_equal(test_counters(lying.pool).misplaced, 1);
  assert_int_equal(lying.system.mapped_bytes, PAGE);
  assert_int_equal(lying.pinner.pinned_bytes, PAGE); /* misplaced memory is not even pinned */
  lying_pool_deinit(&lying);
}

/* The memory is used, but only as pageable memory. */
static void a_system_that_keeps_misplacing_is_told_once(void **state) {
  (void)state;
  const int reports[] = {1, TDM_NODE_SEVERAL};
  for (size_t i = 0; i < TDM_COUNT_OF(reports); i++) {
    lying_pool lying;
    lying_pool_init(&lying, (test_system){.reported = reports[i]});
    uint64_t seen = 0;
    for (int taken = 1; taken <= 3; taken++) {
      tdm_staging *staging = NULL;
      assert_ok(tdm_pool_take(lying.pool, &lying.pinner.device, PAGE, &staging));
      assert_int_equal(staging->node, reports[i]);
      assert_false(staging->pinned);
      assert_false(tdm_pool_is_pinned(lying.pool, &lying.pinner.device, staging->memory, PAGE));
      assert_int_equal(lying.pinner.pinned_bytes, 0);
      assert_int_equal(lying.system.mapped_bytes, PAGE); /* one attempt of two */
      seen = test_counters(lying.pool).misplaced;
      tdm_pool_give_back(lying.pool, staging, NULL, 0);
    }
    assert_int_equal(seen, 2); /* it is reused as it is */
    assert_int_equal(test_counters(lying.pool).reused, 2);
    assert_int_equal(test_counters(lying.pool).refused_binds, 0);
    assert_int_equal(lying.told, 1);
    assert_non_null(strstr(lying.text, "granted on NUMA node 3 and lies on"));
    lying_pool_deinit(&lying);
  }
}

static void a_wrong_node_is_detected_at_reuse(void **state) {
  (void)state;
  for (size_t page = 1; page <= 4; page++) {
    lying_pool lying;
    lying_pool_init(&lying, (test_system){.reported = TEST_TRUTH});
    tdm_staging *staging = NULL;
    assert_ok(tdm_pool_take(lying.pool, &lying.pinner.device, 4 * PAGE, &staging));
    tdm_pool_give_back(lying.pool, staging, NULL, 0);
    lying.system.wrong_at = page; /* one page of it has moved */
    assert_ok(tdm_pool_take(lying.pool, &lying.pinner.device, 4 * PAGE, &staging));
    const tdm_pool_counters counters = test_counters(lying.pool);
    assert_int_equal(counters.misplaced, 1);
    assert_int_equal(counters.made, 2); /* a new one instead */
    assert_int_equal(counters.reused, 0);
    assert_int_equal(counters.released, 1);
    assert_int_equal(counters.bytes, 4 * PAGE);
    lying_pool_deinit(&lying);
  }
}

/* The queried pages of a block, one bit each. */
typedef struct asked_pages {
  tdm_pool_system system; /* system calls with a working query */
  const char *block;
  uint64_t pages;
} asked_pages;

static void *map_noted(void *user, size_t bytes, int node, bool *out_bound) {
  asked_pages *asked = user;
  void *memory = asked->system.map(asked->system.user, bytes, node, out_bound);
  asked->block = memory;
  return memory;
}

static void unmap_noted(void *user, void *memory, size_t bytes) {
  const asked_pages *asked = user;
  asked->system.unmap(asked->system.user, memory, bytes);
}

static int note_page(void *user, const void *memory, size_t bytes) {
  asked_pages *asked = user;
  const size_t page = (size_t)((const char *)memory - asked->block) / PAGE;
  if (bytes == PAGE) asked->pages |= UINT64_C(1) << page;
  return asked->system.node_of(asked->system.user, memory, bytes);
}

/* When a buffer is reused, all of a few pages are checked; of many the first, the last, and some
 * between. */
static void pages_are_looked_at_all_over_a_buffer(void **state) {
  (void)state;
  const struct {
    size_t pages;
    uint64_t asked;
  } cases[] = {{1, 0x1}, {2, 0x3}, {8, 0xff}, {64, 0x8040201008040201}};
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    lying_pool lying;
    lying_pool_init(&lying, (test_system){.reported = TEST_TRUTH});
    asked_pages asked = {.system = lying.doubles};
    const tdm_pool_system system = {
        .map = map_noted, .unmap = unmap_noted, .node_of = note_page, .user = &asked};
    tdm_pool *pool = test_pool(
        lying.context,
        &(tdm_staging_pool_options){.system = &system, .cap_bytes = 8 << 20, .exact = true});
    tdm_staging *staging = NULL;
    assert_ok(tdm_pool_take(pool, &lying.pinner.device, cases[i].pages * PAGE, &staging));
    tdm_pool_give_back(pool, staging, NULL, 0);
    asked.pages = 0;
    assert_ok(tdm_pool_take(pool, &lying.pinner.device, cases[i].pages * PAGE, &staging));
    assert_true(asked.pages == cases[i].asked);
    tdm_pool_destroy(pool);
    lying_pool_deinit(&lying);
  }
}

static void a_system_that_does_not_tell_is_believed(void **state) {
  (void)state;
  lying_pool lying;
  lying_pool_init(&lying, (test_system){.reported = TDM_NODE_UNKNOWN});
  for (size_t i = 0; i < 2; i++) {
    tdm_staging *staging = NULL;
    assert_ok(tdm_pool_take(lying.pool, &lying.pinner.device, PAGE, &staging));
    assert_int_equal(staging->node, TDM_NODE_UNKNOWN); /* and it is reported as unknown */
    tdm_pool_give_back(lying.pool, staging, NULL, 0);
  }
  assert_int_equal(test_counters(lying.pool).reused, 1);
  assert_int_equal(test_counters(lying.pool).misplaced, 0);
  lying_pool_deinit(&lying);
}

static void verify_last_report(tdm_device *device, const tdm_staging *staging, void *user) {
  const test_system *system = user;
  assert_true(system->last_report_was_true);
  assert_int_equal(staging->node, device->node);
}

static void no_buffer_is_handed_out_after_a_wrong_report(void **state) {
  (void)state;
  lying_pool lying;
  lying_pool_init(&lying, (test_system){.reported = TEST_TRUTH, .wrong_every = 5000, .random = 11});
  tdm_device *devices[1] = {&lying.pinner.device};
  churn(lying.pool, devices, 1, verify_last_report, &lying.system);
  const tdm_pool_counters counters = test_counters(lying.pool);
  assert_in_range(lying.system.lies, 3, 100);
  assert_int_equal(counters.misplaced, lying.system.lies); /* each was noticed */
  assert_int_equal(counters.taken, REQUESTS);
  lying_pool_deinit(&lying);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_buffer_lies_on_the_node_asked_for),
      cmocka_unit_test(large_buffers_lie_there_too),
      cmocka_unit_test(a_wrong_node_is_detected_when_made),
      cmocka_unit_test(a_system_that_keeps_misplacing_is_told_once),
      cmocka_unit_test(a_wrong_node_is_detected_at_reuse),
      cmocka_unit_test(pages_are_looked_at_all_over_a_buffer),
      cmocka_unit_test(a_system_that_does_not_tell_is_believed),
      cmocka_unit_test(no_buffer_is_handed_out_after_a_wrong_report),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
