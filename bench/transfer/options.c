/* The table of options, and what takes the values that are more than a number or a path. */
#include "bench/transfer/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "tools/options/command_line.h"
#include "tools/options/option_table.h"

static const size_t DEFAULT_SIZES[] = {1u << 10,   4u << 10,   16u << 10, 64u << 10,
                                       256u << 10, 1u << 20,   4u << 20,  16u << 20,
                                       64u << 20,  256u << 20, 512u << 20};
static const size_t LARGEST_SIZE = (size_t)4 << 30;

/* ---- Lists and numbers ----------------------------------------------------------------------- */

bool list_next(const char **cursor, char *name, size_t capacity) {
  if (**cursor == '\0') return false;
  const size_t length = strcspn(*cursor, ",");
  const size_t kept = length < capacity ? length : capacity - 1;
  memcpy(name, *cursor, kept);
  name[kept] = '\0';
  *cursor += length;
  if (**cursor == ',') ++*cursor;
  return true;
}

bool list_has(const char *list, const char *name) {
  if (!list) return true;
  char item[64];
  while (list_next(&list, item, sizeof item))
    if (strcmp(item, name) == 0) return true;
  return false;
}

/* "4096", "64K", "1M", "512MiB", "1G". */
static tdm_status read_bytes(const char *name, const char *text, size_t *out_bytes) {
  char *end = NULL;
  errno = 0;
  const unsigned long long number = strtoull(text, &end, 10);
  size_t unit = 1;
  const char *const letters = "KMG";
  const char *letter = *end != '\0' ? strchr(letters, *end) : NULL;
  if (letter) unit = (size_t)1 << (10 * (letter - letters + 1));
  const char *rest = letter ? end + 1 : end;
  const bool ends = *rest == '\0' || (letter && strcmp(rest, "iB") == 0);
  if (text[0] < '0' || text[0] > '9' || errno != 0 || !ends || number == 0 ||
      number > LARGEST_SIZE / unit)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "%s takes sizes from 1 to 4G, as 1024,64K,16M; \"%s\" is none", name, text);
  *out_bytes = (size_t)number * unit;
  return TDM_OK;
}

/* ---- Options --------------------------------------------------------------------------------- */

/* The word behind an option, in *out_text. */
static tdm_status read_word(const char *name, char **behind, const char **out_text) {
  *out_text = behind[0];
  if (*out_text && **out_text) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s takes a value, and got nothing", name);
}

static tdm_status take_sizes(void *given, const char *name, char **behind, int *out_taken) {
  transfer_options *out = given;
  const char *text;
  (void)out_taken;
  TDM_TRY(read_word(name, behind, &text));
  char item[64];
  out->size_count = 0;
  while (list_next(&text, item, sizeof item)) {
    if (out->size_count == MOST_SIZES)
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s takes at most %d sizes", name, MOST_SIZES);
    TDM_TRY(read_bytes(name, item, &out->sizes[out->size_count]));
    out->size_count++;
  }
  if (out->size_count == 0) return tdm_fail(TDM_INVALID_ARGUMENT, "%s lists no size", name);
  return TDM_OK;
}

static tdm_status take_memories(void *given, const char *name, char **behind, int *out_taken) {
  transfer_options *out = given;
  const char *cursor;
  (void)out_taken;
  TDM_TRY(read_word(name, behind, &cursor));
  out->memories = cursor;
  char item[32];
  while (list_next(&cursor, item, sizeof item))
    if (!list_has("pageable,pinned,registered", item))
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "%s: there is no memory \"%s\"; there are pageable, pinned and registered",
                      name, item);
  return TDM_OK;
}

static bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text);
  return length > strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

static tdm_status take_plot(void *given, const char *name, char **behind, int *out_taken) {
  transfer_options *out = given;
  (void)out_taken;
  TDM_TRY(read_word(name, behind, &out->plot_path));
  if (!ends_with(out->plot_path, ".svg") && !ends_with(out->plot_path, ".png"))
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s takes FILE.svg or FILE.png, not \"%s\"", name,
                    out->plot_path);
  return TDM_OK;
}

static tdm_status take_words(void *given, const char *name, char **behind, int *out_taken) {
  transfer_options *out = given;
  (void)out_taken;
  if (out->list_count == MOST_LISTS)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s: at most %d languages", name, MOST_LISTS);
  return read_word(name, behind, &out->lists[out->list_count++]);
}

static tdm_status take_accelerator(void *given, const char *name, char **behind, int *out_taken) {
  transfer_options *out = given;
  const char *text;
  (void)out_taken;
  TDM_TRY(read_word(name, behind, &text));
  if (strlen(text) > 32 || strcspn(text, ",=") != strlen(text))
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s: \"%s\" is no device", name, text);
  out->accelerator = text;
  return TDM_OK;
}

#define FIELD(name) offsetof(transfer_options, name)
static const option rows[] = {
    {"--case", "LIST", "only these cases, as host_to_device,device_to_host", OPTION_TEXT,
     FIELD(cases), 0, 0, 0, NULL},
    {"--device", "LIST", "only copies between these devices, as cpu:0,sim:0", OPTION_TEXT,
     FIELD(devices), 0, 0, 0, NULL},
    {"--memory", "LIST", "only these of pageable, pinned, registered", OPTION_TAKEN, 0, 0, 0, 0,
     take_memories},
    {"--sizes", "LIST", "bytes of a copy, as 1K,64K,16M (11 sizes from 1K to 512M)", OPTION_TAKEN,
     0, 0, 0, 0, take_sizes},
    {"--samples", "N", "of each figure, at least 3 (25 up to 1 MiB, 5 up to 64 MiB, then 3)",
     OPTION_INTEGER, FIELD(samples), 3, 1000, 0, NULL},
    {"--json", "FILE", "write all figures as JSON; -: to standard output", OPTION_TEXT,
     FIELD(json_path), 0, 0, 0, NULL},
    {"--csv", "FILE", "write all figures as CSV; -: to standard output", OPTION_TEXT,
     FIELD(csv_path), 0, 0, 0, NULL},
    {"--plot", "FILE", "draw bandwidth over size, FILE.svg or FILE.png (needs gnuplot)",
     OPTION_TAKEN, 0, 0, 0, 0, take_plot},
    {"--model", NULL, "instead: transfers of two models, predicted and measured", OPTION_FLAG,
     FIELD(model), 0, 0, 0, NULL},
    {"--calibrate", NULL, "with --model: measure the links first, and keep them for predictions",
     OPTION_FLAG, FIELD(calibrate), 0, 0, 0, NULL},
    {"--words", "LANGUAGE=FILE", "with --model: a word list of the main model; repeated",
     OPTION_TAKEN, 0, 0, 0, 0, take_words},
    {"--accelerator", "DEVICE", "with --model: where the dense parts live (a GPU, else sim:0)",
     OPTION_TAKEN, 0, 0, 0, 0, take_accelerator},
    {"--table-rows", "N", "with --model: rows of the embedding model's table", OPTION_INTEGER,
     FIELD(table_rows), 1, 100000000, 0, NULL},
    {"--largest-batch", "N", "with --model: leave out larger batches than this", OPTION_INTEGER,
     FIELD(largest_batch), 16, INT32_MAX, 0, NULL},
    {"--steps", "N", "with --model: training steps measured of each model", OPTION_INTEGER,
     FIELD(steps), 1, 1000000, 0, NULL},
    {"--rounds", "N", "with --model: how often all is measured; medians are told", OPTION_INTEGER,
     FIELD(rounds), 1, 1000, 0, NULL},
    {"--help", NULL, "print this", OPTION_HELP, FIELD(help), 0, 0, 0, NULL},
};
static const transfer_options defaults = {
    .table_rows = 2000000, .largest_batch = INT32_MAX, .steps = 28, .rounds = 3};
static const option_table table = {
    .program = "transfer",
    .about = "What copies between the devices of this machine cost.",
    OPTION_DEFAULTS(defaults),
    OPTION_ROWS(rows),
};

void transfer_options_print_help(void) {
  option_table_print_help(&table, stdout);
}

static bool is_standard_output(const char *path) {
  return path && strcmp(path, "-") == 0;
}

/* What only some options together mean. */
static tdm_status check_together(const transfer_options *out) {
  if (is_standard_output(out->json_path) && is_standard_output(out->csv_path))
    return tdm_fail(TDM_INVALID_ARGUMENT, "--json and --csv cannot both write standard output");
  if (out->model && (out->plot_path || out->csv_path))
    return tdm_fail(TDM_INVALID_ARGUMENT, "--model writes a table or --json, no --csv or --plot");
  if (!out->model && out->calibrate)
    return tdm_fail(TDM_INVALID_ARGUMENT, "--calibrate goes with --model");
  if (!out->model && out->list_count > 0)
    return tdm_fail(TDM_INVALID_ARGUMENT, "--words goes with --model");
  return TDM_OK;
}

tdm_status transfer_options_read(int argc, char **argv, transfer_options *out_options) {
  TDM_TRY(enter_working_folder());
  TDM_TRY(option_table_read(&table, argc, argv, out_options));
  if (out_options->size_count == 0) {
    out_options->size_count = TDM_COUNT_OF(DEFAULT_SIZES);
    memcpy(out_options->sizes, DEFAULT_SIZES, sizeof DEFAULT_SIZES);
  }
  return out_options->help ? TDM_OK : check_together(out_options);
}
