/* Listening, and stopping in order. Invariant: a server is freed once its listener and its last
 * connection are closed. */
#include "examples/serve/http.h"

#include <stdlib.h>

#include "examples/serve/http_connection.h"

enum { BACKLOG = 511 };

tdm_status http_fail(int code, const char *what) {
  return tdm_fail(TDM_IO, "%s: %s", what, uv_strerror(code));
}

/* ---- Ending ---------------------------------------------------------------------------------- */

void http_server_settle(http_server *server) {
  if (!server->stopping || server->listening || server->connections) return;
  void (*stopped)(void *user) = server->stopped;
  void *user = server->given.user;
  free(server->spare);
  free(server);
  if (stopped) stopped(user);
}

static void on_listener_closed(uv_handle_t *handle) {
  http_server *server = handle->data;
  server->listening = false;
  http_server_settle(server);
}

void http_server_stop(http_server *server, void (*stopped)(void *user)) {
  if (server->stopping) return;
  server->stopping = true;
  server->stopped = stopped;
  uv_close((uv_handle_t *)&server->listener, on_listener_closed);
  for (http_connection *connection = server->connections, *next; connection; connection = next) {
    next = connection->next;
    if (!connection->handling && !connection->sending && !connection->begun)
      http_connection_close(connection);
  }
}

/* ---- Listening ------------------------------------------------------------------------------- */

static void on_connection(uv_stream_t *listener, int code) {
  http_server *server = listener->data;
  if (code < 0 || server->stopping) return;
  http_connection_open(server);
}

static int bind_and_listen(http_server *server) {
  struct sockaddr_in address;
  int code = uv_ip4_addr(server->given.address, server->given.port, &address);
  if (code == 0) code = uv_tcp_bind(&server->listener, (const struct sockaddr *)&address, 0);
  if (code == 0) code = uv_listen((uv_stream_t *)&server->listener, BACKLOG, on_connection);
  struct sockaddr_in bound;
  int bytes = sizeof bound;
  if (code == 0) code = uv_tcp_getsockname(&server->listener, (struct sockaddr *)&bound, &bytes);
  if (code == 0) server->port = ntohs(bound.sin_port);
  return code;
}

tdm_status http_server_start(const http_options *given, http_server **out_server) {
  *out_server = NULL;
  http_server *server = calloc(1, sizeof *server);
  if (server) server->spare = calloc(1, sizeof *server->spare);
  if (!server || !server->spare) {
    free(server);
    return tdm_fail(TDM_OUT_OF_MEMORY, "no memory for a server");
  }
  server->given = *given;
  http_parser_set_max_header_size(HTTP_MAX_HEADER);
  int code = uv_tcp_init(given->loop, &server->listener);
  if (code != 0) {
    free(server->spare);
    free(server);
    return http_fail(code, "a listener");
  }
  server->listener.data = server;
  server->listening = true;
  code = bind_and_listen(server);
  if (code != 0) {
    const tdm_status status = http_fail(code, given->address);
    http_server_stop(server, NULL); /* freed by the loop */
    return status;
  }
  *out_server = server;
  return TDM_OK;
}

int http_server_port(const http_server *server) {
  return server->port;
}

int http_server_connection_count(const http_server *server) {
  return server->connection_count;
}
