/* Starts examples/serve, and sends it single bytes. Invariant: at most one server runs, which
 * `running` describes. Every helper fails the running test if its expectation is wrong. */
#ifndef TESTS_EXAMPLES_SERVE_CLIENT_H
#define TESTS_EXAMPLES_SERVE_CLIENT_H

#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

enum { ANSWER_BYTES = 65536 }; /* size of the buffer for replies */

typedef struct server {
  pid_t process; /* 0: none runs */
  FILE *output;
  int port;
} server;
extern server running;

/* Starts the program, and returns once it listens. model: the arguments for the served model; the
 * last is NULL. */
void start_server(const char *serve, const char *timeout_ms, const char *connections,
                  const char *const *model);
/* Starts the program with two languages, words of a to k ("low") and of n to z ("high"), which it
 * trains on for some epochs. */
void start_languages(const char *serve, const char *epochs);
/* Ends the server with SIGTERM and copies the last line that it printed to out_line. Returns its
 * exit code, or -1 if it did not end by itself. */
int stop_server(char *out_line, int size);
/* Waits for a server that is stopping. A second signal, while it ends, would kill it. */
int await_server(char *out_line, int size);

int connect_client(void);
void send_bytes(int client, const char *bytes, size_t count);
/* Reads until response_count responses have arrived, or until the end of the connection if
 * response_count is 0. Returns the number of responses. out has ANSWER_BYTES, here and below. */
int read_responses(int client, char *out, int response_count);
int status_of(const char *answer);
/* Sends the bytes on a new connection and reads one response. Returns its status. */
int ask_bytes(const char *bytes, size_t count, char *out);
int post(const char *word, char *out);
/* Checks that the server classifies a word correctly. */
void assert_serves(void);
/* Returns a number on the metrics page. */
double metric(const char *name);

#endif
