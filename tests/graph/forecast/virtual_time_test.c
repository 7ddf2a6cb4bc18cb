/* Virtual time on small schedules whose times are found by hand: chains, overlap, waits, shared
 * links, crowded groups; and that it repeats. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/forecast/virtual_time.h"
#include "tests/support/faulty_allocator.h"

struct fixture {
  tdm_allocator allocator;
  tdm_virtual_schedule schedule;
};

static void begin(struct fixture *f, uint32_t queues) {
  f->allocator = tdm_allocator_default();
  tdm_virtual_init(&f->schedule, &f->allocator);
  uint32_t queue;
  for (uint32_t q = 0; q < queues; q++)
    assert_int_equal(tdm_virtual_add_queue(&f->schedule, TDM_VIRTUAL_NONE, &queue), TDM_OK);
}

static uint32_t add_link(struct fixture *f, double bytes_per_ns) {
  uint32_t link;
  assert_int_equal(tdm_virtual_add_link(&f->schedule, bytes_per_ns, &link), TDM_OK);
  return link;
}

static uint32_t add(struct fixture *f, tdm_virtual_task task) {
  uint32_t index;
  if (task.crowded == 0) task.crowded = 1;
  assert_int_equal(tdm_virtual_add(&f->schedule, &task, &index), TDM_OK);
  return index;
}

static uint32_t compute(struct fixture *f, uint32_t queue, double ns) {
  return add(f, (tdm_virtual_task){.queue = queue, .work = ns});
}

static uint32_t copy(struct fixture *f, uint32_t queue, double bytes, double latency_ns,
                     uint32_t link) {
  return add(f, (tdm_virtual_task){.queue = queue,
                                   .copies = true,
                                   .work = bytes,
                                   .latency_ns = latency_ns,
                                   .hops = {link},
                                   .hop_count = 1});
}

/* The task added last waits. */
static void wait_for(struct fixture *f, uint32_t other) {
  const uint32_t last = (uint32_t)f->schedule.task_count - 1;
  assert_int_equal(tdm_virtual_add_wait(&f->schedule, last, other), TDM_OK);
}

static void run(struct fixture *f) {
  if (tdm_virtual_run(&f->schedule) != TDM_OK) fail_msg("%s", tdm_last_message());
}

static void assert_ns(double found, double wanted) {
  if (fabs(found - wanted) > 1e-9 * (1 + wanted)) fail_msg("%.12g ns, not %.12g", found, wanted);
}

static void assert_task(const struct fixture *f, uint32_t task, double begin_ns, double end_ns) {
  assert_ns(f->schedule.tasks[task].begin_ns, begin_ns);
  assert_ns(f->schedule.tasks[task].end_ns, end_ns);
}

static void end(struct fixture *f) {
  tdm_virtual_deinit(&f->schedule);
}

static void nothing_takes_no_time(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, 1);
  run(&f);
  assert_ns(f.schedule.end_ns, 0);
  end(&f);
}

static void a_chain_adds_up(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, 1);
  const uint32_t a = compute(&f, 0, 10);
  const uint32_t b = compute(&f, 0, 0);
  const uint32_t c = compute(&f, 0, 5);
  run(&f);
  assert_task(&f, a, 0, 10);
  assert_task(&f, b, 10, 10);
  assert_task(&f, c, 10, 15);
  assert_ns(f.schedule.end_ns, 15);
  assert_ns(f.schedule.queues[0].busy_ns, 15);
  assert_ns(f.schedule.queues[0].critical_ns, 15);
  end(&f);
}

static void a_queue_goes_by_order_not_by_number(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, 1);
  const uint32_t late = add(&f, (tdm_virtual_task){.work = 3, .order = 9});
  const uint32_t early = add(&f, (tdm_virtual_task){.work = 4, .order = 2});
  const uint32_t second = add(&f, (tdm_virtual_task){.work = 1, .order = 2});
  run(&f);
  assert_task(&f, early, 0, 4);
  assert_task(&f, second, 4, 5);
  assert_task(&f, late, 5, 8);
  end(&f);
}

/* a on queue 0 for 10, b on queue 1 for 4, c on queue 1 waits for a; d on queue 0 during c. */
static void queues_overlap_and_wait(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, 2);
  const uint32_t a = compute(&f, 0, 10);
  const uint32_t b = compute(&f, 1, 4);
  const uint32_t c = compute(&f, 1, 6);
  wait_for(&f, a);
  const uint32_t d = compute(&f, 0, 3);
  run(&f);
  assert_task(&f, b, 0, 4);
  assert_task(&f, c, 10, 16);
  assert_task(&f, d, 10, 13);
  assert_ns(f.schedule.end_ns, 16);
  assert_int_equal(f.schedule.tasks[c].cause, a);
  assert_ns(f.schedule.queues[0].critical_ns, 10);
  assert_ns(f.schedule.queues[1].critical_ns, 6);
  assert_ns(f.schedule.queues[1].busy_ns, 10);
  end(&f);
}

static void a_copy_takes_latency_and_bytes(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, 2);
  const uint32_t link = add_link(&f, 4);
  const uint32_t free_link = add_link(&f, INFINITY);
  const uint32_t a = copy(&f, 0, 100, 7, link);
  const uint32_t empty = copy(&f, 0, 0, 2, link);
  const uint32_t b = copy(&f, 1, 1e9, 5, free_link);
  run(&f);
  assert_task(&f, a, 0, 32);
  assert_task(&f, empty, 32, 34);
  assert_task(&f, b, 0, 5);
  assert_ns(f.schedule.links[link].bytes, 100);
  assert_ns(f.schedule.links[link].busy_ns, 34);
  assert_int_equal(f.schedule.links[link].copy_count, 2);
  assert_ns(f.schedule.links[link].critical_ns, 34);
  end(&f);
}

/* The stated rate of a link may exceed the one that its duration gives, and is never lower. */
static void a_link_is_said_to_carry_more(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, 1);
  const uint32_t link = add_link(&f, 2);
  const double carried[] = {0, 70, 100, 130};
  for (uint32_t i = 0; i < 4; i++)
    add(&f,
        (tdm_virtual_task){
            .copies = true, .work = 100, .carried = carried[i], .hops = {link}, .hop_count = 1});
  run(&f);
  assert_ns(f.schedule.links[link].bytes, 100 + 100 + 100 + 130);
  assert_ns(f.schedule.end_ns, 200);
  end(&f);
}

/* 100 bytes from 0 on; 60 from 10 on; 1 byte a ns. Until 10 the first has all of it, then each has
 * half: the second ends at 130, and the first has 30 left, which take 30 more. */
static void copies_share_a_link(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, 2);
  const uint32_t link = add_link(&f, 1);
  const uint32_t a = copy(&f, 0, 100, 0, link);
  const uint32_t b = copy(&f, 1, 60, 10, link);
  run(&f);
  assert_task(&f, b, 0, 130);
  assert_task(&f, a, 0, 160);
  assert_ns(f.schedule.links[link].busy_ns, 160);
  assert_ns(f.schedule.links[link].bytes, 160);
  end(&f);
}

/* Over (wide 10, narrow 2), (narrow 2) and (wide 10): the narrow link gives each of its two 1; the
 * third has the 9 that are left of the wide one. Max-min, not equal shares. */
static void what_one_link_cannot_use_goes_to_others(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, 3);
  const uint32_t wide = add_link(&f, 10);
  const uint32_t narrow = add_link(&f, 2);
  const uint32_t both =
      add(&f, (tdm_virtual_task){
                  .queue = 0, .copies = true, .work = 100, .hops = {wide, narrow}, .hop_count = 2});
  const uint32_t slow = copy(&f, 1, 100, 0, narrow);
  const uint32_t fast = copy(&f, 2, 900, 0, wide);
  run(&f);
  assert_task(&f, both, 0, 100);
  assert_task(&f, slow, 0, 100);
  assert_task(&f, fast, 0, 100);
  assert_ns(f.schedule.links[wide].bytes, 1000);
  end(&f);
}

/* Checks three links with one flow each. Each carries a little more than the previous one, and none
 * limits the flows of the others. */
static void links_of_their_own_give_what_they_have(void **state) {
  (void)state;
  struct fixture f;
  const double rates[] = {0.25, 0.375, 0.5};
  for (int first = 0; first < 2;
       first++) { /* the copy over the slowest link comes first, or last */
    begin(&f, 3);
    uint32_t copies[3];
    for (uint32_t i = 0; i < 3; i++)
      (void)add_link(&f, rates[i]);
    for (uint32_t i = 0; i < 3; i++)
      copies[i] = copy(&f, i, 600, 0, first ? i : 2 - i);
    run(&f);
    for (uint32_t i = 0; i < 3; i++)
      assert_task(&f, copies[i], 0, 600 / rates[first ? i : 2 - i]);
    end(&f);
  }
}

/* 60 flows of i + 1 bytes over one link that gives 1 byte a ns to all of them together: each byte
 * more of those that are left is 1 ns for each of them. */
static void many_copies_share_a_link(void **state) {
  (void)state;
  enum { FLOWS = 60 };
  struct fixture f;
  begin(&f, FLOWS);
  const uint32_t link = add_link(&f, 1);
  uint32_t copies[FLOWS];
  for (uint32_t i = 0; i < FLOWS; i++)
    copies[i] = copy(&f, i, i + 1, 0, link);
  run(&f);
  double ns = 0;
  for (uint32_t i = 0; i < FLOWS; i++) {
    ns += FLOWS - i;
    assert_task(&f, copies[i], 0, ns);
  }
  end(&f);
}

/* Two tasks of a group of two run at half speed together. They take 10 and 4 by themselves. The
 * short one ends at 8, when 4 of the long one are done; its other 6 take 6. Copies are not
 * affected. */
static void a_crowded_group_is_slower(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, 1);
  uint32_t first;
  uint32_t second;
  assert_int_equal(tdm_virtual_add_queue(&f.schedule, 0, &first), TDM_OK);
  assert_int_equal(tdm_virtual_add_queue(&f.schedule, 0, &second), TDM_OK);
  const uint32_t a = add(&f, (tdm_virtual_task){.queue = first, .work = 10, .crowded = 2});
  const uint32_t b = add(&f, (tdm_virtual_task){.queue = second, .work = 4, .crowded = 2});
  copy(&f, second, 100, 0, add_link(&f, 1));
  run(&f);
  assert_task(&f, b, 0, 8);
  assert_task(&f, a, 0, 14);
  end(&f);
}

/* Runs with the first queue in a separate group, and the other two in the first group. */
static void run_with_group(uint32_t last) {
  const uint32_t groups[] = {last, 0, 0};
  struct fixture f;
  uint32_t queues[3], tasks[3];
  begin(&f, 0);
  for (int q = 0; q < 3; q++) {
    assert_int_equal(tdm_virtual_add_queue(&f.schedule, groups[q], &queues[q]), TDM_OK);
    const double work = q == 1 ? 10 : 4;
    tasks[q] = add(&f, (tdm_virtual_task){.queue = queues[q], .work = work, .crowded = 2});
  }
  run(&f);
  assert_task(&f, tasks[0], 0, 4);
  assert_task(&f, tasks[1], 0, 14);
  assert_task(&f, tasks[2], 0, 8);
  end(&f);
}

/* Groups may have any numbers, in any order of the queues. Small groups share memory. */
static void the_first_queue_may_have_the_last_group(void **state) {
  (void)state;
  for (uint32_t last = 1; last <= 16; last++)
    run_with_group(last);
  run_with_group(200);
}

static void a_circle_is_refused(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, 2);
  compute(&f, 0, 1);
  wait_for(&f, 1);
  compute(&f, 1, 1);
  wait_for(&f, 0);
  compute(&f, 1, 1);
  assert_int_equal(tdm_virtual_run(&f.schedule), TDM_INTERNAL);
  assert_string_equal(tdm_last_message(), "virtual time: 3 of 3 tasks wait for each other");
  end(&f);
}

/* Many tasks of drawn times on shared links and groups: run twice, and the second time the same. */
static void it_repeats(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, 4);
  for (uint32_t q = 0; q < 4; q++)
    f.schedule.queues[q].group = q / 2;
  const uint32_t links[2] = {add_link(&f, 3), add_link(&f, 0.7)};
  uint64_t random = 7;
  for (uint32_t i = 0; i < 400; i++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const uint32_t queue = (random >> 40) % 4;
    const double work = (double)((random >> 33) % 1000);
    if ((random >> 50) % 3 == 0)
      copy(&f, queue, work, (double)(i % 5), links[i % 2]);
    else
      add(&f, (tdm_virtual_task){.queue = queue, .work = work, .crowded = 1.5});
    if (i > 0) wait_for(&f, (uint32_t)((random >> 20) % i));
  }
  run(&f);
  const double end_ns = f.schedule.end_ns;
  tdm_virtual_task *first = malloc(f.schedule.task_count * sizeof *first);
  assert_non_null(first);
  memcpy(first, f.schedule.tasks, f.schedule.task_count * sizeof *first);
  const tdm_virtual_link of_links[2] = {f.schedule.links[0], f.schedule.links[1]};
  const tdm_virtual_queue of_queues[2] = {f.schedule.queues[0], f.schedule.queues[3]};
  run(&f);
  for (int i = 0; i < 2; i++) {
    const tdm_virtual_link *link = &f.schedule.links[links[i]];
    assert_true(link->busy_ns > 0 && link->busy_ns == of_links[i].busy_ns);
    assert_true(link->bytes > 0 && link->bytes == of_links[i].bytes);
    assert_true(link->critical_ns == of_links[i].critical_ns);
    assert_true(link->copy_count > 0 && link->copy_count == of_links[i].copy_count);
    const tdm_virtual_queue *queue = &f.schedule.queues[3 * i];
    assert_true(queue->busy_ns > 0 && queue->busy_ns == of_queues[i].busy_ns);
    assert_true(queue->task_count > 0 && queue->task_count == of_queues[i].task_count);
  }
  assert_memory_equal(first, f.schedule.tasks, f.schedule.task_count * sizeof *first);
  assert_true(end_ns == f.schedule.end_ns);
  double critical_ns = 0;
  for (size_t q = 0; q < f.schedule.queue_count; q++)
    critical_ns += f.schedule.queues[q].critical_ns;
  assert_ns(critical_ns, end_ns);
  free(first);
  end(&f);
}

/* Runs a schedule of `tasks` tasks in sequence, each on one of `queues` queues. */
static tdm_status run_many(const tdm_allocator *allocator, uint32_t tasks, uint32_t queues) {
  tdm_virtual_schedule schedule;
  tdm_virtual_init(&schedule, allocator);
  uint32_t index;
  tdm_status status = TDM_OK;
  for (uint32_t q = 0; q < queues && status == TDM_OK; q++) {
    status = tdm_virtual_add_queue(&schedule, q, &index);
    if (status == TDM_OK) status = tdm_virtual_add_link(&schedule, 1, &index);
  }
  for (uint32_t t = 0; t < tasks && status == TDM_OK; t++) {
    const bool copies = t % 2 == 0;
    const tdm_virtual_task task = {
        .copies = copies, .work = 5, .crowded = 1, .hop_count = copies ? 1 : 0};
    status = tdm_virtual_add(&schedule, &task, &index);
    if (status == TDM_OK && t > 0) status = tdm_virtual_add_wait(&schedule, t, t - 1);
  }
  if (status == TDM_OK) status = tdm_virtual_run(&schedule);
  if (status == TDM_OK) assert_ns(schedule.end_ns, 5.0 * tasks);
  tdm_virtual_deinit(&schedule);
  return status;
}

/* Checks each failing allocation. Few tasks share a block of memory; with many, each table is a
 * separate allocation. */
static void short_memory_is_told(void **state) {
  (void)state;
  static const uint32_t sizes[][2] = {{2, 1}, {3000, 9000}}; /* tasks, queues */
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  assert_non_null(faulty);
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    for (uint64_t n = 1;; n++) {
      tdm_faulty_allocator_arm(faulty, n, false);
      const tdm_status status = run_many(&allocator, sizes[i][0], sizes[i][1]);
      assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
      const bool failed = tdm_faulty_allocator_failures(faulty) > 0;
      assert_int_equal(status, failed ? TDM_OUT_OF_MEMORY : TDM_OK);
      if (!failed) break;
    }
  tdm_faulty_allocator_destroy(faulty);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_takes_no_time),
      cmocka_unit_test(a_chain_adds_up),
      cmocka_unit_test(a_queue_goes_by_order_not_by_number),
      cmocka_unit_test(queues_overlap_and_wait),
      cmocka_unit_test(a_copy_takes_latency_and_bytes),
      cmocka_unit_test(a_link_is_said_to_carry_more),
      cmocka_unit_test(copies_share_a_link),
      cmocka_unit_test(what_one_link_cannot_use_goes_to_others),
      cmocka_unit_test(links_of_their_own_give_what_they_have),
      cmocka_unit_test(many_copies_share_a_link),
      cmocka_unit_test(a_crowded_group_is_slower),
      cmocka_unit_test(the_first_queue_may_have_the_last_group),
      cmocka_unit_test(a_circle_is_refused),
      cmocka_unit_test(it_repeats),
      cmocka_unit_test(short_memory_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
