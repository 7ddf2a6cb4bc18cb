/* Writing: what a run reads is the characters that were not read yet, or all of the window where
 * nothing is kept. */
#include "examples/gpt/write.h"

#include <stdlib.h>
#include <string.h>

#include "examples/common/command_line.h"

typedef struct writer {
  tdm_context *context;
  tdm_sequence *sequence; /* NULL: all is read anew */
  tdm_session *session;   /* then */
  const gpt_wish *wish;
  int64_t *ids;   /* (window): what is looked back on */
  int64_t count;  /* of them */
  int64_t unread; /* the last so many */
} writer;

/* Scores of the last character, float32, behind the run's other rows; *out_scores is the
 * caller's. */
static tdm_status read_kept(const writer *self, tdm_tensor **out_scores) {
  const int64_t first = self->count - self->unread;
  int64_t *positions = malloc((size_t)self->unread * sizeof *positions);
  if (!positions) return tdm_fail(TDM_OUT_OF_MEMORY, "positions");
  for (int64_t i = 0; i < self->unread; i++)
    positions[i] = first + i;
  const tdm_shape some = tdm_shape_of(1, self->unread);
  tdm_tensor *fed[] = {tdm_tensor_from(self->context, TDM_INT64, some, self->ids + first),
                       tdm_tensor_from(self->context, TDM_INT64, some, positions)};
  free(positions);
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
  tdm_tensor *fed =
      tdm_tensor_from(self->context, TDM_INT64, tdm_shape_of(2, 1, self->count), self->ids);
  if (!fed) return check_made(fed);
  tdm_fetch fetch = {GPT_SCORES, NULL};
  const tdm_feed feed = {GPT_CHARACTERS, fed, false};
  const tdm_status status = tdm_run(self->session, &feed, 1, &fetch, 1);
  tdm_tensor_release(fed);
  *out_scores = fetch.tensor;
  return status;
}

/* Looks back on one character more; the later half of a full window goes to its beginning, and is
 * read again. */
static void look_at(writer *self, int64_t id) {
  if (self->count == self->wish->window) {
    const int64_t half = self->count - self->count / 2;
    memmove(self->ids, self->ids + self->count - half, (size_t)half * sizeof *self->ids);
    self->count = self->unread = half;
  }
  self->ids[self->count++] = id;
  self->unread++;
}

static tdm_status write_one(writer *self, int64_t i, char *out_character) {
  const gpt_wish *wish = self->wish;
  const int64_t characters = wish->like->character_count;
  const tdm_random random = {wish->seed, tdm_random_stream("characters"), 0};
  tdm_tensor *scores = NULL;
  const tdm_status status = self->sequence ? read_kept(self, &scores) : read_anew(self, &scores);
  if (status != TDM_OK) return status;
  const int64_t rows = self->sequence ? self->unread : self->count;
  const float *last = (const float *)tdm_tensor_data(scores) + (rows - 1) * characters;
  const int64_t id = text_draw(last, characters, wish->temperature,
                               tdm_random_uniform_float64(&random, (uint64_t)i));
  tdm_tensor_release(scores);
  *out_character = (char)wish->like->characters[id];
  self->unread = 0;
  look_at(self, id);
  return TDM_OK;
}

static tdm_status write_all(writer *self, char *out_text) {
  const gpt_wish *wish = self->wish;
  self->ids = malloc((size_t)wish->window * sizeof *self->ids);
  if (!self->ids)
    return tdm_fail(TDM_OUT_OF_MEMORY, "a window of %lld characters", (long long)wish->window);
  for (const char *at = wish->prompt; *at; at++)
    look_at(self, wish->like->ids[(unsigned char)*at]);
  tdm_status status = TDM_OK;
  for (int64_t i = 0; status == TDM_OK && i < wish->count; i++)
    status = write_one(self, i, &out_text[i]);
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
                                 const char *accelerator, const char *map, int streams) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape some = tdm_shape_of(1, TDM_DIM("length"));
  const tdm_value characters = tdm_input(graph, GPT_CHARACTERS, TDM_INT64, some);
  const tdm_value positions = tdm_input(graph, GPT_POSITIONS, TDM_INT64, some);
  tdm_output(graph, GPT_SCORES, gpt_writes(graph, sizes, characters, positions, accelerator));
  const tdm_session_options options = {.struct_size = sizeof options,
                                       .store = store,
                                       .device_map = map,
                                       .depth = streams,
                                       .deterministic = true};
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  return session;
}
