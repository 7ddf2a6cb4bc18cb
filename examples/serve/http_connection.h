/* One connection, between http.c, which has the list of them, and http_connection.c. */
#ifndef EXAMPLES_SERVE_HTTP_CONNECTION_H
#define EXAMPLES_SERVE_HTTP_CONNECTION_H

#include "examples/serve/http.h"

struct http_server {
  http_options given;
  uv_tcp_t listener;
  int port;
  http_connection *connections; /* open connections, and closed ones whose request is still being
                                 * handled */
  int connection_count;
  http_connection *spare; /* reserve for a client that connects while memory is exhausted; NULL: in
                           * use */
  bool has_knocked;       /* a client was refused because the reserve was in use */
  bool listening;
  bool stopping;
  void (*stopped)(void *user);
};

struct http_connection {
  uv_tcp_t tcp;
  uv_timer_t timer;
  uv_write_t write;
  uv_shutdown_t shutdown;
  http_parser parser;
  http_server *server;
  http_connection *previous;
  http_connection *next;
  char input[HTTP_MAX_HEADER]; /* [consumed, input_bytes) is not parsed yet */
  size_t consumed;
  size_t input_bytes;
  char path[HTTP_MAX_PATH + 1];
  size_t path_bytes;
  char body[HTTP_MAX_BODY + 1];
  size_t body_bytes;
  char output[HTTP_MAX_ANSWER + 512];
  char field[8]; /* the begin of the header field's name that comes just now */
  size_t field_bytes;
  bool in_value;  /* the name is complete */
  char expected[16]; /* the value of Expect */
  size_t expected_bytes;
  bool continues; /* 100 Continue is to be sent before the body comes */
  int host_count; /* fields named Host */
  int refusal;    /* the status for which we stopped the parser; 0: we did not */
  bool begun;     /* part of a request has arrived */
  bool complete;  /* the whole request has arrived */
  bool handling;  /* the request is being handled, now or later */
  bool sending;   /* a response is being sent */
  bool ends;      /* the connection is closed after this response */
  bool reading;
  bool draining;  /* further input is discarded */
  bool closing;   /* the handles are being closed */
  bool advancing; /* inside advance: do not enter again */
  int open_handles;
  uint64_t complete_ns;
};

tdm_status http_fail(int code, const char *what);
/* Frees a server that is done with. */
void http_server_settle(http_server *server);
/* Accepts who knocks. */
void http_connection_open(http_server *server);
/* Closes its handles; it is freed once they are closed and no request is in hand. */
void http_connection_close(http_connection *connection);

#endif
