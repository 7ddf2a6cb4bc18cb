/* Internal side of word lists. A pool holds the words of all lists while they are read. A tdm_words
 * keeps the pool's alphabet and the words that were drawn. Invariant: the words of a tdm_words
 * never change after its creation, so any thread may read them. */
#ifndef TANDEM_DATA_WORDS_H
#define TANDEM_DATA_WORDS_H

#include <stdatomic.h>

#include "core/allocate.h"
#include "core/siphash.h"
#include "tandem/data/data.h"

#define TDM_POINT_LIMIT 0x2000 /* upper limit of letters' code points, folded or not */
#define TDM_WORD_LEAST_CHARACTERS 3

/* ---- The pool ------------------------------------------------------------------------------- */

typedef struct tdm_pool_word {
  size_t offset;      /* offset of its folded UTF-8 in text */
  uint32_t bytes;     /* size of that */
  int32_t characters; /* number of code points */
  int32_t list;       /* -1: in several lists */
} tdm_pool_word;

typedef struct tdm_word_slot {
  uint32_t hash;   /* hash of the word: avoids most comparisons of texts */
  uint32_t number; /* 1 + number of the word; 0: free */
} tdm_word_slot;

typedef struct tdm_word_pool {
  const tdm_allocator *allocator;
  int64_t max_length;
  char *text;
  size_t text_bytes;
  size_t text_capacity;
  tdm_pool_word *words; /* distinct words, in the order of reading */
  size_t word_count;
  size_t word_capacity;
  tdm_word_slot *slots; /* (slot_count), a power of two */
  size_t slot_count;
  tdm_siphash_key key; /* of the slots' hashes, so that words cannot be chosen to collide */
  uint8_t *seen;       /* (TDM_POINT_LIMIT / 8) one bit per character of the words */
} tdm_word_pool;

tdm_status tdm_word_pool_init(tdm_word_pool *pool, const tdm_allocator *allocator,
                              int64_t max_length) TDM_WARN_UNUSED;
void tdm_word_pool_deinit(tdm_word_pool *pool);
/* Reads one list; number is its index in the caller's lists. Fails, naming list and file, if it
 * cannot be read or is not a list of words. */
tdm_status tdm_word_pool_read(tdm_word_pool *pool, const tdm_word_list *list,
                              int32_t number) TDM_WARN_UNUSED;

/* ---- Word lists ----------------------------------------------------------------------------- */

typedef struct tdm_word {
  uint32_t offset; /* index of its first id in ids */
  int32_t length;
  int32_t class_index;
} tdm_word;

typedef struct tdm_word_part {
  tdm_word *words; /* (count) */
  int64_t count;
} tdm_word_part;

struct tdm_words {
  _Atomic uint32_t references;
  tdm_context *context; /* retained */
  tdm_region region;    /* owns everything below */
  int64_t max_length;   /* of a word; 0: loaded without lists */
  char **class_names;   /* (class_count) */
  size_t class_count;
  uint32_t *points; /* (point_count), ascending; 1 + the index of a character is its id */
  size_t point_count;
  uint16_t *ids;            /* of all words, concatenated */
  tdm_word_part training;   /* by class, and within a class in the order drawn */
  tdm_word_part evaluation; /* likewise */
};

/* Creates an empty one with one reference. */
tdm_status tdm_words_init(tdm_context *context, tdm_words **out_words) TDM_WARN_UNUSED;
/* Draws from the pool: fills everything except max_length. */
tdm_status tdm_words_select(tdm_words *words, const tdm_word_pool *pool, const tdm_word_list *lists,
                            size_t count, const tdm_words_options *options) TDM_WARN_UNUSED;
/* Returns the id of a character, or 0 if it is not in the alphabet. */
uint16_t tdm_words_id(const tdm_words *words, uint32_t point);

#endif
