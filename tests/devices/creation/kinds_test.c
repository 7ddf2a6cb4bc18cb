/* Ranks that need the kernels of a kind: the kind is the test's own. Some ranks have devices of it,
 * and some the library of its kernels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>

#include "devices/context/context.h"
#include "devices/cpu/cpu.h"
#include "devices/creation/job.h"
#include "devices/sim/sim.h"
#include "tests/options.h"
#include "tests/support/simnet.h"

/* ---- The kind -------------------------------------------------------------------------------- */

/* The devices and kernels of the kind on the rank of the calling thread. */
typedef struct equipment {
  bool device;
  bool library;
} equipment;

static _Thread_local equipment mine;

static tdm_status npu_count(tdm_context *context, const tdm_kind_options *options,
                            size_t *out_count, const char **out_reason) {
  (void)context;
  (void)options;
  *out_count = mine.device;
  *out_reason = "this rank has none";
  return TDM_OK;
}

/* Creates a simulated device with separate kernels. */
static tdm_status npu_create(tdm_context *context, const tdm_kind_options *options, int index,
                             tdm_device **out_device) {
  static tdm_device_ops ops;
  TDM_TRY(tdm_sim_kind.create(context, options, index, out_device));
  ops = *(*out_device)->ops;
  ops.kind = ops.executes = "npu";
  (*out_device)->ops = &ops;
  return TDM_OK;
}

static tdm_status npu_kernels(tdm_kernel_visitor visit, void *user) {
  (void)visit;
  (void)user;
  return mine.library ? TDM_OK : tdm_fail(TDM_UNAVAILABLE, "no library of kernels");
}

static const tdm_kind npu_kind = {.name = "npu",
                                  .on_host = true,
                                  .count = npu_count,
                                  .create = npu_create,
                                  .each_kernel = npu_kernels};

const tdm_kind *const tdm_device_kinds[] = {&tdm_cpu_kind, &npu_kind, NULL};

/* ---- Ranks ----------------------------------------------------------------------------------- */

enum { RANKS = 2 };

typedef struct rank {
  equipment has;
  tdm_endpoint *endpoint; /* NULL: no job */
  size_t device_count;    /* 0 if no context could be created */
  char told[TDM_MESSAGE_BYTES];
  char failure[TDM_MESSAGE_BYTES];
} rank;

static void note(void *user, tdm_log_level level, const char *message) {
  rank *self = user;
  if (level == TDM_LOG_WARNING) (void)snprintf(self->told, sizeof self->told, "%s", message);
}

static void *create(void *user) {
  rank *self = user;
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 1, o.log = note, o.log_user = self);
  mine = self->has;
  tdm_context *context = self->endpoint ? tdm_context_create_in_job(&options, self->endpoint, NULL)
                                        : tdm_context_create(&options);
  if (context)
    self->device_count = tdm_device_count(context);
  else
    (void)snprintf(self->failure, sizeof self->failure, "%s", tdm_last_message());
  tdm_context_release(context);
  return NULL;
}

/* Rank 1 has a device of the kind and its kernels; returns the result of rank 0. */
static void create_job(equipment first, rank *out_first) {
  const tdm_allocator allocator = tdm_allocator_default();
  const tdm_simnet_options options = {.struct_size = sizeof(options), .rank_count = RANKS};
  tdm_simnet *net;
  pthread_t threads[RANKS];
  rank ranks[RANKS] = {{.has = first}, {.has = {.device = true, .library = true}}};
  assert_int_equal(tdm_simnet_create(&allocator, &options, &net), TDM_OK);
  for (int r = 0; r < RANKS; r++) {
    assert_int_equal(tdm_simnet_endpoint(net, r, &ranks[r].endpoint), TDM_OK);
    assert_int_equal(pthread_create(&threads[r], NULL, create, &ranks[r]), 0);
  }
  for (int r = 0; r < RANKS; r++)
    assert_int_equal(pthread_join(threads[r], NULL), 0);
  tdm_simnet_release(net);
  assert_int_equal(ranks[1].device_count, 3);
  assert_string_equal(ranks[1].told, "");
  *out_first = ranks[0];
}

static void kernels_of_other_ranks_devices_are_there_too(void **state) {
  (void)state;
  rank first;
  create_job((equipment){.library = true}, &first);
  assert_int_equal(first.device_count, 3);
  assert_string_equal(first.told, "");
}

static void a_rank_without_them_cannot_plan_for_others(void **state) {
  (void)state;
  rank first;
  create_job((equipment){.library = false}, &first);
  assert_int_equal(first.device_count, 3);
  assert_string_equal(first.told, "rank 0: nothing can be planned for npu of other ranks: "
                                  "no library of kernels");
}

static void a_device_without_kernels_is_no_device(void **state) {
  (void)state;
  rank alone = {.has = {.device = true}};
  (void)create(&alone);
  assert_int_equal(alone.device_count, 0);
  assert_string_equal(alone.failure, "no library of kernels");
  alone = (rank){.has = {.device = false}};
  (void)create(&alone);
  assert_int_equal(alone.device_count, 1);
  assert_string_equal(alone.told, "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kernels_of_other_ranks_devices_are_there_too),
      cmocka_unit_test(a_rank_without_them_cannot_plan_for_others),
      cmocka_unit_test(a_device_without_kernels_is_no_device),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
