/* The cases of conformance.h. */
#include "tests/net/conformance.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/park.h"
#include "core/status.h"

#define LIMIT_NS (60 * UINT64_C(1000000000)) /* limit after which a transfer counts as hanging */

#define EXPECT(holds)                                                                              \
  do {                                                                                             \
    if (!(holds)) {                                                                                \
      fprintf(stderr, "%s:%d: rank %d: not so: %s (%s)\n", __FILE__, __LINE__, endpoint->rank,     \
              #holds, tdm_last_message());                                                         \
      return false;                                                                                \
    }                                                                                              \
  } while (0)

/* Polls until `count` more requests have settled. Returns false after the time limit. */
static bool settle(tdm_endpoint *endpoint, size_t count) {
  const uint64_t begin_ns = tdm_time_ns();
  while (count > 0) {
    tdm_net_request *settled;
    EXPECT(tdm_endpoint_poll(endpoint, &settled) == TDM_OK);
    for (; settled; settled = settled->next)
      count--;
    EXPECT(tdm_time_ns() - begin_ns < LIMIT_NS);
    if (count > 0) (void)usleep(20);
  }
  return true;
}

static unsigned char byte_at(int from, int to, uint32_t channel, size_t index) {
  return (unsigned char)(31u * (unsigned)from + 17u * (unsigned)to + 7u * channel + index * 13u +
                         index / 251u);
}

static void fill(unsigned char *bytes, size_t size, int from, int to, uint32_t channel) {
  for (size_t i = 0; i < size; i++)
    bytes[i] = byte_at(from, to, channel, i);
}

static bool is_filled(const unsigned char *bytes, size_t size, int from, int to, uint32_t channel) {
  for (size_t i = 0; i < size; i++)
    if (bytes[i] != byte_at(from, to, channel, i)) return false;
  return true;
}

/* ---- Transfers ------------------------------------------------------------------------------- */

static bool test_names(tdm_endpoint *endpoint) {
  EXPECT(endpoint->rank >= 0 && endpoint->rank < endpoint->rank_count);
  EXPECT(endpoint->ranks[endpoint->rank].pid == (int64_t)getpid());
  for (int rank = 0; rank < endpoint->rank_count; rank++) {
    EXPECT(endpoint->ranks[rank].host[0] != '\0');
    EXPECT(endpoint->ranks[rank].pid > 0);
  }
  EXPECT(endpoint->transport->version()[0] != '\0');
  tdm_net_request *settled;
  EXPECT(tdm_endpoint_poll(endpoint, &settled) == TDM_OK && !settled);
  return true;
}

/* Exchanges messages of that size between all pairs concurrently; each of 3 ranks has 4
 * transfers. */
static bool exchange(tdm_endpoint *endpoint, size_t size) {
  enum { MOST = 16 };
  static const uint32_t channels[] = {0, TDM_NET_CHANNELS - 1};
  tdm_net_request requests[2 * MOST];
  EXPECT(endpoint->rank_count <= MOST);
  unsigned char *room = malloc(2 * MOST * (size + 1));
  EXPECT(room != NULL);
  const uint32_t channel = channels[size % 2];
  for (int peer = 0; peer < endpoint->rank_count; peer++) {
    unsigned char *sent = room + (size_t)peer * (size + 1);
    unsigned char *received = room + (size_t)(MOST + peer) * (size + 1);
    if (peer == endpoint->rank) continue;
    received[size] = 0xA5;
    fill(sent, size, endpoint->rank, peer, channel);
    EXPECT(tdm_endpoint_send(endpoint, &requests[peer], peer, channel, sent, size) == TDM_OK);
    EXPECT(tdm_endpoint_receive(endpoint, &requests[MOST + peer], peer, channel, received, size) ==
           TDM_OK);
  }
  EXPECT(endpoint->posted_count == 2 * (size_t)(endpoint->rank_count - 1));
  EXPECT(settle(endpoint, endpoint->posted_count) && endpoint->posted_count == 0);
  for (int peer = 0; peer < endpoint->rank_count; peer++) {
    const unsigned char *received = room + (size_t)(MOST + peer) * (size + 1);
    if (peer == endpoint->rank) continue;
    EXPECT(requests[peer].status == TDM_OK && requests[MOST + peer].status == TDM_OK);
    EXPECT(requests[MOST + peer].arrived_bytes == size);
    EXPECT(is_filled(received, size, peer, endpoint->rank, channel) && received[size] == 0xA5);
  }
  free(room);
  return true;
}

/* Sizes around every limit: none, the engines' eager one, that of a piece (conformance runs with
 * pieces of 4,096 bytes), many pieces and a rest. */
static bool test_exchange(tdm_endpoint *endpoint) {
  static const size_t sizes[] = {0, 1, 7, 1000, 4095, 4096, 4097, 8192, 300001};
  for (size_t i = 0; i < TDM_COUNT_OF(sizes); i++)
    EXPECT(exchange(endpoint, sizes[i]));
  return true;
}

enum { CHANNELS = 8, PER_CHANNEL = 40, TRANSFERS = CHANNELS * PER_CHANNEL };

/* Rank 0 sends to the last one channel by channel; that one receives from the last channel to the
 * first, each in order. */
static bool test_order(tdm_endpoint *endpoint) {
  const int last = endpoint->rank_count - 1;
  int32_t numbers[TRANSFERS];
  tdm_net_request requests[TRANSFERS];
  if (last == 0 || (endpoint->rank != 0 && endpoint->rank != last)) return true;
  for (int i = 0; i < TRANSFERS; i++) {
    tdm_status status;
    if (endpoint->rank == 0) {
      numbers[i] = i;
      status = tdm_endpoint_send(endpoint, &requests[i], last, (uint32_t)(i % CHANNELS),
                                 &numbers[i], sizeof numbers[i]);
    } else {
      numbers[i] = -1;
      status = tdm_endpoint_receive(endpoint, &requests[i], 0,
                                    (uint32_t)(CHANNELS - 1 - i / PER_CHANNEL), &numbers[i],
                                    sizeof numbers[i]);
    }
    EXPECT(status == TDM_OK);
  }
  EXPECT(settle(endpoint, TRANSFERS));
  for (int i = 0; i < TRANSFERS; i++) {
    const int channel = CHANNELS - 1 - i / PER_CHANNEL;
    EXPECT(requests[i].status == TDM_OK);
    EXPECT(endpoint->rank == 0 || numbers[i] == i % PER_CHANNEL * CHANNELS + channel);
  }
  return true;
}

/* Rank 0 receives 16 bytes into 40, and 24 bytes into 8, from rank 1. */
static bool test_sizes_that_differ(tdm_endpoint *endpoint) {
  if (endpoint->rank_count < 2 || endpoint->rank > 1) return true;
  unsigned char bytes[2][41];
  tdm_net_request requests[2];
  memset(bytes, 0xA5, sizeof bytes);
  for (uint32_t i = 0; i < 2; i++) {
    const size_t size = i == 0 ? 16 : 24;
    const size_t room = i == 0 ? 40 : 8;
    if (endpoint->rank == 1) {
      fill(bytes[i], size, 1, 0, i);
      EXPECT(tdm_endpoint_send(endpoint, &requests[i], 0, i, bytes[i], size) == TDM_OK);
    } else {
      EXPECT(tdm_endpoint_receive(endpoint, &requests[i], 1, i, bytes[i], room) == TDM_OK);
    }
  }
  EXPECT(settle(endpoint, 2));
  if (endpoint->rank == 1) return true;
  EXPECT(requests[0].status == TDM_INVALID_ARGUMENT && requests[0].arrived_bytes == 16);
  EXPECT(is_filled(bytes[0], 16, 1, 0, 0) && bytes[0][16] == 0xA5);
  EXPECT(requests[1].status == TDM_INVALID_ARGUMENT && bytes[1][8] == 0xA5);
  for (int i = 0; i < 2; i++) {
    EXPECT(tdm_net_request_fail(endpoint, &requests[i]) == TDM_INVALID_ARGUMENT);
    EXPECT(strstr(tdm_last_message(), "from rank 1 (host ") != NULL);
  }
  return true;
}

static bool test_cancel(tdm_endpoint *endpoint, bool can_cancel_sends) {
  if (endpoint->rank_count < 2) return true;
  const int peer = endpoint->rank == 0 ? 1 : 0;
  static unsigned char memory[9000];
  unsigned char received[16];
  tdm_net_request request;
  EXPECT(tdm_endpoint_receive(endpoint, &request, peer, 11, received, 16) == TDM_OK);
  EXPECT(tdm_endpoint_wait(endpoint, &request, 2000000) == TDM_DEADLINE_EXCEEDED);
  EXPECT(tdm_endpoint_cancel(endpoint, &request) == TDM_OK);
  EXPECT(tdm_endpoint_wait(endpoint, &request, LIMIT_NS) == TDM_CANCELLED);
  EXPECT(strstr(tdm_last_message(), "was cancelled") != NULL);
  if (!can_cancel_sends) return true;
  EXPECT(tdm_endpoint_send(endpoint, &request, peer, 12, memory, sizeof(memory)) == TDM_OK);
  EXPECT(tdm_endpoint_cancel(endpoint, &request) == TDM_OK);
  const tdm_status status = tdm_endpoint_wait(endpoint, &request, LIMIT_NS);
  EXPECT(status == TDM_CANCELLED || status == TDM_OK);
  return true;
}

/* ---- Collectives ----------------------------------------------------------------------------- */

static bool all_reduce(tdm_endpoint *endpoint, size_t count) {
  const int ranks = endpoint->rank_count;
  float *floats = malloc((count + 1) * sizeof *floats);
  double *doubles = malloc((count + 1) * sizeof *doubles);
  tdm_net_request requests[2];
  EXPECT(floats && doubles);
  for (size_t i = 0; i < count; i++) {
    floats[i] = (float)(endpoint->rank + 1) * (float)(i % 1000);
    doubles[i] = (double)(endpoint->rank + 1) + (double)i * 1e6;
  }
  EXPECT(tdm_endpoint_all_reduce(endpoint, &requests[0], TDM_FLOAT32, floats, count) == TDM_OK);
  EXPECT(tdm_endpoint_all_reduce(endpoint, &requests[1], TDM_FLOAT64, doubles, count) == TDM_OK);
  EXPECT(requests[1].channel == requests[0].channel + 1);
  EXPECT(settle(endpoint, 2));
  EXPECT(requests[0].status == TDM_OK && requests[1].status == TDM_OK);
  const int sum = ranks * (ranks + 1) / 2;
  for (size_t i = 0; i < count; i++) {
    EXPECT(floats[i] == (float)sum * (float)(i % 1000));
    EXPECT(doubles[i] == (double)sum + (double)ranks * (double)i * 1e6);
  }
  free(doubles);
  free(floats);
  return true;
}

static bool test_all_reduce(tdm_endpoint *endpoint) {
  static const size_t counts[] = {0, 1, 5, 1024, 1025, 30000};
  for (size_t i = 0; i < TDM_COUNT_OF(counts); i++)
    EXPECT(all_reduce(endpoint, counts[i]));
  return true;
}

static bool test_broadcast(tdm_endpoint *endpoint) {
  static const size_t sizes[] = {0, 1, 9001};
  unsigned char bytes[9001];
  tdm_net_request request;
  for (int root = 0; root < endpoint->rank_count; root++) {
    for (size_t i = 0; i < TDM_COUNT_OF(sizes); i++) {
      memset(bytes, 0, sizeof bytes);
      if (endpoint->rank == root) fill(bytes, sizes[i], root, 0, 3);
      EXPECT(tdm_endpoint_broadcast(endpoint, &request, root, bytes, sizes[i]) == TDM_OK);
      EXPECT(tdm_endpoint_wait(endpoint, &request, LIMIT_NS) == TDM_OK);
      EXPECT(is_filled(bytes, sizes[i], root, 0, 3));
    }
  }
  return true;
}

static bool test_all_gather(tdm_endpoint *endpoint) {
  static const size_t sizes[] = {0, 1, 64, 5000};
  for (size_t i = 0; i < TDM_COUNT_OF(sizes); i++) {
    const size_t size = sizes[i];
    unsigned char *all = malloc((size_t)(endpoint->rank_count + 1) * size + 1);
    EXPECT(all != NULL);
    unsigned char *own = all + (size_t)endpoint->rank_count * size; /* last, or in its place */
    if (i % 2 == 1) own = all + (size_t)endpoint->rank * size;
    fill(own, size, endpoint->rank, 0, 5);
    tdm_net_request request;
    EXPECT(tdm_endpoint_all_gather(endpoint, &request, own, all, size) == TDM_OK);
    EXPECT(tdm_endpoint_wait(endpoint, &request, LIMIT_NS) == TDM_OK);
    for (int rank = 0; rank < endpoint->rank_count; rank++)
      EXPECT(is_filled(all + (size_t)rank * size, size, rank, 0, 5));
    free(all);
  }
  return true;
}

/* No rank passes before all have come: the last rank notifies rank 0 before it comes. */
static bool test_barrier(tdm_endpoint *endpoint) {
  tdm_net_request request;
  if (endpoint->rank == endpoint->rank_count - 1) (void)usleep(3000);
  const uint64_t came_ns = tdm_time_ns();
  EXPECT(tdm_endpoint_barrier(endpoint, &request) == TDM_OK);
  EXPECT(tdm_endpoint_wait(endpoint, &request, LIMIT_NS) == TDM_OK);
  const uint64_t passed_ns = tdm_time_ns();
  uint64_t times[2 * 16];
  const uint64_t own[2] = {came_ns, passed_ns};
  EXPECT(endpoint->rank_count <= 16);
  EXPECT(tdm_endpoint_all_gather(endpoint, &request, own, times, sizeof own) == TDM_OK);
  EXPECT(tdm_endpoint_wait(endpoint, &request, LIMIT_NS) == TDM_OK);
  for (int rank = 0; rank < endpoint->rank_count; rank++)
    EXPECT(times[2 * (size_t)rank] <= passed_ns); /* one machine has one monotonic clock */
  return true;
}

/* Concurrent transfers and collectives. Every rank posts them in its own order, except that
 * collectives have one order. */
static bool test_both_at_once(tdm_endpoint *endpoint) {
  if (endpoint->rank_count < 2) return true;
  const int next = (endpoint->rank + 1) % endpoint->rank_count;
  const int before = (endpoint->rank + endpoint->rank_count - 1) % endpoint->rank_count;
  enum { ROUNDS = 10 };
  tdm_net_request requests[3 * ROUNDS];
  int32_t sent[ROUNDS], received[ROUNDS];
  double sums[ROUNDS];
  for (int i = 0; i < ROUNDS; i++) {
    const uint32_t number = (uint32_t)(endpoint->rank % 2 == 0 ? i : ROUNDS - 1 - i);
    sent[number] = 100 * endpoint->rank + (int32_t)number;
    sums[i] = endpoint->rank * (i + 1);
    EXPECT(tdm_endpoint_send(endpoint, &requests[i], next, 20 + number, &sent[number],
                             sizeof sent[0]) == TDM_OK);
    EXPECT(tdm_endpoint_all_reduce(endpoint, &requests[ROUNDS + i], TDM_FLOAT64, &sums[i], 1) ==
           TDM_OK);
    EXPECT(tdm_endpoint_receive(endpoint, &requests[2 * ROUNDS + i], before, 20 + number,
                                &received[number], sizeof received[0]) == TDM_OK);
  }
  EXPECT(settle(endpoint, 3 * ROUNDS));
  for (int i = 0; i < ROUNDS; i++) {
    EXPECT(received[i] == 100 * before + i);
    EXPECT(sums[i] == (double)(i + 1) * endpoint->rank_count * (endpoint->rank_count - 1) / 2);
  }
  return true;
}

/* ---- Refused calls --------------------------------------------------------------------------- */

static bool refused(tdm_status status) {
  return status == TDM_INVALID_ARGUMENT && tdm_last_message()[0] != '\0';
}

static bool test_refused(tdm_endpoint *endpoint) {
  tdm_net_request request;
  char memory[8] = {0};
  const int count = endpoint->rank_count;
  const int peers[] = {-1, endpoint->rank, count};
  for (size_t i = 0; i < TDM_COUNT_OF(peers); i++) {
    EXPECT(refused(tdm_endpoint_send(endpoint, &request, peers[i], 0, memory, 8)));
    EXPECT(refused(tdm_endpoint_receive(endpoint, &request, peers[i], 0, memory, 8)));
  }
  const int peer = endpoint->rank == 0 ? 1 : 0;
  if (count > 1) {
    EXPECT(refused(tdm_endpoint_send(endpoint, &request, peer, TDM_NET_CHANNELS, memory, 8)));
    EXPECT(refused(tdm_endpoint_receive(endpoint, &request, peer, 0, NULL, 8)));
  }
  EXPECT(refused(tdm_endpoint_all_reduce(endpoint, &request, TDM_INT32, memory, 2)));
  EXPECT(refused(tdm_endpoint_all_reduce(endpoint, &request, TDM_FLOAT32, NULL, 2)));
  EXPECT(refused(tdm_endpoint_all_reduce(endpoint, &request, TDM_FLOAT64, memory, SIZE_MAX / 4)));
  EXPECT(refused(tdm_endpoint_broadcast(endpoint, &request, count, memory, 8)));
  EXPECT(count == 1 ||
         refused(tdm_endpoint_all_gather(endpoint, &request, memory, memory, SIZE_MAX / 2 + 1)));
  EXPECT(endpoint->posted_count == 0);
  return true;
}

bool conformance_run(tdm_endpoint *endpoint, bool can_cancel_sends) {
  return test_names(endpoint) && test_exchange(endpoint) && test_order(endpoint) &&
         test_sizes_that_differ(endpoint) && test_all_reduce(endpoint) &&
         test_broadcast(endpoint) && test_all_gather(endpoint) && test_barrier(endpoint) &&
         test_both_at_once(endpoint) && test_refused(endpoint) &&
         test_cancel(endpoint, can_cancel_sends) && test_barrier(endpoint);
}
