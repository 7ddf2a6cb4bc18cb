/* Addresses of a GPU's memory and their arenas, in the table that distinguishes them, and the set
 * of GPUs that a device has met. */
#include "devices/cuda/memory.h"

#include <stdlib.h>

#include "devices/cuda/device.h"
#include "tests/devices/cuda_emulation/emulation.h"
#include "tests/devices/support.h"

enum { GRANULE = 1 << TDM_CUDA_GRANULE_BITS, UNIT = 512, MOST_SHARED = 1 << 20, ARENA = 8 << 20 };

typedef struct fixture {
  tdm_context *context;
  tdm_cuda_memory *memory;
} fixture;

static int set_up(void **state) {
  fixture *made = calloc(1, sizeof *made);
  assert_non_null(made);
  made->context = test_context(NULL);
  made->memory = &tdm_cuda_device_of(test_device(made->context, "cuda:0"))->memory;
  *state = made;
  return 0;
}

static int tear_down(void **state) {
  fixture *made = *state;
  tdm_context_release(made->context);
  free(made);
  assert_int_equal(emulation_outstanding(), 0);
  return 0;
}

static tdm_address take(tdm_cuda_memory *memory, size_t bytes) {
  tdm_address address = 1;
  assert_ok(tdm_cuda_memory_allocate(memory, bytes, &address));
  return address;
}

static size_t granule_of(const tdm_cuda_memory *memory, tdm_address address) {
  assert_int_equal((address - memory->begin) % GRANULE, 0);
  return (address - memory->begin) / GRANULE;
}

/* Expects that all of the block is allocated, and nothing after it. */
static void assert_block(const tdm_cuda_memory *memory, tdm_address address, size_t bytes) {
  const size_t size = bytes == 0 ? 1 : bytes, first = granule_of(memory, address);
  char *begin = atomic_load(&memory->granules[first].memory);
  assert_non_null(begin);
  for (size_t i = 0; i * GRANULE < size; i++) {
    assert_int_equal(atomic_load(&memory->granules[first + i].remain), size - i * GRANULE);
    assert_ptr_equal(atomic_load(&memory->granules[first + i].memory), begin + i * GRANULE);
    assert_ptr_equal(tdm_cuda_memory_translate(memory, address + i * GRANULE, size - i * GRANULE),
                     begin + i * GRANULE);
  }
  assert_ptr_equal(tdm_cuda_memory_translate(memory, address + size - 1, 1), begin + size - 1);
  assert_ptr_equal(tdm_cuda_memory_translate(memory, address, size), begin);
  assert_null(tdm_cuda_memory_translate(memory, address, size + 1));
  assert_null(tdm_cuda_memory_translate(memory, address + size - 1, 2));
}

static void a_block_is_as_long_as_was_asked_for(void **state) {
  const fixture *made = *state;
  tdm_cuda_memory *memory = made->memory;
  static const size_t sizes[] = {0,           1,
                                 UNIT,        UNIT + 1,
                                 GRANULE - 1, GRANULE,
                                 GRANULE + 1, 5 * GRANULE + 3,
                                 MOST_SHARED, MOST_SHARED + 1,
                                 ARENA,       ARENA + 1};
  tdm_address addresses[TDM_COUNT_OF(sizes)];
  size_t next = memory->cursor;
  for (size_t i = 0; i < TDM_COUNT_OF(sizes); i++) {
    addresses[i] = take(memory, sizes[i]);
    /* the granule after the previous one */
    assert_int_equal(granule_of(memory, addresses[i]), next);
    next += sizes[i] == 0 ? 1 : (sizes[i] + GRANULE - 1) / GRANULE;
    assert_int_equal(memory->cursor, next);
  }
  for (size_t i = 0; i < TDM_COUNT_OF(sizes); i++)
    assert_block(memory, addresses[i], sizes[i]);
  for (size_t i = 0; i < TDM_COUNT_OF(sizes); i++) {
    tdm_cuda_memory_release(memory, addresses[i]);
    assert_null(tdm_cuda_memory_translate(memory, addresses[i], 0));
    if (i + 1 < TDM_COUNT_OF(sizes)) assert_block(memory, addresses[i + 1], sizes[i + 1]);
  }
  for (size_t i = 0; i < next; i++) {
    assert_int_equal(atomic_load(&memory->granules[i].remain), 0);
    assert_null(atomic_load(&memory->granules[i].memory));
  }
  tdm_address none = 1;
  assert_status(tdm_cuda_memory_allocate(memory, memory->range_bytes + 1, &none),
                TDM_OUT_OF_MEMORY);
  assert_int_equal(none, 0);
  tdm_cuda_memory_release(memory, 0);
}

/* If the rest of the range is too short, and if it is just long enough. */
static void addresses_begin_anew_at_the_end_of_the_range(void **state) {
  const fixture *made = *state;
  tdm_cuda_memory *memory = made->memory;
  const size_t last = memory->granule_count - 1;
  memory->cursor = last;
  const tdm_address long_one = take(memory, GRANULE + 1);
  assert_int_equal(granule_of(memory, long_one), 0);
  memory->cursor = last;
  const tdm_address short_one = take(memory, GRANULE);
  assert_int_equal(granule_of(memory, short_one), last);
  assert_block(memory, short_one, GRANULE);
  const tdm_address behind = take(memory, 1); /* the first two are taken */
  assert_int_equal(granule_of(memory, behind), 2);
  tdm_cuda_memory_release(memory, long_one);
  memory->cursor = last;
  const tdm_address again = take(memory, 2 * GRANULE);
  assert_int_equal(granule_of(memory, again), 0);
  tdm_cuda_memory_release(memory, again);
  tdm_cuda_memory_release(memory, behind);
  tdm_cuda_memory_release(memory, short_one);
}

/* Checks that small blocks share arenas, which remain, and that a large block has a separate arena,
 * which is freed with it. */
static void blocks_share_arenas(void **state) {
  const fixture *made = *state;
  tdm_cuda_memory *memory = made->memory;
  enum { BLOCKS = ARENA / MOST_SHARED };
  tdm_address blocks[BLOCKS];
  char *begins[BLOCKS];
  const int64_t before = emulation_outstanding();
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = take(memory, MOST_SHARED);
    begins[i] = tdm_cuda_memory_translate(memory, blocks[i], 1);
    assert_ptr_equal(begins[i], begins[0] + i * MOST_SHARED);
  }
  assert_int_equal(emulation_outstanding(), before + 1);
  tdm_cuda_memory_release(memory, blocks[2]);
  tdm_cuda_memory_release(memory, blocks[3]);
  const tdm_address wide = take(memory, MOST_SHARED - UNIT), unit = take(memory, UNIT - 1);
  assert_ptr_equal(tdm_cuda_memory_translate(memory, wide, 1), begins[2]);
  assert_ptr_equal(tdm_cuda_memory_translate(memory, unit, 1), begins[3] - UNIT);
  blocks[2] = take(memory, MOST_SHARED);
  assert_ptr_equal(tdm_cuda_memory_translate(memory, blocks[2], 1), begins[3]);
  assert_int_equal(emulation_outstanding(), before + 1);
  blocks[3] = take(memory, 1); /* that arena is full */
  assert_int_equal(emulation_outstanding(), before + 2);
  const tdm_address large = take(memory, MOST_SHARED + 1), whole = take(memory, ARENA);
  assert_int_equal(emulation_outstanding(), before + 4);
  tdm_cuda_memory_release(memory, large);
  tdm_cuda_memory_release(memory, whole);
  assert_int_equal(emulation_outstanding(), before + 2);
  for (size_t i = 0; i < BLOCKS; i++)
    tdm_cuda_memory_release(memory, blocks[i]);
  tdm_cuda_memory_release(memory, wide);
  tdm_cuda_memory_release(memory, unit);
  assert_int_equal(emulation_outstanding(), before + 2);
  for (size_t i = 0; i < 2 * BLOCKS; i++) /* both are empty */
    assert_int_not_equal(take(memory, MOST_SHARED), 0);
  assert_int_equal(emulation_outstanding(), before + 2);
}

/* Four times as many addresses as the GPU has memory, whole granules, and no less than 32 GiB. */
static void a_range_goes_by_the_memory_of_the_gpu(void **state) {
  const fixture *made = *state;
  static const size_t sizes[][2] = {
      {0, (size_t)32 << 30},
      {(size_t)8 << 30, (size_t)32 << 30},
      {((size_t)8 << 30) + GRANULE - 1, (size_t)32 << 30},
      {((size_t)9 << 30) + GRANULE, ((size_t)36 << 30) + 4 * GRANULE}};
  for (size_t i = 0; i < TDM_COUNT_OF(sizes); i++) {
    tdm_cuda_memory memory;
    assert_ok(tdm_cuda_memory_init(&memory, made->memory->gpu, sizes[i][0], TDM_RED_ZONES_NONE,
                                   made->memory->allocator));
    assert_int_equal(memory.range_bytes, sizes[i][1]);
    assert_int_equal(memory.granule_count, sizes[i][1] / GRANULE);
    tdm_cuda_memory_deinit(&memory);
  }
}

/* Checks that tdm_cuda_device_meets returns true once for each of the first 64 GPUs, and always for
 * later ones, whose route is logged again. */
static void a_gpu_is_met_once(void **state) {
  (void)state;
  static const int ordinals[] = {0, 1, 62, 63, 64, 100};
  tdm_cuda_device *own = calloc(1, sizeof *own), *other = calloc(1, sizeof *other);
  assert_true(own && other);
  for (int turn = 0; turn < 2; turn++) {
    for (size_t i = 0; i < TDM_COUNT_OF(ordinals); i++) {
      other->gpu.ordinal = ordinals[i];
      assert_int_equal(tdm_cuda_device_meets(&own->base, &other->base),
                       turn == 0 || ordinals[i] >= 64);
    }
  }
  free(own);
  free(other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_block_is_as_long_as_was_asked_for, set_up, tear_down),
      cmocka_unit_test_setup_teardown(addresses_begin_anew_at_the_end_of_the_range, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(blocks_share_arenas, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_range_goes_by_the_memory_of_the_gpu, set_up, tear_down),
      cmocka_unit_test(a_gpu_is_met_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
