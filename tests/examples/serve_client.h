/* Starting examples/serve, and talking to it byte by byte. Invariant: at most one server runs,
 * which `running` tells of; every helper fails the running test when something is not as it says.
 */
#ifndef TESTS_EXAMPLES_SERVE_CLIENT_H
#define TESTS_EXAMPLES_SERVE_CLIENT_H

#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

enum { ANSWER_BYTES = 65536 }; /* room for what is read */

typedef struct server {
  pid_t process; /* 0: none runs */
  FILE *output;
  int port;
} server;
extern server running;

/* Starts the program; returns once it listens. model: what it serves, the last is NULL. */
void start_server(const char *serve, const char *timeout_ms, const char *connections,
                  const char *const *model);
/* By SIGTERM. The exit code, -1 if it did not end by itself; the last line it printed in
 * out_line. */
int stop_server(char *out_line, int size);
/* The same for one that has been told to stop. A second signal, while it ends, would kill it. */
int await_server(char *out_line, int size);

int connect_client(void);
void send_bytes(int client, const char *bytes, size_t count);
/* Reads until `answers` answers have come, or the end where that is 0. Says how many came. out:
 * ANSWER_BYTES, here and below. */
int read_answers(int client, char *out, int answers);
int status_of(const char *answer);
/* Sends the bytes on a connection of their own, and reads one answer: its status. */
int ask_bytes(const char *bytes, size_t count, char *out);
int post(const char *word, char *out);
/* A word is answered rightly. */
void assert_serves(void);
/* A number on the metrics page. */
double metric(const char *name);

#endif
