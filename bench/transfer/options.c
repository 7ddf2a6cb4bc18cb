/* The table of options, and what takes the values that are more than a number or a path. */
#include "bench/transfer/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "tools/draw/draw.h"
#include "tools/options/command_line.h"

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

tdm_status read_word(const char *name, char **behind, const char **out_text) {
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

static tdm_status take_plot(void *given, const char *name, char **behind, int *out_taken) {
  transfer_options *out = given;
  (void)out_taken;
  TDM_TRY(read_word(name, behind, &out->plot_path));
  TDM_TRY(plot_check_path(name, out->plot_path));
  return check_writable(name, out->plot_path);
}

/* Takes the name of a file for results, which ends with .json or .csv. */
static tdm_status take_save(void *given, const char *name, char **behind, int *out_taken) {
  transfer_options *out = given;
  const char *path;
  (void)out_taken;
  TDM_TRY(read_word(name, behind, &path));
  const char *end = strrchr(path, '.');
  const bool is_json = end && strcmp(end, ".json") == 0;
  if (!is_json && !(end && strcmp(end, ".csv") == 0))
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s takes FILE.json or FILE.csv, not \"%s\"", name, path);
  *(is_json ? &out->json_path : &out->csv_path) = path;
  return check_writable(name, path);
}

#define FIELD(name) offsetof(transfer_options, name)
static const option rows[] = {
    {"--case", "LIST", "only these cases, such as host_to_device,device_to_host (see --list)",
     OPTION_TEXT, FIELD(cases), 0, 0, 0, NULL},
    {"--device", "LIST", "only copies between these devices, such as cpu:0,sim:0", OPTION_TEXT,
     FIELD(devices), 0, 0, 0, NULL},
    {"--memory", "LIST", "only these kinds of memory: pageable, pinned, registered", OPTION_TAKEN,
     0, 0, 0, 0, take_memories},
    {"--sizes", "LIST", "bytes per copy, such as 1K,64K,16M (11 sizes from 1K to 512M)",
     OPTION_TAKEN, 0, 0, 0, 0, take_sizes},
    {"--samples", "N", "samples per figure, at least 3 (25 up to 1 MiB, 5 up to 64 MiB, then 3)",
     OPTION_INTEGER, FIELD(samples), 3, 1000, 0, NULL},
    {"--json", NULL, "print all figures as JSON at the end instead of tables", OPTION_FLAG,
     FIELD(json), 0, 0, 0, NULL},
    {"--save", "FILE",
     "write figures to FILE.json or FILE.csv as they are measured; may be repeated", OPTION_TAKEN,
     0, 0, 0, 0, take_save},
    {"--plot", "FILE", "plot bandwidth over size to FILE.svg or FILE.png (requires gnuplot)",
     OPTION_TAKEN, 0, 0, 0, 0, take_plot},
    {"--list", NULL, "list all cases without measuring", OPTION_FLAG, FIELD(lists), 0, 0, 0, NULL},
};
static const transfer_options defaults = {.samples = 0};
const option_table transfer_table = {
    .program = "tandem bench transfer",
    .about =
        "What copies between the devices of this machine cost, by way of the library's queues:\n"
        "each case is a table on stdout as soon as it is measured. Contents are compared\n"
        "afterwards, and a plain loop of memcpy is measured beside them.",
    OPTION_DEFAULTS(defaults),
    OPTION_ROWS(rows),
    .below = &tool_table,
};

void transfer_options_complete(transfer_options *given) {
  if (given->size_count > 0) return;
  given->size_count = TDM_COUNT_OF(DEFAULT_SIZES);
  memcpy(given->sizes, DEFAULT_SIZES, sizeof DEFAULT_SIZES);
}
