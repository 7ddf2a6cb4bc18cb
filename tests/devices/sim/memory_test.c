/* The table of sim's addresses: blocks never share addresses, at any position. If the system
 * refuses memory for the table, an ordinary error is returned. */
#define _GNU_SOURCE /* setrlimit */
#include "devices/sim/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/devices/support.h"

static const size_t granule = (size_t)1 << TDM_SIM_GRANULE_BITS;
static const size_t page = (size_t)1 << (TDM_SIM_GRANULE_BITS + TDM_SIM_PAGE_BITS);
static const size_t range = (size_t)1 << TDM_SIM_RANGE_BITS;

static tdm_sim_memory *memory_create(void) {
  tdm_sim_memory *memory = calloc(1, sizeof *memory);
  assert_non_null(memory);
  assert_ok(tdm_sim_memory_init(memory, 0));
  return memory;
}

static void memory_destroy(tdm_sim_memory *memory) {
  tdm_sim_memory_deinit(memory);
  free(memory);
}

static tdm_address take(tdm_sim_memory *memory, size_t bytes) {
  tdm_address address = 0;
  assert_ok(tdm_sim_memory_allocate(memory, "sim:0", bytes, &address));
  assert_non_null(tdm_sim_memory_translate(memory, address, bytes));
  return address;
}

/* Goes once through all addresses, so that the next block is looked for from the begin on. */
static void go_round(tdm_sim_memory *memory) {
  const size_t most = range / 64;
  for (size_t left = range - memory->cursor * granule; left > 0;) {
    const size_t bytes = left < most ? left : most;
    tdm_sim_memory_release(memory, take(memory, bytes));
    left -= bytes;
  }
}

/* One block is allocated at the beginning, and one in a later page of the table. A block that does
 * not fit between them is placed after them. One that fits is placed there, whether or not the
 * pages between contain blocks. */
static void a_block_lies_beside_those_that_live(void **state) {
  (void)state;
  for (size_t before = 1; before < 4; before++) {
    tdm_sim_memory *memory = memory_create();
    const tdm_address first = take(memory, granule);
    tdm_sim_memory_release(memory, take(memory, before * page));
    const tdm_address lives = take(memory, granule);
    assert_int_equal(lives - memory->begin, granule + before * page);
    go_round(memory);
    const tdm_address behind = take(memory, (before + 1) * page);
    assert_int_equal(behind, lives + granule);
    go_round(memory);
    const tdm_address between = take(memory, before * page);
    assert_int_equal(between, first + granule);
    tdm_sim_memory_release(memory, between);
    tdm_sim_memory_release(memory, behind);
    tdm_sim_memory_release(memory, lives);
    tdm_sim_memory_release(memory, first);
    memory_destroy(memory);
  }
}

static size_t mapped_bytes(void) {
  FILE *file = fopen("/proc/self/statm", "r");
  assert_non_null(file);
  unsigned long pages = 0;
  assert_int_equal(fscanf(file, "%lu", &pages), 1);
  (void)fclose(file);
  return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* More and more addresses are allowed: first none, then the block, then its page of the table. */
static void a_table_without_memory_is_told(void **state) {
  (void)state;
  struct rlimit before;
  assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
  bool refused = false;
  tdm_status status = TDM_OUT_OF_MEMORY;
  for (size_t more = 0; status != TDM_OK; more += granule / 2) {
    assert_true(more < (size_t)64 << 20);
    tdm_sim_memory *memory = memory_create();
    const struct rlimit limit = {.rlim_cur = mapped_bytes() + more, .rlim_max = before.rlim_max};
    tdm_address address = 1;
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    status = tdm_sim_memory_allocate(memory, "sim:0", granule, &address);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    if (status != TDM_OK) {
      assert_int_equal(status, TDM_OUT_OF_MEMORY);
      assert_int_equal(address, 0);
      assert_message("sim:0");
      refused = true;
    } else {
      tdm_sim_memory_release(memory, address);
    }
    memory_destroy(memory);
  }
  assert_true(refused);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_block_lies_beside_those_that_live),
      cmocka_unit_test(a_table_without_memory_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
