/* See words.h. */
#include "tools/launch/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for one more, and the end. */
static bool reserve(words *list) {
  if (list->count + 1 < list->capacity) return true;
  const int capacity = list->capacity > 0 ? 2 * list->capacity : 64;
  char **items = realloc(list->items, (size_t)capacity * sizeof *items);
  if (!items) return false;
  list->items = items;
  list->capacity = capacity;
  return true;
}

void words_add(words *list, const char *word) {
  char *copy = reserve(list) ? strdup(word) : NULL;
  list->overflows |= !copy;
  if (!copy) return;
  list->items[list->count++] = copy;
  list->items[list->count] = NULL;
}

void words_addf(words *list, const char *format, ...) {
  char word[WORD_BYTES];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(word, sizeof word, format, arguments);
  va_end(arguments);
  if (length >= 0 && length < (int)sizeof word)
    words_add(list, word);
  else
    list->overflows = true;
}

void words_free(words *list) {
  for (int i = 0; i < list->count; i++)
    free(list->items[i]);
  free(list->items);
  *list = (words){.count = 0};
}

static void print_quoted(const char *word) {
  putchar('\'');
  for (; *word; word++) {
    if (*word == '\'')
      fputs("'\\''", stdout);
    else
      putchar(*word);
  }
  putchar('\'');
}

void words_print_one(const char *word) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                              "-_./:=,+@%";
  if (*word && strspn(word, plain) == strlen(word))
    fputs(word, stdout);
  else
    print_quoted(word);
}

void words_print(const words *list) {
  for (int i = 0; i < list->count; i++) {
    if (i > 0) putchar(' ');
    words_print_one(list->items[i]);
  }
  putchar('\n');
}
