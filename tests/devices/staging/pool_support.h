/* Shared by the tests of the staging pool: a system that can return wrong results, and a device
 * with only a node and a result of its driver. Invariant: mappings of a double are counted, so a
 * leak is detected. */
#ifndef TANDEM_TESTS_DEVICES_STAGING_POOL_SUPPORT_H
#define TANDEM_TESTS_DEVICES_STAGING_POOL_SUPPORT_H

#include "devices/staging/pool.h"
#include "devices/topology/topology.h"
#include "tests/devices/support.h"

typedef struct test_system {
  bool refuses_binds;
  bool refuses_maps;
  int reported;         /* node that node_of returns; TEST_TRUTH: the node that was requested last
                         * from map */
  uint64_t wrong_at;    /* the Nth call of node_of from now reports a wrong node; 0: none */
  uint64_t wrong_every; /* draws: one of this many calls; 0: none */
  uint64_t random;
  uint64_t lies;
  int asked;
  size_t mapped_bytes;
  bool last_report_was_true;
} test_system;
enum { TEST_TRUTH = 1000 };

/* Returns the value for tdm_staging_pool_options.system; one thread. */
tdm_pool_system test_system_of(test_system *system);

/* A device on node 3 whose pin function returns `answer`. No other function of it may be called. */
typedef struct test_pinner {
  tdm_device device;
  tdm_device_ops ops;
  tdm_status answer;
  size_t pinned_bytes;
} test_pinner;
void test_pinner_init(test_pinner *pinner, tdm_context *context);

tdm_pool *test_pool(tdm_context *context, const tdm_staging_pool_options *options);
tdm_pool_counters test_counters(tdm_pool *pool);

#endif
