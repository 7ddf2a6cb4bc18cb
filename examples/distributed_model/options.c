/* Reads the command line: a table of options, each with the function that takes its value. The help
 * text and the parser both read that table. */
#include "examples/distributed_model/options.h"

#include <stdio.h>
#include <string.h>

#include "examples/common/command_line.h"

typedef struct option {
  const char *name;
  const char *value; /* what follows it, as help calls it; NULL: nothing does */
  const char *help;
  tdm_status (*take)(options *out, const char *name, const char *text);
} option;

/* Where Debian's packages put their word lists. */
#define DICTIONARY "/usr/share/dict/"
static const tdm_word_list default_lists[] = {
    {"english", DICTIONARY "american-english"}, {"french", DICTIONARY "french"},
    {"german", DICTIONARY "ngerman"},           {"spanish", DICTIONARY "spanish"},
    {"italian", DICTIONARY "italian"},          {"dutch", DICTIONARY "dutch"},
    {"portuguese", DICTIONARY "portuguese"},    {"swedish", DICTIONARY "swedish"},
};

static tdm_status take_words(options *out, const char *name, const char *text) {
  const char *equals = strchr(text, '=');
  const size_t length = equals ? (size_t)(equals - text) : 0;
  if (length == 0 || length >= MAX_LANGUAGE_NAME || equals[1] == '\0')
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s takes LANGUAGE=FILE, not \"%s\"", name, text);
  if (out->list_count == MAX_LANGUAGES)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s: at most %d languages", name, MAX_LANGUAGES);
  char *language = out->names[out->list_count];
  memcpy(language, text, length);
  language[length] = '\0';
  out->lists[out->list_count++] = (tdm_word_list){language, equals + 1};
  return TDM_OK;
}

static tdm_status take_epochs(options *out, const char *name, const char *text) {
  out->epochs_given = true;
  return read_integer(name, text, 0, 100000, &out->epochs);
}

static tdm_status take_batch(options *out, const char *name, const char *text) {
  return read_integer(name, text, 1, 1 << 20, &out->batch_size);
}

static tdm_status take_micro_batches(options *out, const char *name, const char *text) {
  out->micro_batches = TDM_MICRO_BATCHES_AUTO;
  return strcmp(text, "auto") == 0 ? TDM_OK : read_integer(name, text, 1, 16, &out->micro_batches);
}

static tdm_status take_words_per_language(options *out, const char *name, const char *text) {
  return read_integer(name, text, 0, INT32_MAX, &out->words_per_language);
}

static tdm_status take_seed(options *out, const char *name, const char *text) {
  int64_t seed = 0;
  const tdm_status status = read_integer(name, text, 0, INT64_MAX, &seed);
  out->seed = (uint64_t)seed;
  return status;
}

static tdm_status take_learning_rate(options *out, const char *name, const char *text) {
  return read_positive_real(name, text, &out->learning_rate);
}

static tdm_status take_place(options *out, const char *name, const char *text) {
  (void)name;
  out->place = text;
  return TDM_OK;
}

static tdm_status take_data_parallel(options *out, const char *name, const char *text) {
  (void)name;
  out->parallel = text;
  return TDM_OK;
}

static tdm_status take_load(options *out, const char *name, const char *text) {
  (void)name;
  out->load_path = text;
  return TDM_OK;
}

static tdm_status take_save(options *out, const char *name, const char *text) {
  out->save_path = text;
  return check_writable(name, text);
}

static tdm_status take_dot(options *out, const char *name, const char *text) {
  out->dot_path = text;
  return check_writable(name, text);
}

static tdm_status take_dump(options *out, const char *name, const char *text) {
  out->dump_path = text;
  return check_writable(name, text);
}

static tdm_status take_trace(options *out, const char *name, const char *text) {
  out->trace_path = text;
  return check_writable(name, text);
}

static tdm_status take_explain(options *out, const char *name, const char *text) {
  (void)name, (void)text;
  out->explain = true;
  return TDM_OK;
}

static tdm_status take_help(options *out, const char *name, const char *text) {
  (void)name, (void)text;
  out->help = true;
  return TDM_OK;
}

static const option table[] = {
    {"--words", "LANGUAGE=FILE",
     "a list of words, one a line; repeated: one a language (default: "
     "eight of Debian's lists)",
     take_words},
    {"--words-per-language", "N", "how many words of each list, drawn by seed; 0: all (20000)",
     take_words_per_language},
    {"--epochs", "N", "how often training sees every word; 0: only evaluate (4)", take_epochs},
    {"--batch", "N", "words in one training step, all of one length (256)", take_batch},
    {"--micro-batches", "N|auto", "parts of a step that devices work on in turn, up to 16 (1)",
     take_micro_batches},
    {"--learning-rate", "R", "of the first step; falls to 0 at the last (0.004)",
     take_learning_rate},
    {"--seed", "N", "of the draw of words, initial values and their order (1)", take_seed},
    {"--place", "MAP", "devices of layers, as embedding=cpu:0,*=sim:0 or *=cpu:0", take_place},
    {"--data-parallel", "LIST", "recurrent and linear layer over devices, as cpu:0,cpu:1",
     take_data_parallel},
    {"--load", "FILE", "start from a saved model; with --predict: only answer", take_load},
    {"--save", "FILE", "write the trained model, as safetensors", take_save},
    {"--explain", NULL, "print the plan of a training step with every transfer", take_explain},
    {"--dot", "FILE", "write that plan for graphviz", take_dot},
    {"--trace", "FILE", "write a timeline of the last steps for Perfetto, and what bounds them",
     take_trace},
    {"--dump-data", "FILE", "write the words as tensors, and train nothing", take_dump},
    {"--help", NULL, "print this", take_help},
};
enum { OPTION_COUNT = sizeof table / sizeof *table };

void options_print_help(void) {
  puts("distributed_model: tells the language of a word. An embedding on cpu:0, a recurrent and a\n"
       "linear layer on the accelerator (a GPU, or a simulated one), trained on real words.\n");
  printf("  %-32s %s\n", "--predict WORD...", "ask the model about these words");
  for (int i = 0; i < OPTION_COUNT; i++) {
    char left[64];
    snprintf(left, sizeof left, "%s %s", table[i].name, table[i].value ? table[i].value : "");
    printf("  %-32s %s\n", left, table[i].help);
  }
}

/* --predict takes every word up to the next option; returns how many. */
static tdm_status take_predict(options *out, char **words, int *out_taken) {
  int count = 0;
  while (words[count] && strncmp(words[count], "--", 2) != 0)
    count++;
  if (count == 0) return tdm_fail(TDM_INVALID_ARGUMENT, "--predict takes words, and got none");
  if (out->predict) return tdm_fail(TDM_INVALID_ARGUMENT, "--predict is given twice");
  out->predict = words;
  out->predict_count = count;
  *out_taken = count;
  return TDM_OK;
}

/* Takes the option at arguments[0] with its value. */
static tdm_status take_option(options *out, char **arguments, int *out_taken) {
  const char *name = arguments[0];
  for (int i = 0; i < OPTION_COUNT; i++) {
    if (strcmp(name, table[i].name) != 0) continue;
    if (table[i].value && !arguments[1])
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s needs %s", name, table[i].value);
    *out_taken = table[i].value ? 1 : 0;
    return table[i].take(out, name, arguments[1]);
  }
  return tdm_fail(TDM_INVALID_ARGUMENT, "there is no option \"%s\"; --help tells them", name);
}

tdm_status options_read(int argc, char **argv, options *out_options) {
  *out_options = (options){
      .epochs = 4,
      .batch_size = 256,
      .words_per_language = 20000,
      .seed = 1,
      .learning_rate = 0.004,
  };
  for (int i = 1; i < argc; i++) {
    int taken = 0;
    const tdm_status status = strcmp(argv[i], "--predict") == 0
                                  ? take_predict(out_options, argv + i + 1, &taken)
                                  : take_option(out_options, argv + i, &taken);
    if (status != TDM_OK) return status;
    i += taken;
  }
  if (out_options->list_count == 0) {
    memcpy(out_options->lists, default_lists, sizeof default_lists);
    out_options->list_count = sizeof default_lists / sizeof *default_lists;
  }
  if (out_options->list_count == 1)
    return tdm_fail(TDM_INVALID_ARGUMENT, "--words: one language leaves nothing to tell apart");
  return TDM_OK;
}
