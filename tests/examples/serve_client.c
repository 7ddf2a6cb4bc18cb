/* See serve_client.h. */
#include "tests/examples/serve_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/examples/program.h"

enum { PATIENCE_MS = 60000 };

server running;

/* ---- The server ------------------------------------------------------------------------------ */

void start_server(const char *serve, const char *timeout_ms, const char *connections,
                  const char *const *model) {
  const char *arguments[32] = {serve,           "--port",    "0",           "--timeout", timeout_ms,
                               "--connections", connections, "--max-batch", "8"};
  for (int count = 9; *model; model++)
    arguments[count++] = *model;
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  running.process = fork();
  assert_true(running.process >= 0);
  if (running.process == 0) {
    dup2(ends[1], 1);
    (void)close(ends[0]);
    (void)close(ends[1]);
    execv(serve, (char *const *)arguments);
    _exit(127);
  }
  (void)close(ends[1]);
  running.output = fdopen(ends[0], "r");
  assert_non_null(running.output);
  char line[256];
  running.port = 0;
  while (!running.port && fgets(line, sizeof line, running.output))
    (void)sscanf(line, "listening on 127.0.0.1:%d", &running.port);
  assert_true(running.port > 0);
}

void start_languages(const char *serve, const char *epochs) {
  const char *const model[] = {"--words",  "low=low.txt", "--words", "high=high.txt",
                               "--epochs", epochs,        NULL};
  program_use(serve);
  write_words("low.txt", 'a', 'k', 1500, 1);
  write_words("high.txt", 'n', 'z', 1500, 2);
  start_server(serve, "30000", "100", model);
}

int await_server(char *out_line, int size) {
  while (fgets(out_line, size, running.output))
    ;
  (void)fclose(running.output);
  int status = 0;
  assert_int_equal(waitpid(running.process, &status, 0), running.process);
  running.process = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int stop_server(char *out_line, int size) {
  assert_int_equal(kill(running.process, SIGTERM), 0);
  return await_server(out_line, size);
}

/* ---- A client -------------------------------------------------------------------------------- */

int connect_client(void) {
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  assert_true(client >= 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)running.port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  assert_int_equal(connect(client, (const struct sockaddr *)&address, sizeof address), 0);
  return client;
}

void send_bytes(int client, const char *bytes, size_t count) {
  while (count > 0) {
    const ssize_t sent = send(client, bytes, count, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) return; /* refused halfway */
    assert_true(sent > 0);
    bytes += sent;
    count -= (size_t)sent;
  }
}

int read_responses(int client, char *out, int response_count) {
  size_t count = 0;
  out[0] = '\0';
  for (;;) {
    struct pollfd waiting = {.fd = client, .events = POLLIN};
    assert_true(poll(&waiting, 1, PATIENCE_MS) > 0);
    const ssize_t got = recv(client, out + count, ANSWER_BYTES - 1 - count, 0);
    if (got > 0) count += (size_t)got;
    out[count] = '\0';
    int complete = 0;
    for (const char *at = out; (at = strstr(at, "HTTP/1.1 ")); at++) {
      const char *length = strstr(at, "Content-Length: ");
      const char *body = strstr(at, "\r\n\r\n");
      if (length && body && strlen(body + 4) >= (size_t)atoi(length + 16)) complete++;
    }
    if (got <= 0 || (response_count > 0 && complete >= response_count)) return complete;
  }
}

int status_of(const char *answer) {
  int status = 0;
  (void)sscanf(answer, "HTTP/1.1 %d", &status);
  return status;
}

int ask_bytes(const char *bytes, size_t count, char *out) {
  const int client = connect_client();
  send_bytes(client, bytes, count);
  (void)read_responses(client, out, 1);
  (void)close(client);
  return status_of(out);
}

int post(const char *word, char *out) {
  char request[4096];
  (void)snprintf(request, sizeof request,
                 "POST /language HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s",
                 strlen(word), word);
  return ask_bytes(request, strlen(request), out);
}

void assert_serves(void) {
  char answer[ANSWER_BYTES];
  assert_int_equal(post("abcd", answer), 200);
  assert_non_null(strstr(answer, "{\"word\":\"abcd\",\"language\":\"low\",\"probability\":"));
}

double metric(const char *name) {
  static const char request[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
  char answer[ANSWER_BYTES];
  assert_int_equal(ask_bytes(request, sizeof request - 1, answer), 200);
  char start[128];
  (void)snprintf(start, sizeof start, "\nserve_%s ", name);
  const char *at = strstr(answer, start);
  if (!at) fail_msg("no %s on the page:\n%s", name, answer);
  return atof(at + strlen(start));
}
