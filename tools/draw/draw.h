/* Pictures that other programs draw: graphviz's dot, and gnuplot. Each gets its complete input
 * before it is started, without a shell. Functions fail by tdm_fail and name the option. */
#ifndef TOOLS_DRAW_DRAW_H
#define TOOLS_DRAW_DRAW_H

#include <stdbool.h>
#include <stdio.h>

#include <tandem/tandem.h>

typedef struct drawer {
  const char *program;  /* "dot" */
  const char *argument; /* argument of the drawer; NULL: none */
  const char *missing;  /* advice if it is not in PATH */
} drawer;

extern const drawer dot_drawer;     /* reads a graph, writes SVG to stdout */
extern const drawer gnuplot_drawer; /* reads a script, which names its picture */

/* Checks that the program is in PATH; otherwise UNAVAILABLE. */
tdm_status draw_check(const drawer *by, const char *option);
/* Runs it until it ends; what it reads is input, from the beginning. UNAVAILABLE where it is not
 * there, IO where it fails. */
tdm_status draw(const drawer *by, const char *option, FILE *input);

/* ---- gnuplot --------------------------------------------------------------------------------- */

/* A script for gnuplot that makes one file, which gets its name once it is whole. */
typedef struct plot_script {
  FILE *stream; /* stream of the script; NULL: not begun */
  const char *option;
  char path[4096];
  char partial[4096 + 16];
} plot_script;

/* Checks that path ends in ".svg" or ".png"; otherwise INVALID_ARGUMENT. */
tdm_status plot_check_path(const char *option, const char *path);
/* Begins a script with the terminal for path, which plot_check_path has accepted. Sizes are in
 * pixels. */
tdm_status plot_begin(const char *option, const char *path, int width, int height,
                      plot_script *out_script);
/* Draws if status, what writing the script came to, is TDM_OK. */
tdm_status plot_end(plot_script *script, tdm_status status);
/* Text in gnuplot's double quotes. */
void plot_string(FILE *out, const char *text);

#endif
