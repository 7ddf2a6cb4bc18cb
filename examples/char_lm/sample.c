/* Writing text, one character a run. Invariant: what is remembered after a run is fed to the next,
 * and released with it. */
#include "examples/char_lm/sample.h"

#include <stdio.h>

#include "tools/options/command_line.h"

typedef struct writer {
  tdm_context *context;
  tdm_session *session;
  tdm_tensor *h; /* owned */
  tdm_tensor *c;
} writer;

/* Reads one character; *out_scores float32 (1, 1, characters) is the caller's. */
static tdm_status read_character(writer *self, int64_t id, tdm_tensor **out_scores) {
  tdm_tensor *character = tdm_tensor_from(self->context, TDM_INT64, tdm_shape_of(2, 1, 1), &id);
  if (!character) return check_made(character);
  const tdm_feed feeds[] = {{CHAR_LM_CHARACTERS, character, false},
                            {CHAR_LM_H0, self->h, false},
                            {CHAR_LM_C0, self->c, false}};
  tdm_fetch fetches[] = {{CHAR_LM_SCORES, NULL}, {CHAR_LM_H_N, NULL}, {CHAR_LM_C_N, NULL}};
  const tdm_status status = tdm_run(self->session, feeds, 3, fetches, 3);
  tdm_tensor_release(character);
  *out_scores = fetches[0].tensor;
  if (status != TDM_OK) return status;
  tdm_tensor_release(self->h);
  tdm_tensor_release(self->c);
  self->h = fetches[1].tensor;
  self->c = fetches[2].tensor;
  return TDM_OK;
}

static tdm_status write_text(writer *self, const text *of, const sample_options *given) {
  const tdm_random random = {given->seed, tdm_random_stream("samples"), 0};
  tdm_tensor *scores = NULL;
  tdm_status status = TDM_OK;
  for (const char *at = given->prompt; status == TDM_OK && *at; at++) {
    tdm_tensor_release(scores);
    status = read_character(self, of->ids[(unsigned char)*at], &scores);
  }
  for (int64_t i = 0; status == TDM_OK && i < given->count; i++) {
    const int64_t id = text_draw(tdm_tensor_data(scores), of->character_count, given->temperature,
                                 tdm_random_uniform_float64(&random, (uint64_t)i));
    putchar(of->characters[id]);
    tdm_tensor_release(scores);
    scores = NULL;
    status = read_character(self, id, &scores);
  }
  tdm_tensor_release(scores);
  return status;
}

tdm_status sample(tdm_context *context, tdm_session *session, const text *of,
                  const sample_options *given, tdm_tensor *zeros) {
  if (given->count == 0) return TDM_OK;
  writer self = {context, session, tdm_tensor_retain(zeros), tdm_tensor_retain(zeros)};
  printf("\n%s", given->prompt);
  const tdm_status status = write_text(&self, of, given);
  printf("\n\n");
  tdm_tensor_release(self.h);
  tdm_tensor_release(self.c);
  return status;
}
