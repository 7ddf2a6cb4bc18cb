/* States of a connection: reading -> handling -> sending -> reading again, or draining -> closed.
 * Invariant: it is freed only after its handles are closed and http_answer was called for the
 * request that is being handled. */
#include "examples/serve/http_connection.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { DRAIN_MS = 1000 };
#define PLAIN "text/plain; charset=utf-8"

static void advance(http_connection *connection);
static void begin_reading(http_connection *connection);

/* ---- Ending ---------------------------------------------------------------------------------- */

static void free_if_done(http_connection *connection) {
  if (connection->open_handles > 0 || connection->handling) return;
  http_server *server = connection->server;
  *(connection->previous ? &connection->previous->next : &server->connections) = connection->next;
  if (connection->next) connection->next->previous = connection->previous;
  server->connection_count--;
  if (server->spare)
    free(connection);
  else
    server->spare = connection;
  if (server->has_knocked && !server->stopping) http_connection_open(server);
  http_server_settle(server);
}

static void on_handle_closed(uv_handle_t *handle) {
  http_connection *connection = handle->data;
  connection->open_handles--;
  free_if_done(connection);
}

void http_connection_close(http_connection *connection) {
  if (connection->closing) return;
  connection->closing = true;
  uv_close((uv_handle_t *)&connection->tcp, on_handle_closed);
  uv_close((uv_handle_t *)&connection->timer, on_handle_closed);
}

static void on_shut_down(uv_shutdown_t *request, int code) {
  (void)request, (void)code; /* the timer closes, or the client's end */
}

/* Gives the client time to read the last response. Closing immediately, with unread input of the
 * client, would discard the response. */
static void drain(http_connection *connection) {
  connection->draining = true;
  if (uv_shutdown(&connection->shutdown, (uv_stream_t *)&connection->tcp, on_shut_down) != 0) {
    http_connection_close(connection);
    return;
  }
  begin_reading(connection);
}

/* ---- Answering ------------------------------------------------------------------------------- */

static const char *reason_of(int status) {
  switch (status) {
#define REASON(number, name, text)                                                                 \
  case number:                                                                                     \
    return #text;
    HTTP_STATUS_MAP(REASON)
#undef REASON
  default:
    return "Unknown";
  }
}

static void sent(http_connection *connection) {
  connection->sending = false;
  if (connection->closing) return;
  if (connection->ends || connection->server->stopping) {
    drain(connection);
    return;
  }
  if (connection->advancing) return; /* advance is already running */
  advance(connection);
}

static void on_written(uv_write_t *request, int code) {
  http_connection *connection = request->data;
  if (code < 0) http_connection_close(connection);
  sent(connection);
}

/* Sends output, bytes long, then a separate body: as much as possible immediately, the rest as the
 * client reads it. */
static void send_output(http_connection *connection, size_t bytes, const char *body) {
  uv_stream_t *stream = (uv_stream_t *)&connection->tcp;
  const size_t body_bytes = strlen(body), whole = bytes + body_bytes;
  uv_buf_t buffers[2] = {uv_buf_init(connection->output, (unsigned)bytes),
                         uv_buf_init((char *)(uintptr_t)body, (unsigned)body_bytes)};
  const unsigned count = body_bytes > 0 ? 2 : 1;
  connection->sending = true;
  const int tried = uv_try_write(stream, buffers, count);
  if (tried >= 0 && (size_t)tried == whole) {
    sent(connection);
    return;
  }
  const size_t begun = tried > 0 ? (size_t)tried : 0;
  const size_t of_output = begun < bytes ? begun : bytes;
  buffers[0] = uv_buf_init(connection->output + of_output, (unsigned)(bytes - of_output));
  buffers[1] = uv_buf_init(buffers[1].base + (begun - of_output),
                           (unsigned)(body_bytes - (begun - of_output)));
  const unsigned first = of_output == bytes ? 1 : 0;
  connection->write.data = connection;
  (void)uv_timer_again(&connection->timer);
  if ((tried < 0 && tried != UV_EAGAIN) ||
      uv_write(&connection->write, stream, buffers + first, count - first, on_written) != 0) {
    connection->sending = false;
    http_connection_close(connection);
  }
}

/* Sends a response. `inside` is copied to output, after the header; `standing` is sent
 * separately. */
static void answer(http_connection *connection, int status, const char *type, const char *extra,
                   const char *inside, const char *standing) {
  const http_server *server = connection->server;
  const bool was_complete = connection->complete;
  connection->handling = connection->begun = connection->complete = false;
  if (server->given.answered)
    server->given.answered(server->given.user, status,
                           was_complete ? uv_hrtime() - connection->complete_ns : 0);
  if (connection->closing) {
    free_if_done(connection);
    return;
  }
  const bool ends = connection->ends || server->stopping;
  const size_t length = strlen(inside) + strlen(standing);
  if (was_complete && connection->parser.method == HTTP_HEAD) inside = standing = "";
  const int bytes = snprintf(connection->output, sizeof connection->output,
                             "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                             "%s%s\r\n%s",
                             status, reason_of(status), type, length, extra,
                             ends ? "Connection: close\r\n" : "", inside);
  if (bytes < 0 || (size_t)bytes >= sizeof connection->output) {
    http_connection_close(connection);
    return;
  }
  connection->ends = ends;
  send_output(connection, (size_t)bytes, standing);
}

void http_answer(http_connection *connection, int status, const char *type, const char *extra,
                 const char *body) {
  answer(connection, status, type, extra, body, "");
}

void http_answer_standing(http_connection *connection, int status, const char *type,
                          const char *extra, const char *body) {
  answer(connection, status, type, extra, "", body);
}

/* Sends the response to an invalid request; nothing more is read from this client. */
static void refuse(http_connection *connection, int status) {
  char text[64];
  (void)snprintf(text, sizeof text, "%s\n", reason_of(status));
  connection->ends = true;
  http_answer(connection, status, PLAIN, status == 503 ? "Retry-After: 1\r\n" : "", text);
}

/* ---- Parsing --------------------------------------------------------------------------------- */

static int on_message_begin(http_parser *parser) {
  http_connection *connection = parser->data;
  connection->begun = true;
  connection->refusal = 0;
  connection->path_bytes = connection->body_bytes = connection->field_bytes = 0;
  connection->in_value = false;
  connection->host_count = 0;
  connection->expected_bytes = 0;
  connection->continues = false;
  (void)uv_timer_again(&connection->timer); /* one limit for the rest of the request, however slowly
                                             * it arrives */
  return 0;
}

static int on_url(http_parser *parser, const char *at, size_t bytes) {
  http_connection *connection = parser->data;
  if (connection->path_bytes + bytes > HTTP_MAX_PATH) {
    connection->refusal = HTTP_STATUS_URI_TOO_LONG;
    return -1;
  }
  memcpy(connection->path + connection->path_bytes, at, bytes);
  connection->path_bytes += bytes;
  return 0;
}

/* A name can come in pieces. */
static int on_header_field(http_parser *parser, const char *at, size_t bytes) {
  http_connection *connection = parser->data;
  if (connection->in_value) connection->field_bytes = 0;
  connection->in_value = false;
  for (size_t i = 0; i < bytes; i++, connection->field_bytes++)
    if (connection->field_bytes < sizeof connection->field)
      connection->field[connection->field_bytes] = at[i];
  return 0;
}

static bool is_field(const http_connection *connection, const char *name) {
  return connection->field_bytes == strlen(name) &&
         strncasecmp(connection->field, name, connection->field_bytes) == 0;
}

/* A value can come in pieces, too. */
static void add_expected(http_connection *connection, const char *at, size_t bytes) {
  for (size_t i = 0; i < bytes; i++, connection->expected_bytes++)
    if (connection->expected_bytes < sizeof connection->expected)
      connection->expected[connection->expected_bytes] = at[i];
}

static int on_header_value(http_parser *parser, const char *at, size_t bytes) {
  http_connection *connection = parser->data;
  if (is_field(connection, "expect")) add_expected(connection, at, bytes);
  if (!connection->in_value) connection->host_count += is_field(connection, "host");
  connection->in_value = true;
  return 0;
}

static bool is_older(const http_parser *parser) {
  return parser->http_major < 1 || (parser->http_major == 1 && !parser->http_minor);
}

/* RFC 9112, 3.2: one Host field, which only older clients may leave out. */
static bool names_its_host(const http_connection *connection) {
  return connection->host_count == 1 ||
         (connection->host_count == 0 && is_older(&connection->parser));
}

/* RFC 9110, 10.1.1: the client waits for 100 before it sends the body; HTTP/1.0 has no such.
 * Returns -1 for any other expectation, which is refused. */
static int note_expectation(http_connection *connection) {
  static const char wanted[] = "100-continue";
  const http_parser *parser = &connection->parser;
  if (connection->expected_bytes == 0 || is_older(parser)) return 0;
  if (connection->expected_bytes != sizeof wanted - 1 ||
      strncasecmp(connection->expected, wanted, sizeof wanted - 1) != 0) {
    connection->refusal = HTTP_STATUS_EXPECTATION_FAILED;
    return -1;
  }
  const bool has_length = parser->content_length != UINT64_MAX;
  connection->continues = (parser->flags & F_CHUNKED) || (has_length && parser->content_length > 0);
  return 0;
}

static int on_headers_complete(http_parser *parser) {
  http_connection *connection = parser->data;
  if (!names_its_host(connection)) {
    connection->refusal = HTTP_STATUS_BAD_REQUEST;
    return -1;
  }
  const bool has_length = parser->content_length != UINT64_MAX;
  if (has_length && parser->content_length > HTTP_MAX_BODY) {
    connection->refusal = HTTP_STATUS_PAYLOAD_TOO_LARGE;
    return -1;
  }
  return note_expectation(connection);
}

static int on_body(http_parser *parser, const char *at, size_t bytes) {
  http_connection *connection = parser->data;
  /* a body in chunks, which has no total length in its header */
  if (connection->body_bytes + bytes > HTTP_MAX_BODY) {
    connection->refusal = HTTP_STATUS_PAYLOAD_TOO_LARGE;
    return -1;
  }
  memcpy(connection->body + connection->body_bytes, at, bytes);
  connection->body_bytes += bytes;
  return 0;
}

static int on_message_complete(http_parser *parser) {
  http_connection *connection = parser->data;
  connection->complete = true;
  connection->continues = false; /* the body is there already */
  connection->ends = http_should_keep_alive(parser) == 0 || parser->upgrade;
  http_parser_pause(parser, 1); /* pipelined requests wait for the response */
  return 0;
}

/* Reduces the target, in any form (RFC 9112, 3.2), to its path: the part after "http://host:port"
 * and before a query. A target that cannot be parsed stays unchanged. */
static void keep_path(http_connection *connection) {
  struct http_parser_url url;
  http_parser_url_init(&url);
  if (connection->parser.method == HTTP_CONNECT ||
      http_parser_parse_url(connection->path, connection->path_bytes, 0, &url) != 0)
    return;
  connection->path_bytes = url.field_data[UF_PATH].len;
  memmove(connection->path, connection->path + url.field_data[UF_PATH].off, connection->path_bytes);
  if (connection->path_bytes == 0) connection->path[connection->path_bytes++] = '/';
}

static void hand_on(http_connection *connection) {
  const http_server *server = connection->server;
  keep_path(connection);
  connection->path[connection->path_bytes] = '\0';
  connection->body[connection->body_bytes] = '\0';
  const http_request request = {.method = (enum http_method)connection->parser.method,
                                .path = connection->path,
                                .body = connection->body,
                                .body_bytes = connection->body_bytes};
  connection->complete_ns = uv_hrtime();
  connection->handling = true;
  (void)uv_timer_stop(&connection->timer); /* the time is ours now */
  server->given.handle(server->given.user, connection, &request);
}

static int status_of_error(const http_connection *connection) {
  if (connection->refusal) return connection->refusal;
  return HTTP_PARSER_ERRNO(&connection->parser) == HPE_HEADER_OVERFLOW
             ? HTTP_STATUS_REQUEST_HEADER_FIELDS_TOO_LARGE
             : HTTP_STATUS_BAD_REQUEST;
}

/* Sends 100 Continue. The client waits for it only for a limited time. So it is omitted if the
 * socket accepts nothing, because a part of it would corrupt the response. */
static void send_continue(http_connection *connection) {
  static char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
  const uv_buf_t buffer = uv_buf_init(line, sizeof line - 1);
  connection->continues = false;
  const int sent_bytes = uv_try_write((uv_stream_t *)&connection->tcp, &buffer, 1);
  if (sent_bytes != (int)buffer.len && sent_bytes != UV_EAGAIN) http_connection_close(connection);
}

/* Parses some of what has come. */
static void parse(http_connection *connection) {
  static const http_parser_settings settings = {.on_message_begin = on_message_begin,
                                                .on_url = on_url,
                                                .on_header_field = on_header_field,
                                                .on_header_value = on_header_value,
                                                .on_headers_complete = on_headers_complete,
                                                .on_body = on_body,
                                                .on_message_complete = on_message_complete};
  http_parser *parser = &connection->parser;
  connection->consumed +=
      http_parser_execute(parser, &settings, connection->input + connection->consumed,
                          connection->input_bytes - connection->consumed);
  if (HTTP_PARSER_ERRNO(parser) == HPE_PAUSED) {
    http_parser_pause(parser, 0);
    hand_on(connection);
  } else if (HTTP_PARSER_ERRNO(parser) != HPE_OK) {
    refuse(connection, status_of_error(connection));
  } else if (connection->continues && connection->body_bytes == 0) {
    send_continue(connection);
  }
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out_buffer) {
  (void)suggested;
  http_connection *connection = handle->data;
  if (connection->draining || connection->consumed == connection->input_bytes)
    connection->consumed = connection->input_bytes = 0;
  *out_buffer = uv_buf_init(connection->input + connection->input_bytes,
                            (unsigned)(sizeof connection->input - connection->input_bytes));
}

static void stop_reading(http_connection *connection) {
  (void)uv_read_stop((uv_stream_t *)&connection->tcp);
  connection->reading = false;
}

/* Reading continues during a request while there is space: stopping and starting it would cost two
 * system calls for each request. */
static void on_read(uv_stream_t *stream, ssize_t bytes, const uv_buf_t *buffer) {
  (void)buffer;
  http_connection *connection = stream->data;
  const bool busy = connection->handling || connection->sending;
  if (bytes == UV_EOF && busy && !connection->draining) { /* the client may still read responses */
    stop_reading(connection);
    return;
  }
  if (bytes < 0) {
    http_connection_close(connection);
    return;
  }
  if (connection->draining) return;
  connection->input_bytes += (size_t)bytes;
  if (!busy) advance(connection);
  if (connection->consumed < connection->input_bytes &&
      connection->input_bytes == sizeof connection->input)
    stop_reading(connection); /* the input buffer is full */
}

static void on_timeout(uv_timer_t *timer) {
  http_connection *connection = timer->data;
  if (connection->begun && !connection->sending && !connection->draining) {
    refuse(connection, HTTP_STATUS_REQUEST_TIMEOUT);
    return;
  }
  http_connection_close(connection); /* the connection was idle, or its client did not read the
                                      * response */
}

static void begin_reading(http_connection *connection) {
  const uint64_t wait_ms = connection->draining ? DRAIN_MS : connection->server->given.timeout_ms;
  if (!connection->begun)
    (void)uv_timer_start(&connection->timer, on_timeout, wait_ms,
                         connection->server->given.timeout_ms);
  if (connection->reading) return;
  connection->reading = uv_read_start((uv_stream_t *)&connection->tcp, on_room, on_read) == 0;
  if (!connection->reading) http_connection_close(connection);
}

/* Parses received bytes until a request is complete. */
static void advance(http_connection *connection) {
  connection->advancing = true;
  while (!connection->handling && !connection->sending && !connection->draining &&
         !connection->closing && connection->consumed < connection->input_bytes)
    parse(connection);
  connection->advancing = false;
  if (connection->closing || connection->draining) return;
  if (!connection->handling && !connection->sending) begin_reading(connection);
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Returns a new connection, or the reserve if memory is exhausted, which is accepted and closed.
 * NULL: the reserve is in use. */
static http_connection *take_connection(http_server *server, bool *out_is_spare) {
  http_connection *connection = calloc(1, sizeof *connection);
  *out_is_spare = !connection;
  if (connection) return connection;
  connection = server->spare;
  server->spare = NULL;
  if (connection) memset(connection, 0, sizeof *connection);
  return connection;
}

void http_connection_open(http_server *server) {
  bool is_spare;
  http_connection *connection = take_connection(server, &is_spare);
  server->has_knocked = !connection;
  if (!connection) return; /* libuv takes no others before this one is let in */
  connection->server = server;
  connection->next = server->connections;
  if (connection->next) connection->next->previous = connection;
  server->connections = connection;
  server->connection_count++;
  (void)uv_tcp_init(server->given.loop, &connection->tcp);
  (void)uv_timer_init(server->given.loop, &connection->timer);
  connection->open_handles = 2;
  connection->tcp.data = connection->timer.data = connection;
  http_parser_init(&connection->parser, HTTP_REQUEST);
  connection->parser.data = connection;
  if (uv_accept((uv_stream_t *)&server->listener, (uv_stream_t *)&connection->tcp) != 0 ||
      is_spare || server->connection_count > 2 * server->given.connection_limit) {
    http_connection_close(connection);
    return;
  }
  (void)uv_tcp_nodelay(&connection->tcp, 1);
  begin_reading(connection);
  if (server->connection_count > server->given.connection_limit)
    refuse(connection, HTTP_STATUS_SERVICE_UNAVAILABLE);
}
