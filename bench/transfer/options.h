/* The command line of `tandem bench transfer`, whose table //bench:transfer extends.
 * Invariant: strings point into argv; nothing to free. */
#ifndef BENCH_TRANSFER_OPTIONS_H
#define BENCH_TRANSFER_OPTIONS_H

#include "tools/tool.h"

enum { MOST_SIZES = 64 };

typedef struct transfer_options {
  tool_options common;
  size_t sizes[MOST_SIZES]; /* bytes, in the order given (size_count) */
  size_t size_count;
  int64_t samples;     /* 0: by size */
  const char *devices; /* comma lists, checked against what there is; NULL: all */
  const char *cases;
  const char *memories;
  const char *json_path; /* each path is NULL if not requested */
  const char *csv_path;
  const char *plot_path;
  bool json;  /* prints JSON on stdout instead of tables */
  bool lists; /* prints the available cases and measures nothing */
} transfer_options;

extern const option_table transfer_table;

/* Sets the defaults after the table is read: the measured sizes, unless some were given. */
void transfer_options_complete(transfer_options *given);
/* Returns true if name is in the comma separated list. NULL contains every name. */
bool list_has(const char *list, const char *name);
/* Takes the next name of *cursor into name (capacity); false at the end. */
bool list_next(const char **cursor, char *name, size_t capacity);
/* Sets *out_text to the word after an option; for rows of kind TAKEN. INVALID_ARGUMENT if there is
 * none. */
tdm_status read_word(const char *name, char **behind, const char **out_text) TDM_WARN_UNUSED;

#endif
