/* See manual.h. */
#include "tools/manual/manual.h"

#include <ctype.h>
#include <string.h>

/* ---- The page, for man(7) -------------------------------------------------------------------- */

/* Prints text unchanged: a hyphen is a minus, so that options can be copied, and no line is a
 * request. Indented lines, which are tables, stay separate. */
static void print_text(const char *text, FILE *out) {
  bool begins = true;
  for (; *text; text++) {
    if (begins && (*text == '.' || *text == '\'')) fputs("\\&", out);
    if (begins && *text == ' ') fputs(".br\n", out);
    if (*text == '\\')
      fputs("\\e", out);
    else if (*text == '-')
      fputs("\\-", out);
    else
      fputc(*text, out);
    begins = *text == '\n';
  }
}

/* Prints text in upper case. */
static void print_upper(const char *text, FILE *out) {
  for (; *text; text++)
    fputc(toupper((unsigned char)*text), out);
}

static void print_row(void *user, const option *row, const char *left, const char *right) {
  (void)row;
  fputs(".TP\n.B ", user);
  print_text(left, user);
  fputs("\n", user);
  print_text(right, user);
  fputs("\n", user);
}

static void print_tool(const tool *self, FILE *out) {
  char usage[OPTION_USAGE_TEXT];
  fputs(".SH ", out);
  print_upper(self->name, out);
  fputs("\n.B ", out);
  print_text(option_table_usage(self->table, usage), out);
  fputs("\n.PP\n", out);
  print_text(self->table->about, out);
  fputs("\n", out);
  option_table_each(self->table, print_row, out);
}

void manual_print(const tool *const *tools, int tool_count, FILE *out) {
  fprintf(out,
          ".TH TANDEM 1 \"\" \"tandem %s\" \"User Commands\"\n"
          ".SH NAME\ntandem \\- inspect and measure models and devices of the Tandem library\n"
          ".SH SYNOPSIS\n.B tandem\n.I COMMAND\n[OPTION...]\n.SH COMMANDS\n",
          tdm_version());
  for (int i = 0; i < tool_count; i++) {
    fprintf(out, ".TP\n.B %s\n", tools[i]->name);
    print_text(tools[i]->about, out);
    fputs("\n", out);
  }
  for (int i = 0; i < tool_count; i++)
    print_tool(tools[i], out);
  fputs(".SH EXIT STATUS\n0 on success, 1 if the command failed, 2 on wrong usage.\n"
        "\\fBlaunch\\fR returns the exit status of the launcher.\n"
        ".SH ENVIRONMENT\n"
        "\\fBNO_COLOR\\fR disables colours. docs/environment.md lists the variables of the "
        "library.\n",
        out);
}

/* ---- Completion ------------------------------------------------------------------------------ */

static void print_word(void *user, const option *row, const char *left, const char *right) {
  (void)left;
  (void)right;
  fprintf(user, " %s", row->name);
}

static int first_length(const tool *self) {
  return (int)strcspn(self->name, " ");
}

/* Returns true if the previous tool has the same first word. */
static bool is_second_of_group(const tool *const *tools, int index) {
  const int length = first_length(tools[index]);
  return index > 0 && first_length(tools[index - 1]) == length &&
         strncmp(tools[index - 1]->name, tools[index]->name, (size_t)length) == 0;
}

/* First words, each once, or second ones of those that share their first with `like`. */
static void print_words(const tool *const *tools, int tool_count, const tool *like, FILE *out) {
  for (int i = 0; i < tool_count; i++) {
    const int length = first_length(tools[i]);
    if (!like && !is_second_of_group(tools, i)) fprintf(out, " %.*s", length, tools[i]->name);
    if (like && length == first_length(like) &&
        strncmp(tools[i]->name, like->name, (size_t)length) == 0)
      fprintf(out, " %s", tool_second_word(tools[i]));
  }
}

void completion_print(const tool *const *tools, int tool_count, FILE *out) {
  fputs("# bash completion of tandem\n"
        "_tandem() {\n"
        "  local word=${COMP_WORDS[COMP_CWORD]} words\n"
        "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
        "    words=\"--help --version",
        out);
  print_words(tools, tool_count, NULL, out);
  fputs("\"\n  else\n    case \"$COMP_CWORD ${COMP_WORDS[1]} ${COMP_WORDS[2]}\" in\n", out);
  for (int i = 0; i < tool_count; i++) {
    const char *second = tool_second_word(tools[i]);
    if (second && !is_second_of_group(tools, i)) {
      fprintf(out, "      \"2 %.*s \"*) words=\"--help", first_length(tools[i]), tools[i]->name);
      print_words(tools, tool_count, tools[i], out);
      fputs("\" ;;\n", out);
    }
    fprintf(out, "      *\" %s\"%s) words=\"", tools[i]->name, second ? "" : "*");
    option_table_each(tools[i]->table, print_word, out);
    fputs("\" ;;\n", out);
  }
  fputs("    esac\n  fi\n"
        "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
        "  if [ \"$COMP_CWORD\" -gt 1 ] && [ ${#COMPREPLY[@]} -eq 0 ]; then\n"
        "    mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
        "  fi\n"
        "}\n"
        "complete -o filenames -F _tandem tandem\n",
        out);
}
