/* Prints results and plans. Invariant: what is printed was computed by then. */
#include "examples/distributed_model/report.h"

#include <stdio.h>
#include <string.h>

#include "tools/options/command_line.h"

enum { CELL = 11, SHOWN_LANGUAGES = 3 };

void report_confusion(word_set *words, const confusion *counted) {
  const size_t languages = words->class_count;
  printf("\nheld-out words of (rows) taken for (columns)\n%*s", CELL, "");
  for (size_t j = 0; j < languages; j++)
    printf("%*.*s", CELL, CELL - 1, word_set_class_name(words, j));
  putchar('\n');
  for (size_t i = 0; i < languages; i++) {
    printf("%-*.*s", CELL, CELL - 1, word_set_class_name(words, i));
    for (size_t j = 0; j < languages; j++)
      printf("%*lld", CELL, (long long)counted->counts[i][j]);
    putchar('\n');
  }
  putchar('\n');
}

/* Prints the largest of probabilities (languages), in descending order. */
static void print_likeliest(word_set *words, const float *probabilities) {
  const size_t languages = words->class_count;
  bool shown[MAX_LANGUAGES] = {false};
  for (int place = 0; place < SHOWN_LANGUAGES && (size_t)place < languages; place++) {
    size_t best = languages;
    for (size_t i = 0; i < languages; i++)
      if (!shown[i] && (best == languages || probabilities[i] > probabilities[best])) best = i;
    shown[best] = true;
    printf("%s %s %.2f", place ? "," : ":", word_set_class_name(words, best),
           (double)probabilities[best]);
  }
  putchar('\n');
}

static tdm_status predict(model *asked, const char *word) {
  tdm_tensor *ids = word_set_encode(asked->words, word); /* (n, 1) */
  if (!ids) return check_made(ids);
  const tdm_feed feed = {MODEL_CHARACTERS, ids, false};
  tdm_fetch fetch = {MODEL_PROBABILITIES, NULL};
  const tdm_status status = tdm_run(asked->session, &feed, 1, &fetch, 1);
  if (status == TDM_OK) {
    fputs(word, stdout);
    print_likeliest(asked->words, tdm_tensor_data(fetch.tensor));
  }
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(ids);
  return status;
}

tdm_status report_predictions(model *asked, char *const *words, int count) {
  tdm_status status = TDM_OK;
  for (int i = 0; status == TDM_OK && i < count; i++)
    status = predict(asked, words[i]);
  return status;
}
