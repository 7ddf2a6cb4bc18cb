/* How the ranks of a control channel connect: ranks that cannot be reached, are busy, or do not
 * belong to the job. The test itself plays some of the ranks. */
#include <stdlib.h>
#include <sys/socket.h>

#include "tests/net/control_job.h"
#include "tests/support/faulty_allocator.h"

/* ---- Not reached ----------------------------------------------------------------------------- */

static void test_no_such_interface(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, 2);
  made.ranks[1].options.interface = "nowhere0";
  for (int i = 0; i < 2; i++)
    begin(&made.ranks[i]);
  for (int i = 0; i < 2; i++) {
    (void)pthread_join(made.ranks[i].thread, NULL);
    assert_int_equal(made.ranks[i].status, TDM_UNAVAILABLE);
    assert_null(made.ranks[i].control);
  }
  assert_non_null(strstr(made.ranks[0].message, "of rank 1 (host sim1"));
  assert_non_null(strstr(made.ranks[1].message, "nowhere0"));
  close_net(&made);
}

/* Rank 1 reads a limit that is no number; rank 0 is given one. */
static void test_who_cannot_take_part(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, 2);
  made.ranks[0].options.stall_ns = 1;
  (void)setenv("TANDEM_NET_STALL_SECONDS", "soon", 1);
  begin(&made.ranks[0]);
  (void)start_rank(&made.ranks[1]);
  (void)pthread_join(made.ranks[0].thread, NULL);
  (void)unsetenv("TANDEM_NET_STALL_SECONDS");
  assert_int_equal(made.ranks[0].status, TDM_UNAVAILABLE);
  assert_int_equal(made.ranks[1].status, TDM_INVALID_ARGUMENT);
  for (int i = 0; i < 2; i++) {
    assert_non_null(strstr(made.ranks[i].message, "the control channel of rank 1 (host sim1"));
    assert_non_null(strstr(made.ranks[i].message, "TANDEM_NET_STALL_SECONDS"));
  }
  close_net(&made);
}

/* The test plays rank 1, which has another version of the library. */
static void test_other_version(void **state) {
  (void)state;
  job made = {.other_version = true};
  open_net(&made, 2);
  begin(&made.ranks[0]);
  (void)play(&made, (const uint16_t[MOST]){0, 1});
  (void)pthread_join(made.ranks[0].thread, NULL);
  assert_int_equal(made.ranks[0].status, TDM_UNSUPPORTED);
  assert_non_null(strstr(made.ranks[0].message, "rank 1 (host sim1, pid "));
  assert_non_null(strstr(made.ranks[0].message, ") has version 0.0.1 of Tandem, and rank 0 has "));
  close_net(&made);
}

/* ---- Not come in time ------------------------------------------------------------------------ */

/* Released memory, kept to detect later writes. */
typedef struct released {
  struct released *next;
  size_t bytes;
  unsigned char memory[];
} released;

static pthread_mutex_t keeping = PTHREAD_MUTEX_INITIALIZER;
enum { RELEASED_BYTE = 0xDD };

static void *allocate_kept(void *user, size_t bytes, size_t alignment) {
  (void)user;
  const tdm_allocator plain = tdm_allocator_default();
  return plain.allocate(plain.user, bytes, alignment);
}

static void keep_released(void *user, void *memory, size_t bytes) {
  released **kept = user;
  if (!memory) return;
  memset(memory, RELEASED_BYTE, bytes);
  released *one = malloc(sizeof *one + sizeof(void *));
  assert_non_null(one);
  one->bytes = bytes;
  memcpy(one->memory, &memory, sizeof(memory));
  (void)pthread_mutex_lock(&keeping);
  one->next = *kept;
  *kept = one;
  (void)pthread_mutex_unlock(&keeping);
}

/* Frees it; returns the number of bytes that were written. */
static size_t count_written(released **kept) {
  const tdm_allocator plain = tdm_allocator_default();
  size_t written = 0;
  for (released *next; *kept; *kept = next) {
    next = (*kept)->next;
    unsigned char *memory;
    memcpy(&memory, (*kept)->memory, sizeof(memory));
    for (size_t i = 0; i < (*kept)->bytes; i++)
      written += memory[i] != RELEASED_BYTE;
    plain.release(plain.user, memory, (*kept)->bytes);
    free(*kept);
  }
  return written;
}

/* Rank 0 starts when rank 1 has given up: its messages do not reach memory that rank 1 has
 * released. */
static void test_a_rank_that_comes_late(void **state) {
  (void)state;
  job made = {0};
  released *kept = NULL;
  open_net(&made, 2);
  for (int i = 1; i >= 0; i--) {
    made.ranks[i].options.allocator = (tdm_allocator){allocate_kept, keep_released, &kept};
    made.ranks[i].options.timeout_ns = 1000000;
    (void)start_rank(&made.ranks[i]);
    assert_int_equal(made.ranks[i].status, TDM_DEADLINE_EXCEEDED);
  }
  assert_int_equal(count_written(&kept), 0);
  close_net(&made);
}

/* ---- Strangers ------------------------------------------------------------------------------- */

/* None of these affects the job: noise, silence, another key, another rank's message, a repeated
 * message. */
static void test_strangers(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, 2);
  begin(&made.ranks[0]);
  const played part = play(&made, (const uint16_t[MOST]){0, 1});
  const uint16_t port = part.addresses[0].port;
  int peer = knock(port);
  say_message(peer, &part, CONTROL_HELLO, 1, 0);
  say_message(peer, &part, CONTROL_BEAT, 2, 7);
  (void)pthread_join(made.ranks[0].thread, NULL);
  assert_int_equal(made.ranks[0].status, TDM_OK);
  tdm_control *control = made.ranks[0].control;
  assert_int_equal(tdm_control_port(control), port);
  wait_progress(control, 1, 7);

  int stranger = knock(port);
  (void)close(stranger);
  wait_count(control, STRANGERS, 1);
  stranger = knock(port);
  say(stranger, (const unsigned char *)"GET / HTTP/1.1\r\nHost: tandem\r\n\r\n", 32);
  wait_end(stranger);
  wait_count(control, MALFORMED, 1);
  played forger = part;
  forger.key[5] ^= 1;
  stranger = knock(port);
  say_message(stranger, &forger, CONTROL_HELLO, 100, 0);
  wait_end(stranger);
  wait_count(control, FORGED, 1);
  stranger = knock(port); /* connection with the key but without a greeting */
  say_message(stranger, &part, CONTROL_BEAT, 100, 666);
  wait_end(stranger);
  wait_count(control, FORGED, 2);
  stranger = knock(port); /* a second connection of the same rank */
  say_message(stranger, &part, CONTROL_HELLO, 100, 0);
  wait_end(stranger);

  say_message(peer, &forger, CONTROL_BEAT, 3, 666);
  say_message(peer, &part, CONTROL_BEAT, 2, 666);
  say_message(peer, &part, CONTROL_BEAT, 3, 8);
  wait_progress(control, 1, 8);
  wait_count(control, FORGED, 3);
  wait_count(control, REPEATED, 1);
  assert_false(tdm_control_failed(control, NULL));
  say_message(peer, &part, CONTROL_LEAVE, 4, 0);
  wait_end(peer);
  assert_false(tdm_control_failed(control, NULL));
  close_net(&made);
}

/* Connections allocate nothing after the channel is established, so the listener continues. */
static void test_knocks_without_memory(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, 2);
  start_all(&made);
  tdm_control *control = made.ranks[0].control;
  tdm_faulty_allocator_arm(made.memory, 1, true);
  for (int i = 0; i < 2; i++) {
    const int stranger = knock((uint16_t)tdm_control_port(control));
    say(stranger, (const unsigned char *)"GET / HTTP/1.1\r\nHost: tandem\r\n\r\n", 32);
    wait_end(stranger);
  }
  wait_count(control, MALFORMED, 2);
  assert_int_equal(tdm_faulty_allocator_failures(made.memory), 0);
  tdm_faulty_allocator_arm(made.memory, 0, false);
  close_net(&made);
}

/* More strangers than links: each is accepted, or closed, in turn. */
static void test_more_knocks_than_links(void **state) {
  (void)state;
  enum { STRANGERS_HERE = 300 };
  job made = {0};
  int strangers[STRANGERS_HERE];
  open_net(&made, 2);
  start_all(&made);
  tdm_control *control = made.ranks[0].control;
  assert_in_range(control->link_count, 1, STRANGERS_HERE - 1);
  for (int i = 0; i < STRANGERS_HERE; i++)
    strangers[i] = knock((uint16_t)tdm_control_port(control));
  for (int i = 0; i < STRANGERS_HERE; i++)
    (void)close(strangers[i]);
  wait_count(control, STRANGERS, STRANGERS_HERE);
  const int last = knock((uint16_t)tdm_control_port(control));
  say(last, (const unsigned char *)"GET / HTTP/1.1\r\nHost: tandem\r\n\r\n", 32);
  wait_end(last);
  wait_count(control, MALFORMED, 1);
  assert_false(tdm_control_failed(control, NULL));
  close_net(&made);
}

/* A port without a listener, which this test used before. */
static void test_unreachable(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, 2);
  uint16_t port;
  const int held = open_port(&port);
  made.ranks[1].options.timeout_ns = NEVER_NS;
  begin(&made.ranks[1]);
  (void)play(&made, (const uint16_t[MOST]){port, 0});
  (void)pthread_join(made.ranks[1].thread, NULL);
  assert_int_equal(made.ranks[1].status, TDM_UNAVAILABLE);
  assert_non_null(strstr(made.ranks[1].message, "no TCP connection with rank 0 (host sim0"));
  assert_non_null(strstr(made.ranks[1].message, "connection refused"));
  assert_non_null(strstr(made.ranks[1].message, "TANDEM_NET_INTERFACE"));
  (void)close(held);
  close_net(&made);
}

/* A rank that was too busy to read a greeting in its time is greeted again. */
static void test_greeted_again(void **state) {
  (void)state;
  job made = {0};
  uint16_t port;
  open_net(&made, 2);
  const int listener = open_port(&port);
  assert_int_equal(listen(listener, 8), 0);
  made.ranks[1].options.timeout_ns = NEVER_NS;
  begin(&made.ranks[1]);
  const played part = play(&made, (const uint16_t[MOST]){port, 0});
  for (int i = 0; i < 2; i++) {
    const int ended = accept(listener, NULL, NULL);
    (void)hear(ended, &part, CONTROL_HELLO);
    (void)close(ended);
  }
  const int peer = accept(listener, NULL, NULL);
  (void)hear(peer, &part, CONTROL_HELLO);
  say_frame(peer, &part,
            &(control_message){.kind = CONTROL_BEAT, .from = 0, .to = 1, .sequence = 1});
  (void)pthread_join(made.ranks[1].thread, NULL);
  assert_int_equal(made.ranks[1].status, TDM_OK);
  (void)close(listener);
  say_frame(peer, &part,
            &(control_message){.kind = CONTROL_LEAVE, .from = 0, .to = 1, .sequence = 2});
  wait_end(peer);
  close_net(&made);
}

/* Rank 1 ends long after rank 2 has connected to rank 0, and is reported. */
static void test_says_who_is_not_reached(void **state) {
  (void)state;
  job made = {0};
  uint16_t ports[MOST] = {0};
  int listeners[2];
  open_net(&made, MOST);
  for (int r = 0; r < 2; r++) {
    listeners[r] = open_port(&ports[r]);
    assert_int_equal(listen(listeners[r], 8), 0);
  }
  made.ranks[2].options.timeout_ns = NEVER_NS;
  begin(&made.ranks[2]);
  const played part = play(&made, ports);
  const int zero = accept(listeners[0], NULL, NULL);
  const int one = accept(listeners[1], NULL, NULL);
  (void)hear(zero, &part, CONTROL_HELLO);
  say_frame(zero, &part,
            &(control_message){.kind = CONTROL_BEAT, .from = 0, .to = 2, .sequence = 1});
  (void)hear(zero, &part, CONTROL_BEAT);
  (void)close(listeners[1]);
  (void)close(one);
  const control_message given_up = hear(zero, &part, CONTROL_GIVE_UP);
  assert_int_equal(given_up.status, TDM_UNAVAILABLE);
  assert_non_null(strstr(given_up.reason, "no TCP connection with rank 1 (host sim1"));
  (void)hear(zero, &part, CONTROL_LEAVE);
  (void)close(zero);
  (void)close(listeners[0]);
  (void)pthread_join(made.ranks[2].thread, NULL);
  assert_int_equal(made.ranks[2].status, TDM_UNAVAILABLE);
  assert_non_null(strstr(made.ranks[2].message, "no TCP connection with rank 1 (host sim1"));
  close_net(&made);
}

/* A rank that is notified before all have connected reports the message, and sends it to them. */
static void test_told_while_connecting(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, MOST);
  made.ranks[0].options.timeout_ns = NEVER_NS;
  begin(&made.ranks[0]);
  const played part = play(&made, (const uint16_t[MOST]){0, 1, 1});
  const int peer = knock(part.addresses[0].port);
  say_message(peer, &part, CONTROL_HELLO, 1, 0);
  say_frame(peer, &part,
            &(control_message){.kind = CONTROL_GIVE_UP,
                               .from = 1,
                               .to = 0,
                               .sequence = 2,
                               .status = TDM_IO,
                               .reason = "it has no disk"});
  const control_message given_up = hear(peer, &part, CONTROL_GIVE_UP);
  assert_non_null(strstr(given_up.reason, "while ranks connect: rank 1 (host sim1, pid "));
  (void)close(peer);
  (void)pthread_join(made.ranks[0].thread, NULL);
  assert_int_equal(made.ranks[0].status, TDM_UNAVAILABLE);
  assert_non_null(strstr(made.ranks[0].message, "while ranks connect: rank 1 (host sim1, pid "));
  assert_non_null(strstr(made.ranks[0].message, "gave up: IO: it has no disk"));
  close_net(&made);
}

/* ---- A process that does not run ------------------------------------------------------------- */

typedef struct standstill {
  tdm_loop_task task;
  tdm_control *control;
  _Atomic bool begun;
} standstill;

/* Once a stranger has connected, blocks the channel's thread for longer than a stranger's time
 * limit. */
static void stand_still(tdm_loop_task *task) {
  standstill *mine = (standstill *)task;
  bool knocked = false;
  for (const control_link *link = mine->control->links; link; link = link->next)
    knocked |= link->incoming && !link->adopted;
  if (!knocked) {
    tdm_loop_post(mine->control->loop, task);
    return;
  }
  atomic_store(&mine->begun, true);
  (void)usleep(CONTROL_HELLO_NS / 1000 + 200000);
}

/* Messages that arrived during a standstill are read before they are judged as late. */
static void test_standstill(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, 2);
  start_all(&made);
  tdm_control *control = made.ranks[0].control;
  standstill still = {.task = {.run = stand_still}, .control = control};
  const int stranger = knock((uint16_t)tdm_control_port(control));
  tdm_loop_post(control->loop, &still.task);
  while (!atomic_load(&still.begun))
    (void)usleep(1000);
  say(stranger, (const unsigned char *)"GET / HTTP/1.1\r\nHost: tandem\r\n\r\n", 32);
  wait_end(stranger);
  wait_count(control, STRANGERS, 1);
  tdm_control_dropped dropped;
  tdm_control_dropped_get(control, &dropped);
  assert_int_equal(dropped.malformed, 1);
  close_net(&made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_no_such_interface),
      cmocka_unit_test(test_who_cannot_take_part),
      cmocka_unit_test(test_other_version),
      cmocka_unit_test(test_a_rank_that_comes_late),
      cmocka_unit_test(test_strangers),
      cmocka_unit_test(test_knocks_without_memory),
      cmocka_unit_test(test_more_knocks_than_links),
      cmocka_unit_test(test_standstill),
      cmocka_unit_test(test_unreachable),
      cmocka_unit_test(test_greeted_again),
      cmocka_unit_test(test_says_who_is_not_reached),
      cmocka_unit_test(test_told_while_connecting),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
