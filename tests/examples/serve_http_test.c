/* The listener of examples/serve without memory: connections are accepted and closed, and it
 * continues to listen. The test decides when memory is short, because the linker redirects calloc
 * to it. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "examples/serve/http.h"

static bool memory_is_short;
static int refusals;

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

void *__wrap_calloc(size_t count, size_t bytes) {
  if (!memory_is_short) return __real_calloc(count, bytes);
  refusals++;
  return NULL;
}
/* NOLINTEND(bugprone-reserved-identifier) */

static void greet(void *user, http_connection *connection, const http_request *request) {
  (void)user, (void)request;
  http_answer(connection, 200, "text/plain", "", "hello\n");
}

static void note_stopped(void *user) {
  *(bool *)user = true;
}

static int knock(int port) {
  static const char request[] = "GET / HTTP/1.1\r\nHost: tandem\r\n\r\n";
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const struct sockaddr_in to = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  assert_int_equal(connect(client, (const struct sockaddr *)&to, sizeof to), 0);
  assert_int_equal(send(client, request, sizeof request - 1, MSG_NOSIGNAL), sizeof request - 1);
  return client;
}

/* Runs the loop until something comes, or the server ends the connection; how many bytes came. */
static size_t hear(uv_loop_t *loop, int client) {
  char answer[4096];
  for (int waits = 0; waits < 5000; waits++) {
    (void)uv_run(loop, UV_RUN_NOWAIT);
    const ssize_t came = recv(client, answer, sizeof answer, MSG_DONTWAIT);
    if (came >= 0 || errno == ECONNRESET) {
      (void)close(client);
      return came > 0 ? (size_t)came : 0;
    }
    (void)usleep(1000);
  }
  fail_msg("nobody answers");
  return 0;
}

static void goes_on_listening_without_memory(void **state) {
  (void)state;
  uv_loop_t loop;
  bool stopped = false;
  http_server *server;
  assert_int_equal(uv_loop_init(&loop), 0);
  const http_options options = {.loop = &loop,
                                .address = "127.0.0.1",
                                .connection_limit = 4,
                                .timeout_ms = 30000,
                                .handle = greet,
                                .user = &stopped};
  assert_int_equal(http_server_start(&options, &server), TDM_OK);
  const int port = http_server_port(server);
  assert_true(hear(&loop, knock(port)) > 0);
  for (int round = 0; round < 3; round++) {
    memory_is_short = true;
    const int first = knock(port), second = knock(port);
    assert_int_equal(hear(&loop, first), 0);
    assert_int_equal(hear(&loop, second), 0);
    memory_is_short = false;
    assert_true(hear(&loop, knock(port)) > 0);
  }
  assert_true(refusals >= 6);
  http_server_stop(server, note_stopped);
  while (!stopped)
    (void)uv_run(&loop, UV_RUN_ONCE);
  assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
  assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(goes_on_listening_without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
