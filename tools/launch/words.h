/* A command line that grows word by word. Invariant: it always ends with NULL, as execvp requires.
 * A word that does not fit is reported, and nothing is executed then. */
#ifndef TOOLS_LAUNCH_WORDS_H
#define TOOLS_LAUNCH_WORDS_H

#include <stdbool.h>

enum { WORD_BYTES = 4096 };

typedef struct words {
  char **items; /* (count + 1): words, then NULL; NULL: there are none yet */
  int count;
  int capacity;
  bool overflows; /* a word was left out, or memory was short */
} words;

/* Append copies of words; the second function formats the word. */
void words_add(words *list, const char *word);
void words_addf(words *list, const char *format, ...) __attribute__((format(printf, 2, 3)));
void words_free(words *list);
/* Prints it as a shell would read it. */
void words_print(const words *list);
/* Prints one word, without a separator. */
void words_print_one(const char *word);

#endif
