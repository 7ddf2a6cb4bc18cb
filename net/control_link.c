/* Connections of the control channel: bytes in and out, and who may knock. Invariant: a link that
 * has not proven who it is has little room and little time, and nothing here allocates for what it
 * sends. */
#include <string.h>

#include "core/process.h"
#include "net/control_state.h"

/* ---- Closing ---- */

static void on_link_closed(uv_handle_t *handle) {
  control_link *link = handle->data;
  tdm_control *control = link->control;
  tdm_release(&control->allocator, link, sizeof(*link));
  control_handle_closed(control);
}

void control_link_close(control_link *link) {
  if (link->closing) return;
  link->closing = true;
  control_link **place = &link->control->links;
  while (*place != link)
    place = &(*place)->next;
  *place = link->next;
  uv_close((uv_handle_t *)&link->tcp, on_link_closed);
}

static void end_link(control_link *link, int code) {
  if (link->closing) return;
  control_link_ended(link, code);
  control_link_close(link);
}

/* ---- Out ---- */

static void flush(control_link *link);

static void on_written(uv_write_t *write, int code) {
  control_link *link = write->data;
  link->writing = false;
  if (link->closing) return;
  if (code != 0) {
    end_link(link, code);
  } else {
    flush(link);
  }
}

static void flush(control_link *link) {
  const int full = link->filling;
  if (link->writing || link->out_bytes[full] == 0) return;
  const uv_buf_t buffer = uv_buf_init((char *)link->out[full], (unsigned)link->out_bytes[full]);
  link->write.data = link;
  if (uv_write(&link->write, (uv_stream_t *)&link->tcp, &buffer, 1, on_written) != 0) return;
  link->writing = true;
  link->filling = 1 - full;
  link->out_bytes[link->filling] = 0;
}

void control_send(control_link *link, const control_message *message) {
  tdm_control *control = link->control;
  unsigned char frame[CONTROL_FRAME_BYTES];
  control_message signed_message = *message;
  signed_message.from = control->rank;
  signed_message.to = link->peer;
  signed_message.sequence = ++control->sequence;
  const size_t bytes = control_pack(&signed_message, control->key, frame);
  const int filling = link->filling;
  if (link->closing || bytes > CONTROL_OUT_BYTES - link->out_bytes[filling]) return;
  memcpy(link->out[filling] + link->out_bytes[filling], frame, bytes);
  link->out_bytes[filling] += bytes;
  flush(link);
}

/* ---- In ---- */

static void give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out_buffer) {
  (void)suggested;
  control_link *link = handle->data;
  *out_buffer =
      uv_buf_init((char *)link->in + link->in_bytes, (unsigned)(sizeof(link->in) - link->in_bytes));
}

/* Takes the frames that are there; what begins one more stays. */
void control_link_read(control_link *link, size_t count) {
  tdm_control *control = link->control;
  link->in_bytes += count;
  size_t begin = 0;
  while (!link->closing) {
    control_message message;
    size_t bytes;
    const control_verdict verdict =
        control_unpack(link->in + begin, link->in_bytes - begin, control->key, control->rank_count,
                       &message, &bytes);
    begin += bytes;
    if (verdict == CONTROL_MORE) break;
    if (verdict == CONTROL_TAKEN) {
      control_take(link, &message);
      continue;
    }
    const bool forged = verdict == CONTROL_FORGED;
    control_count(control, forged ? &control->dropped.forged : &control->dropped.malformed);
    /* Frames go on behind a forged one; of a link that has yet to prove anything it was the last.
     */
    if (!forged || !link->adopted) end_link(link, UV_EPROTO);
  }
  if (link->closing) return;
  link->in_bytes -= begin;
  memmove(link->in, link->in + begin, link->in_bytes);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer) {
  (void)buffer;
  control_link *link = stream->data;
  if (count < 0) {
    end_link(link, (int)count);
    return;
  }
  control_link_read(link, (size_t)count);
}

void control_link_pause(control_link *link, bool paused) {
  if (paused) {
    (void)uv_read_stop((uv_stream_t *)&link->tcp);
  } else if (!link->closing && uv_is_readable((uv_stream_t *)&link->tcp)) {
    (void)uv_read_start((uv_stream_t *)&link->tcp, give_room, on_read);
  }
}

/* ---- Beginning ---- */

/* NULL: no memory. */
static control_link *create_link(tdm_control *control, int peer) {
  control_link *link = tdm_allocate(&control->allocator, sizeof(*link), "a connection");
  if (!link) return NULL;
  link->control = control;
  link->peer = peer;
  link->incoming = peer < 0;
  link->opened_ns = tdm_time_ns();
  if (uv_tcp_init(tdm_loop_uv(control->loop), &link->tcp) != 0) {
    tdm_release(&control->allocator, link, sizeof(*link));
    return NULL;
  }
  link->tcp.data = link;
  link->next = control->links;
  control->links = link;
  control->handles++;
  return link;
}

static int strangers_now(const tdm_control *control) {
  int count = 0;
  for (const control_link *link = control->links; link; link = link->next)
    count += link->incoming && !link->adopted;
  return count;
}

/* One too many is accepted, since it would knock again at once, and closed. */
void control_let_in(tdm_control *control) {
  uv_stream_t *listener = (uv_stream_t *)&control->listener;
  const bool too_many = strangers_now(control) >= CONTROL_STRANGERS_AT_ONCE + control->rank_count;
  control_link *link = create_link(control, -1);
  control->has_knocked = !link;
  if (!link) return;
  if (uv_accept(listener, (uv_stream_t *)&link->tcp) != 0 || too_many) {
    end_link(link, UV_ECONNREFUSED);
    return;
  }
  (void)uv_tcp_nodelay(&link->tcp, 1);
  if (!control->paused) (void)uv_read_start((uv_stream_t *)&link->tcp, give_room, on_read);
}

static void on_connection(uv_stream_t *listener, int code) {
  tdm_control *control = listener->data;
  if (code == 0 && !control->leaving) control_let_in(control);
}

static int bind_any(tdm_control *control) {
  struct sockaddr_in6 any;
  struct sockaddr_in any4;
  (void)uv_ip6_addr("::", 0, &any);
  (void)uv_ip4_addr("0.0.0.0", 0, &any4);
  /* Both families at once; where there is no IPv6, the old one. */
  if (uv_tcp_bind(&control->listener, (const struct sockaddr *)&any, 0) == 0) return 0;
  return uv_tcp_bind(&control->listener, (const struct sockaddr *)&any4, 0);
}

int control_listen(tdm_control *control) {
  int code = uv_tcp_init(tdm_loop_uv(control->loop), &control->listener);
  if (code != 0) return code;
  control->listens = true;
  control->handles++;
  control->listener.data = control;
  code = bind_any(control);
  if (code == 0) code = uv_listen((uv_stream_t *)&control->listener, 128, on_connection);
  struct sockaddr_storage bound;
  int bytes = (int)sizeof(bound);
  if (code == 0) code = uv_tcp_getsockname(&control->listener, (struct sockaddr *)&bound, &bytes);
  if (code != 0) return code;
  control->addresses[control->rank].port =
      ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                        : ((struct sockaddr_in *)&bound)->sin_port);
  return 0;
}

static void on_connected(uv_connect_t *connect, int code) {
  control_link *link = connect->data;
  if (link->closing) return;
  if (code != 0) {
    end_link(link, code);
    return;
  }
  (void)uv_tcp_nodelay(&link->tcp, 1);
  (void)uv_read_start((uv_stream_t *)&link->tcp, give_room, on_read);
  control_send(link, &(control_message){.kind = CONTROL_HELLO});
  link->greeted = true;
}

static int connect_address(tdm_control *control, int peer, const char *address, uint16_t port) {
  struct sockaddr_storage to;
  int code = uv_ip4_addr(address, port, (struct sockaddr_in *)&to);
  if (code != 0) code = uv_ip6_addr(address, port, (struct sockaddr_in6 *)&to);
  if (code != 0) return code;
  control_link *link = create_link(control, peer);
  if (!link) return UV_ENOMEM;
  control->peers[peer].attempts++;
  link->connect.data = link;
  code = uv_tcp_connect(&link->connect, &link->tcp, (const struct sockaddr *)&to, on_connected);
  if (code != 0) end_link(link, code);
  return code;
}

static bool is_own_machine(const char *address) {
  return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

/* To all addresses at once; the first that answers is the one. Those of its own machine only where
 * it may be this one, or has no others. */
void control_connect(tdm_control *control, int rank) {
  const control_addresses *to = &control->addresses[rank];
  const bool same_host = strcmp(control->ranks[rank].host, control->ranks[control->rank].host) == 0;
  control_peer *peer = &control->peers[rank];
  peer->attempts = 1; /* this one, until all have begun */
  peer->greeted = false;
  tdm_low_descriptors low;
  const bool held = tdm_low_descriptors_hold(&low) == TDM_OK;
  for (int i = 0; held && i < to->count; i++)
    if (same_host || i == 0 || !is_own_machine(to->text[i]))
      (void)connect_address(control, rank, to->text[i], to->port);
  if (held) tdm_low_descriptors_release(&low);
  control_give_up_attempt(control, rank, held ? peer->last_error : UV_EMFILE);
}
