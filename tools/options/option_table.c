/* Reads and prints tables of options. Invariant: a table's own rows come before those of the table
 * below it, so it may have one of the same name that does something else. */
#include "tools/options/option_table.h"

#include <string.h>

#include "tools/options/command_line.h"

enum { LEFT_TEXT = 64, RIGHT_TEXT = 512 };

static void *field_of(void *options, size_t offset) {
  return (char *)options + offset;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static tdm_status take_value(const option *row, void *options, char **words, int *out_taken) {
  void *field = field_of(options, row->field);
  switch (row->kind) {
  case OPTION_FLAG:
  case OPTION_HELP:
    *(bool *)field = true;
    return TDM_OK;
  case OPTION_TEXT:
    *(const char **)field = words[0];
    return TDM_OK;
  case OPTION_OUTPUT:
    *(const char **)field = words[0];
    return check_writable(row->name, words[0]);
  case OPTION_INTEGER:
    return read_integer(row->name, words[0], row->low, row->high, field);
  case OPTION_REAL:
    return read_positive_real(row->name, words[0], field);
  case OPTION_TAKEN:
    return row->take(options, row->name, words, out_taken);
  case OPTION_REST:
    *(char ***)field = words;
    return TDM_OK;
  }
  return tdm_fail(TDM_INTERNAL, "%s is of no kind", row->name);
}

/* Finds a row of the table or of those below it; *options is set to the row's struct. */
static const option *find_row(const option_table *table, const char *name, void **options) {
  size_t offset = 0;
  for (; table; table = table->below) {
    for (size_t i = 0; i < table->row_count; i++) {
      if (strcmp(table->rows[i].name, name) != 0) continue;
      if (options) *options = field_of(*options, offset);
      return &table->rows[i];
    }
    offset += table->below_offset;
  }
  return NULL;
}

/* Takes the option at arguments[0] with what belongs to it. */
static tdm_status take_option(const option *row, void *options, char **arguments, int *out_taken) {
  *out_taken = row->value ? 1 : 0;
  if (row->value && !arguments[1] && row->kind != OPTION_TAKEN)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s needs %s", row->name, row->value);
  if (row->given) *(bool *)field_of(options, row->given) = true;
  return take_value(row, options, arguments + 1, out_taken);
}

static void copy_defaults(const option_table *table, void *options) {
  for (; table; table = table->below) {
    if (table->defaults) memcpy(options, table->defaults, table->options_bytes);
    options = field_of(options, table->below_offset);
  }
}

/* Reads a word that is no option; *out_ends: nothing after it is read. */
static tdm_status take_operand(const option_table *table, void *options, char **words,
                               bool is_second, bool *out_ends) {
  const option *operand = table->operand;
  if (!operand || is_second)
    return tdm_fail(TDM_INVALID_ARGUMENT, "there is no option \"%s\"; --help lists them", words[0]);
  int taken;
  *out_ends = operand->kind == OPTION_REST;
  return take_value(operand, options, words, &taken);
}

tdm_status option_table_read(const option_table *table, int argc, char **argv, void *options) {
  copy_defaults(table, options);
  bool has_operand = false;
  for (int i = 1; i < argc; i++) {
    int taken = 0;
    bool ends = false;
    void *of = options;
    const bool is_apart = table->operand && !has_operand && i + 1 < argc && !strcmp(argv[i], "--");
    if (is_apart) i++;
    const option *row = is_apart ? NULL : find_row(table, argv[i], &of);
    tdm_status status = TDM_OK;
    if (row) {
      status = take_option(row, of, argv + i, &taken);
      if (status == TDM_OK && row->kind == OPTION_HELP) return TDM_OK;
    } else {
      const bool is_option = !is_apart && argv[i][0] == '-' && argv[i][1];
      status = take_operand(table, options, argv + i, has_operand || is_option, &ends);
      has_operand = true;
    }
    if (status != TDM_OK || ends) return status;
    i += taken;
  }
  if (table->operand && !has_operand)
    return tdm_fail(TDM_INVALID_ARGUMENT, "missing %s; see --help", table->operand->name);
  return table->check ? table->check(options) : TDM_OK;
}

/* ---- Telling --------------------------------------------------------------------------------- */

/* Prints the default after the help text. */
static void default_text(const option *row, const void *defaults, char *text, size_t capacity) {
  text[0] = '\0';
  if (!defaults) return;
  const void *field = (const char *)defaults + row->field;
  if (row->kind == OPTION_INTEGER) {
    const int64_t number = *(const int64_t *)field;
    if (number >= row->low && number <= row->high)
      (void)snprintf(text, capacity, " (%lld)", (long long)number);
  } else if (row->kind == OPTION_REAL) {
    (void)snprintf(text, capacity, " (%g)", *(const double *)field);
  } else if (row->kind == OPTION_TEXT && *(const char *const *)field) {
    (void)snprintf(text, capacity, " (%s)", *(const char *const *)field);
  }
}

/* The text by which a table from the first down to the row's own replaces the row's; else the
 * row's.
 */
static const char *help_of(const option_table *first, const option_table *own, const option *row) {
  for (const option_table *table = first; table; table = table->below) {
    for (size_t i = 0; i < table->help_count; i++)
      if (strcmp(table->helps[i].name, row->name) == 0) return table->helps[i].help;
    if (table == own) break;
  }
  return row->help;
}

/* Returns true if a help text contains the default. */
static bool states_default(const char *help) {
  const size_t length = strlen(help);
  return length > 0 && help[length - 1] == ')';
}

void option_table_each(const option_table *table,
                       void (*tell)(void *user, const option *row, const char *left,
                                    const char *right),
                       void *user) {
  const char *defaults = table->defaults;
  for (const option_table *own = table; own; own = own->below) {
    if (own->defaults) defaults = own->defaults;
    for (size_t i = 0; i < own->row_count; i++) {
      const option *row = &own->rows[i];
      if (!row->help || find_row(table, row->name, NULL) != row) continue;
      char left[LEFT_TEXT], right[RIGHT_TEXT], normal[LEFT_TEXT];
      (void)snprintf(left, sizeof left, "%s%s%s", row->name, row->value ? " " : "",
                     row->value ? row->value : "");
      const char *help = help_of(table, own, row);
      default_text(row, defaults, normal, sizeof normal);
      (void)snprintf(right, sizeof right, "%s%s", help,
                     help != row->help && states_default(help) ? "" : normal);
      tell(user, row, left, right);
    }
    if (defaults) defaults += own->below_offset;
  }
}

const char *option_table_usage(const option_table *table, char text[OPTION_USAGE_TEXT]) {
  (void)snprintf(text, OPTION_USAGE_TEXT, "%s [OPTION...]%s%s", table->program,
                 table->operand ? " " : "", table->operand ? table->operand->name : "");
  return text;
}

static void print_row(void *user, const option *row, const char *left, const char *right) {
  (void)row;
  fprintf(user, "  %-26s %s\n", left, right);
}

void option_table_print_help(const option_table *table, FILE *out) {
  char usage[OPTION_USAGE_TEXT];
  fprintf(out, "Usage: %s\n\n%s\n\nOptions:\n", option_table_usage(table, usage), table->about);
  option_table_each(table, print_row, out);
}
