/* Bytes on connections of the control channel: noise, and signed frames with or without a fault.
 * Invariant: unsigned frames have no effect, a peer has at most one connection, numbers of messages
 * only grow, and a reported failure is of a rank of the job. Connections are doubles: sent frames
 * are signed and dropped. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "net/control_state.h"
#include "tests/fuzz/support.h"

enum { RANKS = 4, OWN = 1, LINKS = 5 };

typedef struct session {
  tdm_control control;
  tdm_rank ranks[RANKS];
  control_addresses addresses[RANKS];
  control_peer peers[RANKS];
  control_link storage[LINKS];
  control_link *links[LINKS]; /* NULL: closed */
  uv_loop_t loop;
  bool any_signed;
} session;

/* Links 0 to 2 have come from outside, the others lead to ranks 0 and 2. */
static void open_links(session *of) {
  static const int peers[LINKS] = {-1, -1, -1, 0, 2};
  for (int i = 0; i < LINKS; i++) {
    control_link *link = &of->storage[i];
    fuzz_expect(uv_tcp_init(&of->loop, &link->tcp) == 0, "no handle");
    link->tcp.data = link;
    link->control = &of->control;
    link->peer = peers[i];
    link->incoming = peers[i] < 0;
    if (peers[i] >= 0) of->peers[peers[i]].attempts++;
    link->next = of->control.links;
    of->control.links = of->links[i] = link;
    of->control.handles++;
  }
}

static void begin(session *of) {
  memset(of, 0, sizeof *of);
  tdm_control *control = &of->control;
  control->allocator = *fuzz_allocator();
  atomic_store(&control->queue_count, 2);
  control->rank = OWN;
  control->rank_count = RANKS;
  control->ranks = of->ranks;
  control->addresses = of->addresses;
  control->peers = of->peers;
  atomic_store(&control->unreachable, -1);
  (void)pthread_mutex_init(&control->lock, NULL);
  fuzz_expect(uv_loop_init(&of->loop) == 0, "no loop");
  open_links(of);
}

static void forget_closed(session *of) {
  for (int i = 0; i < LINKS; i++)
    if (of->links[i] && of->links[i]->closing) of->links[i] = NULL;
}

static void end(session *of) {
  of->control.leaving = true;
  while (of->control.links)
    control_link_close(of->control.links);
  (void)uv_run(&of->loop, UV_RUN_DEFAULT);
  fuzz_expect(uv_loop_close(&of->loop) == 0, "a handle is left");
  fuzz_expect(atomic_load(&of->control.closed), "%d handles are left", of->control.handles);
  (void)pthread_mutex_destroy(&of->control.lock);
}

/* ---- What comes ------------------------------------------------------------------------------ */

static void feed(session *of, int number, const unsigned char *bytes, size_t count) {
  while (count > 0 && of->links[number]) {
    control_link *link = of->links[number];
    const size_t room = sizeof link->in - link->in_bytes;
    const size_t part = count < room ? count : room;
    fuzz_expect(part > 0, "a connection has no room");
    memcpy(link->in + link->in_bytes, bytes, part);
    control_link_read(link, part);
    bytes += part;
    count -= part;
    forget_closed(of);
  }
}

static void put(unsigned char *bytes, uint64_t number, size_t count) {
  for (size_t i = 0; i < count; i++)
    bytes[i] = (unsigned char)(number >> (8 * i));
}

/* Feeds a signed frame with any payload. fault: inverts one bit after the signature was made. */
static void feed_frame(session *of, int number, fuzz_input *input, bool fault) {
  unsigned char frame[CONTROL_FRAME_BYTES + 256] = {0};
  const size_t payload = fuzz_byte(input);
  const size_t signed_bytes = CONTROL_HEAD_BYTES + payload;
  const size_t size = signed_bytes + CONTROL_CODE_BYTES;
  put(frame, 0x634d4454u, 4);
  put(frame + 4, size, 2);
  put(frame + 6, fuzz_below(input, CONTROL_KIND_END + 1), 1);
  put(frame + 8, fuzz_below(input, RANKS + 1), 4);
  put(frame + 12, fuzz_below(input, RANKS + 1), 4);
  put(frame + 16, fuzz_byte(input), 8);
  for (size_t i = 0; i < payload; i++)
    frame[CONTROL_HEAD_BYTES + i] = fuzz_byte(input);
  (void)crypto_auth_hmacsha256(frame + signed_bytes, frame, signed_bytes, of->control.key);
  const uint32_t bit = fault ? fuzz_below(input, (uint32_t)(8 * size)) : 0;
  if (fault) frame[bit / 8] ^= (unsigned char)(1u << (bit % 8));
  if (!fault) of->any_signed = true;
  feed(of, number, frame, size);
}

/* ---- What holds ------------------------------------------------------------------------------ */

static void check(const session *of, const uint64_t *sequences) {
  const tdm_control *control = &of->control;
  int adopted[RANKS] = {0};
  for (const control_link *link = control->links; link; link = link->next) {
    fuzz_expect(link->in_bytes < CONTROL_FRAME_BYTES, "%zu bytes wait", link->in_bytes);
    if (!link->adopted) continue;
    fuzz_expect(link->peer >= 0 && link->peer < RANKS && link->peer != OWN, "peer %d", link->peer);
    fuzz_expect(control->peers[link->peer].link == link, "two connections of %d", link->peer);
    adopted[link->peer]++;
  }
  for (int rank = 0; rank < RANKS; rank++) {
    const control_peer *peer = &control->peers[rank];
    fuzz_expect(adopted[rank] == (peer->link != NULL), "a connection of %d is gone", rank);
    fuzz_expect(peer->sequence >= sequences[rank], "a number of %d shrinks", rank);
    fuzz_expect(peer->told.peer.queue_count <= TDM_CONTROL_QUEUES, "queues of %d", rank);
  }
  const bool failed = atomic_load(&control->failed);
  fuzz_expect(of->any_signed || (!failed && atomic_load(&control->connected) == 0),
              "a stranger is believed");
  if (!failed) return;
  char text[TDM_CONTROL_TEXT_BYTES];
  const tdm_control_failure *failure = &control->failure;
  fuzz_expect(failure->rank >= 0 && failure->rank < RANKS, "rank %d failed", failure->rank);
  fuzz_expect(failure->observer >= 0 && failure->observer < RANKS, "seen by %d", failure->observer);
  fuzz_expect(failure->status != TDM_OK, "a failure is OK");
  fuzz_expect(strlen(tdm_control_failure_text(failure, text)) < sizeof(text), "no end");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const int64_t outstanding = fuzz_outstanding();
  static session of;
  begin(&of);
  fuzz_input input = {data, size};
  while (input.size > 0) {
    uint64_t sequences[RANKS];
    for (int rank = 0; rank < RANKS; rank++)
      sequences[rank] = of.peers[rank].sequence;
    const uint8_t what = fuzz_byte(&input);
    const int number = what % LINKS;
    if (what / LINKS % 4 == 0) {
      size_t count;
      char *noise = fuzz_text(&input, &count);
      feed(&of, number, (const unsigned char *)noise, count);
      free(noise);
    } else {
      feed_frame(&of, number, &input, what / LINKS % 4 == 1);
    }
    check(&of, sequences);
  }
  end(&of);
  fuzz_expect(fuzz_outstanding() == outstanding, "memory is lost");
  return 0;
}
