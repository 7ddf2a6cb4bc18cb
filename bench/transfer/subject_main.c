/* The main model: examples/distributed_model's own description of it, fed batches of words of one
 * length that are drawn, not read. Its lists only say how many characters and languages there are.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench/transfer/subject.h"
#include "core/status.h"
#include "examples/distributed_model/data.h"
#include "examples/distributed_model/model.h"

enum { WORD_LENGTH = 8, MOST_ARGUMENTS = 2 * MOST_LISTS + 2 };

typedef struct main_model {
  options given;
  char place[64]; /* the option --place that moves nodes to an accelerator */
  word_set *words;
  model made;
} main_model;

static void close_main(subject *self) {
  main_model *mine = self->state;
  if (mine) {
    model_release(&mine->made);
    word_set_release(mine->words);
  }
  free(mine);
  *self = (subject){.context = NULL};
}

static tdm_status make_feeds(const subject *self, int64_t batch, tdm_feed *out_feeds) {
  const main_model *mine = self->state;
  const tdm_shape characters = tdm_shape_of(2, (int64_t)WORD_LENGTH, batch);
  const int64_t languages = (int64_t)mine->words->class_count;
  out_feeds[0] = (tdm_feed){
      MODEL_CHARACTERS,
      subject_draw_ids(self->context, characters, 1, word_set_character_count(mine->words)),
      false};
  out_feeds[1] = (tdm_feed){
      MODEL_CLASSES, subject_draw_ids(self->context, tdm_shape_of(1, batch), 0, languages), false};
  if (out_feeds[0].tensor && out_feeds[1].tensor) return TDM_OK;
  subject_release_feeds(out_feeds);
  return TDM_OUT_OF_MEMORY;
}

/* Its own command line, so that its defaults are its own. */
static tdm_status read_options(const model_options *given, options *out_options) {
  char program[] = "transfer";
  char words[] = "--words";
  char *arguments[MOST_ARGUMENTS] = {program};
  int count = 1;
  for (size_t i = 0; i < given->list_count; i++) {
    arguments[count++] = words;
    arguments[count++] = (char *)given->lists[i];
  }
  return options_read(count, arguments, out_options);
}

static tdm_status open_model(const model_options *given, bool profile, subject *self) {
  main_model *mine = self->state;
  TDM_TRY(read_options(given, &mine->given));
  mine->given.common.explain = profile; /* profiles its session, no more */
  if (given->accelerator) {
    (void)snprintf(mine->place, sizeof mine->place, "embedding=cpu:0,*=%s", given->accelerator);
    mine->given.common.place = mine->place;
  }
  mine->words = data_read_words(self->context, &mine->given);
  if (!mine->words) return TDM_UNAVAILABLE;
  TDM_TRY(model_create(self->context, mine->words, &mine->given, &mine->made));
  self->session = mine->made.session;
  return TDM_OK;
}

tdm_status subject_open_main(tdm_context *context, const model_options *given, bool profile,
                             subject *out_subject) {
  *out_subject = (subject){.context = context, .make_feeds = make_feeds, .close = close_main};
  main_model *mine = calloc(1, sizeof *mine);
  if (!mine) return tdm_fail(TDM_OUT_OF_MEMORY, "the main model");
  out_subject->state = mine;
  const tdm_status status = open_model(given, profile, out_subject);
  if (status != TDM_OK) close_main(out_subject);
  return status;
}
