/* Responses of examples/serve to other methods than GET and POST, and to expectations of HTTP. Two
 * made-up languages, as in serve_test.c. */
#define _GNU_SOURCE /* popen, realpath */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/examples/program.h"
#include "tests/examples/serve_client.h"

static char serve[PATH_MAX];

static int set_up(void **state) {
  (void)state;
  start_languages(serve, "1");
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  char line[256] = "";
  return stop_server(line, sizeof line);
}

/* HEAD has the header of GET, or of the error, and no body; the connection stays open. */
static void answers_to_head_have_no_body(void **state) {
  (void)state;
  static const struct {
    const char *request;
    int status;
  } cases[] = {{"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 200},
               {"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", 200},
               {"HEAD /language HTTP/1.1\r\nHost: x\r\n\r\n", 405},
               {"HEAD /page HTTP/1.1\r\nHost: x\r\n\r\n", 404}};
  static const char last[] = "GET /page HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  const int client = connect_client();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    send_bytes(client, cases[i].request, strlen(cases[i].request));
  send_bytes(client, last, sizeof last - 1);
  char bytes[ANSWER_BYTES] = "";
  for (size_t used = 0; used + 1 < sizeof bytes;) {
    const ssize_t came = recv(client, bytes + used, sizeof bytes - used - 1, 0);
    if (came <= 0) break;
    bytes[used += (size_t)came] = '\0';
  }
  (void)close(client);
  const char *at = bytes;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(status_of(at), cases[i].status);
    const char *end = strstr(at, "\r\n\r\n"), *length = strstr(at, "Content-Length: ");
    assert_true(end && length && length < end);
    assert_true(atoi(length + strlen("Content-Length: ")) > 0);
    at = end + 4;
    assert_memory_equal(at, "HTTP/1.1 ", 9);
  }
  assert_int_equal(status_of(at), 404);
  assert_non_null(strstr(at, "there are /"));
}

/* The client sends the body once the server requests it. There is no request if the body has
 * already arrived. */
static void an_expected_100_is_sent(void **state) {
  (void)state;
  static const char head[] =
      "POST /language HTTP/1.1\r\nHost: x\r\nexpect: 100-Continue\r\nContent-Length: 4\r\n\r\n";
  static const char wanted[] = "HTTP/1.1 100 Continue\r\n\r\n";
  char answer[ANSWER_BYTES];
  const int client = connect_client();
  for (int i = 0; i < 3; i++) {
    send_bytes(client, head, sizeof head - 1);
    size_t used = 0;
    while (used < sizeof wanted - 1) {
      const ssize_t came = recv(client, answer + used, sizeof wanted - 1 - used, 0);
      assert_true(came > 0);
      used += (size_t)came;
    }
    assert_memory_equal(answer, wanted, sizeof wanted - 1);
    send_bytes(client, "abcd", 4);
    assert_int_equal(read_responses(client, answer, 1), 1);
    assert_int_equal(status_of(answer), 200);
  }
  (void)close(client);
  char whole[512];
  (void)snprintf(whole, sizeof whole, "%sabcd", head);
  assert_int_equal(ask_bytes(whole, strlen(whole), answer), 200);
  static const char older[] =
      "POST /language HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\nabcd";
  assert_int_equal(ask_bytes(older, sizeof older - 1, answer), 200);
}

static void help_has_one_default_of_each_option(void **state) {
  (void)state;
  char command[PATH_MAX + 16], line[512];
  bool found = false;
  (void)snprintf(command, sizeof command, "%s --help", serve);
  FILE *help = popen(command, "r"); /* NOLINT(cert-env33-c): a path of the test's own */
  assert_non_null(help);
  while (fgets(line, sizeof line, help)) {
    if (!strstr(line, "--epochs")) continue;
    found = true;
    assert_non_null(strstr(line, "(1, or 0 with --load)\n"));
  }
  assert_int_equal(pclose(help), 0);
  assert_true(found);
}

int main(int count, char **arguments) {
  if (count != 2 || !realpath(arguments[1], serve)) return 2;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(answers_to_head_have_no_body),
      cmocka_unit_test(an_expected_100_is_sent),
      cmocka_unit_test(help_has_one_default_of_each_option),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
