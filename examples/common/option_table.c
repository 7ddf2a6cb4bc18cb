/* Reads and prints tables of options. Invariant: the example's own rows come before the common
 * ones, so it may have one of the same name that does something else. */
#include "examples/common/option_table.h"

#include <stdio.h>
#include <string.h>

#include "examples/common/command_line.h"
#include "examples/common/common_options.h"

static void *field_of(void *options, size_t offset) {
  return (char *)options + offset;
}

static tdm_status take_value(const option *row, void *options, char **words, int *out_taken) {
  void *field = field_of(options, row->field);
  switch (row->kind) {
  case OPTION_FLAG:
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
  }
  return tdm_fail(TDM_INTERNAL, "%s is of no kind", row->name);
}

static const option *find_row(const option_table *table, const char *name) {
  for (size_t i = 0; i < table->row_count; i++)
    if (strcmp(table->rows[i].name, name) == 0) return &table->rows[i];
  for (size_t i = 0; i < COMMON_ROW_COUNT; i++)
    if (strcmp(common_rows[i].name, name) == 0) return &common_rows[i];
  return NULL;
}

/* Takes the option at arguments[0] with what belongs to it. */
static tdm_status take_option(const option_table *table, void *options, char **arguments,
                              int *out_taken) {
  const option *row = find_row(table, arguments[0]);
  if (!row)
    return tdm_fail(TDM_INVALID_ARGUMENT, "there is no option \"%s\"; --help tells them",
                    arguments[0]);
  *out_taken = row->value ? 1 : 0;
  if (row->value && !arguments[1] && row->kind != OPTION_TAKEN)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s needs %s", row->name, row->value);
  if (row->given) *(bool *)field_of(options, row->given) = true;
  return take_value(row, options, arguments + 1, out_taken);
}

tdm_status option_table_read(const option_table *table, int argc, char **argv, void *options) {
  memcpy(options, table->defaults, table->options_bytes);
  for (int i = 1; i < argc; i++) {
    int taken = 0;
    const tdm_status status = take_option(table, options, argv + i, &taken);
    if (status != TDM_OK) return status;
    i += taken;
  }
  return TDM_OK;
}

static void print_default(const option *row, const void *defaults) {
  const char *field = (const char *)defaults + row->field;
  if (row->kind == OPTION_INTEGER)
    printf(" (%lld)", (long long)*(const int64_t *)(const void *)field);
  if (row->kind == OPTION_REAL) printf(" (%g)", *(const double *)(const void *)field);
  const char *text = row->kind == OPTION_TEXT ? *(const char *const *)(const void *)field : NULL;
  if (text) printf(" (%s)", text);
}

static void print_row(const option_table *table, const option *row) {
  const char *help = row->help;
  for (size_t i = 0; i < table->help_count; i++)
    if (strcmp(table->helps[i].name, row->name) == 0) help = table->helps[i].help;
  char left[64];
  snprintf(left, sizeof left, "%s %s", row->name, row->value ? row->value : "");
  printf("  %-26s %s", left, help);
  print_default(row, table->defaults);
  putchar('\n');
}

void option_table_print_help(const option_table *table) {
  printf("%s: %s\n\n", table->program, table->about);
  for (size_t i = 0; i < table->row_count; i++)
    print_row(table, &table->rows[i]);
  for (size_t i = 0; i < COMMON_ROW_COUNT; i++)
    if (find_row(table, common_rows[i].name) == &common_rows[i]) print_row(table, &common_rows[i]);
}
