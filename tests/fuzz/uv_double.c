/* See uv_double.h. A stream's timer is found by `data`, which both share. */
#include "tests/fuzz/uv_double.h"

#include <string.h>

#include "tests/fuzz/support.h"

enum { MOST_HANDLES = 1 + 2 * UV_DOUBLE_MOST_STREAMS };

typedef struct double_handle {
  uv_handle_t *handle; /* NULL: free */
  bool is_timer;
  bool accepted;
  bool closing;
  uv_close_cb closed;
  uv_alloc_cb room; /* set: it reads */
  uv_read_cb read;
  uv_write_t *write;
  uv_write_cb written;
  uv_shutdown_t *shutdown;
  uv_shutdown_cb shut;
  uv_timer_cb due;
  uint64_t repeat_ms;
  bool runs;
} double_handle;

static double_handle handles[MOST_HANDLES];
static uv_connection_cb knocked;
static uv_stream_t *listener;
static int sending = INT32_MAX;

static double_handle *find(const void *handle) {
  for (size_t i = 0; i < MOST_HANDLES; i++)
    if (handles[i].handle == handle) return &handles[i];
  fuzz_found(__FILE__, __LINE__, "a handle that was not made, or is closed");
}

static int make(void *handle, bool is_timer) {
  for (size_t i = 0; i < MOST_HANDLES; i++) {
    if (handles[i].handle) continue;
    handles[i] = (double_handle){.handle = handle, .is_timer = is_timer};
    return 0;
  }
  fuzz_found(__FILE__, __LINE__, "more than %d handles", (int)MOST_HANDLES);
}

/* ---- What serve calls ------------------------------------------------------------------------ */

uint64_t uv_hrtime(void) {
  return 1;
}

const char *uv_strerror(int code) {
  (void)code;
  return "an error";
}

uv_buf_t uv_buf_init(char *base, unsigned int length) {
  return (uv_buf_t){.base = base, .len = length};
}

int uv_ip4_addr(const char *ip, int port, struct sockaddr_in *address) {
  (void)ip, (void)port;
  memset(address, 0, sizeof *address);
  return 0;
}

int uv_tcp_init(uv_loop_t *loop, uv_tcp_t *tcp) {
  (void)loop;
  return make(tcp, false);
}

int uv_tcp_bind(uv_tcp_t *tcp, const struct sockaddr *address, unsigned int flags) {
  (void)tcp, (void)address, (void)flags;
  return 0;
}

int uv_tcp_getsockname(const uv_tcp_t *tcp, struct sockaddr *name, int *bytes) {
  (void)tcp;
  memset(name, 0, (size_t)*bytes);
  return 0;
}

int uv_tcp_nodelay(uv_tcp_t *tcp, int enable) {
  (void)tcp, (void)enable;
  return 0;
}

int uv_listen(uv_stream_t *stream, int backlog, uv_connection_cb callback) {
  (void)backlog;
  listener = stream;
  knocked = callback;
  return 0;
}

int uv_accept(uv_stream_t *server, uv_stream_t *client) {
  (void)server;
  find(client)->accepted = true;
  return 0;
}

int uv_read_start(uv_stream_t *stream, uv_alloc_cb room, uv_read_cb read) {
  double_handle *self = find(stream);
  if (self->closing) return UV_EINVAL;
  if (self->read) return UV_EALREADY;
  self->room = room;
  self->read = read;
  return 0;
}

int uv_read_stop(uv_stream_t *stream) {
  double_handle *self = find(stream);
  self->room = NULL;
  self->read = NULL;
  return 0;
}

int uv_try_write(uv_stream_t *stream, const uv_buf_t buffers[], unsigned int count) {
  fuzz_expect(count > 0, "no buffer");
  if (find(stream)->write) return UV_EAGAIN;
  if (sending < 0) return sending;
  int whole = 0;
  for (unsigned int i = 0; i < count; i++)
    whole += (int)buffers[i].len;
  return sending < whole ? sending : whole;
}

int uv_write(uv_write_t *request, uv_stream_t *stream, const uv_buf_t buffers[], unsigned int count,
             uv_write_cb written) {
  double_handle *self = find(stream);
  if (self->closing) return UV_EBADF;
  fuzz_expect(!self->write, "a write before the last one's end, whose request is in use");
  size_t whole = 0;
  for (unsigned int i = 0; i < count; i++) {
    volatile char last = buffers[i].len ? buffers[i].base[buffers[i].len - 1] : 0;
    (void)last;
    whole += buffers[i].len;
  }
  fuzz_expect(whole > 0 && whole < 65536, "%zu bytes are left to write", whole);
  request->handle = stream;
  self->write = request;
  self->written = written;
  return 0;
}

int uv_shutdown(uv_shutdown_t *request, uv_stream_t *stream, uv_shutdown_cb shut) {
  double_handle *self = find(stream);
  if (self->closing || self->shutdown) return UV_ENOTCONN;
  request->handle = stream;
  self->shutdown = request;
  self->shut = shut;
  return 0;
}

int uv_timer_init(uv_loop_t *loop, uv_timer_t *timer) {
  (void)loop;
  return make(timer, true);
}

int uv_timer_start(uv_timer_t *timer, uv_timer_cb due, uint64_t wait_ms, uint64_t repeat_ms) {
  (void)wait_ms;
  double_handle *self = find(timer);
  if (self->closing) return UV_EINVAL;
  self->due = due;
  self->repeat_ms = repeat_ms;
  self->runs = true;
  return 0;
}

int uv_timer_stop(uv_timer_t *timer) {
  find(timer)->runs = false;
  return 0;
}

int uv_timer_again(uv_timer_t *timer) {
  double_handle *self = find(timer);
  if (!self->due) return UV_EINVAL;
  if (self->repeat_ms && !self->closing) self->runs = true;
  return 0;
}

void uv_close(uv_handle_t *handle, uv_close_cb closed) {
  double_handle *self = find(handle);
  fuzz_expect(!self->closing, "a handle is closed twice");
  self->closing = true;
  self->closed = closed;
  self->runs = false;
  self->room = NULL;
  self->read = NULL;
}

/* ---- What drives it -------------------------------------------------------------------------- */

void uv_double_set_sending(int bytes_or_code) {
  sending = bytes_or_code;
}

bool uv_double_knock(void) {
  if (!listener || find(listener)->closing || uv_double_open_handles() + 2 > MOST_HANDLES)
    return false;
  knocked(listener, 0);
  return true;
}

uv_stream_t *uv_double_stream(uint32_t number) {
  for (size_t i = 0; i < MOST_HANDLES; i++) {
    const double_handle *self = &handles[i];
    if (self->handle && self->accepted && !self->closing && number-- == 0)
      return (uv_stream_t *)self->handle;
  }
  return NULL;
}

bool uv_double_receive(uv_stream_t *stream, const uint8_t *bytes, size_t size, size_t *out_taken) {
  double_handle *self = find(stream);
  *out_taken = 0;
  if (!self->read) return false;
  const uv_read_cb read = self->read;
  uv_buf_t room = {.base = NULL, .len = 0};
  self->room(self->handle, 65536, &room);
  if (room.len == 0) {
    read(stream, UV_ENOBUFS, &room);
    return false;
  }
  const size_t taken = size < room.len ? size : room.len;
  if (taken) memcpy(room.base, bytes, taken);
  *out_taken = taken;
  read(stream, (ssize_t)taken, &room);
  return true;
}

void uv_double_end(uv_stream_t *stream, int code) {
  double_handle *self = find(stream);
  if (!self->read) return;
  const uv_read_cb read = self->read;
  uv_buf_t room = {.base = NULL, .len = 0};
  self->room(self->handle, 65536, &room);
  if (code == UV_EOF) (void)uv_read_stop(stream);
  read(stream, code, &room);
}

bool uv_double_fire_timer(uv_stream_t *stream) {
  for (size_t i = 0; i < MOST_HANDLES; i++) {
    double_handle *self = &handles[i];
    if (!self->handle || !self->is_timer || self->handle->data != stream->data || !self->runs)
      continue;
    self->runs = self->repeat_ms > 0;
    self->due((uv_timer_t *)self->handle);
    return true;
  }
  return false;
}

bool uv_double_finish_write(uv_stream_t *stream, int code) {
  double_handle *self = find(stream);
  if (self->write) {
    uv_write_t *request = self->write;
    self->write = NULL;
    self->written(request, code);
    return true;
  }
  if (!self->shutdown) return false;
  uv_shutdown_t *request = self->shutdown;
  self->shutdown = NULL;
  self->shut(request, code);
  return true;
}

int uv_double_close_handles(void) {
  int count = 0;
  for (size_t i = 0; i < MOST_HANDLES; i++) {
    double_handle *self = &handles[i];
    if (!self->handle || !self->closing) continue;
    while (!self->is_timer && uv_double_finish_write((uv_stream_t *)self->handle, UV_ECANCELED)) {
    }
    uv_handle_t *handle = self->handle;
    const uv_close_cb closed = self->closed;
    if ((uv_stream_t *)handle == listener) listener = NULL;
    self->handle = NULL;
    if (closed) closed(handle);
    count++;
  }
  return count;
}

int uv_double_open_handles(void) {
  int count = 0;
  for (size_t i = 0; i < MOST_HANDLES; i++)
    count += handles[i].handle != NULL;
  return count;
}
