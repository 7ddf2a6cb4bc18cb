/* A vocabulary, like torchtext's Vocab but only as large as the tutorials need: the distinct words
 * or letters of texts, numbered from 0 in order of first appearance. */
#ifndef EXAMPLES_TUTORIALS_VOCABULARY_H
#define EXAMPLES_TUTORIALS_VOCABULARY_H

#include <string.h>

#include "examples/tutorials/tutorial.h"

enum { MOST_TOKENS = 64, TOKEN_BYTES = 32, MOST_TEXTS = 32, MOST_NUMBERS = 256 };

typedef struct vocabulary {
  bool of_letters; /* false: of words */
  int64_t count;
  char tokens[MOST_TOKENS][TOKEN_BYTES]; /* (count), by number */
} vocabulary;

/* Copies the next token of *text, which moves on; false at the end. */
static inline bool next_token(const vocabulary *of, const char **text, char token[TOKEN_BYTES]) {
  if (!of->of_letters) *text += strspn(*text, " ");
  const size_t length = of->of_letters ? **text != '\0' : strcspn(*text, " ");
  check(length < TOKEN_BYTES || tdm_fail(TDM_UNSUPPORTED, "a long word: %s", *text) == TDM_OK);
  memcpy(token, *text, length);
  token[length] = '\0';
  *text += length;
  return length > 0;
}

/* Returns -1 if there is none. */
static inline int64_t vocabulary_number(const vocabulary *of, const char *token) {
  for (int64_t i = 0; i < of->count; i++)
    if (strcmp(of->tokens[i], token) == 0) return i;
  (void)tdm_fail(TDM_INVALID_ARGUMENT, "'%s' is not in the vocabulary", token);
  return -1;
}

static inline vocabulary make_vocabulary(bool of_letters, const char *const *texts, int count) {
  vocabulary made = {.of_letters = of_letters, .count = 0};
  char token[TOKEN_BYTES];
  for (int i = 0; i < count; i++)
    for (const char *at = texts[i]; next_token(&made, &at, token);)
      if (vocabulary_number(&made, token) < 0) {
        check(made.count < MOST_TOKENS);
        memcpy(made.tokens[made.count++], token, TOKEN_BYTES);
      }
  return made;
}

static inline vocabulary vocabulary_of_words(const char *const *texts, int count) {
  return make_vocabulary(false, texts, count);
}

static inline vocabulary vocabulary_of_letters(const char *const *texts, int count) {
  return make_vocabulary(true, texts, count);
}

/* Returns the numbers of all texts' tokens, one text after the other, int64 (tokens). out_offsets,
 * unless NULL, gets where each text begins, int64 (count): what tdm_embedding_bag takes. */
static inline tdm_tensor *vocabulary_encode(tdm_context *context, const vocabulary *of,
                                            const char *const *texts, int count,
                                            tdm_tensor **out_offsets) {
  int64_t numbers[MOST_NUMBERS], offsets[MOST_TEXTS], length = 0;
  char token[TOKEN_BYTES];
  check(count <= MOST_TEXTS);
  for (int i = 0; i < count; i++) {
    offsets[i] = length;
    for (const char *at = texts[i]; next_token(of, &at, token); length++) {
      check(length < MOST_NUMBERS);
      numbers[length] = vocabulary_number(of, token);
      check(numbers[length] >= 0);
    }
  }
  if (out_offsets)
    *out_offsets = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, count), offsets);
  return tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, length), numbers);
}

#endif
