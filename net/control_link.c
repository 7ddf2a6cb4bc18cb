/* Connections of the control channel: bytes in and out, and which connections are accepted.
 * Invariant: a link that is not authenticated has limited memory and time. Once the channel has its
 * links, nothing here allocates, because an allocator's lock may be held by a thread that waits for
 * a core. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "core/process.h"
#include "net/control_state.h"

/* ---- Closing --------------------------------------------------------------------------------- */

static void put_back(control_link *link) {
  link->next = link->control->free_links;
  link->control->free_links = link;
}

static void on_link_closed(uv_handle_t *handle) {
  control_link *link = handle->data;
  put_back(link);
  control_handle_closed(link->control);
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

/* ---- Output ---------------------------------------------------------------------------------- */

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
  control_out *out = &link->control->peers[link->peer].out;
  const int full = out->filling;
  if (link->writing || out->count[full] == 0) return;
  const uv_buf_t buffer = uv_buf_init((char *)out->bytes[full], (unsigned)out->count[full]);
  link->write.data = link;
  if (uv_write(&link->write, (uv_stream_t *)&link->tcp, &buffer, 1, on_written) != 0) return;
  link->writing = true;
  out->filling = 1 - full;
  out->count[out->filling] = 0;
}

static size_t sign(const control_link *link, const control_message *message, unsigned char *frame) {
  tdm_control *control = link->control;
  control_message signed_message = *message;
  signed_message.from = control->rank;
  signed_message.to = link->peer;
  signed_message.sequence = ++control->sequence;
  return control_pack(&signed_message, control->key, frame);
}

void control_send(control_link *link, const control_message *message) {
  unsigned char frame[CONTROL_FRAME_BYTES];
  control_out *out = &link->control->peers[link->peer].out;
  const int filling = out->filling;
  if (link->closing || (message->kind == CONTROL_BEAT && out->count[filling] > 0)) return;
  const size_t bytes = sign(link, message, frame);
  if (bytes > CONTROL_OUT_BYTES - out->count[filling]) return;
  memcpy(out->bytes[filling] + out->count[filling], frame, bytes);
  out->count[filling] += bytes;
  flush(link);
}

/* Sends the first message; a new connection has room for it at once. Returns false if the
 * connection has failed. */
static bool greet(control_link *link) {
  unsigned char frame[CONTROL_FRAME_BYTES];
  const size_t bytes = sign(link, &(control_message){.kind = CONTROL_HELLO}, frame);
  const uv_buf_t buffer = uv_buf_init((char *)frame, (unsigned)bytes);
  return uv_try_write((uv_stream_t *)&link->tcp, &buffer, 1) == (int)bytes;
}

/* ---- Input ----------------------------------------------------------------------------------- */

static void give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out_buffer) {
  (void)suggested;
  control_link *link = handle->data;
  *out_buffer =
      uv_buf_init((char *)link->in + link->in_bytes, (unsigned)(sizeof link->in - link->in_bytes));
}

/* Handles the complete frames; an incomplete one at the end is kept. */
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
    control_count(control, forged ? CONTROL_BAD_CODE : CONTROL_BAD_BYTES);
    /* Frames continue after a forged one, but a link that is not authenticated is closed. */
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

/* ---- Beginning ------------------------------------------------------------------------------- */

void control_link_keep(control_link *link) {
  int descriptor = -1;
  const uint64_t most_ms = link->control->options.silence_ns / 1000000 + 60000;
  const unsigned limit_ms = (unsigned)most_ms;
  if (uv_fileno((uv_handle_t *)&link->tcp, &descriptor) == 0)
    (void)setsockopt(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof limit_ms);
}

tdm_status control_make_links(tdm_control *control) {
  const size_t ranks = (size_t)control->rank_count;
  control->link_count =
      CONTROL_STRANGERS_AT_ONCE + CONTROL_SPARE_LINKS + ranks * (1 + CONTROL_ADDRESSES);
  control->all_links = tdm_allocate(
      &control->allocator, control->link_count * sizeof *control->all_links, "connections");
  if (!control->all_links) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < control->link_count; i++) {
    control->all_links[i].control = control;
    put_back(&control->all_links[i]);
  }
  return TDM_OK;
}

/* Returns a free link, or NULL if there is none. */
static control_link *take_link(tdm_control *control, int peer) {
  control_link *link = control->free_links;
  if (!link) return NULL;
  control->free_links = link->next;
  *link = (control_link){
      .control = control, .peer = peer, .incoming = peer < 0, .opened_ns = tdm_time_ns()};
  if (uv_tcp_init(tdm_loop_uv(control->loop), &link->tcp) != 0) {
    put_back(link);
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

/* Accepts a connection. If there are too many, accepts and closes it, because a refused peer would
 * retry at once. */
void control_let_in(tdm_control *control) {
  uv_stream_t *listener = (uv_stream_t *)&control->listener;
  const bool too_many = strangers_now(control) >= CONTROL_STRANGERS_AT_ONCE + control->rank_count;
  control_link *link = take_link(control, -1);
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
  /* Binds to both address families, or only to IPv4 if there is no IPv6. */
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
  int bytes = (int)sizeof bound;
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
  link->greeted = greet(link);
  if (!link->greeted) end_link(link, UV_EIO);
}

static int connect_address(tdm_control *control, int peer, const char *address, uint16_t port) {
  struct sockaddr_storage to;
  int code = uv_ip4_addr(address, port, (struct sockaddr_in *)&to);
  if (code != 0) code = uv_ip6_addr(address, port, (struct sockaddr_in6 *)&to);
  if (code != 0) return code;
  control_link *link = take_link(control, peer);
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

/* Connects to all addresses of a rank at once; the first connection is kept. Loopback addresses
 * are used only if the rank may be on this machine, or if it has no other addresses. */
void control_connect(tdm_control *control, int rank) {
  const control_addresses *to = &control->addresses[rank];
  const bool same_host = strcmp(control->ranks[rank].host, control->ranks[control->rank].host) == 0;
  control_peer *peer = &control->peers[rank];
  peer->attempts = 1; /* counts this function, until all attempts have begun */
  peer->greeted = false;
  tdm_low_descriptors low;
  const bool held = tdm_low_descriptors_hold(&low) == TDM_OK;
  for (int i = 0; held && i < to->count; i++)
    if (same_host || i == 0 || !is_own_machine(to->text[i]))
      (void)connect_address(control, rank, to->text[i], to->port);
  if (held) tdm_low_descriptors_release(&low);
  control_give_up_attempt(control, rank, held ? peer->last_error : UV_EMFILE);
}
