/* The options that only distributed_model has. */
#include "examples/distributed_model/options.h"

#include <string.h>

#include "tools/options/command_line.h"

/* Folder of the word lists in Debian's packages. */
#define DICTIONARY "/usr/share/dict/"
static const word_list default_lists[] = {
    {"english", DICTIONARY "american-english"}, {"french", DICTIONARY "french"},
    {"german", DICTIONARY "ngerman"},           {"spanish", DICTIONARY "spanish"},
    {"italian", DICTIONARY "italian"},          {"dutch", DICTIONARY "dutch"},
    {"portuguese", DICTIONARY "portuguese"},    {"swedish", DICTIONARY "swedish"},
};

static tdm_status take_words(void *given, const char *name, char **words, int *out_taken) {
  options *out = given;
  (void)out_taken;
  const char *text = words[0];
  if (!text) return tdm_fail(TDM_INVALID_ARGUMENT, "%s needs LANGUAGE=FILE", name);
  const char *equals = strchr(text, '=');
  const size_t length = equals ? (size_t)(equals - text) : 0;
  if (length == 0 || length >= MAX_LANGUAGE_NAME || equals[1] == '\0')
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s takes LANGUAGE=FILE, not \"%s\"", name, text);
  if (out->list_count == MAX_LANGUAGES)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s: at most %d languages", name, MAX_LANGUAGES);
  char *language = out->names[out->list_count];
  memcpy(language, text, length);
  language[length] = '\0';
  out->lists[out->list_count++] = (word_list){language, equals + 1};
  return TDM_OK;
}

/* Takes every word up to the next option. */
static tdm_status take_predict(void *given, const char *name, char **words, int *out_taken) {
  options *out = given;
  int count = 0;
  while (words[count] && strncmp(words[count], "--", 2) != 0)
    count++;
  if (count == 0) return tdm_fail(TDM_INVALID_ARGUMENT, "%s takes words, and got none", name);
  if (out->predict) return tdm_fail(TDM_INVALID_ARGUMENT, "%s is given twice", name);
  out->predict = words;
  out->predict_count = count;
  *out_taken = count;
  return TDM_OK;
}

#define FIELD(name) offsetof(options, name)
static const option rows[] = {
    {"--predict", "WORD...", "print the language of these words", OPTION_TAKEN, 0, 0, 0, 0,
     take_predict},
    {"--words", "LANGUAGE=FILE",
     "word list of a language, one word per line; may be repeated (eight lists of Debian)",
     OPTION_TAKEN, 0, 0, 0, 0, take_words},
    {"--words-per-language", "N", "words of each list, selected by --seed; 0: all", OPTION_INTEGER,
     FIELD(words_per_language), 0, INT32_MAX, 0, NULL},
    {"--dump-data", "FILE", "write the words as tensors without training", OPTION_OUTPUT,
     FIELD(dump_path), 0, 0, 0, NULL},
};

static const option_help helps[] = {
    {"--epochs", "number of training epochs; 0: only evaluate"},
    {"--batch", "words per training step, all of one length"},
    {"--seed", "random seed of the selection and order of words and of initial values"},
    {"--place", "placement of layers, such as embedding=cpu:0,*=sim:0 or *=cpu:0"},
    {"--data-parallel",
     "run the recurrent and the linear layer data-parallel, such as cpu:0,cpu:1"},
    {"--load", "load a saved model; with --predict: skip training"},
    {"--save", "save the trained model as safetensors"},
};

static const options defaults = {
    .common = {.epochs = 4, .batch_size = 256, .seed = 1, .learning_rate = 0.004},
    .words_per_language = 20000,
};

const option_table options_table = {
    .program = "distributed_model",
    .about = "detects the language of a word. The embedding is on cpu:0, the recurrent and the\n"
             "linear layer are on the accelerator (a GPU or a simulated one).",
    EXAMPLE_TABLE_PARTS(defaults, rows, helps),
};

tdm_status options_complete(options *given) {
  if (given->list_count == 0) {
    memcpy(given->lists, default_lists, sizeof default_lists);
    given->list_count = sizeof default_lists / sizeof *default_lists;
  }
  if (given->list_count == 1)
    return tdm_fail(TDM_INVALID_ARGUMENT, "--words: one language leaves nothing to distinguish");
  return TDM_OK;
}

tdm_status options_read(int argc, char **argv, options *out_options) {
  const tdm_status status = option_table_read(&options_table, argc, argv, out_options);
  return status == TDM_OK ? options_complete(out_options) : status;
}
