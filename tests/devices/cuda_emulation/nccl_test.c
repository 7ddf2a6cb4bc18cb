/* The double of NCCL behaves like NCCL: members join and sum in any order of arrival, only streams
 * wait, errors are reported late or never, and abort ends operations that would never end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "devices/cuda/library/nccl.h"
#include "tests/devices/cuda_emulation/emulation.h"
#include "tests/devices/sanitized.h"

enum { MEMBERS = 3, COUNT = 50 };

typedef struct team {
  const tdm_cuda_api *cuda;
  const tdm_nccl_api *nccl;
  tdm_nccl_communicator members[MEMBERS];
  tdm_cuda_stream streams[MEMBERS];
  void *memory[MEMBERS];
} team;

static tdm_nccl_code look(const team *of, int member) {
  tdm_nccl_code error = -1;
  assert_int_equal(of->nccl->async_error(of->members[member], &error), TDM_NCCL_SUCCESS);
  return error;
}

static void await(const team *of, int member) {
  while (look(of, member) == TDM_NCCL_IN_PROGRESS)
    continue;
}

static void upload(const team *of, int member, double value) {
  double values[COUNT];
  for (int i = 0; i < COUNT; i++)
    values[i] = value + i;
  const tdm_cuda_api *cuda = of->cuda;
  assert_int_equal(cuda->device_set(member), 0);
  assert_int_equal(cuda->copy(of->memory[member], values, sizeof(values), TDM_CUDA_TO_DEVICE), 0);
}

/* Creates a team that has joined. The value of each member is its number. */
static void begin(team *of) {
  unsigned char id[TDM_NCCL_ID_BYTES];
  *of = (team){.cuda = tdm_cuda_api_linked(), .nccl = tdm_nccl_api_linked()};
  emulation_set_driver(EMULATED_DRIVER, MEMBERS);
  assert_null(of->nccl->absence());
  assert_int_equal(of->nccl->unique_id(id), TDM_NCCL_SUCCESS);
  for (int m = MEMBERS; m-- > 0;) {
    assert_int_equal(of->cuda->device_set(m), 0);
    assert_int_equal(of->cuda->stream_create(&of->streams[m], false), 0);
    assert_int_equal(of->cuda->allocate(&of->memory[m], COUNT * sizeof(double)), 0);
    assert_int_equal(of->nccl->init(&of->members[m], MEMBERS, id, m), TDM_NCCL_IN_PROGRESS);
    assert_true(m == 0 || look(of, m) == TDM_NCCL_IN_PROGRESS); /* until the last has joined */
    upload(of, m, m);
  }
  for (int m = 0; m < MEMBERS; m++) {
    await(of, m);
    assert_int_equal(look(of, m), TDM_NCCL_SUCCESS);
  }
}

static void end(team *of) {
  for (int m = 0; m < MEMBERS; m++) {
    if (of->members[m]) assert_int_equal(of->nccl->abort(of->members[m]), TDM_NCCL_SUCCESS);
    assert_int_equal(of->cuda->device_set(m), 0);
    assert_int_equal(of->cuda->stream_destroy(of->streams[m]), 0);
    assert_int_equal(of->cuda->release(of->memory[m]), 0);
  }
  assert_int_equal(emulation_outstanding(), 0);
}

static tdm_nccl_code sum(const team *of, int member) {
  const tdm_nccl_code code = of->nccl->all_reduce(of->members[member], of->memory[member], COUNT,
                                                  TDM_FLOAT64, of->streams[member]);
  if (code == TDM_NCCL_IN_PROGRESS) await(of, member);
  return code == TDM_NCCL_IN_PROGRESS ? look(of, member) : code;
}

static double element(const team *of, int member, int i) {
  double values[COUNT];
  const tdm_cuda_api *cuda = of->cuda;
  assert_int_equal(cuda->device_set(member), 0);
  assert_int_equal(cuda->stream_synchronize(of->streams[member]), 0);
  assert_int_equal(cuda->copy(values, of->memory[member], sizeof(values), TDM_CUDA_TO_HOST), 0);
  return values[i];
}

static void members_that_come_in_any_order_get_the_sum(void **state) {
  (void)state;
  team of;
  for (uint64_t seed = 0; seed < 20; seed++) {
    emulation_set_nccl_jitter(seed);
    emulation_set_jitter(seed);
    begin(&of);
    double expected[COUNT];
    for (int i = 0; i < COUNT; i++)
      expected[i] = 0 + 1 + 2 + 3 * i;
    for (int round = 0; round < 3; round++) {
      for (int m = 0; m < MEMBERS; m++)
        assert_int_equal(sum(&of, (m + (int)seed) % MEMBERS), TDM_NCCL_SUCCESS);
      for (int m = 0; m < MEMBERS; m++)
        assert_true(element(&of, m, COUNT - 1) == expected[COUNT - 1]);
      for (int i = 0; i < COUNT; i++)
        expected[i] *= MEMBERS;
    }
    end(&of);
  }
  emulation_set_jitter(0);
}

/* One end of a transfer between members. */
static void pass(const team *of, int member, int from, int to, size_t bytes) {
  const tdm_nccl_code code =
      member == from
          ? of->nccl->send(of->members[from], of->memory[from], bytes, to, of->streams[from])
          : of->nccl->receive(of->members[to], of->memory[to], bytes, from, of->streams[to]);
  if (code == TDM_NCCL_IN_PROGRESS) await(of, member);
  assert_int_equal(code == TDM_NCCL_IN_PROGRESS ? look(of, member) : code, TDM_NCCL_SUCCESS);
}

/* Transfers around the members, the last of which are enqueued first; then a sum, in the same
 * streams. */
static void what_members_send_arrives_in_order(void **state) {
  (void)state;
  enum { BYTES = COUNT * sizeof(double) };
  team of;
  for (uint64_t seed = 0; seed < 20; seed++) {
    emulation_set_nccl_jitter(seed);
    emulation_set_jitter(seed);
    begin(&of);
    const uint64_t before = emulation_nccl_transfers();
    pass(&of, 2, 2, 0, BYTES);
    pass(&of, 0, 0, 1, BYTES);
    pass(&of, 1, 0, 1, BYTES);
    pass(&of, 0, 2, 0, BYTES);
    for (int m = 0; m < MEMBERS; m++)
      assert_int_equal(sum(&of, m), TDM_NCCL_SUCCESS);
    /* 0 was sent to 1, then 2 to 0: 2, 0 and 2 were summed. */
    for (int m = 0; m < MEMBERS; m++)
      assert_true(element(&of, m, 7) == 2 + 0 + 2 + 3 * 7);
    assert_int_equal(emulation_nccl_transfers() - before, 2);
    end(&of);
  }
  emulation_set_jitter(0);
}

/* Kernels of NCCL spin until they are aborted; who has aborted, the others hear of. */
static void abort_ends_a_sum_that_waits_for_a_member(void **state) {
  (void)state;
  team of;
  begin(&of);
  assert_int_equal(sum(&of, 0), TDM_NCCL_SUCCESS);
  assert_int_equal(sum(&of, 1), TDM_NCCL_SUCCESS);
  (void)usleep(2000);
  assert_int_equal(of.cuda->stream_query(of.streams[0]), TDM_CUDA_NOT_READY);
  assert_int_equal(look(&of, 0), TDM_NCCL_SUCCESS); /* NCCL does not know */
  assert_int_equal(of.nccl->abort(of.members[2]), TDM_NCCL_SUCCESS);
  of.members[2] = NULL;
  assert_int_equal(look(&of, 0), TDM_NCCL_REMOTE_ERROR);
  assert_int_equal(of.cuda->stream_query(of.streams[0]), TDM_CUDA_NOT_READY);
  for (int m = 0; m < 2; m++) {
    assert_int_equal(of.nccl->abort(of.members[m]), TDM_NCCL_SUCCESS);
    of.members[m] = NULL;
    assert_int_equal(of.cuda->stream_synchronize(of.streams[m]), 0);
  }
  end(&of);
}

static void calls_fail_at_once_or_later(void **state) {
  (void)state;
  team of;
  begin(&of);
  emulation_fail_nccl_at(2, TDM_NCCL_SYSTEM_ERROR, false);
  assert_int_equal(sum(&of, 0), TDM_NCCL_SUCCESS);
  assert_int_equal(sum(&of, 1), TDM_NCCL_SYSTEM_ERROR);
  assert_int_equal(emulation_nccl_calls(), 2);
  emulation_fail_nccl_at(1, TDM_NCCL_REMOTE_ERROR, true);
  (void)sum(&of, 2);
  assert_int_equal(look(&of, 2), TDM_NCCL_REMOTE_ERROR);
  emulation_fail_nccl_at(0, 0, false);
  end(&of);
}

static void what_is_not_there_is_told(void **state) {
  (void)state;
  const tdm_nccl_api *nccl = tdm_nccl_api_linked();
  int version = 0;
  emulation_set_nccl(0);
  assert_non_null(nccl->absence());
  emulation_set_nccl(21003);
  assert_null(nccl->absence());
  assert_int_equal(nccl->version(&version), TDM_NCCL_SUCCESS);
  assert_int_equal(version, 21003);
  emulation_set_nccl(22809);
}

/* ---- What NCCL leaves undefined -------------------------------------------------------------- */

static void sum_another_count(team *of) {
  (void)sum(of, 0);
  (void)of->nccl->all_reduce(of->members[1], of->memory[1], COUNT - 1, TDM_FLOAT64, of->streams[1]);
}

static void sum_another_dtype(team *of) {
  (void)sum(of, 0);
  (void)of->nccl->all_reduce(of->members[1], of->memory[1], COUNT, TDM_FLOAT32, of->streams[1]);
}

static void sum_after_abort(team *of) {
  (void)of->nccl->abort(of->members[0]);
  (void)sum(of, 0);
}

static void sum_on_two_streams(team *of) {
  (void)sum(of, 0);
  tdm_cuda_stream other;
  (void)of->cuda->device_set(0);
  (void)of->cuda->stream_create(&other, false);
  (void)of->nccl->all_reduce(of->members[0], of->memory[0], COUNT, TDM_FLOAT64, other);
}

static void sum_in_progress(team *of) {
  for (uint64_t seed = 1;; seed++) {
    emulation_set_nccl_jitter(seed);
    if (of->nccl->all_reduce(of->members[0], of->memory[0], COUNT, TDM_FLOAT64, of->streams[0]) ==
        TDM_NCCL_IN_PROGRESS)
      break;
  }
  (void)of->nccl->all_reduce(of->members[0], of->memory[0], COUNT, TDM_FLOAT64, of->streams[0]);
}

static void receive_another_size(team *of) {
  pass(of, 0, 0, 1, 64);
  pass(of, 1, 0, 1, 32);
}

static void send_to_oneself(team *of) {
  (void)of->nccl->send(of->members[0], of->memory[0], 8, 0, of->streams[0]);
}

static void misuse_ends_the_test(void **state) {
  (void)state;
  static void (*const misuses[])(team * of) = {
      sum_another_count, sum_another_dtype,    sum_after_abort, sum_on_two_streams,
      sum_in_progress,   receive_another_size, send_to_oneself};
  if (test_is_sanitized()) return; /* children of a process with threads */
  for (size_t i = 0; i < sizeof misuses / sizeof misuses[0]; i++) {
    const pid_t child = fork();
    if (child == 0) {
      team of;
      (void)fclose(stderr);
      begin(&of);
      misuses[i](&of);
      _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status)) fail_msg("misuse %zu is not noticed", i);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(misuse_ends_the_test), /* before there are threads */
      cmocka_unit_test(members_that_come_in_any_order_get_the_sum),
      cmocka_unit_test(what_members_send_arrives_in_order),
      cmocka_unit_test(abort_ends_a_sum_that_waits_for_a_member),
      cmocka_unit_test(calls_fail_at_once_or_later),
      cmocka_unit_test(what_is_not_there_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
