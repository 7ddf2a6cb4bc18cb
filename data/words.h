/* Internal side of word lists. A pool holds the words of all lists while they are read; of it, a
 * tdm_words keeps its alphabet and the words drawn. Invariant: the words of a tdm_words never
 * change after its creation, so any thread may read them. */
#ifndef TANDEM_DATA_WORDS_H
#define TANDEM_DATA_WORDS_H

#include <stdatomic.h>

#include "core/allocate.h"
#include "core/siphash.h"
#include "tandem/data/data.h"

#define TDM_POINT_LIMIT 0x2000 /* code points of letters, folded or not, are below it */
#define TDM_WORD_LEAST_CHARACTERS 3

/* ---- While reading -------------------------------------------------------------------------- */

typedef struct tdm_pool_word {
  size_t offset;      /* of its folded UTF-8 in text */
  uint32_t bytes;     /* of that */
  int32_t characters; /* code points */
  int32_t list;       /* -1: in several */
} tdm_pool_word;

typedef struct tdm_word_slot {
  uint32_t hash;   /* of the word: most others are told apart without looking at their text */
  uint32_t number; /* of the word, plus 1; 0: free */
} tdm_word_slot;

typedef struct tdm_word_pool {
  const tdm_allocator *allocator;
  int64_t max_length;
  char *text;
  size_t text_bytes;
  size_t text_capacity;
  tdm_pool_word *words; /* distinct, in the order they were met */
  size_t word_count;
  size_t word_capacity;
  tdm_word_slot *slots; /* (slot_count), a power of two */
  size_t slot_count;
  tdm_siphash_key key; /* of the slots' hashes, which thus nobody chooses words by */
  uint8_t *seen;       /* (TDM_POINT_LIMIT / 8) bits: characters of the words */
} tdm_word_pool;

tdm_status tdm_word_pool_init(tdm_word_pool *pool, const tdm_allocator *allocator,
                              int64_t max_length) TDM_WARN_UNUSED;
void tdm_word_pool_deinit(tdm_word_pool *pool);
/* Reads one list; number is its place in the caller's lists. Fails, naming list and file, where it
 * cannot be read or is no list of words. */
tdm_status tdm_word_pool_read(tdm_word_pool *pool, const tdm_word_list *list,
                              int32_t number) TDM_WARN_UNUSED;

/* ---- Kept ----------------------------------------------------------------------------------- */

typedef struct tdm_word {
  uint32_t offset; /* of its first id in ids */
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
  tdm_region region;    /* everything below */
  int64_t max_length;   /* of a word; 0: read back without lists */
  char **class_names;   /* (class_count) */
  size_t class_count;
  uint32_t *points; /* (point_count), ascending; id - 1 is the place of a character here */
  size_t point_count;
  uint16_t *ids;            /* of all words, one after the other */
  tdm_word_part training;   /* by class, within a class in the order drawn */
  tdm_word_part evaluation; /* likewise */
};

/* An empty one with one reference. */
tdm_status tdm_words_init(tdm_context *context, tdm_words **out_words) TDM_WARN_UNUSED;
/* Draws from the pool: fills everything but max_length. */
tdm_status tdm_words_select(tdm_words *words, const tdm_word_pool *pool, const tdm_word_list *lists,
                            size_t count, const tdm_words_options *options) TDM_WARN_UNUSED;
/* 0: it is not in the alphabet. */
uint16_t tdm_words_id(const tdm_words *words, uint32_t point);

#endif
