/* The control channel between ranks of simnet: progress, silence, ends, giving up, leaving; and one
 * rank whose part the test plays itself, over a socket of its own. No limit here is one that a busy
 * machine reaches, but those that are waited for. */
#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/allocate.h"
#include "core/park.h"
#include "net/control_state.h"
#include "net/simnet.h"

#define MOST 3
#define NEVER_NS UINT64_C(300000000000)

typedef struct rank {
  tdm_endpoint *endpoint;
  tdm_control_options options;
  tdm_control *control;
  tdm_status status;
  char message[TDM_NET_TEXT_BYTES];
  pthread_t thread;
  _Atomic int failures; /* calls of failed */
} rank;

typedef struct job {
  tdm_faulty_allocator *memory;
  tdm_simnet *net;
  int count;
  rank ranks[MOST];
} job;

static void on_failure(void *user, const tdm_control_failure *failure) {
  (void)failure;
  atomic_fetch_add(&((rank *)user)->failures, 1);
}

static void open_net(job *of, int count) {
  of->memory = tdm_faulty_allocator_create();
  of->count = count;
  const tdm_allocator allocator = tdm_faulty_allocator_view(of->memory);
  const tdm_simnet_options options = {.struct_size = sizeof(options), .rank_count = count};
  assert_int_equal(tdm_simnet_create(&allocator, &options, &of->net), TDM_OK);
  for (int i = 0; i < count; i++) {
    rank *one = &of->ranks[i];
    assert_int_equal(tdm_simnet_endpoint(of->net, i, &one->endpoint), TDM_OK);
    one->options = (tdm_control_options){.struct_size = sizeof(one->options),
                                         .allocator = allocator,
                                         .beat_ns = 20000000,
                                         .silence_ns = NEVER_NS,
                                         .queue_count = 2,
                                         .failed = on_failure,
                                         .user = one};
  }
}

static void *start_rank(void *user) {
  rank *one = user;
  one->status = tdm_control_start(one->endpoint, &one->options, &one->control);
  (void)snprintf(one->message, sizeof(one->message), "%s", tdm_last_message());
  return NULL;
}

static void begin(rank *one) {
  assert_int_equal(pthread_create(&one->thread, NULL, start_rank, one), 0);
}

static void start_all(job *of) {
  for (int i = 0; i < of->count; i++)
    begin(&of->ranks[i]);
  for (int i = 0; i < of->count; i++)
    (void)pthread_join(of->ranks[i].thread, NULL);
  for (int i = 0; i < of->count; i++)
    assert_int_equal(of->ranks[i].status, TDM_OK);
}

static void close_net(job *of) {
  for (int i = 0; i < of->count; i++) {
    tdm_control_leave(of->ranks[i].control);
    tdm_endpoint_abandon(of->ranks[i].endpoint);
  }
  tdm_simnet_release(of->net);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(of->memory), 0);
  tdm_faulty_allocator_destroy(of->memory);
}

static tdm_control_failure wait_failure(tdm_control *control) {
  tdm_control_failure failure;
  while (!tdm_control_failed(control, &failure))
    (void)usleep(1000);
  return failure;
}

/* Until rank `of` knows that its peer's first queue has passed the command. */
static void wait_progress(tdm_control *of, int peer, uint64_t command) {
  tdm_control_peer told;
  do {
    (void)usleep(1000);
    tdm_control_peer_get(of, peer, &told);
  } while (told.queue_count == 0 || told.progress[0] != command);
}

/* ---- Ranks among themselves ---- */

static void test_progress_and_leaving(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, MOST);
  start_all(&made);
  for (int i = 0; i < MOST; i++)
    tdm_control_progress(made.ranks[i].control, 0, 100 + (uint64_t)i);
  for (int i = 0; i < MOST; i++)
    for (int peer = 0; peer < MOST; peer++)
      wait_progress(made.ranks[i].control, peer, 100 + (uint64_t)peer);
  tdm_control_leave(made.ranks[1].control);
  made.ranks[1].control = NULL;
  for (int i = 0; i < MOST; i += 2) {
    tdm_control_peer told = {0};
    while (!told.left)
      tdm_control_peer_get(made.ranks[i].control, 1, &told);
    tdm_control_progress(made.ranks[i].control, 0, 200);
  }
  wait_progress(made.ranks[0].control, 2, 200); /* some beats later */
  wait_progress(made.ranks[2].control, 0, 200);
  for (int i = 0; i < MOST; i += 2) {
    tdm_control_dropped dropped;
    assert_false(tdm_control_failed(made.ranks[i].control, NULL));
    tdm_control_dropped_get(made.ranks[i].control, &dropped);
    assert_int_equal(dropped.forged + dropped.malformed + dropped.repeated, 0);
  }
  close_net(&made);
}

/* ---- Transfers that stand still ---------------------------------------------------------------
 */

enum { LIMIT_MS = 3000 };

static tdm_control_transfer post(tdm_control *of, int peer, tdm_control_way way, size_t bytes) {
  tdm_control_transfer transfer = {.peer = peer, .way = way, .bytes = bytes};
  tdm_control_posted(of, &transfer);
  return transfer;
}

/* Until rank `of` knows how often its peer has posted to it, and whether it waits. */
static void wait_posted(tdm_control *of, int peer, tdm_control_way way, uint64_t count,
                        bool waits) {
  tdm_control_peer told;
  do {
    (void)usleep(1000);
    tdm_control_peer_get(of, peer, &told);
  } while (told.posted[way] != count || told.waits != waits);
}

/* Asked every 10 ms of a made-up clock: after how many of them does it stand still? 0: never. */
static int stalls_after(tdm_control *of, tdm_control_transfer *transfer) {
  enum { EVERY_MS = 10 };
  for (int ms = 0; ms < 10 * LIMIT_MS; ms += EVERY_MS)
    if (tdm_control_stalls(of, transfer, UINT64_C(1000000) * (uint64_t)(ms + 1))) return ms;
  return 0;
}

static void test_stalls(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, MOST);
  for (int i = 0; i < MOST; i++)
    made.ranks[i].options.stall_ns = UINT64_C(1000000) * LIMIT_MS;
  start_all(&made);
  tdm_control *zero = made.ranks[0].control, *one = made.ranks[1].control;
  /* A receive whose sender computes: first nothing is posted, then what was is over. */
  tdm_control_transfer receive = post(zero, 1, TDM_CONTROL_RECEIVES, 0);
  (void)post(one, 0, TDM_CONTROL_GATHER_SENDS, 0);
  wait_posted(zero, 1, TDM_CONTROL_GATHER_SENDS, 1, true);
  assert_int_equal(stalls_after(zero, &receive), 0);
  (void)post(one, 0, TDM_CONTROL_SENDS, 0);
  tdm_control_settled(one);
  tdm_control_settled(one);
  wait_posted(zero, 1, TDM_CONTROL_SENDS, 1, false);
  assert_int_equal(stalls_after(zero, &receive), 0);
  /* It waits for something else: both call their engines. */
  (void)post(one, 2, TDM_CONTROL_RECEIVES, 0);
  wait_posted(zero, 1, TDM_CONTROL_SENDS, 1, true);
  receive.clock.looked_ns = 0;
  assert_int_equal(stalls_after(zero, &receive), LIMIT_MS + 10);
  /* The next is not met by the one before; large ones may take longer. */
  tdm_control_transfer next = post(zero, 1, TDM_CONTROL_RECEIVES, 1000000);
  assert_int_equal(stalls_after(zero, &next), 0);
  (void)post(one, 0, TDM_CONTROL_SENDS, 1000000);
  wait_posted(zero, 1, TDM_CONTROL_SENDS, 2, true);
  next.clock.looked_ns = 0;
  assert_int_equal(stalls_after(zero, &next), LIMIT_MS + 2000 + 10);
  /* Collectives are met by all. */
  tdm_control_transfer sum = post(zero, -1, TDM_CONTROL_COLLECTIVES, 0);
  (void)post(one, -1, TDM_CONTROL_COLLECTIVES, 0);
  wait_posted(zero, 1, TDM_CONTROL_COLLECTIVES, 1, true);
  assert_int_equal(stalls_after(zero, &sum), 0);
  (void)post(made.ranks[2].control, -1, TDM_CONTROL_COLLECTIVES, 0);
  wait_posted(zero, 2, TDM_CONTROL_COLLECTIVES, 1, true);
  sum.clock.looked_ns = 0;
  assert_int_equal(stalls_after(zero, &sum), LIMIT_MS + 10);
  /* A process that did not run for an hour has seen 20 ms of it. */
  sum.clock.stalled_ns = 0;
  assert_false(tdm_control_stalls(zero, &sum, UINT64_C(3600000000000)));
  assert_int_equal(sum.clock.stalled_ns, 20000000);
  close_net(&made);
}

static void test_stall_limits(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, 1);
  setenv("TANDEM_NET_STALL_SECONDS", "soon", 1);
  (void)start_rank(&made.ranks[0]);
  assert_int_equal(made.ranks[0].status, TDM_INVALID_ARGUMENT);
  assert_non_null(strstr(made.ranks[0].message, "TANDEM_NET_STALL_SECONDS"));
  setenv("TANDEM_NET_STALL_SECONDS", "20", 1);
  start_all(&made);
  assert_int_equal(made.ranks[0].control->options.stall_ns, UINT64_C(20000000000));
  unsetenv("TANDEM_NET_STALL_SECONDS");
  close_net(&made);
}

static void test_one_rank(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, 1);
  start_all(&made);
  assert_false(tdm_control_failed(made.ranks[0].control, NULL));
  close_net(&made);
}

/* Rank 2 hangs; rank 0 notices, and rank 1, which would wait for ever, learns it from there. */
static void test_silent(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, MOST);
  made.ranks[0].options.silence_ns = 400000000;
  start_all(&made);
  tdm_control_progress(made.ranks[2].control, 0, 4211);
  wait_progress(made.ranks[0].control, 2, 4211);
  wait_progress(made.ranks[1].control, 2, 4211);
  const uint64_t begin_ns = tdm_time_ns();
  tdm_control_pause(made.ranks[2].control, true);
  for (int i = 0; i < 2; i++) {
    const tdm_control_failure failure = wait_failure(made.ranks[i].control);
    assert_int_equal(failure.rank, 2);
    assert_int_equal(failure.cause, TDM_CONTROL_SILENT);
    assert_int_equal(failure.observer, 0);
    assert_true(failure.silent_ns >= 400000000);
    assert_int_equal(failure.progress[0], 4211);
    char text[TDM_CONTROL_TEXT_BYTES];
    (void)tdm_control_failure_text(&failure, text);
    assert_non_null(strstr(text, "rank 2 (host sim2, pid "));
    assert_non_null(strstr(text, "has not been heard of for 0."));
    assert_non_null(strstr(text, "0: 4211, 1: 0"));
    assert_int_equal(strstr(text, "by rank 0") != NULL, 1);
  }
  assert_true(tdm_time_ns() - begin_ns >= 300000000);
  tdm_control_pause(made.ranks[2].control, false); /* it wakes up, and is told what happened */
  const tdm_control_failure own = wait_failure(made.ranks[2].control);
  assert_int_equal(own.rank, 2);
  assert_int_equal(own.observer, 0);
  for (int i = 0; i < MOST; i++)
    assert_int_equal(atomic_load(&made.ranks[i].failures), 1);
  close_net(&made);
}

static void test_ended(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, MOST);
  start_all(&made);
  tdm_control_abandon(made.ranks[1].control);
  made.ranks[1].control = NULL;
  for (int i = 0; i < MOST; i += 2) {
    const tdm_control_failure failure = wait_failure(made.ranks[i].control);
    char text[TDM_CONTROL_TEXT_BYTES];
    assert_int_equal(failure.rank, 1);
    assert_int_equal(failure.cause, TDM_CONTROL_ENDED);
    assert_non_null(strstr(tdm_control_failure_text(&failure, text), "has ended without a word"));
  }
  close_net(&made);
}

static void test_give_up(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, MOST);
  start_all(&made);
  tdm_control_give_up(made.ranks[1].control, TDM_IO, "no space left on device");
  tdm_control_give_up(made.ranks[1].control, TDM_INTERNAL, "too late");
  for (int i = 0; i < MOST; i++) {
    const tdm_control_failure failure = wait_failure(made.ranks[i].control);
    char text[TDM_CONTROL_TEXT_BYTES];
    assert_int_equal(failure.rank, 1);
    assert_int_equal(failure.cause, TDM_CONTROL_GAVE_UP);
    assert_int_equal(failure.status, TDM_IO);
    assert_non_null(
        strstr(tdm_control_failure_text(&failure, text), "gave up: IO: no space left on device"));
  }
  close_net(&made);
}

/* ---- Not reached ---- */

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

/* ---- A rank that the test plays ---- */

typedef struct played {
  unsigned char key[CONTROL_KEY_BYTES];
  control_addresses addresses[2];
} played;

/* The part that the engine carries, as rank `own` of two; it can be reached at the port. */
static played play(tdm_endpoint *endpoint, uint16_t port) {
  played part = {.key = ""};
  part.addresses[endpoint->rank] =
      (control_addresses){.port = port, .count = 1, .text = {"127.0.0.1"}};
  tdm_net_request request;
  if (endpoint->rank == 0) memset(part.key, 'k', sizeof(part.key));
  assert_int_equal(tdm_endpoint_broadcast(endpoint, &request, 0, part.key, sizeof(part.key)),
                   TDM_OK);
  assert_int_equal(tdm_endpoint_wait(endpoint, &request, NEVER_NS), TDM_OK);
  assert_int_equal(tdm_endpoint_all_gather(endpoint, &request, &part.addresses[endpoint->rank],
                                           part.addresses, sizeof(part.addresses[0])),
                   TDM_OK);
  assert_int_equal(tdm_endpoint_wait(endpoint, &request, NEVER_NS), TDM_OK);
  return part;
}

static int knock(uint16_t port) {
  const int peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const struct sockaddr_in to = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  assert_int_equal(connect(peer, (const struct sockaddr *)&to, sizeof(to)), 0);
  return peer;
}

static void say(int peer, const unsigned char *bytes, size_t count) {
  assert_int_equal(send(peer, bytes, count, MSG_NOSIGNAL), count);
}

static void say_message(int peer, const played *part, control_kind kind, uint64_t sequence,
                        uint64_t command) {
  const control_message message = {.kind = kind,
                                   .from = 1,
                                   .to = 0,
                                   .sequence = sequence,
                                   .queue_count = kind == CONTROL_BEAT,
                                   .progress = {command}};
  unsigned char frame[CONTROL_FRAME_BYTES];
  say(peer, frame, control_pack(&message, part->key, frame));
}

/* Until the other side closes; what it says until then is passed over. */
static void wait_end(int peer) {
  char bytes[1000];
  while (recv(peer, bytes, sizeof(bytes), 0) > 0) {
  }
  (void)close(peer);
}

static void wait_count(tdm_control *control, size_t which, uint64_t least) {
  tdm_control_dropped dropped;
  uint64_t counts[4];
  do {
    (void)usleep(1000);
    tdm_control_dropped_get(control, &dropped);
    memcpy(
        counts,
        (const uint64_t[]){dropped.strangers, dropped.malformed, dropped.forged, dropped.repeated},
        sizeof(counts));
  } while (counts[which] < least);
}

enum { STRANGERS, MALFORMED, FORGED, REPEATED };

/* Nobody of these disturbs the job: noise, silence, another key, another rank's message, a message
 * that had come before. */
static void test_strangers(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, 2);
  begin(&made.ranks[0]);
  const played part = play(made.ranks[1].endpoint, 1);
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
  stranger = knock(port); /* with the key, but no greeting */
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

/* Where nobody listens; the port was this test's own a moment ago. */
static void test_unreachable(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, 2);
  struct sockaddr_in free_port = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof(free_port);
  const int held = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(held, (const struct sockaddr *)&free_port, bytes), 0);
  assert_int_equal(getsockname(held, (struct sockaddr *)&free_port, &bytes), 0);
  made.ranks[1].options.timeout_ns = NEVER_NS;
  begin(&made.ranks[1]);
  (void)play(made.ranks[0].endpoint, ntohs(free_port.sin_port));
  (void)pthread_join(made.ranks[1].thread, NULL);
  assert_int_equal(made.ranks[1].status, TDM_UNAVAILABLE);
  assert_non_null(strstr(made.ranks[1].message, "no TCP connection with rank 0 (host sim0"));
  assert_non_null(strstr(made.ranks[1].message, "TANDEM_NET_INTERFACE"));
  (void)close(held);
  close_net(&made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_progress_and_leaving),
      cmocka_unit_test(test_stalls),
      cmocka_unit_test(test_stall_limits),
      cmocka_unit_test(test_one_rank),
      cmocka_unit_test(test_silent),
      cmocka_unit_test(test_ended),
      cmocka_unit_test(test_give_up),
      cmocka_unit_test(test_no_such_interface),
      cmocka_unit_test(test_strangers),
      cmocka_unit_test(test_unreachable),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
