/* Reads the command line: a table of options, each with the function that takes its value. The help
 * text and the parser both read that table. */
#include "bench/transfer/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"

typedef struct option {
  const char *name;
  const char *value; /* what follows it, as help calls it; NULL: nothing does */
  const char *help;
  tdm_status (*take)(transfer_options *out, const char *name, const char *text);
} option;

static const size_t DEFAULT_SIZES[] = {1u << 10,   4u << 10,   16u << 10, 64u << 10,
                                       256u << 10, 1u << 20,   4u << 20,  16u << 20,
                                       64u << 20,  256u << 20, 512u << 20};
static const size_t LARGEST_SIZE = (size_t)4 << 30;
enum { MOST_SAMPLES = 1000, DEFAULT_STEPS = 28, DEFAULT_ROUNDS = 3, SMALLEST_BATCH = 16 };
static const int64_t DEFAULT_TABLE_ROWS = 2000000;

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

static tdm_status read_whole(const char *name, const char *text, long long low, long long high,
                             long long *out_number) {
  char *end = NULL;
  errno = 0;
  *out_number = strtoll(text, &end, 10);
  if (end == text || *end != '\0' || errno != 0 || *out_number < low || *out_number > high)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s takes a whole number from %lld to %lld, not \"%s\"",
                    name, low, high, text);
  return TDM_OK;
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

static tdm_status take_sizes(transfer_options *out, const char *name, const char *text) {
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

static tdm_status take_samples(transfer_options *out, const char *name, const char *text) {
  long long number = 0;
  TDM_TRY(read_whole(name, text, 3, MOST_SAMPLES, &number));
  out->samples = (int)number;
  return TDM_OK;
}

static tdm_status take_devices(transfer_options *out, const char *name, const char *text) {
  (void)name;
  out->devices = text;
  return TDM_OK;
}

static tdm_status take_cases(transfer_options *out, const char *name, const char *text) {
  (void)name;
  out->cases = text;
  return TDM_OK;
}

static tdm_status take_memories(transfer_options *out, const char *name, const char *text) {
  const char *cursor = text;
  char item[32];
  while (list_next(&cursor, item, sizeof item))
    if (!list_has("pageable,pinned,registered", item))
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "%s: there is no memory \"%s\"; there are pageable, pinned and registered",
                      name, item);
  out->memories = text;
  return TDM_OK;
}

static tdm_status take_json(transfer_options *out, const char *name, const char *text) {
  (void)name;
  out->json_path = text;
  return TDM_OK;
}

static tdm_status take_csv(transfer_options *out, const char *name, const char *text) {
  (void)name;
  out->csv_path = text;
  return TDM_OK;
}

static bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text);
  return length > strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

static tdm_status take_plot(transfer_options *out, const char *name, const char *text) {
  if (!ends_with(text, ".svg") && !ends_with(text, ".png"))
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s takes FILE.svg or FILE.png, not \"%s\"", name, text);
  out->plot_path = text;
  return TDM_OK;
}

static tdm_status take_model(transfer_options *out, const char *name, const char *text) {
  (void)name, (void)text;
  out->model = true;
  return TDM_OK;
}

static tdm_status take_calibrate(transfer_options *out, const char *name, const char *text) {
  (void)name, (void)text;
  out->calibrate = true;
  return TDM_OK;
}

static tdm_status take_words(transfer_options *out, const char *name, const char *text) {
  if (out->list_count == MOST_LISTS)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s: at most %d languages", name, MOST_LISTS);
  out->lists[out->list_count++] = text;
  return TDM_OK;
}

static tdm_status take_accelerator(transfer_options *out, const char *name, const char *text) {
  if (strlen(text) > 32 || strcspn(text, ",=") != strlen(text))
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s: \"%s\" is no device", name, text);
  out->accelerator = text;
  return TDM_OK;
}

static tdm_status take_table_rows(transfer_options *out, const char *name, const char *text) {
  long long number = 0;
  TDM_TRY(read_whole(name, text, 1, 100000000, &number));
  out->table_rows = number;
  return TDM_OK;
}

static tdm_status take_largest_batch(transfer_options *out, const char *name, const char *text) {
  long long number = 0;
  TDM_TRY(read_whole(name, text, SMALLEST_BATCH, INT32_MAX, &number));
  out->largest_batch = number;
  return TDM_OK;
}

static tdm_status take_steps(transfer_options *out, const char *name, const char *text) {
  long long number = 0;
  TDM_TRY(read_whole(name, text, 1, 1000000, &number));
  out->steps = (int)number;
  return TDM_OK;
}

static tdm_status take_rounds(transfer_options *out, const char *name, const char *text) {
  long long number = 0;
  TDM_TRY(read_whole(name, text, 1, 1000, &number));
  out->rounds = (int)number;
  return TDM_OK;
}

static tdm_status take_help(transfer_options *out, const char *name, const char *text) {
  (void)name, (void)text;
  out->help = true;
  return TDM_OK;
}

static const option table[] = {
    {"--case", "LIST", "only these cases, as host_to_device,device_to_host", take_cases},
    {"--device", "LIST", "only copies between these devices, as cpu:0,sim:0", take_devices},
    {"--memory", "LIST", "only these of pageable, pinned, registered", take_memories},
    {"--sizes", "LIST", "bytes of a copy, as 1K,64K,16M (11 sizes from 1K to 512M)", take_sizes},
    {"--samples", "N", "of each figure, at least 3 (25 up to 1 MiB, 5 up to 64 MiB, then 3)",
     take_samples},
    {"--json", "FILE", "write all figures as JSON; -: to standard output", take_json},
    {"--csv", "FILE", "write all figures as CSV; -: to standard output", take_csv},
    {"--plot", "FILE", "draw bandwidth over size, FILE.svg or FILE.png (needs gnuplot)", take_plot},
    {"--model", NULL, "instead: transfers of two models, predicted and measured", take_model},
    {"--calibrate", NULL, "with --model: measure the links first, and keep them for predictions",
     take_calibrate},
    {"--words", "LANGUAGE=FILE", "with --model: a word list of the main model; repeated",
     take_words},
    {"--accelerator", "DEVICE", "with --model: where the dense parts live (a GPU, else sim:0)",
     take_accelerator},
    {"--table-rows", "N", "with --model: rows of the embedding model's table (2000000)",
     take_table_rows},
    {"--largest-batch", "N", "with --model: leave out larger batches than this (4096)",
     take_largest_batch},
    {"--steps", "N", "with --model: training steps measured of each model (28)", take_steps},
    {"--rounds", "N", "with --model: how often all is measured; medians are told (3)", take_rounds},
    {"--help", NULL, "print this", take_help},
};

void transfer_options_print_help(void) {
  puts("transfer: what copies between the devices of this machine cost.\n");
  for (size_t i = 0; i < TDM_COUNT_OF(table); i++) {
    char left[64];
    snprintf(left, sizeof left, "%s %s", table[i].name, table[i].value ? table[i].value : "");
    printf("  %-24s %s\n", left, table[i].help);
  }
}

static const option *find_option(const char *name) {
  for (size_t i = 0; i < TDM_COUNT_OF(table); i++)
    if (strcmp(table[i].name, name) == 0) return &table[i];
  return NULL;
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
  *out_options = (transfer_options){.size_count = TDM_COUNT_OF(DEFAULT_SIZES),
                                    .table_rows = DEFAULT_TABLE_ROWS,
                                    .largest_batch = INT32_MAX,
                                    .steps = DEFAULT_STEPS,
                                    .rounds = DEFAULT_ROUNDS};
  memcpy(out_options->sizes, DEFAULT_SIZES, sizeof DEFAULT_SIZES);
  for (int i = 1; i < argc; i++) {
    const option *found = find_option(argv[i]);
    if (!found)
      return tdm_fail(TDM_INVALID_ARGUMENT, "there is no %s; --help lists what there is", argv[i]);
    const char *text = NULL;
    if (found->value) {
      if (i + 1 == argc)
        return tdm_fail(TDM_INVALID_ARGUMENT, "%s takes %s, and got nothing", argv[i],
                        found->value);
      text = argv[++i];
      if (text[0] == '\0')
        return tdm_fail(TDM_INVALID_ARGUMENT, "%s takes %s, and got nothing", found->name,
                        found->value);
    }
    TDM_TRY(found->take(out_options, found->name, text));
  }
  return check_together(out_options);
}
