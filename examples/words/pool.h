/* The distinct words of all lists while they are read. Invariant: the pool holds each folded word
 * once, and whether it was in one list or in several. */
#ifndef EXAMPLES_WORDS_POOL_H
#define EXAMPLES_WORDS_POOL_H

#include "examples/words/words.h"

enum { LEAST_CHARACTERS = 3, MOST_LISTS = 1024 };

typedef struct pool_word {
  const char *text; /* folded, in UTF-8, terminated by a zero */
  uint64_t hash;
  int32_t length; /* length in characters */
  int32_t list;   /* index of its list; -1: it is in several */
} pool_word;

typedef struct word_pool {
  int64_t max_length;
  char *texts[MOST_LISTS]; /* (text_count) */
  size_t text_count;
  pool_word *words; /* (count), in the order of the lists */
  size_t count;
  size_t capacity;
  uint32_t *slots; /* (slot_count), a power of two: index of a word plus 1; 0: free */
  size_t slot_count;
} word_pool;

/* Reads one list; number is its index in the caller's lists. Fails if the file cannot be read or is
 * no list of words, naming list and file. */
tdm_status word_pool_read(word_pool *pool, const word_list *list, int32_t number);
void word_pool_release(word_pool *pool);

/* Makes room for `needed` items of item_bytes each. */
tdm_status words_reserve(void **items, size_t *capacity, size_t needed, size_t item_bytes);

#endif
