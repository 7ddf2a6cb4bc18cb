/* Lists the valid names next to an unknown one. Invariant: `listed` is terminated and contains
 * whole names only. */
#include "core/choices.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST = 63 };

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

size_t tdm_edit_distance(const char *a, const char *b, size_t limit) {
  const size_t rows = strlen(a);
  const size_t columns = strlen(b);
  if (rows > LONGEST || columns > LONGEST) return limit + 1;
  uint8_t table[3][LONGEST + 1]; /* rows for prefixes of a that are 2, 1 and 0 letters shorter */
  uint8_t *before = table[0];
  uint8_t *above = table[1];
  uint8_t *row = table[2];
  for (size_t j = 0; j <= columns; j++)
    above[j] = (uint8_t)j;
  for (size_t i = 1; i <= rows; i++) {
    row[0] = (uint8_t)i;
    for (size_t j = 1; j <= columns; j++) {
      size_t best = above[j - 1] + (size_t)(a[i - 1] != b[j - 1]);
      best = least(best, least(above[j], row[j - 1]) + 1U);
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) best = least(best, before[j - 2] + 1U);
      row[j] = (uint8_t)best;
    }
    uint8_t *oldest = before;
    before = above;
    above = row;
    row = oldest;
  }
  return least(above[columns], limit + 1);
}

void tdm_choices_init(tdm_choices *choices, const char *given) {
  choices->given = given;
  choices->nearest[0] = '\0';
  choices->distance = 0;
  choices->count = 0;
  choices->left_out = 0;
  choices->used = 0;
  choices->listed[0] = '\0';
}

/* Accepts a distance of a third of the letters, and at least one. */
void tdm_choices_consider(tdm_choices *choices, const char *name, size_t length) {
  if (!choices->given || !*choices->given || length > LONGEST) return;
  char copy[LONGEST + 1];
  memcpy(copy, name, length);
  copy[length] = '\0';
  const size_t letters = strlen(choices->given);
  const size_t limit = letters < 6 ? 1 + letters / 4 : letters / 3;
  const size_t distance = tdm_edit_distance(choices->given, copy, limit);
  if (distance > limit || distance >= length) return;
  if (choices->nearest[0] && choices->distance <= distance) return;
  memcpy(choices->nearest, copy, length + 1);
  choices->distance = distance;
}

void tdm_choices_add(tdm_choices *choices, const char *name) {
  tdm_choices_consider(choices, name, strlen(name));
  choices->count++;
  const size_t separator = choices->used > 0 ? 2 : 0;
  const size_t length = strlen(name);
  if (choices->left_out > 0 || choices->used + separator + length >= sizeof choices->listed) {
    choices->left_out++;
    return;
  }
  memcpy(choices->listed + choices->used, ", ", separator);
  memcpy(choices->listed + choices->used + separator, name, length + 1);
  choices->used += separator + length;
}

const char *tdm_choices_text(tdm_choices *choices, const char *kind) {
  const size_t room = sizeof choices->text;
  if (choices->count == 0) {
    (void)snprintf(choices->text, room, "there are no %s", kind);
    return choices->text;
  }
  char more[32] = "";
  if (choices->left_out > 0) (void)snprintf(more, sizeof more, " and %zu more", choices->left_out);
  int used = snprintf(choices->text, room, "%s are: %s%s", kind, choices->listed, more);
  if (choices->nearest[0] && used >= 0 && (size_t)used < room)
    (void)snprintf(choices->text + used, room - (size_t)used, " (did you mean '%s'?)",
                   choices->nearest);
  return choices->text;
}
