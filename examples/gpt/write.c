/* Writing: what a run reads is the characters that were not read yet, or all of the window where
 * nothing is kept. */
#include "examples/gpt/write.h"

#include <stdlib.h>
#include <string.h>

#include "tools/options/command_line.h"

typedef struct writer {
  tdm_context *context;
  tdm_sequence *sequence; /* NULL: the whole text is read again for every character */
  tdm_session *session;   /* session for that case */
  const gpt_wish *wish;
  int64_t *ids;   /* (texts, window): what is looked back on */
  int64_t count;  /* number of ids in each text */
  int64_t unread; /* number of last ids that the model has not read */
} writer;

/* Returns the last `length` characters of every text, (texts, length). */
static tdm_tensor *last_ids(const writer *self, int64_t length) {
  const gpt_wish *wish = self->wish;
  tdm_tensor *last =
      tdm_tensor_create(self->context, "cpu:0", TDM_INT64, tdm_shape_of(2, wish->texts, length));
  if (!last) return NULL;
  int64_t *to = tdm_tensor_data(last);
  for (int64_t i = 0; i < wish->texts; i++)
    memcpy(to + i * length, self->ids + i * wish->window + self->count - length,
           (size_t)length * sizeof *to);
  return last;
}

/* Reads the scores of the last character of every text, float32, which follow the run's other rows.
 * The caller owns *out_scores. */
static tdm_status read_kept(const writer *self, tdm_tensor **out_scores) {
  const double end = (double)self->count;
  tdm_tensor *fed[] = {
      last_ids(self, self->unread),
      tdm_tensor_arange(self->context, "cpu:0", TDM_INT64, end - (double)self->unread, end, 1)};
  tdm_fetch fetch = {GPT_SCORES, NULL};
  const tdm_feed feeds[] = {{GPT_CHARACTERS, fed[0], false}, {GPT_POSITIONS, fed[1], false}};
  const tdm_status status =
      fed[0] && fed[1] ? tdm_sequence_run(self->sequence, feeds, 2, &fetch, 1) : TDM_OUT_OF_MEMORY;
  tdm_tensor_release(fed[0]);
  tdm_tensor_release(fed[1]);
  *out_scores = fetch.tensor;
  return status;
}

static tdm_status read_anew(const writer *self, tdm_tensor **out_scores) {
  tdm_tensor *fed = last_ids(self, self->count);
  if (!fed) return check_made(fed);
  tdm_fetch fetch = {GPT_SCORES, NULL};
  const tdm_feed feed = {GPT_CHARACTERS, fed, false};
  const tdm_status status = tdm_run(self->session, &feed, 1, &fetch, 1);
  tdm_tensor_release(fed);
  *out_scores = fetch.tensor;
  return status;
}

/* Makes room for one character more: the later half of a full window goes to its beginning, and is
 * read again. */
static void make_room(writer *self) {
  const int64_t window = self->wish->window, half = window - window / 2;
  if (self->count < window) return;
  for (int64_t i = 0; i < self->wish->texts; i++)
    memmove(self->ids + i * window, self->ids + i * window + window - half,
            (size_t)half * sizeof *self->ids);
  self->count = self->unread = half;
}

/* The prompt's character i is what all texts begin with. */
static void read_prompt(writer *self) {
  const gpt_wish *wish = self->wish;
  for (const char *at = wish->prompt; *at; at++) {
    make_room(self);
    for (int64_t i = 0; i < wish->texts; i++)
      self->ids[i * wish->window + self->count] = wish->like->ids[(unsigned char)*at];
    self->count++;
    self->unread++;
  }
}

/* Character `at` of every text. */
static tdm_status write_one(writer *self, int64_t at, char *out_text) {
  const gpt_wish *wish = self->wish;
  const int64_t characters = wish->like->character_count;
  tdm_tensor *scores = NULL;
  const tdm_status status = self->sequence ? read_kept(self, &scores) : read_anew(self, &scores);
  if (status != TDM_OK) return status;
  const int64_t rows = self->sequence ? self->unread : self->count;
  const float *of = tdm_tensor_data(scores);
  self->unread = 0;
  make_room(self);
  for (int64_t i = 0; i < wish->texts; i++) {
    const tdm_random random = {wish->seed + (uint64_t)i, tdm_random_stream("characters"), 0};
    const int64_t id =
        text_draw(of + ((i + 1) * rows - 1) * characters, characters, wish->temperature,
                  tdm_random_uniform_float64(&random, (uint64_t)at));
    out_text[i * wish->count + at] = (char)wish->like->characters[id];
    self->ids[i * wish->window + self->count] = id;
  }
  self->count++;
  self->unread++;
  tdm_tensor_release(scores);
  return TDM_OK;
}

static tdm_status write_all(writer *self, char *out_text) {
  const gpt_wish *wish = self->wish;
  self->ids = malloc((size_t)(wish->texts * wish->window) * sizeof *self->ids);
  if (!self->ids)
    return tdm_fail(TDM_OUT_OF_MEMORY, "%lld windows of %lld characters", (long long)wish->texts,
                    (long long)wish->window);
  read_prompt(self);
  tdm_status status = TDM_OK;
  for (int64_t i = 0; status == TDM_OK && i < wish->count; i++)
    status = write_one(self, i, out_text);
  free(self->ids);
  return status;
}

tdm_status gpt_write(tdm_sequence *sequence, tdm_context *context, const gpt_wish *wish,
                     char *out_text) {
  writer self = {.context = context, .sequence = sequence, .wish = wish};
  return write_all(&self, out_text);
}

tdm_status gpt_write_anew(tdm_session *session, tdm_context *context, const gpt_wish *wish,
                          char *out_text) {
  writer self = {.context = context, .session = session, .wish = wish};
  return write_all(&self, out_text);
}

tdm_session *gpt_writing_session(tdm_context *context, tdm_store *store, const gpt_sizes *sizes,
                                 const char *accelerator, const char *map, int64_t texts,
                                 int streams) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_dim length = TDM_DIM("length");
  const tdm_value characters =
      tdm_input(graph, GPT_CHARACTERS, TDM_INT64, tdm_shape_of(2, texts, length));
  const tdm_value positions = tdm_input(graph, GPT_POSITIONS, TDM_INT64, tdm_shape_of(1, length));
  tdm_output(graph, GPT_SCORES,
             gpt_writes(graph, sizes, texts, characters, positions, accelerator));
  tdm_session_options options = tdm_session_options_default();
  options.store = store;
  options.device_map = map;
  options.depth = streams;
  options.deterministic = true;
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  return session;
}
