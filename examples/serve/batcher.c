/* The queues of words, one for each length, and the runs of them. A uv_check runs after every poll
 * of the loop, when all words that arrived together are in the queues. Invariant: see batcher.h. */
#include "examples/serve/batcher.h"

#include <stdlib.h>
#include <string.h>

typedef struct question {
  struct question *next;
  tdm_tensor *ids; /* int64 (length, 1) */
  uint64_t number; /* position in the order of requests */
  void *user;
  char word[];
} question;

typedef struct word_queue {
  question *first;
  question **end;
} word_queue;

/* One run's words. */
typedef struct batch {
  batcher *owner;
  question *first;
  int words;
} batch;

struct batcher {
  batcher_options given;
  uv_check_t check;
  word_queue queues[BATCHER_MAX_LENGTH + 1]; /* per length */
  uint64_t asked;
  int queued;
  int in_flight;
};

/* ---- Batches --------------------------------------------------------------------------------- */

/* Sizes are powers of two, and the largest one: few plans, and at most as many empty rows as
 * words. */
static int rows_for(const batcher *self, int words) {
  int rows = 1;
  while (rows < words)
    rows *= 2;
  return rows < self->given.max_batch ? rows : self->given.max_batch;
}

static tdm_tensor *make_characters(const batcher *self, int length, int rows) {
  return tdm_tensor_create(self->given.context, "cpu:0", TDM_INT64, tdm_shape_of(2, length, rows));
}

/* Writes one word per column. Unused columns repeat words from the first on. */
static void fill_characters(const question *first, int64_t length, int rows, int64_t *to) {
  const question *word = first;
  for (int row = 0; row < rows; row++) {
    const int64_t *ids = tdm_tensor_data(word->ids); /* (length, 1) */
    for (int64_t i = 0; i < length; i++)
      to[i * rows + row] = ids[i]; /* to: (length, rows) */
    word = word->next ? word->next : first;
  }
}

static void free_question(question *freed) {
  tdm_tensor_release(freed->ids);
  free(freed);
}

/* probabilities (languages), or NULL with a message. */
static void answer_question(const batcher *self, question *asked, const float *probabilities,
                            const char *message) {
  verdict said = {.word = asked->word, .message = message};
  const size_t languages = self->given.words->class_count;
  for (size_t i = 0; probabilities && i < languages; i++) {
    if (said.language && (double)probabilities[i] <= said.probability) continue;
    said.language = word_set_class_name(self->given.words, i);
    said.probability = (double)probabilities[i];
  }
  self->given.answer(asked->user, &said);
  free_question(asked);
}

static void answer_batch(batch *ended, const float *probabilities, const char *message) {
  const batcher *self = ended->owner;
  const size_t languages = self->given.words->class_count;
  question *word = ended->first;
  for (int row = 0; word; row++) {
    question *next = word->next;
    const float *mine = probabilities ? probabilities + (size_t)row * languages : NULL;
    answer_question(self, word, mine, message);
    word = next;
  }
  free(ended);
}

static void on_run_ended(void *user, tdm_run_result *result) {
  batch *ended = user;
  ended->owner->in_flight--;
  const bool succeeded = result->status == TDM_OK;
  tdm_tensor *tensor = succeeded ? result->fetches[0].tensor : NULL;
  answer_batch(ended, succeeded ? tdm_tensor_data(tensor) : NULL, result->message);
  tdm_tensor_release(tensor);
}

static tdm_status submit(batcher *self, batch *made, int length) {
  const int rows = rows_for(self, made->words);
  tdm_tensor *characters = make_characters(self, length, rows);
  if (!characters) return TDM_OUT_OF_MEMORY;
  fill_characters(made->first, length, rows, tdm_tensor_data(characters));
  const tdm_feed feed = {self->given.input, characters, true};
  const tdm_fetch fetch = {self->given.output, NULL};
  const tdm_status status =
      tdm_submit(self->given.session, false, &feed, 1, &fetch, 1, on_run_ended, made);
  tdm_tensor_release(characters);
  if (status == TDM_OK) metrics_add_batch(self->given.counted, made->words, rows);
  return status;
}

/* ---- Queues ---------------------------------------------------------------------------------- */

/* The length of the word that waits longest; 0: none does. */
static int oldest_length(const batcher *self) {
  int oldest = 0;
  for (int length = 1; length <= BATCHER_MAX_LENGTH; length++) {
    const question *first = self->queues[length].first;
    if (first && (!oldest || first->number < self->queues[oldest].first->number)) oldest = length;
  }
  return oldest;
}

/* Moves the first words of a queue into a batch. */
static void take_words(batcher *self, word_queue *queue, batch *out) {
  question *last = queue->first;
  out->first = last;
  out->words = 1;
  while (last->next && out->words < self->given.max_batch) {
    last = last->next;
    out->words++;
  }
  queue->first = last->next;
  if (!queue->first) queue->end = &queue->first;
  last->next = NULL;
  self->queued -= out->words;
}

/* False: there is no memory, and the words wait for better times. */
static bool start_batch(batcher *self, int length) {
  batch *made = calloc(1, sizeof *made);
  if (!made) return false;
  made->owner = self;
  take_words(self, &self->queues[length], made);
  self->in_flight++;
  if (submit(self, made, length) == TDM_OK) return true;
  self->in_flight--;
  answer_batch(made, NULL, tdm_last_message());
  return true;
}

static void on_check(uv_check_t *check) {
  batcher *self = check->data;
  while (self->in_flight < self->given.depth) {
    const int length = oldest_length(self);
    if (length == 0 || !start_batch(self, length)) return;
  }
}

tdm_status batcher_ask(batcher *self, const char *word, void *user) {
  if (self->queued >= self->given.queue_limit)
    return tdm_fail(TDM_UNAVAILABLE, "%d words wait already", self->queued);
  if (!*word) return tdm_fail(TDM_INVALID_ARGUMENT, "no word was given");
  tdm_tensor *ids = word_set_encode(self->given.words, word);
  if (!ids) return TDM_INVALID_ARGUMENT;
  const int64_t length = tdm_tensor_shape(ids).dims[0];
  const size_t bytes = strlen(word) + 1;
  question *asked = length <= BATCHER_MAX_LENGTH ? malloc(sizeof *asked + bytes) : NULL;
  if (!asked) {
    tdm_tensor_release(ids);
    if (length > BATCHER_MAX_LENGTH)
      return tdm_fail(TDM_INVALID_ARGUMENT, "a word has at most %d characters, not %lld",
                      BATCHER_MAX_LENGTH, (long long)length);
    return tdm_fail(TDM_UNAVAILABLE, "no memory for a word");
  }
  *asked = (question){.ids = ids, .number = self->asked++, .user = user};
  memcpy(asked->word, word, bytes);
  word_queue *queue = &self->queues[length];
  *queue->end = asked;
  queue->end = &asked->next;
  self->queued++;
  return TDM_OK;
}

int batcher_queued(const batcher *self) {
  return self->queued;
}

int batcher_in_flight(const batcher *self) {
  return self->in_flight;
}

/* ---- Life ------------------------------------------------------------------------------------ */

tdm_status batcher_prepare(batcher *self) {
  tdm_status status = TDM_OK;
  for (int length = 1; status == TDM_OK && length <= BATCHER_MAX_LENGTH; length++)
    for (int words = 1; status == TDM_OK; words = rows_for(self, words) + 1) {
      const int rows = rows_for(self, words);
      tdm_tensor *characters = make_characters(self, length, rows);
      if (!characters) return TDM_OUT_OF_MEMORY;
      const tdm_feed feed = {self->given.input, characters, true};
      const tdm_fetch fetch = {self->given.output, NULL};
      status = tdm_session_prepare(self->given.session, &feed, 1, &fetch, 1, false);
      tdm_tensor_release(characters);
      if (rows == self->given.max_batch) break;
    }
  return status;
}

tdm_status batcher_create(const batcher_options *given, batcher **out_batcher) {
  *out_batcher = NULL;
  batcher *self = calloc(1, sizeof *self);
  if (!self) return tdm_fail(TDM_OUT_OF_MEMORY, "no memory for queues of words");
  self->given = *given;
  for (int i = 0; i <= BATCHER_MAX_LENGTH; i++)
    self->queues[i].end = &self->queues[i].first;
  (void)uv_check_init(given->loop, &self->check);
  (void)uv_check_start(&self->check, on_check);
  self->check.data = self;
  uv_unref((uv_handle_t *)&self->check);
  *out_batcher = self;
  return TDM_OK;
}

void batcher_close(batcher *self) {
  uv_close((uv_handle_t *)&self->check, NULL);
}

void batcher_free(batcher *self) {
  free(self);
}
