/* Words of several classes, from lists of one word per line. Lists are UTF-8 or ISO-8859-1. Words
 * are folded to lower case. Every distinct character of all lists gets an id, from 1 in the order
 * of code points; 0 is padding. A word set keeps words of letters only (and ' and -), with 3
 * characters or more, that are in only one list. Invariant: a word set does not change after its
 * creation, so that any thread may read it. */
#ifndef EXAMPLES_WORDS_WORDS_H
#define EXAMPLES_WORDS_WORDS_H

#include <tandem/tandem.h>

typedef struct word_list {
  const char *name; /* name of the class: "french" */
  const char *path;
} word_list;

typedef struct word_options {
  int64_t per_class;  /* size of a seeded sample of each list; 0: all */
  int64_t max_length; /* longer words are skipped; 3 to 1024 */
  uint64_t seed;
  double held_out; /* share of each class kept for evaluation, 0 <= share < 1 */
} word_options;

typedef struct listed_word {
  uint32_t offset; /* offset of its first id in ids */
  int32_t length;
  int32_t class_index;
} listed_word;

typedef struct word_set word_set;

typedef struct word_part {
  const word_set *set;
  listed_word *words; /* (count), by class, within a class in the order drawn */
  size_t count;
  size_t capacity;
} word_part;

struct word_set {
  tdm_context *context; /* borrowed */
  int64_t max_length;   /* longest word, in characters; 0 for a set that was loaded without lists */
  char *names;          /* (name_bytes) of the classes, each terminated by a zero */
  size_t name_bytes;
  size_t class_count;
  int32_t *points; /* (point_count), ascending code points; id - 1 is the index of a character */
  size_t point_count;
  uint16_t *ids; /* ids of all words, one after the other */
  size_t id_count;
  size_t id_capacity;
  word_part parts[2]; /* [true]: for training; [false]: held out */
};

/* Reads lists (count), a class each. Returns NULL on failure, with a message that names the file.
 * The caller releases the set after everything that was made of it. */
word_set *word_set_create(tdm_context *context, const word_list *lists, size_t count,
                          const word_options *options);
/* Accepts NULL. */
void word_set_release(word_set *set);
/* Returns the number of ids, 0 included. */
int64_t word_set_character_count(const word_set *set);
/* Returns the name of a class, or NULL if index is too large. */
const char *word_set_class_name(const word_set *set, size_t index);
/* Returns the id of a code point, or 0 if it is in no list. */
uint16_t word_set_id(const word_set *set, uint32_t point);
/* Returns the ids of a UTF-8 word (n, 1), time first. Fails for unknown characters, naming the
 * character. */
tdm_tensor *word_set_encode(const word_set *set, const char *word);

/* Adds the tensors "words.characters" (code points) and "words.classes" (names), from which
 * word_set_from_saved creates a set that encodes words the same way, without any list. */
tdm_status word_set_save(const word_set *set, tdm_tensor_list *list);
word_set *word_set_from_saved(tdm_context *context, const tdm_tensor_list *list);

#endif
