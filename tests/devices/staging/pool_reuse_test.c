/* Staging buffers are reused only after the last copy that uses them, with any delays, and by
 * threads that wait for space. Contents are checked, because a buffer that is overwritten early
 * arrives wrong. */
#include "tests/devices/staging/pool_support.h"

#include <stdlib.h>
#include <time.h>

#include "core/thread.h"

enum { BYTES = 16384, WORDS = BYTES / 8, COPIES = 240, BUFFERS = 3, THREADS = 4, TURNS = 400 };

/* One copy from a staging buffer to memory of a device, on its way. */
typedef struct upload {
  tdm_flight flight;
  tdm_program program;
  tdm_command command;
  tdm_submission submission;
  tdm_address bases[2];
  uint64_t program_base;
  uint8_t failed_ids[1];
  tdm_run_scalars scalars;
  tdm_memory target;
} upload;

static _Atomic uint32_t settled_count;

static void settled(tdm_flight *flight) {
  (void)flight;
  (void)atomic_fetch_add(&settled_count, 1);
}

/* Submits the copy and returns the buffer immediately, so that it is reused after the copy. */
static void upload_begin(upload *one, tdm_pool *pool, tdm_device *device, tdm_staging *staging) {
  tdm_context *context = device->context;
  assert_ok(device->ops->allocate(device, BYTES, &one->target));
  one->bases[0] = (tdm_address)staging->memory;
  one->bases[1] = one->target.address;
  one->command = (tdm_command){.kind = TDM_COMMAND_COPY,
                               .signals = true,
                               .copy = {.from_device = tdm_context_device(context, 0),
                                        .to_device = device,
                                        .from = {.base = 0},
                                        .to = {.base = 1},
                                        .bytes = BYTES}};
  one->program = (tdm_program){
      .queue = device->queues[TDM_QUEUE_UPLOAD], .commands = &one->command, .count = 1};
  one->flight = (tdm_flight){.programs = &one->program,
                             .program_bases = &one->program_base,
                             .bases = one->bases,
                             .scalars = &one->scalars,
                             .failed_ids = one->failed_ids,
                             .settled = settled};
  tdm_flight_reset(&one->flight, 1);
  assert_ok(tdm_context_submit(context, &one->flight, &one->submission, 1, false));
  tdm_pool_give_back(pool, staging, one->program.queue, one->program_base);
}

static void sleep_ns(long ns) {
  (void)nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static void upload_end(upload *one, uint64_t expected) {
  static uint64_t words[WORDS];
  tdm_device *device = one->target.device;
  const tdm_memory host = {.device = tdm_context_device(device->context, 0),
                           .address = (tdm_address)words,
                           .bytes = BYTES};
  assert_ok(tdm_context_copy(device->context, &one->target, &host, BYTES));
  for (size_t i = 0; i < WORDS; i++)
    assert_int_equal(words[i], expected + i);
  device->ops->release(device, &one->target);
}

static void contents_survive(const char *sim_settings) {
  tdm_context *context = test_context(sim_settings);
  assert_ok(tdm_context_start(context));
  tdm_device *devices[2] = {test_device(context, "sim:0"), test_device(context, "sim:1")};
  tdm_pool *pool =
      test_pool(context, &(tdm_staging_pool_options){.cap_bytes = BUFFERS * BYTES, .exact = true});
  upload *uploads = calloc(COPIES, sizeof *uploads);
  assert_non_null(uploads);
  atomic_store(&settled_count, 0);
  for (size_t i = 0; i < COPIES; i++) {
    tdm_device *device = devices[i / 7 % 2]; /* a change of device frees the other's buffers */
    tdm_staging *staging = NULL;
    assert_ok(tdm_pool_take(pool, device, BYTES, &staging));
    for (size_t k = 0; k < WORDS; k++)
      ((uint64_t *)staging->memory)[k] = i * 1000003 + k;
    upload_begin(&uploads[i], pool, device, staging);
  }
  while (atomic_load(&settled_count) < COPIES)
    sleep_ns(100000);
  for (size_t i = 0; i < COPIES; i++)
    upload_end(&uploads[i], i * 1000003);
  const tdm_pool_counters counters = test_counters(pool);
  assert_int_equal(counters.taken, COPIES);
  assert_true(counters.peak_bytes <= BUFFERS * BYTES);
  assert_true(counters.reused > 0);
  free(uploads);
  tdm_pool_destroy(pool);
  tdm_context_release(context);
}

static void no_buffer_is_reused_before_its_copy_is_done(void **state) {
  (void)state;
  contents_survive("latency_us=20,gigabytes_per_second=1,delay_seed=1");
  contents_survive("latency_us=0,gigabytes_per_second=0,delay_seed=2");
  contents_survive("latency_us=50,gigabytes_per_second=0,delay_seed=0");
}

/* ---- Waiting --------------------------------------------------------------------------------- */

typedef struct waiting_take {
  tdm_pool *pool;
  tdm_device *device;
  tdm_staging *staging;
  tdm_status status;
  _Atomic bool done;
} waiting_take;

static void *take_and_wait(void *user) {
  waiting_take *waiting = user;
  waiting->status = tdm_pool_take(waiting->pool, waiting->device, BYTES, &waiting->staging);
  atomic_store(&waiting->done, true);
  return NULL;
}

static void a_take_waits_for_the_point_and_not_a_try(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  assert_ok(tdm_context_start(context));
  tdm_device *device = test_device(context, "sim:0");
  tdm_pool *pool =
      test_pool(context, &(tdm_staging_pool_options){.cap_bytes = BYTES, .exact = true});
  waiting_take waiting = {.pool = pool, .device = device};
  tdm_staging *staging = NULL;
  assert_ok(tdm_pool_take(pool, device, BYTES, &staging));
  /* The point of a command that is not submitted yet. */
  tdm_queue *queue = device->queues[TDM_QUEUE_UPLOAD];
  tdm_pool_give_back(pool, staging, queue, atomic_load(&queue->submitted));
  tdm_staging *tried = staging;
  assert_ok(tdm_pool_try_take(pool, device, BYTES, &tried));
  assert_null(tried);
  assert_int_equal(test_counters(pool).waited, 0);

  pthread_t thread;
  assert_ok(tdm_thread_start(&thread, "waiter", take_and_wait, &waiting));
  while (test_counters(pool).waited == 0)
    sleep_ns(100000);
  assert_false(atomic_load(&waiting.done));
  uint64_t words[WORDS] = {0};
  const tdm_memory host = {
      .device = tdm_context_device(context, 0), .address = (tdm_address)words, .bytes = BYTES};
  tdm_memory target;
  assert_ok(device->ops->allocate(device, BYTES, &target));
  assert_ok(tdm_context_copy(context, &host, &target, BYTES));
  (void)pthread_join(thread, NULL);
  assert_int_equal(waiting.status, TDM_OK);
  assert_ptr_equal(waiting.staging, staging);
  assert_int_equal(test_counters(pool).waited, 1);
  device->ops->release(device, &target);
  tdm_pool_destroy(pool);
  tdm_context_release(context);
}

/* A returned buffer serves a thread that waits for the point of another, before it is reached. */
static void a_waiting_take_is_told_of_what_comes_back(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  assert_ok(tdm_context_start(context));
  tdm_device *device = test_device(context, "sim:0");
  tdm_pool *pool =
      test_pool(context, &(tdm_staging_pool_options){.cap_bytes = 2 * BYTES, .exact = true});
  waiting_take waiting = {.pool = pool, .device = device};
  tdm_staging *held = NULL;
  tdm_staging *out = NULL;
  assert_ok(tdm_pool_take(pool, device, BYTES, &held));
  assert_ok(tdm_pool_take(pool, device, BYTES, &out));
  /* The point of a command that is not submitted yet. */
  tdm_queue *queue = device->queues[TDM_QUEUE_UPLOAD];
  tdm_pool_give_back(pool, held, queue, atomic_load(&queue->submitted));
  pthread_t thread;
  assert_ok(tdm_thread_start(&thread, "waiter", take_and_wait, &waiting));
  while (test_counters(pool).waited == 0)
    sleep_ns(100000);
  tdm_pool_give_back(pool, out, NULL, 0);
  for (int i = 0; i < 300000 && !atomic_load(&waiting.done); i++)
    sleep_ns(100000);
  if (!atomic_load(&waiting.done)) fail_msg("nobody has told the waiting take in 30 s");
  (void)pthread_join(thread, NULL);
  assert_int_equal(waiting.status, TDM_OK);
  assert_ptr_equal(waiting.staging, out);
  tdm_pool_destroy(pool);
  tdm_context_release(context);
}

/* ---- Threads --------------------------------------------------------------------------------- */

typedef struct pool_user {
  tdm_pool *pool;
  tdm_device *device;
  uint64_t seed;
  _Atomic uint32_t *failures;
} pool_user;

/* Uses no assertions of cmocka, which belong to the main thread. */
static void *use_pool(void *argument) {
  const pool_user *user = argument;
  uint64_t random = user->seed;
  for (size_t i = 0; i < TURNS; i++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const size_t bytes = 1 + (random >> 33) % BYTES;
    tdm_staging *staging = NULL;
    const tdm_status status = tdm_pool_take(user->pool, user->device, bytes, &staging);
    if (status != TDM_OK) {
      (void)atomic_fetch_add(user->failures, 1);
      continue;
    }
    uint64_t *words = staging->memory;
    for (size_t k = 0; k < staging->bytes / 8; k++)
      words[k] = random + k;
    bool right = tdm_pool_is_pinned(user->pool, user->device, words, bytes);
    for (size_t k = 0; k < staging->bytes / 8; k++)
      right = right && words[k] == random + k;
    if (!right) (void)atomic_fetch_add(user->failures, 1);
    tdm_pool_give_back(user->pool, staging, NULL, 0);
  }
  return NULL;
}

static void threads_share_a_pool(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  tdm_pool *pool =
      test_pool(context, &(tdm_staging_pool_options){.cap_bytes = THREADS * BYTES, .exact = true});
  _Atomic uint32_t failures = 0;
  pthread_t threads[THREADS];
  pool_user users[THREADS];
  for (size_t i = 0; i < THREADS; i++) {
    users[i] = (pool_user){.pool = pool,
                           .device = test_device(context, i % 2 == 0 ? "sim:0" : "sim:1"),
                           .seed = i + 1,
                           .failures = &failures};
    assert_ok(tdm_thread_start(&threads[i], "user", use_pool, &users[i]));
  }
  for (size_t i = 0; i < THREADS; i++)
    (void)pthread_join(threads[i], NULL);
  assert_int_equal(atomic_load(&failures), 0); /* the limit allows a buffer per thread */
  const tdm_pool_counters counters = test_counters(pool);
  assert_int_equal(counters.taken, THREADS * TURNS);
  assert_true(counters.peak_bytes <= counters.cap_bytes);
  tdm_pool_destroy(pool);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_buffer_is_reused_before_its_copy_is_done),
      cmocka_unit_test(a_take_waits_for_the_point_and_not_a_try),
      cmocka_unit_test(a_waiting_take_is_told_of_what_comes_back),
      cmocka_unit_test(threads_share_a_pool),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
