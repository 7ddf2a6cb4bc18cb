/* examples/serve from the side of its clients: responses, load, malformed and slow clients, limits,
 * and an orderly end. Two made-up languages, which a model distinguishes after a second of
 * training. */
#include <limits.h>
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
#include "tests/examples/serve_client.h"

enum { CONNECTIONS = 8 };

static char serve[PATH_MAX];
static char serve_load[PATH_MAX];
static char distributed_model[PATH_MAX];

static const char *const loaded[] = {"--load", "model.safetensors", NULL};
static const char *const learning[] = {"--words",  "low=low.txt", "--words", "high=high.txt",
                                       "--epochs", "2",           NULL};

static int set_up(void **state) {
  (void)state;
  start_server(serve, "30000", "8", loaded);
  return 0;
}

static int set_up_hasty(void **state) {
  (void)state;
  start_server(serve, "3000", "8", loaded); /* which others than slow clients need no part of */
  return 0;
}

static int set_up_wide(void **state) {
  (void)state;
  start_server(serve, "30000", "100", loaded);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  char line[256] = "";
  if (running.process) {
    assert_int_equal(stop_server(line, sizeof line), 0);
    assert_int_equal(strncmp(line, "served ", 7), 0);
  }
  return 0;
}

/* ---- Responses ------------------------------------------------------------------------------- */

static void tells_what_the_example_tells(void **state) {
  (void)state;
  program_use(distributed_model);
  outcome told = program_run("--load model.safetensors --predict abcdef uvwxyz");
  assert_int_equal(told.exit_code, 0);
  static const char *const words[] = {"abcdef", "uvwxyz"};
  for (int i = 0; i < 2; i++) {
    char answer[ANSWER_BYTES];
    assert_int_equal(post(words[i], answer), 200);
    char language[64];
    double probability = 0;
    const char *at = strstr(answer, "\"language\":");
    assert_non_null(at);
    assert_int_equal(
        sscanf(at, "\"language\":\"%63[^\"]\",\"probability\":%lf", language, &probability), 2);
    char wanted[160];
    (void)snprintf(wanted, sizeof wanted, "%s: %s %.2f", words[i], language, probability);
    if (!strstr(told.output, wanted)) fail_msg("\"%s\" is not in:\n%s", wanted, told.output);
  }
  outcome_free(&told);
}

static void trains_before_it_serves(void **state) {
  (void)state;
  start_server(serve, "30000", "8", learning); /* tear_down ends it */
  char answer[ANSWER_BYTES];
  assert_int_equal(post("abcdef", answer), 200);
  assert_non_null(strstr(answer, "\"language\":\"low\""));
  assert_int_equal(post("uvwxyz", answer), 200);
  assert_non_null(strstr(answer, "\"language\":\"high\""));
}

static void answers_a_load_of_requests(void **state) {
  (void)state;
  const double before = metric("batched_words_total");
  program_use(serve_load);
  char arguments[256];
  (void)snprintf(arguments, sizeof arguments,
                 "--port %d --requests 1500 --concurrency 60 --words low.txt", running.port);
  program_expect(
      arguments, 0,
      (const char *const[]){"1500 of 1500 requests answered, 0 wrong", "p50 ", "p99 ", NULL});
  assert_true(metric("batched_words_total") - before == 1500);
  assert_true(metric("batches_total") < 1500); /* some requests shared a batch */
  assert_in_range((int)metric("largest_batch"), 2, 8);
}

/* Checks that the load tool counts invalid replies. */
static void the_load_tool_counts_what_is_refused(void **state) {
  (void)state;
  program_use(serve_load);
  char arguments[256];
  (void)snprintf(arguments, sizeof arguments,
                 "--port %d --requests 20 --concurrency 2 --words other.txt", running.port);
  program_expect(arguments, 1,
                 (const char *const[]){"20 of 20 requests answered, 20 wrong", "refused", NULL});
}

static void pipelined_requests_are_answered_in_order(void **state) {
  (void)state;
  char requests[2048] = "";
  static const char *const words[] = {"abc", "abcdef", "", "uvw", "bcdef"};
  for (int i = 0; i < 5; i++)
    (void)snprintf(requests + strlen(requests), sizeof requests - strlen(requests),
                   "POST /language HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s",
                   strlen(words[i]), words[i]);
  const int client = connect_client();
  send_bytes(client, requests, strlen(requests));
  assert_int_equal(shutdown(client, SHUT_WR), 0); /* ends requests, not responses */
  char answers[ANSWER_BYTES];
  assert_int_equal(read_responses(client, answers, 0), 5);
  const char *at = answers;
  static const char *const wanted[] = {"\"abc\"", "\"abcdef\"", " 422 ", "\"uvw\"", "\"bcdef\""};
  for (int i = 0; i < 5; i++) {
    at = strstr(at, wanted[i]);
    if (!at) fail_msg("%s is missing, or out of order:\n%s", wanted[i], answers);
  }
  (void)close(client);
}

/* More than a connection has memory for: the rest waits in the kernel's. */
static void a_flood_of_requests_is_answered(void **state) {
  (void)state;
  static const char request[] =
      "POST /language HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabcd";
  enum { FLOOD = 600 };
  char *requests = malloc(FLOOD * sizeof request);
  assert_non_null(requests);
  for (size_t i = 0; i < FLOOD; i++)
    memcpy(requests + i * (sizeof request - 1), request, sizeof request);
  const int client = connect_client();
  send_bytes(client, requests, FLOOD * (sizeof request - 1));
  free(requests);
  int answered = 0;
  char answers[ANSWER_BYTES];
  while (answered < FLOOD) {
    const ssize_t got = recv(client, answers, sizeof answers - 1, 0);
    assert_true(got > 0);
    for (ssize_t i = 0; i < got; i++)
      answered += answers[i] == '}'; /* one an answer */
  }
  assert_int_equal(answered, FLOOD);
  (void)close(client);
}

static void an_older_client_is_answered_and_left(void **state) {
  (void)state;
  static const char request[] = "POST /language HTTP/1.0\r\nContent-Length: 5\r\n\r\nabcd\n";
  const int client = connect_client();
  send_bytes(client, request, sizeof request - 1);
  char answer[ANSWER_BYTES];
  assert_int_equal(read_responses(client, answer, 0),
                   1); /* reads until the end of the connection */
  assert_int_equal(status_of(answer), 200);
  assert_non_null(strstr(answer, "Connection: close"));
  assert_non_null(strstr(answer, "{\"word\":\"abcd\"")); /* the line's end is none of it */
  (void)close(client);
}

/* The page has no external parts, and its policy permits none. */
static void the_page_is_answered_whole(void **state) {
  (void)state;
  static const char request[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  char answer[ANSWER_BYTES];
  assert_int_equal(ask_bytes(request, sizeof request - 1, answer), 200);
  static const char *const wanted[] = {
      "Content-Type: text/html; charset=utf-8\r\n", "Content-Security-Policy: default-src 'none'; ",
      "frame-ancestors 'none'\r\n", "nosniff\r\n", "<form id=\"ask\">"};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    if (!strstr(answer, wanted[i])) fail_msg("no %s in:\n%s", wanted[i], answer);
  static const char *const never[] = {
      "unsafe", "http:", "https:", "innerHTML", " style=\"", " onclick"};
  for (size_t i = 0; i < sizeof never / sizeof *never; i++)
    if (strstr(answer, never[i])) fail_msg("the page has %s", never[i]);
  static const char end[] = "</html>\n";
  assert_string_equal(answer + strlen(answer) - strlen(end), end);
}

/* Checks that many slow clients, which read concurrently, each receive every byte in order. */
static void the_page_comes_as_it_is_taken(void **state) {
  (void)state;
  static const char request[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  enum { ASKED = 100 };
  char *one = malloc(ANSWER_BYTES), *got = malloc(ANSWER_BYTES);
  assert_true(one && got);
  (void)ask_bytes(request, sizeof request - 1, one);
  const size_t bytes = strlen(one);
  const int client = connect_client();
  const int small = 16384; /* the kernel's memory of it: the server has to wait */
  assert_int_equal(setsockopt(client, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
  for (int i = 0; i < ASKED; i++)
    send_bytes(client, request, sizeof request - 1);
  for (int i = 0; i < ASKED; i++) {
    size_t count = 0;
    while (count < bytes) {
      const ssize_t some = recv(client, got + count, bytes - count, 0);
      assert_true(some > 0);
      count += (size_t)some;
    }
    assert_memory_equal(got, one, bytes);
  }
  (void)close(client);
  free(one);
  free(got);
}

/* ---- Malformed ------------------------------------------------------------------------------- */

typedef struct bad_request {
  int status;
  const char *text;
} bad_request;

static void malformed_requests_are_refused(void **state) {
  (void)state;
  static const bad_request requests[] = {
      {400, "GARBAGE\r\n\r\n"},
      {400, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"},
      {400, "POST /language HTTP/9.9.9\r\n\r\n"},
      {400, "POST /language HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"},
      {400,
       "POST /language HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"},
      {400, "POST /language HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: "
            "chunked\r\n\r\n"
            "3\r\nabc\r\n0\r\n\r\n"},
      {400, "POST /language HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"},
      {400, "GET /metrics HTTP/1.1\r\n\r\n"},
      {400, "GET /metrics HTTP/1.1\r\nHosts: x\r\nHos: x\r\nX: Host\r\n\r\n"},
      {400, "GET /metrics HTTP/1.1\r\nHost: x\r\nhost: x\r\n\r\n"},
      {400, "GET /metrics HTTP/1.0\r\nHost: x\r\nhost: x\r\n\r\n"},
      {200, "GET /metrics HTTP/1.1\r\nX: Host\r\nhOsT:\r\n\r\n"},
      {413, "POST /language HTTP/1.1\r\nHost: x\r\nContent-Length: 1025\r\n\r\n"},
      {404, "GET /page HTTP/1.1\r\nHost: x\r\n\r\n"},
      {200, "GET /metrics?since=1 HTTP/1.1\r\nHost: x\r\n\r\n"},
      {200, "GET http://localhost:8080/metrics HTTP/1.1\r\nHost: x\r\n\r\n"},
      {200, "GET http://x/metrics?a=/b#c HTTP/1.1\r\nHost: x\r\n\r\n"},
      {200, "GET http://x HTTP/1.1\r\nHost: x\r\n\r\n"},
      {200, "GET http://x?q HTTP/1.1\r\nHost: x\r\n\r\n"},
      {404, "GET http://x/page/metrics HTTP/1.1\r\nHost: x\r\n\r\n"},
      {200, "GET /?/page HTTP/1.1\r\nHost: x\r\n\r\n"},
      {200, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"},
      {200, "OPTIONS / HTTP/1.1\r\nHost: x\r\n\r\n"},
      {200, "OPTIONS /language HTTP/1.1\r\nHost: x\r\n\r\n"},
      {404, "OPTIONS /page HTTP/1.1\r\nHost: x\r\n\r\n"},
      {417, "POST /language HTTP/1.1\r\nHost: x\r\nExpect: tea\r\nContent-Length: 3\r\n\r\n"},
      {413, "POST /language HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: "
            "1025\r\n\r\n"},
      {404, "CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n"},
      {405, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"},
      {404, "POST /language/x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"},
      {405, "GET /language HTTP/1.1\r\nHost: x\r\n\r\n"},
      {405, "DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n"},
      {422, "POST /language HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"},
      {422, "POST /language HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n \r\n "},
      {422, "POST /language HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\na1b2"},
      {422, "POST /language HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n\xff\xfe"},
      {422, "POST /language HTTP/1.1\r\nHost: x\r\nContent-Length: "
            "30\r\n\r\nabcdefabcdefabcdefabcdefabcdef"},
  };
  for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
    char answer[ANSWER_BYTES];
    const int status = ask_bytes(requests[i].text, strlen(requests[i].text), answer);
    if (status != requests[i].status)
      fail_msg("%s\nwas answered %d, not %d", requests[i].text, status, requests[i].status);
    assert_serves();
  }
  char answer[ANSWER_BYTES];
  static const char zero[] = "POST /language HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na\0b";
  assert_int_equal(ask_bytes(zero, sizeof zero - 1, answer), 422);
}

static void requests_beyond_the_limits_are_refused(void **state) {
  (void)state;
  char answer[ANSWER_BYTES];
  char request[20000];
  int used = snprintf(request, sizeof request, "GET /");
  memset(request + used, 'x', 300);
  strcpy(request + used + 300, " HTTP/1.1\r\nHost: x\r\n\r\n");
  assert_int_equal(ask_bytes(request, strlen(request), answer), 414);
  used = snprintf(request, sizeof request, "GET /metrics HTTP/1.1\r\nHost: x\r\nX: ");
  memset(request + used, 'x', 15000);
  assert_int_equal(ask_bytes(request, (size_t)used + 15000, answer), 431);
  used =
      snprintf(request, sizeof request,
               "POST /language HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n");
  memset(request + used, 'a', 2000);
  assert_int_equal(ask_bytes(request, (size_t)used + 2000, answer), 413);
  assert_serves();
}

/* ---- Slow, many and closed connections ------------------------------------------------------- */

static void a_trickling_request_is_answered_in_time(void **state) {
  (void)state;
  static const char request[] =
      "POST /language HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabcd";
  const int client = connect_client();
  for (size_t i = 0; i + 1 < sizeof request; i++)
    send_bytes(client, request + i, 1);
  char answer[ANSWER_BYTES];
  assert_int_equal(read_responses(client, answer, 1), 1);
  assert_int_equal(status_of(answer), 200);
  (void)close(client);
}

/* A client that sends half a request, a byte at a time, gets an error and is disconnected. A silent
 * client is disconnected as well. Others are served meanwhile. */
static void slow_clients_are_left(void **state) {
  (void)state;
  static const char half[] = "POST /language HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab";
  const int idle = connect_client();
  const int slow = connect_client();
  send_bytes(slow, half, sizeof half - 1);
  assert_serves();
  char answer[ANSWER_BYTES];
  (void)read_responses(slow, answer, 0);
  assert_int_equal(status_of(answer), 408);
  (void)read_responses(idle, answer, 0);
  assert_string_equal(answer, "");
  (void)close(slow);
  (void)close(idle);
  assert_serves();
}

static void more_connections_than_allowed_are_refused(void **state) {
  (void)state;
  int clients[CONNECTIONS];
  char answer[ANSWER_BYTES];
  for (int i = 0; i < CONNECTIONS; i++)
    clients[i] = connect_client();
  assert_int_equal(post("abcd", answer), 503);
  for (int i = 0; i < CONNECTIONS; i++)
    (void)close(clients[i]);
  for (int i = 0; i < 200 && post("abcd", answer) != 200; i++)
    (void)poll(NULL, 0, 10); /* the server hears of the ends in its own time */
  assert_serves();
}

static void clients_that_go_are_forgotten(void **state) {
  (void)state;
  static const char request[] =
      "POST /language HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabcd";
  for (int i = 0; i < 100; i++) {
    const int client = connect_client();
    send_bytes(client, request, i % 3 == 0 ? sizeof request - 1 : (size_t)i % 40);
    (void)close(client);
    if (i % CONNECTIONS == 0) (void)poll(NULL, 0, 20);
  }
  for (int i = 0; i < 500; i++) {
    char answer[ANSWER_BYTES];
    if (post("abcd", answer) == 200 && metric("connections") == 1) break;
    (void)poll(NULL, 0, 10);
  }
  assert_true(metric("connections") == 1); /* the connection of the request itself */
  assert_true(metric("queued_words") == 0);
  assert_true(metric("batches_in_flight") == 0);
}

/* ---- The end --------------------------------------------------------------------------------- */

static void what_is_in_hand_is_answered_at_the_end(void **state) {
  (void)state;
  static const char half[] = "POST /language HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab";
  const int client = connect_client();
  const int idle = connect_client();
  send_bytes(client, half, sizeof half - 1);
  while (metric("connections") < 3)
    (void)poll(NULL, 0, 5);
  (void)metric("connections"); /* a turn of the loop later half of it has arrived */
  assert_int_equal(kill(running.process, SIGTERM), 0);
  char answer[ANSWER_BYTES];
  (void)read_responses(idle, answer, 0); /* closed immediately: the server is ending */
  assert_string_equal(answer, "");
  send_bytes(client, "cd", 2);
  (void)read_responses(client, answer, 0);
  assert_int_equal(status_of(answer), 200);
  assert_non_null(strstr(answer, "Connection: close"));
  (void)close(client);
  (void)close(idle);
  char line[256] = "";
  assert_int_equal(await_server(line, sizeof line), 0);
  assert_int_equal(strncmp(line, "served ", 7), 0);
}

/* Further signals, up to the last moment, lead to the same orderly end. */
static void more_signals_do_not_kill_it(void **state) {
  (void)state;
  assert_serves();
  siginfo_t seen = {0};
  for (int i = 0; seen.si_pid == 0; i++) {
    assert_int_equal(kill(running.process, i % 2 == 0 ? SIGTERM : SIGINT), 0);
    assert_int_equal(waitid(P_PID, (id_t)running.process, &seen, WEXITED | WNOHANG | WNOWAIT), 0);
  }
  char line[256] = "";
  assert_int_equal(await_server(line, sizeof line), 0);
  assert_int_equal(strncmp(line, "served ", 7), 0);
}

static void says_what_is_wrong_with_its_options(void **state) {
  (void)state;
  program_use(serve);
  program_expect("--epochs 0", 1, (const char *const[]){"nothing to serve", NULL});
  program_expect("--port 70000", 1, (const char *const[]){"--port", NULL});
  program_expect("--load nothing.safetensors", 1, (const char *const[]){"nothing", NULL});
  program_expect("--load model.safetensors --address 300.1.1.1", 1,
                 (const char *const[]){"300.1.1.1", NULL});
  program_expect("--help", 0, (const char *const[]){"--max-batch N", "--words LANGUAGE", NULL});
}

static int make_model(void **state) {
  (void)state;
  program_use(distributed_model);
  write_words("low.txt", 'a', 'k', 1500, 1);
  write_words("high.txt", 'n', 'z', 1500, 2);
  write_file("other.txt", "lml\nmmm\n", 8); /* letters that neither list has */
  outcome trained = program_run("--words low=low.txt --words high=high.txt --epochs 2 "
                                "--save model.safetensors");
  const bool made = trained.exit_code == 0;
  outcome_free(&trained);
  return made ? 0 : 1;
}

int main(int argc, char **argv) {
  if (argc < 4 || !realpath(argv[1], serve) || !realpath(argv[2], serve_load) ||
      !realpath(argv[3], distributed_model))
    return 2;
#define SERVED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      SERVED(tells_what_the_example_tells),
      cmocka_unit_test_teardown(trains_before_it_serves, tear_down),
      cmocka_unit_test_setup_teardown(answers_a_load_of_requests, set_up_wide, tear_down),
      SERVED(the_load_tool_counts_what_is_refused),
      SERVED(pipelined_requests_are_answered_in_order),
      SERVED(a_flood_of_requests_is_answered),
      SERVED(the_page_is_answered_whole),
      SERVED(the_page_comes_as_it_is_taken),
      SERVED(an_older_client_is_answered_and_left),
      SERVED(malformed_requests_are_refused),
      SERVED(requests_beyond_the_limits_are_refused),
      SERVED(a_trickling_request_is_answered_in_time),
      cmocka_unit_test_setup_teardown(slow_clients_are_left, set_up_hasty, tear_down),
      SERVED(more_connections_than_allowed_are_refused),
      SERVED(clients_that_go_are_forgotten),
      SERVED(what_is_in_hand_is_answered_at_the_end),
      SERVED(more_signals_do_not_kill_it),
      cmocka_unit_test(says_what_is_wrong_with_its_options),
  };
  return cmocka_run_group_tests(tests, make_model, NULL);
}
