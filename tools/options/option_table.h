/* Command lines that are read by tables of options. A row describes one option and the field for
 * its value. Help, man pages and completion use the same rows. A table may extend another one.
 * Invariant: strings of the filled struct point into argv; nothing to free. */
#ifndef TOOLS_OPTIONS_OPTION_TABLE_H
#define TOOLS_OPTIONS_OPTION_TABLE_H

#include <stddef.h>
#include <stdio.h>

#include <tandem/tandem.h>

typedef enum option_kind {
  OPTION_FLAG,    /* bool: set, nothing follows */
  OPTION_TEXT,    /* const char * */
  OPTION_OUTPUT,  /* const char *: a file that can be written */
  OPTION_INTEGER, /* int64_t, from low to high */
  OPTION_REAL,    /* double above 0 */
  OPTION_TAKEN,   /* take reads the words after it */
  OPTION_HELP,    /* bool: set, and nothing else is read */
  OPTION_REST,    /* char **: an operand, this word and all after it, ended by NULL */
} option_kind;

typedef struct option {
  const char *name;  /* "--epochs" */
  const char *value; /* name of the option's value in the help; NULL: it takes none */
  const char *help;  /* a legal default that is not empty is printed after it; NULL: another
                        spelling, which help does not list */
  option_kind kind;
  size_t field; /* offset in the options */
  int64_t low;
  int64_t high;
  size_t given; /* offset of a bool that is set if the option is given; 0: none */
  /* words are what follows, ended by NULL; *out_taken, 1, is how many of them belong to it. */
  tdm_status (*take)(void *options, const char *name, char **words, int *out_taken);
} option;

/* Another help text for a row of the table below: which layers are placed, what a batch is of. */
typedef struct option_help {
  const char *name;
  const char *help; /* "... (DEFAULT)": the default is not appended to it */
} option_help;

typedef struct option_table option_table;
struct option_table {
  const char *program;
  const char *about;    /* some lines for help */
  const void *defaults; /* options struct with the defaults; NULL: those above */
  size_t options_bytes;
  const option *rows;
  size_t row_count;
  const option_help *helps;
  size_t help_count;
  const option *operand; /* a word that is no option, of kind TEXT or REST; it must be there.
                            NULL: there is none */
  /* The table whose rows follow, except rows with a name that exists already. */
  const option_table *below;
  size_t below_offset; /* offset of its options in the options of this table */
  /* Checks options that exclude each other after all are read; NULL: none do. */
  tdm_status (*check)(const void *options);
};

/* The rows of a table, from an array. */
#define OPTION_ROWS(rows_) .rows = (rows_), .row_count = sizeof(rows_) / sizeof *(rows_)
#define OPTION_DEFAULTS(defaults_) .defaults = &(defaults_), .options_bytes = sizeof(defaults_)
#define OPTION_HELPS(helps_) .helps = (helps_), .help_count = sizeof(helps_) / sizeof *(helps_)

/* Fills options, defaults where there is no argument; argv[0] is passed over. Fails naming the
 * argument. */
tdm_status option_table_read(const option_table *table, int argc, char **argv, void *options);
/* How it is called, what it does, and a line an option. */
void option_table_print_help(const option_table *table, FILE *out);

/* The rows as help shows them, those below too, in their order. left: "--epochs N"; right: the
 * help text with the default. */
void option_table_each(const option_table *table,
                       void (*tell)(void *user, const option *row, const char *left,
                                    const char *right),
                       void *user);
/* "fashion_cnn [OPTION...]", "tandem inspect [OPTION...] FILE"; text gets it. */
enum { OPTION_USAGE_TEXT = 128 };
const char *option_table_usage(const option_table *table, char text[OPTION_USAGE_TEXT]);

#endif
