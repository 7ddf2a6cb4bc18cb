/* Vocabularies: words or characters of texts, and their numbers. Invariant: the tokens of a
 * vocabulary never change after its creation, so any thread may read them. */
#include <stdatomic.h>
#include <string.h>

#include "core/allocate.h"
#include "core/choices.h"
#include "core/map.h"
#include "core/utf8.h"
#include "data/dataset.h"
#include "devices/context/context.h"
#include "devices/tensors/tensor.h"
#include "tandem/data/data.h"

enum {
  TOKEN_BYTES = 256, /* size of a token, including the terminating zero */
  MOST_LISTED = 4096 /* limit of tokens that a message searches for a similar one */
};

struct tdm_vocabulary {
  _Atomic uint32_t references;
  tdm_context *context; /* retained */
  tdm_tokens kind;
  tdm_region region; /* owns the tokens' text */
  tdm_map numbers;   /* maps a token to 1 + its index in tokens */
  char **tokens;     /* (count), by number */
  size_t capacity;
  size_t count;
};

/* ---- Tokens of a text ------------------------------------------------------------------------ */

static bool is_space(char letter) {
  return letter == ' ' || (letter >= '\t' && letter <= '\r');
}

/* Copies the next token and advances *at past it, within *left bytes. Writes "" at the end. */
static tdm_status next_token(const tdm_vocabulary *vocabulary, const char **at, size_t *left,
                             char token[TOKEN_BYTES]) {
  const bool words = vocabulary->kind == TDM_TOKENS_WORDS;
  for (; words && *left > 0 && is_space(**at); (*at)++)
    (*left)--;
  uint32_t point;
  size_t bytes = words || *left == 0 ? 0 : tdm_utf8_decode(*at, *left, &point);
  if (!words && *left > 0 && bytes == 0)
    return tdm_fail(TDM_INVALID_ARGUMENT, "vocabulary: \"%.40s\" does not begin with UTF-8", *at);
  while (words && bytes < *left && !is_space((*at)[bytes]))
    bytes++;
  if (bytes >= TOKEN_BYTES)
    return tdm_fail(TDM_INVALID_ARGUMENT, "vocabulary: '%.40s...' has %zu bytes, more than %d", *at,
                    bytes, TOKEN_BYTES - 1);
  if (words && !tdm_utf8_is_valid(*at, bytes))
    return tdm_fail(TDM_INVALID_ARGUMENT, "vocabulary: the word \"%.*s\" is not UTF-8", (int)bytes,
                    *at);
  memcpy(token, *at, bytes);
  token[bytes] = '\0';
  *at += bytes;
  *left -= bytes;
  return TDM_OK;
}

/* ---- Creation -------------------------------------------------------------------------------- */

/* Returns 1 + a token's number, or 0 if it is unknown. */
static size_t find(const tdm_vocabulary *vocabulary, const char *token) {
  return (size_t)(uintptr_t)tdm_map_get(&vocabulary->numbers, token);
}

static tdm_status add_token(tdm_vocabulary *vocabulary, const char *text) {
  if (find(vocabulary, text)) return TDM_OK;
  char *token = tdm_region_string(&vocabulary->region, text);
  if (!token) return TDM_OUT_OF_MEMORY;
  TDM_TRY(tdm_array_reserve(tdm_context_allocator(vocabulary->context),
                            (void **)&vocabulary->tokens, &vocabulary->capacity,
                            vocabulary->count + 1, sizeof *vocabulary->tokens, "a vocabulary"));
  TDM_TRY(tdm_map_put(&vocabulary->numbers, token, (void *)(uintptr_t)(vocabulary->count + 1)));
  vocabulary->tokens[vocabulary->count++] = token;
  return TDM_OK;
}

static tdm_status add_text(tdm_vocabulary *vocabulary, const char *text) {
  char token[TOKEN_BYTES];
  size_t left = strlen(text);
  for (;;) {
    TDM_TRY(next_token(vocabulary, &text, &left, token));
    if (!*token) return TDM_OK;
    TDM_TRY(add_token(vocabulary, token));
  }
}

static tdm_status check_texts(const char *const *texts, size_t count) {
  if (!texts || count == 0) return tdm_fail(TDM_INVALID_ARGUMENT, "vocabulary: there are no texts");
  for (size_t i = 0; i < count; i++)
    if (!texts[i]) return tdm_fail(TDM_INVALID_ARGUMENT, "vocabulary: text %zu is NULL", i);
  return TDM_OK;
}

tdm_vocabulary *tdm_vocabulary_create(tdm_context *context, tdm_tokens kind,
                                      const char *const *texts, size_t count) {
  if (tdm_context_check(context) != TDM_OK || check_texts(texts, count) != TDM_OK) return NULL;
  if (kind != TDM_TOKENS_WORDS && kind != TDM_TOKENS_CHARACTERS) {
    (void)tdm_fail(TDM_INVALID_ARGUMENT,
                   "vocabulary: its tokens are %d, neither words nor characters", (int)kind);
    return NULL;
  }
  const tdm_allocator *allocator = tdm_context_allocator(context);
  tdm_vocabulary *vocabulary = tdm_allocate(allocator, sizeof *vocabulary, "a vocabulary");
  if (!vocabulary) return NULL;
  atomic_init(&vocabulary->references, 1);
  vocabulary->context = tdm_context_retain(context);
  vocabulary->kind = kind;
  tdm_region_init(&vocabulary->region, allocator);
  tdm_map_init(&vocabulary->numbers, allocator);
  for (size_t i = 0; i < count; i++)
    if (add_text(vocabulary, texts[i]) != TDM_OK) {
      tdm_vocabulary_release(vocabulary);
      return NULL;
    }
  return vocabulary;
}

tdm_vocabulary *tdm_vocabulary_retain(tdm_vocabulary *vocabulary) {
  if (vocabulary) (void)atomic_fetch_add_explicit(&vocabulary->references, 1, memory_order_relaxed);
  return vocabulary;
}

void tdm_vocabulary_release(tdm_vocabulary *vocabulary) {
  if (!vocabulary || tdm_context_is_inherited(vocabulary->context)) return;
  if (atomic_fetch_sub_explicit(&vocabulary->references, 1, memory_order_acq_rel) != 1) return;
  tdm_context *context = vocabulary->context;
  const tdm_allocator *allocator = tdm_context_allocator(context);
  tdm_map_deinit(&vocabulary->numbers);
  tdm_region_deinit(&vocabulary->region);
  tdm_release(allocator, vocabulary->tokens, vocabulary->capacity * sizeof *vocabulary->tokens);
  tdm_release(allocator, vocabulary, sizeof *vocabulary);
  tdm_context_release(context);
}

/* ---- Queries --------------------------------------------------------------------------------- */

int64_t tdm_vocabulary_size(const tdm_vocabulary *vocabulary) {
  return vocabulary ? (int64_t)vocabulary->count : 0;
}

const char *tdm_vocabulary_token(const tdm_vocabulary *vocabulary, int64_t number) {
  if (vocabulary && number >= 0 && number < (int64_t)vocabulary->count)
    return vocabulary->tokens[number];
  (void)tdm_fail(TDM_INVALID_ARGUMENT, "vocabulary: there is no token %lld of %lld",
                 (long long)number, (long long)tdm_vocabulary_size(vocabulary));
  return NULL;
}

int64_t tdm_vocabulary_number(const tdm_vocabulary *vocabulary, const char *token) {
  const size_t found = vocabulary && token ? find(vocabulary, token) : 0;
  if (found) return (int64_t)found - 1;
  tdm_choices choices;
  tdm_choices_init(&choices, token);
  for (size_t i = 0; vocabulary && i < vocabulary->count && i < MOST_LISTED; i++)
    tdm_choices_add(&choices, vocabulary->tokens[i]);
  (void)tdm_fail(TDM_INVALID_ARGUMENT, "vocabulary: there is no token '%.64s'; %s",
                 token ? token : "NULL", tdm_choices_text(&choices, "tokens"));
  return -1;
}

/* ---- Encoding -------------------------------------------------------------------------------- */

/* Encodes a text as token numbers. If numbers is NULL, only counts them. */
static tdm_status encode_text(const tdm_vocabulary *vocabulary, const char *text, int64_t *numbers,
                              int64_t *count) {
  char token[TOKEN_BYTES];
  size_t left = strlen(text);
  for (;; (*count)++) {
    TDM_TRY(next_token(vocabulary, &text, &left, token));
    if (!*token) return TDM_OK;
    const int64_t number = numbers ? tdm_vocabulary_number(vocabulary, token) : 0;
    if (number < 0) return TDM_INVALID_ARGUMENT;
    if (numbers) numbers[*count] = number;
  }
}

/* Fills numbers and, unless it is NULL, offsets. If both are NULL, only counts. */
static tdm_status encode(const tdm_vocabulary *vocabulary, const char *const *texts, size_t count,
                         int64_t *numbers, int64_t *offsets, int64_t *out_length) {
  *out_length = 0;
  for (size_t i = 0; i < count; i++) {
    if (offsets) offsets[i] = *out_length;
    TDM_TRY(encode_text(vocabulary, texts[i], numbers, out_length));
  }
  return TDM_OK;
}

static tdm_status make_tensor(tdm_context *context, int64_t length, tdm_tensor **out_tensor) {
  const tdm_shape shape = tdm_shape_of(1, length);
  return tdm_host_tensor_create(context, NULL, TDM_INT64, &shape, out_tensor);
}

tdm_tensor *tdm_vocabulary_encode(const tdm_vocabulary *vocabulary, const char *const *texts,
                                  size_t count, tdm_tensor **out_offsets) {
  if (out_offsets) *out_offsets = NULL;
  if (!vocabulary) {
    (void)tdm_fail_null("vocabulary: it");
    return NULL;
  }
  int64_t length = 0;
  tdm_tensor *numbers = NULL, *offsets = NULL;
  tdm_status status = check_texts(texts, count);
  if (status == TDM_OK) status = encode(vocabulary, texts, count, NULL, NULL, &length);
  if (status == TDM_OK) status = make_tensor(vocabulary->context, length, &numbers);
  if (status == TDM_OK && out_offsets)
    status = make_tensor(vocabulary->context, (int64_t)count, &offsets);
  if (status == TDM_OK)
    status = encode(vocabulary, texts, count, tdm_tensor_data(numbers),
                    offsets ? tdm_tensor_data(offsets) : NULL, &length);
  if (status != TDM_OK) {
    tdm_tensor_release(numbers);
    tdm_tensor_release(offsets);
    return NULL;
  }
  if (out_offsets) *out_offsets = offsets;
  return numbers;
}
