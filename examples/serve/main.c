/* serve: an HTTP server that classifies words by language, in one libuv loop with the library. This
 * file has the order of the steps: the model, the listener, the responses, and an orderly end. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/distributed_model/model.h"
#include "examples/serve/batcher.h"
#include "examples/serve/http.h"
#include "examples/serve/learn.h"
#include "examples/serve/options.h"
#include "examples/serve/page.h"
#include "tools/options/command_line.h"

#define JSON "application/json"
#define PLAIN "text/plain; charset=utf-8"

enum { SIGNALS = 2 };
static const int numbers[SIGNALS] = {SIGTERM, SIGINT}; /* each ends the server in order */

typedef struct program {
  serve_options given;
  uv_loop_t loop;
  bool has_loop;
  uv_signal_t signals[SIGNALS]; /* open up to the very end, so that none of them kills before */
  bool has_signals;
  bool ending;
  tdm_context *context;
  tdm_tensor_list *saved; /* parameters and tables of words */
  word_set *words;
  model made;
  tdm_session *session; /* session for inference; the model's own session can train */
  batcher *questions;
  http_server *server;
  bool ended; /* on_stopped has closed what the loop had */
  metrics counted;
} program;

static void print_log(void *user, tdm_log_level level, const char *message) {
  (void)user;
  if (level != TDM_LOG_INFO) fprintf(stderr, "serve: %s\n", message);
}

/* ---- The model ------------------------------------------------------------------------------- */

/* Parameters and tables of words, of a file or just learnt. */
static tdm_status open_saved(program *self) {
  const options *given = &self->given.model;
  if (given->common.epochs > 0) return learn(given, print_log, self->context, &self->saved);
  self->saved = tdm_safetensors_load(self->context, given->common.load_path);
  return check_made(self->saved);
}

/* Opens a session of the same graph and parameters, with runs in flight and a plan per size. */
static tdm_status open_session(program *self) {
  int sizes = 2;
  for (int64_t rows = 1; rows < self->given.max_batch; rows *= 2)
    sizes++;
  tdm_session_options wanted = tdm_session_options_default();
  wanted.store = tdm_session_store(self->made.session);
  wanted.device_map = self->given.model.common.place;
  wanted.depth = (int)self->given.depth;
  wanted.plan_limit = sizes * BATCHER_MAX_LENGTH;
  self->session = tdm_session_create(self->made.graph, &wanted);
  return check_made(self->session);
}

static tdm_status open_model(program *self) {
  const options *given = &self->given.model;
  self->words = word_set_from_saved(self->context, self->saved);
  tdm_status status = check_made(self->words);
  if (status == TDM_OK) status = model_create(self->context, self->words, given, &self->made);
  if (status == TDM_OK)
    status = model_load(&self->made, self->saved,
                        given->common.load_path ? given->common.load_path : "it");
  if (status == TDM_OK) status = open_session(self);
  return status;
}

/* ---- Responses ------------------------------------------------------------------------------- */

/* Appends text as JSON's string; what does not fit is left out. */
static void add_json_text(char *out, size_t size, const char *text) {
  size_t at = strlen(out);
  for (; *text && at + 8 < size; text++) {
    const unsigned char byte = (unsigned char)*text;
    if (byte == '"' || byte == '\\')
      at += (size_t)snprintf(out + at, size - at, "\\%c", byte);
    else if (byte < 0x20)
      at += (size_t)snprintf(out + at, size - at, "\\u%04x", byte);
    else
      at += (size_t)snprintf(out + at, size - at, "%c", byte);
  }
}

static void answer_error(http_connection *connection, int status, const char *extra,
                         const char *message) {
  char body[1024] = "{\"error\":\"";
  add_json_text(body, sizeof body - 8, message);
  strcat(body, "\"}\n");
  http_answer(connection, status, JSON, extra, body);
}

static void on_verdict(void *user, const verdict *said) {
  http_connection *connection = user;
  if (!said->language) {
    answer_error(connection, HTTP_STATUS_INTERNAL_SERVER_ERROR, "", said->message);
    return;
  }
  char body[1024] = "{\"word\":\"";
  add_json_text(body, sizeof body - 256, said->word);
  strcat(body, "\",\"language\":\"");
  add_json_text(body, sizeof body - 128, said->language);
  const size_t used = strlen(body);
  (void)snprintf(body + used, sizeof body - used, "\",\"probability\":%.4f}\n", said->probability);
  http_answer(connection, HTTP_STATUS_OK, JSON, "", body);
}

/* The body is the word; space around it, as a line's end, is not. */
static void take_word(program *self, http_connection *connection, const http_request *request) {
  char word[HTTP_MAX_BODY + 1];
  const char *begin = request->body + strspn(request->body, " \t\r\n");
  (void)snprintf(word, sizeof word, "%s", begin);
  for (size_t end = strlen(word); end > 0 && strchr(" \t\r\n", word[end - 1]); end--)
    word[end - 1] = '\0';
  tdm_status status = strlen(request->body) == request->body_bytes
                          ? batcher_ask(self->questions, word, connection)
                          : tdm_fail(TDM_INVALID_ARGUMENT, "a word has no zero in it");
  if (status == TDM_OK) return; /* on_verdict sends the response */
  if (status == TDM_UNAVAILABLE)
    answer_error(connection, HTTP_STATUS_SERVICE_UNAVAILABLE, "Retry-After: 1\r\n",
                 tdm_last_message());
  else
    answer_error(connection, HTTP_STATUS_UNPROCESSABLE_ENTITY, "", tdm_last_message());
}

static void answer_metrics(program *self, http_connection *connection) {
  const metrics_state state = {.connections = http_server_connection_count(self->server),
                               .queued = batcher_queued(self->questions),
                               .in_flight = batcher_in_flight(self->questions)};
  char page[HTTP_MAX_ANSWER];
  metrics_print(&self->counted, &state, page, sizeof page);
  http_answer(connection, HTTP_STATUS_OK, PLAIN, "", page);
}

/* Returns true for GET, and for HEAD, whose response http.c sends without its body. Sends the
 * response to all other methods. */
static bool is_get(http_connection *connection, const http_request *request) {
  static const char allow[] = "Allow: GET, HEAD, OPTIONS\r\n";
  if (request->method == HTTP_GET || request->method == HTTP_HEAD) return true;
  if (request->method == HTTP_OPTIONS)
    http_answer(connection, HTTP_STATUS_OK, PLAIN, allow, "");
  else
    answer_error(connection, HTTP_STATUS_METHOD_NOT_ALLOWED, allow, "expected GET or HEAD");
  return false;
}

static void take_language(program *self, http_connection *connection, const http_request *request) {
  static const char allow[] = "Allow: POST, OPTIONS\r\n";
  if (request->method == HTTP_POST)
    take_word(self, connection, request);
  else if (request->method == HTTP_OPTIONS)
    http_answer(connection, HTTP_STATUS_OK, PLAIN, allow, "");
  else
    answer_error(connection, HTTP_STATUS_METHOD_NOT_ALLOWED, allow, "expected POST of a word");
}

static void handle(void *user, http_connection *connection, const http_request *request) {
  program *self = user;
  if (strcmp(request->path, "/") == 0) {
    if (is_get(connection, request)) page_answer(connection);
  } else if (strcmp(request->path, "/language") == 0) {
    take_language(self, connection, request);
  } else if (strcmp(request->path, "*") == 0 && request->method == HTTP_OPTIONS) {
    http_answer(connection, HTTP_STATUS_OK, PLAIN, "Allow: GET, HEAD, POST, OPTIONS\r\n", "");
  } else if (strcmp(request->path, "/metrics") == 0) {
    if (is_get(connection, request)) answer_metrics(self, connection);
  } else {
    answer_error(connection, HTTP_STATUS_NOT_FOUND, "", "there are /, /language and /metrics");
  }
}

static void on_answered(void *user, int status, uint64_t took_ns) {
  program *self = user;
  metrics_add_answer(&self->counted, status, took_ns);
}

/* ---- The end --------------------------------------------------------------------------------- */

static void end_loop(program *self) {
  self->ended = true;
  if (self->questions) batcher_close(self->questions);
  if (self->context) tdm_context_close(self->context, NULL, NULL);
}

/* All requests have responses. Closes the remaining handles, so that uv_run returns. */
static void on_stopped(void *user) {
  program *self = user;
  self->server = NULL;
  end_loop(self);
}

static void on_signal(uv_signal_t *handle, int number) {
  program *self = handle->data;
  if (self->ending) return;
  self->ending = true;
  fprintf(stderr, "serve: signal %d: answering what is in hand\n", number);
  http_server_stop(self->server, on_stopped);
}

static void report(const program *self) {
  uint64_t responses = 0;
  for (int i = 0; i < METRICS_STATUSES; i++)
    responses += self->counted.responses[i];
  printf("served %llu requests in %llu batches, p50 %.3f ms, p99 %.3f ms\n",
         (unsigned long long)responses, (unsigned long long)self->counted.batches,
         1e3 * metrics_quantile_seconds(&self->counted, 0.5),
         1e3 * metrics_quantile_seconds(&self->counted, 0.99));
}

/* ---- The order of things --------------------------------------------------------------------- */

static tdm_status listen_and_serve(program *self) {
  const batcher_options asking = {.loop = &self->loop,
                                  .context = self->context,
                                  .session = self->session,
                                  .words = self->words,
                                  .input = MODEL_CHARACTERS,
                                  .output = MODEL_PROBABILITIES,
                                  .max_batch = (int)self->given.max_batch,
                                  .depth = (int)self->given.depth,
                                  .queue_limit = (int)self->given.queue,
                                  .counted = &self->counted,
                                  .answer = on_verdict};
  tdm_status status = batcher_create(&asking, &self->questions);
  if (status == TDM_OK) status = batcher_prepare(self->questions);
  const http_options serving = {.loop = &self->loop,
                                .address = self->given.address,
                                .port = (int)self->given.port,
                                .connection_limit = (int)self->given.connections,
                                .timeout_ms = (uint64_t)self->given.timeout_ms,
                                .handle = handle,
                                .answered = on_answered,
                                .user = self};
  if (status == TDM_OK) status = http_server_start(&serving, &self->server);
  if (status != TDM_OK) return status;
  for (int i = 0; i < SIGNALS; i++) {
    (void)uv_signal_init(&self->loop, &self->signals[i]);
    self->signals[i].data = self;
    (void)uv_signal_start(&self->signals[i], on_signal, numbers[i]);
    uv_unref((uv_handle_t *)&self->signals[i]); /* the loop runs for the listener */
  }
  self->has_signals = true;
  printf("listening on %s:%d\n", self->given.address, http_server_port(self->server));
  fflush(stdout);
  (void)uv_run(&self->loop, UV_RUN_DEFAULT);
  report(self);
  return TDM_OK;
}

static tdm_status run(program *self, int argc, char **argv) {
  tdm_status status = command_line_begin();
  if (status == TDM_OK) status = serve_options_read(argc, argv, &self->given);
  if (status != TDM_OK) return status;
  if (self->given.model.common.help) {
    option_table_print_help(&serve_table, stdout);
    return TDM_OK;
  }
  (void)signal(SIGPIPE, SIG_IGN); /* writing reports a client that has disconnected */
  if (uv_loop_init(&self->loop) != 0) return tdm_fail(TDM_UNAVAILABLE, "no loop");
  self->has_loop = true;
  tdm_context_options wanted = tdm_context_options_default();
  wanted.log = print_log;
  wanted.loop = &self->loop;
  self->context = tdm_context_create(&wanted);
  status = check_made(self->context);
  if (status == TDM_OK) status = open_saved(self);
  if (status == TDM_OK) status = open_model(self);
  return status == TDM_OK ? listen_and_serve(self) : status;
}

/* The library's threads have ended: what is blocked here is blocked for the process, and stays so
 * until it has ended. */
static void close_signals(program *self) {
  sigset_t blocked;
  sigemptyset(&blocked);
  for (int i = 0; i < SIGNALS; i++) {
    sigaddset(&blocked, numbers[i]);
    (void)pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    uv_close((uv_handle_t *)&self->signals[i], NULL);
  }
  (void)uv_run(&self->loop, UV_RUN_DEFAULT);
}

static void close_all(program *self) {
  if (!self->ended) end_loop(self); /* an error occurred before serving began */
  if (self->has_loop) (void)uv_run(&self->loop, UV_RUN_DEFAULT);
  tdm_session_release(self->session);
  model_release(&self->made);
  word_set_release(self->words);
  tdm_tensor_list_release(self->saved);
  tdm_context_release(self->context);
  batcher_free(self->questions);
  if (self->has_signals) close_signals(self);
  if (self->has_loop) (void)uv_loop_close(&self->loop);
}

int main(int argc, char **argv) {
  program *self = calloc(1, sizeof *self);
  if (!self) return 1;
  tdm_status status = run(self, argc, argv);
  if (status == TDM_OK) status = command_line_written();
  if (status != TDM_OK) fprintf(stderr, "serve: %s\n", tdm_last_message());
  close_all(self);
  free(self);
  return status == TDM_OK ? 0 : 1;
}
