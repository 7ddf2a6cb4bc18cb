/* HTTP/1.1 on a libuv loop: connections with their limits and timeouts. http_parser reads requests.
 * Invariant: a connection has at most one current request; pipelined requests wait in the
 * connection's own memory, of a fixed size. One thread, the loop's. */
#ifndef EXAMPLES_SERVE_HTTP_H
#define EXAMPLES_SERVE_HTTP_H

#include <http_parser.h>
#include <uv.h>

#include <tandem/tandem.h>

enum { HTTP_MAX_PATH = 256, HTTP_MAX_BODY = 1024, HTTP_MAX_HEADER = 8192, HTTP_MAX_ANSWER = 8192 };

typedef struct http_server http_server;
typedef struct http_connection http_connection;

/* Borrowed for the call; path and body end with a zero. path is only that of the target, without
 * a host before it and a query after it. */
typedef struct http_request {
  enum http_method method;
  const char *path;
  const char *body;
  size_t body_bytes;
} http_request;

typedef struct http_options {
  uv_loop_t *loop;
  const char *address;  /* "127.0.0.1" */
  int port;             /* 0: any that is free */
  int connection_limit; /* maximum number of connections; others get status 503 */
  uint64_t timeout_ms; /* limit in ms for receiving a request, for sending a response, and for being
                        * idle */
  /* Has http_answer called once for the connection, now or later. */
  void (*handle)(void *user, http_connection *connection, const http_request *request);
  /* Called for every response with its status, and the time since its request was complete; 0 if it
   * was refused before that. May be NULL. */
  void (*answered)(void *user, int status, uint64_t took_ns);
  void *user;
} http_options;

/* Listens. On failure *out_server is NULL. */
tdm_status http_server_start(const http_options *given, http_server **out_server);
int http_server_port(const http_server *server);
int http_server_connection_count(const http_server *server);
/* Accepts no more connections, closes idle ones, and completes current requests. Then closes its
 * handles on the loop, calls stopped, and frees the server. */
void http_server_stop(http_server *server, void (*stopped)(void *user));

/* Sends the response to the connection's request. extra: further header lines, each ended by
 * "\r\n", or "". Nothing is sent if the client has disconnected. */
void http_answer(http_connection *connection, int status, const char *type, const char *extra,
                 const char *body);
/* The same with a body that stays where it is for as long as the server runs, however long it is.
 */
void http_answer_standing(http_connection *connection, int status, const char *type,
                          const char *extra, const char *body);

#endif
