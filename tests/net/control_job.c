/* See control_job.h. */
#include "tests/net/control_job.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include "tests/support/faulty_allocator.h"

static void on_failure(void *user, const tdm_control_failure *failure) {
  (void)failure;
  atomic_fetch_add(&((rank *)user)->failures, 1);
}

void open_net(job *of, int count) {
  of->memory = tdm_faulty_allocator_create();
  of->count = count;
  const tdm_allocator allocator = tdm_faulty_allocator_view(of->memory);
  const tdm_simnet_options options = {.struct_size = sizeof(options), .rank_count = count};
  assert_int_equal(tdm_simnet_create(&allocator, &options, &of->net), TDM_OK);
  for (int i = 0; i < count; i++) {
    rank *one = &of->ranks[i];
    assert_int_equal(tdm_simnet_endpoint(of->net, i, &one->endpoint), TDM_OK);
    one->options = (tdm_control_options){.struct_size = sizeof one->options,
                                         .allocator = allocator,
                                         .beat_ns = 20000000,
                                         .silence_ns = NEVER_NS,
                                         .queue_count = 2,
                                         .failed = on_failure,
                                         .user = one};
  }
}

void *start_rank(void *user) {
  rank *one = user;
  one->status = tdm_control_start(one->endpoint, &one->options, &one->control);
  (void)snprintf(one->message, sizeof one->message, "%s", tdm_last_message());
  return NULL;
}

void begin(rank *one) {
  assert_int_equal(pthread_create(&one->thread, NULL, start_rank, one), 0);
}

void start_all(job *of) {
  for (int i = 0; i < of->count; i++)
    begin(&of->ranks[i]);
  for (int i = 0; i < of->count; i++)
    (void)pthread_join(of->ranks[i].thread, NULL);
  for (int i = 0; i < of->count; i++)
    assert_int_equal(of->ranks[i].status, TDM_OK);
}

void close_net(job *of) {
  for (int i = 0; i < of->count; i++) {
    tdm_control_leave(of->ranks[i].control);
    tdm_endpoint_abandon(of->ranks[i].endpoint);
  }
  tdm_simnet_release(of->net);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(of->memory), 0);
  tdm_faulty_allocator_destroy(of->memory);
}

void wait_progress(tdm_control *of, int peer, uint64_t command) {
  tdm_control_peer told;
  do {
    (void)usleep(1000);
    tdm_control_peer_get(of, peer, &told);
  } while (told.queue_count == 0 || told.progress[0] != command);
}

tdm_control_failure wait_failure(tdm_control *control) {
  tdm_control_failure failure;
  while (!tdm_control_failed(control, &failure))
    (void)usleep(1000);
  return failure;
}

/* ---- Ranks that the test plays --------------------------------------------------------------- */

played play(job *of, const uint16_t ports[MOST]) {
  played part = {.key = ""};
  control_addresses own[MOST];
  tdm_net_request requests[MOST];
  unsigned char keys[MOST][CONTROL_KEY_BYTES];
  memset(keys, 'k', sizeof keys);
  for (int r = 0; r < of->count; r++)
    if (ports[r] > 0)
      assert_int_equal(tdm_endpoint_broadcast(of->ranks[r].endpoint, &requests[r], 0, keys[r],
                                              CONTROL_KEY_BYTES),
                       TDM_OK);
  for (int r = 0; r < of->count; r++)
    if (ports[r] > 0)
      assert_int_equal(tdm_endpoint_wait(of->ranks[r].endpoint, &requests[r], NEVER_NS), TDM_OK);
  for (int r = 0; r < of->count; r++) {
    if (ports[r] == 0) continue;
    memcpy(part.key, keys[r], CONTROL_KEY_BYTES);
    own[r] = (control_addresses){.port = ports[r], .count = 1, .text = {"127.0.0.1"}};
    (void)snprintf(own[r].version, sizeof own[r].version, "%s",
                   of->other_version ? "0.0.1" : tdm_version());
    assert_int_equal(tdm_endpoint_all_gather(of->ranks[r].endpoint, &requests[r], &own[r],
                                             part.addresses, sizeof own[r]),
                     TDM_OK);
  }
  for (int r = 0; r < of->count; r++)
    if (ports[r] > 0)
      assert_int_equal(tdm_endpoint_wait(of->ranks[r].endpoint, &requests[r], NEVER_NS), TDM_OK);
  return part;
}

int open_port(uint16_t *out_port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof address;
  const int opened = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(opened, (const struct sockaddr *)&address, bytes), 0);
  assert_int_equal(getsockname(opened, (struct sockaddr *)&address, &bytes), 0);
  *out_port = ntohs(address.sin_port);
  return opened;
}

int knock(uint16_t port) {
  const int peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const struct sockaddr_in to = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  assert_int_equal(connect(peer, (const struct sockaddr *)&to, sizeof(to)), 0);
  return peer;
}

void say(int peer, const unsigned char *bytes, size_t count) {
  assert_int_equal(send(peer, bytes, count, MSG_NOSIGNAL), count);
}

void say_frame(int peer, const played *part, const control_message *message) {
  unsigned char frame[CONTROL_FRAME_BYTES];
  say(peer, frame, control_pack(message, part->key, frame));
}

void say_message(int peer, const played *part, control_kind kind, uint64_t sequence,
                 uint64_t command) {
  say_frame(peer, part,
            &(control_message){.kind = kind,
                               .from = 1,
                               .to = 0,
                               .sequence = sequence,
                               .queue_count = kind == CONTROL_BEAT,
                               .progress = {command}});
}

control_message hear(int peer, const played *part, control_kind kind) {
  unsigned char frame[CONTROL_FRAME_BYTES];
  control_message message = {.kind = CONTROL_KIND_END};
  while (message.kind != kind) {
    size_t used = 0;
    ssize_t came = recv(peer, frame, CONTROL_HEAD_BYTES, MSG_WAITALL);
    assert_int_equal(came, CONTROL_HEAD_BYTES);
    const size_t bytes = frame[4] | (size_t)frame[5] << 8; /* size of the message */
    assert_in_range(bytes, CONTROL_HEAD_BYTES, sizeof frame);
    came = recv(peer, frame + CONTROL_HEAD_BYTES, bytes - CONTROL_HEAD_BYTES, MSG_WAITALL);
    assert_int_equal(came, bytes - CONTROL_HEAD_BYTES);
    assert_int_equal(control_unpack(frame, bytes, part->key, MOST, &message, &used), CONTROL_TAKEN);
  }
  return message;
}

void wait_end(int peer) {
  char bytes[1000];
  while (recv(peer, bytes, sizeof bytes, 0) > 0) {
  }
  (void)close(peer);
}

void wait_count(tdm_control *control, size_t which, uint64_t least) {
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
