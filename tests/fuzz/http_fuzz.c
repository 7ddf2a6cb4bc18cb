/* The HTTP server of examples/serve on a test double of libuv: the input is the actions of clients
 * and of the loop. Invariant: every handled request gets one response, now or later; in the end all
 * connections are freed and the server has stopped. */
#include <string.h>

#include "examples/serve/http.h"
#include "tests/fuzz/support.h"
#include "tests/fuzz/uv_double.h"

enum { CONNECTION_LIMIT = 2, MOST_STEPS = 200, LETTERS = 3000 };
static const char whole[] = "GET /now? HTTP/1.1\r\nHost: a\r\n\r\n";

typedef struct clients {
  http_connection *asked[UV_DOUBLE_MOST_STREAMS]; /* requests whose responses are sent later */
  size_t asked_count;
  uint64_t handed_on, answered;
  bool stopped;
} clients;

static void answer(http_connection *connection, uint8_t how) {
  static const char *const bodies[] = {"", "{\"language\":\"german\"}\n", "a\n"};
  void (*give)(http_connection *, int, const char *, const char *, const char *) =
      how & 128 ? http_answer_standing : http_answer;
  give(connection, how & 1 ? 200 : 422, "text/plain", how & 2 ? "Allow: GET\r\n" : "",
       bodies[how / 4 % 3]);
}

static void handle(void *user, http_connection *connection, const http_request *request) {
  clients *self = user;
  self->handed_on++;
  fuzz_expect(strlen(request->path) <= HTTP_MAX_PATH, "a path without an end");
  fuzz_expect(request->body_bytes <= HTTP_MAX_BODY && request->body[request->body_bytes] == '\0',
              "a body without an end");
  if (strchr(request->path, '?') || self->asked_count == UV_DOUBLE_MOST_STREAMS)
    answer(connection, (uint8_t)request->body[0]);
  else
    self->asked[self->asked_count++] = connection;
}

static void on_answered(void *user, int status, uint64_t took_ns) {
  clients *self = user;
  (void)took_ns;
  fuzz_expect(status >= 100 && status < 600, "status %d", status);
  self->answered++;
}

static void on_stopped(void *user) {
  ((clients *)user)->stopped = true;
}

static void answer_one(clients *self, uint8_t how) {
  if (self->asked_count == 0) return;
  http_connection *connection = self->asked[0];
  self->asked_count--;
  memmove(self->asked, self->asked + 1, self->asked_count * sizeof *self->asked);
  answer(connection, how);
}

/* Sends the text up to the separator, in pieces for which the connection has room. */
static void send_text(uv_stream_t *stream, fuzz_input *input) {
  const uint8_t *bytes = input->bytes;
  const uint8_t *end = input->size ? memchr(bytes, 0x1E, input->size) : NULL;
  size_t size = end ? (size_t)(end - bytes) : input->size;
  input->bytes += size + (end != NULL);
  input->size -= size + (end != NULL);
  void *owner = stream->data;
  while (size > 0) {
    size_t taken = 0;
    if (!uv_double_receive(stream, bytes, size, &taken)) return;
    bytes += taken;
    size -= taken;
    /* Its input may have closed it. */
    bool open = false;
    for (uint32_t i = 0; uv_double_stream(i); i++)
      open = open || (uv_double_stream(i) == stream && stream->data == owner);
    if (!open) return;
  }
}

static const uint8_t *letters(void) {
  static uint8_t many[LETTERS];
  memset(many, 'a', sizeof many);
  return many;
}

static void step(clients *self, http_server *server, fuzz_input *input) {
  static const int codes[] = {INT32_MAX, 0, 1, 40, UV_EAGAIN, UV_EPIPE};
  const uint8_t kind = fuzz_byte(input);
  uv_stream_t *stream = uv_double_stream(kind >> 4 & 3);
  switch (kind & 15) {
  case 0:
    (void)uv_double_knock();
    break;
  case 1:
  case 2:
  case 3:
    if (!stream && uv_double_knock()) stream = uv_double_stream(0);
    if (stream) send_text(stream, input);
    break;
  case 4:
    if (stream) uv_double_end(stream, UV_EOF);
    break;
  case 5:
    if (stream) uv_double_end(stream, UV_ECONNRESET);
    break;
  case 6:
    if (stream) (void)uv_double_fire_timer(stream);
    break;
  case 7:
    if (stream) (void)uv_double_finish_write(stream, 0);
    break;
  case 8:
    if (stream) (void)uv_double_finish_write(stream, UV_ECONNRESET);
    break;
  case 9:
    answer_one(self, kind >> 4);
    break;
  case 10:
    uv_double_set_sending(codes[(kind >> 4) % TDM_COUNT_OF(codes)]);
    break;
  case 11:
    (void)uv_double_close_handles();
    break;
  case 12:
    if (!self->stopped) http_server_stop(server, on_stopped);
    break;
  case 13: /* more than inputs of a fuzzer's size hold */
    if (stream) send_text(stream, &(fuzz_input){letters(), LETTERS});
    break;
  default: /* a request that needs no luck */
    if (stream) send_text(stream, &(fuzz_input){(const uint8_t *)whole, sizeof whole - 1});
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  clients self = {.asked_count = 0};
  fuzz_input input = {data, size};
  uv_double_set_sending(INT32_MAX);
  const http_options options = {.address = "127.0.0.1",
                                .connection_limit = CONNECTION_LIMIT,
                                .timeout_ms = 1000,
                                .handle = handle,
                                .answered = on_answered,
                                .user = &self};
  http_server *server = NULL;
  fuzz_expect(http_server_start(&options, &server) == TDM_OK, "no server");
  for (int i = 0; i < MOST_STEPS && input.size && !self.stopped; i++)
    step(&self, server, &input);
  if (!self.stopped) http_server_stop(server, on_stopped);
  for (int i = 0; i < 10 * MOST_STEPS && !self.stopped; i++) {
    answer_one(&self, 1);
    for (uint32_t k = 0; uv_double_stream(k); k++)
      if (!uv_double_finish_write(uv_double_stream(k), 0))
        (void)uv_double_fire_timer(uv_double_stream(k));
    (void)uv_double_close_handles();
  }
  fuzz_expect(self.stopped, "the server does not stop");
  fuzz_expect(self.asked_count == 0 && self.answered >= self.handed_on, "an answer is missing");
  fuzz_expect(uv_double_open_handles() == 0, "%d handles are open", uv_double_open_handles());
  return 0;
}
