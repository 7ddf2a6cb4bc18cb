/* Command lines read from tables of options, a row an option, which say where a value goes; help
 * reads the same rows. The rows of common_options.h are in every table. Invariant: strings of the
 * filled struct point into argv; nothing to free. */
#ifndef EXAMPLES_COMMON_OPTION_TABLE_H
#define EXAMPLES_COMMON_OPTION_TABLE_H

#include <stddef.h>

#include <tandem/tandem.h>

typedef enum option_kind {
  OPTION_FLAG,    /* bool: set, nothing follows */
  OPTION_TEXT,    /* const char * */
  OPTION_OUTPUT,  /* const char *: a file that can be written */
  OPTION_INTEGER, /* int64_t, from low to high */
  OPTION_REAL,    /* double above 0 */
  OPTION_TAKEN,   /* take reads the words behind it */
} option_kind;

typedef struct option {
  const char *name;  /* "--epochs" */
  const char *value; /* what follows it, as help calls it; NULL: nothing does */
  const char *help;  /* a default that is not nothing is printed behind it */
  option_kind kind;
  size_t field; /* offset in the options */
  int64_t low;
  int64_t high;
  size_t given; /* offset of a bool, set where the option is given; 0: nobody asks */
  /* words are what follows, ended by NULL; *out_taken, 1, is how many of them belong to it. */
  tdm_status (*take)(void *options, const char *name, char **words, int *out_taken);
} option;

/* Another help text for one of the common rows: which layers are placed, what a batch is of. */
typedef struct option_help {
  const char *name;
  const char *help;
} option_help;

typedef struct option_table {
  const char *program;
  const char *about;    /* some lines for help */
  const void *defaults; /* an options struct, of so many bytes, that begins with common_options */
  size_t options_bytes;
  const option *rows; /* the example's own */
  size_t row_count;
  const option_help *helps;
  size_t help_count;
} option_table;

/* All of a table but its first two fields, from an options struct and two arrays. */
#define OPTION_TABLE_PARTS(defaults_, rows_, helps_)                                               \
  .defaults = &(defaults_), .options_bytes = sizeof(defaults_), .rows = (rows_),                   \
  .row_count = sizeof(rows_) / sizeof *(rows_), .helps = (helps_),                                 \
  .help_count = sizeof(helps_) / sizeof *(helps_)

/* Fills options, defaults where there is no argument. Fails naming the argument. */
tdm_status option_table_read(const option_table *table, int argc, char **argv, void *options);
void option_table_print_help(const option_table *table);

#endif
