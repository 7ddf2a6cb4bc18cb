/* See pool_support.h. */
#include "tests/devices/staging/pool_support.h"

#include <stdlib.h>

enum { PAGE = 4096, NODE = 3 };

static void *map(void *user, size_t bytes, int node, bool *out_bound) {
  test_system *system = user;
  system->asked = node;
  *out_bound = !system->refuses_binds && node >= 0;
  if (system->refuses_maps) return NULL;
  system->mapped_bytes += bytes;
  return aligned_alloc(PAGE, bytes);
}

static void unmap(void *user, void *memory, size_t bytes) {
  test_system *system = user;
  assert_true(bytes <= system->mapped_bytes);
  system->mapped_bytes -= bytes;
  free(memory);
}

static int node_of(void *user, const void *memory, size_t bytes) {
  test_system *system = user;
  assert_non_null(memory);
  assert_int_equal(bytes % PAGE, 0);
  system->random = system->random * 6364136223846793005u + 1442695040888963407u;
  bool lie = system->wrong_every > 0 && (system->random >> 33) % system->wrong_every == 0;
  if (system->wrong_at > 0) lie = lie || --system->wrong_at == 0;
  system->lies += lie;
  system->last_report_was_true = !lie;
  if (lie) return NODE + 4;
  return system->reported == TEST_TRUTH ? NODE : system->reported;
}

tdm_pool_system test_system_of(test_system *system) {
  return (tdm_pool_system){.map = map, .unmap = unmap, .node_of = node_of, .user = system};
}

static tdm_status pin(tdm_device *device, void *memory, size_t bytes) {
  test_pinner *pinner = (test_pinner *)device;
  assert_non_null(memory);
  if (pinner->answer != TDM_OK) return tdm_fail(pinner->answer, "the driver will not");
  pinner->pinned_bytes += bytes;
  return TDM_OK;
}

static tdm_status unpin(tdm_device *device, void *memory, size_t bytes) {
  test_pinner *pinner = (test_pinner *)device;
  assert_non_null(memory);
  assert_true(bytes <= pinner->pinned_bytes);
  pinner->pinned_bytes -= bytes;
  return TDM_OK;
}

void test_pinner_init(test_pinner *pinner, tdm_context *context) {
  *pinner = (test_pinner){.ops = {.kind = "pinner", .pin = pin, .unpin = unpin}};
  pinner->device =
      (tdm_device){.ops = &pinner->ops, .context = context, .name = "pinner:0", .node = NODE};
}

tdm_pool *test_pool(tdm_context *context, const tdm_staging_pool_options *options) {
  tdm_pool *pool = NULL;
  assert_ok(tdm_pool_create(context, options, &pool));
  return pool;
}

tdm_pool_counters test_counters(tdm_pool *pool) {
  tdm_pool_counters counters;
  tdm_pool_counters_read(pool, &counters);
  return counters;
}
