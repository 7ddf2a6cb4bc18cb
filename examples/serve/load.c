/* serve_load: sends concurrent requests about words to a server, and checks every response: its
 * status, its word, and that a word always has the same result, whatever other words are requested.
 * Prints latencies and throughput. Exits with 1 if a response was wrong. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <http_parser.h>
#include <uv.h>

#include "tools/options/command_line.h"
#include "tools/options/option_table.h"

enum {
  MOST_WORDS = 4096,
  MOST_BYTES = 64,     /* maximum bytes of a word */
  ANSWER_BYTES = 1024, /* maximum bytes of a response's body */
  MOST_PROBLEMS = 5,   /* maximum number of problems that are printed separately */
};
/* Rows of a batch change each other only by rounding. */
static const double TOLERANCE = 0.001;

typedef struct asked_word {
  char text[MOST_BYTES];
  char language[MOST_BYTES]; /* "": unknown */
  double probability;
} asked_word;

struct load;

typedef struct client {
  struct load *owner;
  uv_tcp_t tcp;
  uv_connect_t connect;
  uv_write_t write;
  http_parser parser;
  char request[512];
  char input[4096];
  char body[ANSWER_BYTES + 1];
  size_t body_bytes;
  asked_word *word;
  uint64_t began_ns;
  bool asking;
} client;

typedef struct load {
  uv_loop_t loop;
  int64_t port;
  int64_t requests;
  int64_t concurrency;
  const char *words_path;
  bool help;
  struct sockaddr_in address;
  asked_word *words; /* (word_count) */
  int64_t word_count;
  client *clients;   /* (concurrency) */
  uint64_t *took_ns; /* (requests) */
  int64_t begun;
  int64_t done;
  int64_t wrong;
} load;

/* ---- Checking -------------------------------------------------------------------------------- */

static void complain(load *self, const client *from, const char *what) {
  if (++self->wrong > MOST_PROBLEMS) return;
  fprintf(stderr, "serve_load: \"%s\": %s: status %d: %s\n", from->word ? from->word->text : "",
          what, from->parser.status_code, from->body);
}

static void check_answer(load *self, client *from) {
  asked_word told = {.text = ""};
  from->body[from->body_bytes] = '\0';
  if (from->parser.status_code != 200) {
    complain(self, from, "refused");
    return;
  }
  if (sscanf(from->body, "{\"word\":\"%63[^\"]\",\"language\":\"%63[^\"]\",\"probability\":%lf}",
             told.text, told.language, &told.probability) != 3 ||
      strcmp(told.text, from->word->text) != 0 || told.probability <= 0 || told.probability > 1) {
    complain(self, from, "not an answer to it");
    return;
  }
  if (!from->word->language[0]) {
    memcpy(from->word->language, told.language, sizeof told.language);
    from->word->probability = told.probability;
    return;
  }
  const double apart = told.probability - from->word->probability;
  if (strcmp(told.language, from->word->language) != 0 || apart > TOLERANCE || apart < -TOLERANCE)
    complain(self, from, "received another answer before");
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static void on_written(uv_write_t *request, int code) {
  client *from = request->data;
  if (code < 0) complain(from->owner, from, uv_strerror(code));
}

static void ask_next(client *from) {
  load *self = from->owner;
  if (self->begun == self->requests) {
    if (!uv_is_closing((uv_handle_t *)&from->tcp)) uv_close((uv_handle_t *)&from->tcp, NULL);
    return;
  }
  from->word = &self->words[self->begun++ % self->word_count];
  from->body_bytes = 0;
  from->asking = true;
  const int bytes =
      snprintf(from->request, sizeof from->request,
               "POST /language HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
               strlen(from->word->text), from->word->text);
  uv_buf_t buffer = uv_buf_init(from->request, (unsigned)bytes);
  from->began_ns = uv_hrtime();
  from->write.data = from;
  const int code = uv_write(&from->write, (uv_stream_t *)&from->tcp, &buffer, 1, on_written);
  if (code < 0) complain(self, from, uv_strerror(code));
}

static int on_body(http_parser *parser, const char *at, size_t bytes) {
  client *from = parser->data;
  if (from->body_bytes + bytes > ANSWER_BYTES) return -1;
  memcpy(from->body + from->body_bytes, at, bytes);
  from->body_bytes += bytes;
  return 0;
}

static int on_message_complete(http_parser *parser) {
  client *from = parser->data;
  load *self = from->owner;
  from->asking = false;
  self->took_ns[self->done++] = uv_hrtime() - from->began_ns;
  check_answer(self, from);
  ask_next(from);
  return 0;
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out_buffer) {
  (void)suggested;
  client *from = handle->data;
  *out_buffer = uv_buf_init(from->input, sizeof from->input);
}

static void on_read(uv_stream_t *stream, ssize_t bytes, const uv_buf_t *buffer) {
  static const http_parser_settings settings = {.on_body = on_body,
                                                .on_message_complete = on_message_complete};
  client *from = stream->data;
  if (bytes > 0) {
    const size_t parsed =
        http_parser_execute(&from->parser, &settings, buffer->base, (size_t)bytes);
    if (parsed == (size_t)bytes) return;
  }
  if (bytes == 0) return;
  if (from->asking) complain(from->owner, from, "the connection ended without an answer");
  if (!uv_is_closing((uv_handle_t *)stream)) uv_close((uv_handle_t *)stream, NULL);
}

static void on_connected(uv_connect_t *request, int code) {
  client *from = request->data;
  if (code == 0) code = uv_read_start((uv_stream_t *)&from->tcp, on_room, on_read);
  if (code == 0) {
    (void)uv_tcp_nodelay(&from->tcp, 1);
    ask_next(from);
    return;
  }
  complain(from->owner, from, uv_strerror(code));
  uv_close((uv_handle_t *)&from->tcp, NULL);
}

static void open_client(load *self, client *opened) {
  opened->owner = self;
  opened->tcp.data = opened->connect.data = opened;
  http_parser_init(&opened->parser, HTTP_RESPONSE);
  opened->parser.data = opened;
  (void)uv_tcp_init(&self->loop, &opened->tcp);
  const int code = uv_tcp_connect(&opened->connect, &opened->tcp,
                                  (const struct sockaddr *)&self->address, on_connected);
  if (code == 0) return;
  complain(self, opened, uv_strerror(code));
  uv_close((uv_handle_t *)&opened->tcp, NULL);
}

/* ---- Telling --------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a;
  const uint64_t y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* Returns a percentile of the sorted response times, by the nearest rank. */
static uint64_t slowest_of_hundredths(const load *self, int64_t hundredths) {
  return self->took_ns[(self->done * hundredths + 99) / 100 - 1];
}

static void report(load *self, uint64_t passed_ns) {
  qsort(self->took_ns, (size_t)self->done, sizeof *self->took_ns, compare);
  printf("%lld of %lld requests answered, %lld wrong, %lld at a time: %.0f requests/s",
         (long long)self->done, (long long)self->requests, (long long)self->wrong,
         (long long)self->concurrency, (double)self->done / ((double)passed_ns / 1e9));
  if (self->done > 0) {
    const uint64_t half_ns = slowest_of_hundredths(self, 50);
    const uint64_t most_ns = slowest_of_hundredths(self, 99);
    printf(", p50 %.3f ms, p99 %.3f ms", (double)half_ns / 1e6, (double)most_ns / 1e6);
  }
  putchar('\n');
}

/* ---- Words and options ----------------------------------------------------------------------- */

/* Returns true for 3 to 12 lower-case ASCII letters, which all models of European languages have.
 */
static bool is_plain(const char *word) {
  const size_t length = strspn(word, "abcdefghijklmnopqrstuvwxyz");
  return word[length] == '\0' && length >= 3 && length <= 12;
}

/* Words spread evenly over the file. */
static tdm_status read_words(load *self) {
  self->words = calloc(MOST_WORDS, sizeof *self->words);
  FILE *file = fopen(self->words_path, "r");
  if (!self->words || !file) {
    if (file) (void)fclose(file);
    return tdm_fail(TDM_IO, "%s cannot be read", self->words_path);
  }
  uint64_t seen = 0;
  char line[256];
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\r\n")] = '\0';
    if (!is_plain(line)) continue;
    const uint64_t place = seen < MOST_WORDS ? seen : seen * 2654435761u % (seen + 1);
    if (place < MOST_WORDS) (void)snprintf(self->words[place].text, MOST_BYTES, "%.12s", line);
    seen++;
  }
  (void)fclose(file);
  self->word_count = seen < MOST_WORDS ? (int64_t)seen : MOST_WORDS;
  if (seen == 0) return tdm_fail(TDM_IO, "%s has no word of plain letters", self->words_path);
  return TDM_OK;
}

#define FIELD(name) offsetof(load, name)
static const option rows[] = {
    {"--port", "N", "port of the server on 127.0.0.1", OPTION_INTEGER, FIELD(port), 1, 65535, 0,
     NULL},
    {"--requests", "N", "number of requests", OPTION_INTEGER, FIELD(requests), 1, 100000000, 0,
     NULL},
    {"--concurrency", "N", "number of concurrent requests", OPTION_INTEGER, FIELD(concurrency), 1,
     10000, 0, NULL},
    {"--words", "FILE", "file of words, one per line", OPTION_TEXT, FIELD(words_path), 0, 0, 0,
     NULL},
    {"--help", NULL, "print this help", OPTION_HELP, FIELD(help), 0, 0, 0, NULL},
};

static const load defaults = {
    .port = 8080,
    .requests = 10000,
    .concurrency = 64,
    .words_path = "/usr/share/dict/american-english",
};

static const option_table table = {
    .program = "serve_load",
    .about = "sends concurrent requests to examples/serve and checks every response.",
    OPTION_DEFAULTS(defaults),
    OPTION_ROWS(rows),
};

static tdm_status run(load *self, int argc, char **argv) {
  tdm_status status = command_line_begin();
  if (status == TDM_OK) status = option_table_read(&table, argc, argv, self);
  if (status == TDM_OK && self->help) {
    option_table_print_help(&table, stdout);
    return TDM_OK;
  }
  if (status == TDM_OK) status = read_words(self);
  if (status != TDM_OK) return status;
  (void)signal(SIGPIPE, SIG_IGN);
  self->clients = calloc((size_t)self->concurrency, sizeof *self->clients);
  self->took_ns = calloc((size_t)self->requests, sizeof *self->took_ns);
  if (!self->clients || !self->took_ns || uv_loop_init(&self->loop) != 0)
    return tdm_fail(TDM_OUT_OF_MEMORY, "no memory for clients");
  (void)uv_ip4_addr("127.0.0.1", (int)self->port, &self->address);
  for (int64_t i = 0; i < self->concurrency; i++)
    open_client(self, &self->clients[i]);
  const uint64_t began_ns = uv_hrtime();
  (void)uv_run(&self->loop, UV_RUN_DEFAULT);
  report(self, uv_hrtime() - began_ns);
  (void)uv_loop_close(&self->loop);
  if (self->wrong == 0 && self->done == self->requests) return TDM_OK;
  return tdm_fail(TDM_CORRUPT_DATA, "not every request was answered rightly");
}

int main(int argc, char **argv) {
  load *self = calloc(1, sizeof *self);
  if (!self) return 1;
  tdm_status status = run(self, argc, argv);
  if (status == TDM_OK) status = command_line_written();
  if (status != TDM_OK) fprintf(stderr, "serve_load: %s\n", tdm_last_message());
  free(self->words);
  free(self->clients);
  free(self->took_ns);
  free(self);
  return status == TDM_OK ? 0 : 1;
}
