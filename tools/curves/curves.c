/* See curves.h. gnuplot draws: losses above, scores below, a colour a file. */
#include "tools/curves/curves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_writer.h"
#include "tools/curves/curve_file.h"
#include "tools/draw/draw.h"
#include "tools/options/command_line.h"

enum { MOST_FILES = 16, WIDTH = 860, HEIGHT = 560 };

typedef struct options {
  tool_options common;
  char **paths; /* NULL ends them */
  const char *picture;
  bool json;
} options;

static tdm_status take_picture(void *given, const char *name, char **words, int *out_taken) {
  options *out = given;
  (void)out_taken;
  if (!words[0]) return tdm_fail(TDM_INVALID_ARGUMENT, "%s needs FILE", name);
  out->picture = words[0];
  TDM_TRY(plot_check_path(name, out->picture));
  return check_writable(name, out->picture);
}

#define FIELD(name) offsetof(options, name)
static const option rows[] = {
    {"--to", "FILE", "plot to FILE.svg or FILE.png (requires gnuplot)", OPTION_TAKEN, 0, 0, 0, 0,
     take_picture},
    {"--json", NULL, "print JSON", OPTION_FLAG, FIELD(json), 0, 0, 0, NULL},
};
static const option file_operand = {"FILE...", NULL, NULL, OPTION_REST, FIELD(paths),
                                    0,         0,    0,    NULL};
static const options defaults = {.paths = NULL};
static const option_table table = {
    .program = "tandem curves",
    .about =
        "Prints the last loss and score of each training run in FILE..., which the option --log\n"
        "of the examples writes. With --to, plots their curves over epochs. Options precede the\n"
        "files.",
    OPTION_DEFAULTS(defaults),
    OPTION_ROWS(rows),
    .operand = &file_operand,
    .below = &tool_table,
};

typedef struct curves {
  curve items[MOST_FILES];
  size_t count;
} curves;

/* ---- Text ------------------------------------------------------------------------------------ */

static double mean_rate(const curve *of) {
  double sum = 0;
  for (size_t i = 0; i < of->point_count; i++)
    sum += of->points[i].rate;
  return sum / (double)of->point_count;
}

static void print_number(const char *format, const double *number) {
  if (number)
    printf(format, *number);
  else
    printf("%12s", "-");
}

static void print_table(const curves *all) {
  printf("%-20s %10s %8s %12s %12s %12s\n", "training", "steps", "epochs", "loss", "score",
         "a second");
  for (size_t i = 0; i < all->count; i++) {
    const curve *one = &all->items[i];
    const curve_point *last = &one->points[one->point_count - 1];
    const curve_point *loss = curve_last_loss(one), *score = curve_last_score(one);
    printf("%-20s %10lld %8.2f ", one->name, (long long)last->step, last->epoch);
    print_number("%12.4f", loss ? &loss->loss : NULL);
    putchar(' ');
    print_number("%12.4f", score ? &score->score : NULL);
    printf(" %12.0f  %s\n", mean_rate(one), one->score_name);
  }
}

static tdm_status print_json(const curves *all) {
  tdm_json_writer out;
  tool_json_begin(&out);
  tdm_json_open(&out, "trainings", '[');
  for (size_t i = 0; i < all->count; i++) {
    const curve *one = &all->items[i];
    const curve_point *last = &one->points[one->point_count - 1];
    const curve_point *loss = curve_last_loss(one), *score = curve_last_score(one);
    tdm_json_open(&out, NULL, '{');
    tdm_json_put_string(&out, "name", one->name);
    tdm_json_put_integer(&out, "steps", last->step);
    tdm_json_put_real(&out, "epochs", last->epoch);
    tdm_json_put_real(&out, "loss", loss ? loss->loss : NAN); /* null */
    tdm_json_put_string(&out, "score_name", one->score_name);
    tdm_json_put_real(&out, "score", score ? score->score : NAN);
    tdm_json_put_real(&out, "a_second", mean_rate(one));
    tdm_json_close(&out, '}');
  }
  tdm_json_close(&out, ']');
  return tool_json_end(&out);
}

/* ---- Drawn ----------------------------------------------------------------------------------- */

/* Blocks of data: of losses and of scores, over epochs. */
static void print_blocks(FILE *out, const curves *all) {
  for (size_t i = 0; i < all->count; i++) {
    const curve *one = &all->items[i];
    fprintf(out, "$loss%zu << END\n", i);
    for (size_t k = 0; k < one->point_count; k++)
      if (isfinite(one->points[k].loss))
        fprintf(out, "%.6g %.6g\n", one->points[k].epoch, one->points[k].loss);
    fprintf(out, "END\n$score%zu << END\n", i);
    for (size_t k = 0; k < one->point_count; k++)
      if (isfinite(one->points[k].score))
        fprintf(out, "%.6g %.6g\n", one->points[k].epoch, one->points[k].score);
    fputs("END\n", out);
  }
}

static void print_plot(FILE *out, const curves *all, const char *block, const char *how) {
  fputs("plot ", out);
  for (size_t i = 0; i < all->count; i++) {
    fprintf(out, "%s$%s%zu using 1:2 %s linetype %zu title ", i ? ", " : "", block, i, how, i + 1);
    plot_string(out, all->items[i].name);
  }
  fputc('\n', out);
}

static void print_script(FILE *out, const curves *all) {
  static const char *const colours[] = {"#2f6fc4", "#d9822b", "#3a9b4e", "#b0488f",
                                        "#7a5cc0", "#a39118", "#2b9aa0", "#777777"};
  enum { COLOURS = sizeof colours / sizeof *colours };
  for (size_t i = 0; i < all->count; i++)
    fprintf(out, "set linetype %zu linecolor rgb '%s' linewidth 2 pointtype 7 pointsize 0.7\n",
            i + 1, colours[i % COLOURS]);
  print_blocks(out, all);
  fputs("set multiplot layout 2,1\nset grid linecolor rgb '#d5dae2'\nset border 3\n"
        "set tics nomirror\nset xrange [0:*]\nset lmargin 10\nset rmargin 3\n"
        "set key top right\nset ylabel 'loss'\n",
        out);
  print_plot(out, all, "loss", "with lines");
  fputs("set key bottom right\nset xlabel 'epochs'\nset ylabel ", out);
  plot_string(out, all->items[0].score_name);
  fputc('\n', out);
  print_plot(out, all, "score", "with linespoints");
  fputs("unset multiplot\n", out);
}

/* Draws scores of one kind in one diagram. */
static tdm_status draw_curves(const options *given, const curves *all) {
  for (size_t i = 0; i < all->count; i++) {
    const curve *one = &all->items[i];
    if (strcmp(one->score_name, all->items[0].score_name) != 0)
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "--to: %s has %s, and %s has %s: draw them by themselves", all->items[0].name,
                      all->items[0].score_name, one->name, one->score_name);
    if (!curve_last_loss(one) || !curve_last_score(one))
      return tdm_fail(TDM_UNAVAILABLE, "--to: %s has no %s yet", one->name,
                      curve_last_loss(one) ? "score" : "loss");
  }
  plot_script script;
  TDM_TRY(plot_begin("--to", given->picture, WIDTH, HEIGHT, &script));
  print_script(script.stream, all);
  return plot_end(&script, TDM_OK);
}

/* ---- The command ----------------------------------------------------------------------------- */

static tdm_status read_files(const options *given, curves *out) {
  for (char **path = given->paths; *path; path++) {
    if (out->count == MOST_FILES)
      return tdm_fail(TDM_INVALID_ARGUMENT, "at most %d files", MOST_FILES);
    TDM_TRY(curve_read(*path, &out->items[out->count]));
    out->count++;
  }
  return TDM_OK;
}

static tdm_status tell(const options *given, const curves *all) {
  if (given->picture) TDM_TRY(draw_curves(given, all));
  if (given->json) return print_json(all);
  if (!given->picture) print_table(all);
  return TDM_OK;
}

static int run(const void *read) {
  const options *given = read;
  curves all = {.count = 0};
  tdm_status status = given->picture ? draw_check(&gnuplot_drawer, "--to") : TDM_OK;
  if (status == TDM_OK) status = read_files(given, &all);
  if (status == TDM_OK) status = tell(given, &all);
  for (size_t i = 0; i < all.count; i++)
    curve_deinit(&all.items[i]);
  return tool_ended(&curves_tool, status);
}

const tool curves_tool = {"curves", "Print and plot training curves", &table, run};
