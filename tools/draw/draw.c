/* See draw.h. */
#include "tools/draw/draw.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_FOUND = 127, NOT_STARTED = 126 };

const drawer dot_drawer = {
    "dot", "-Tsvg",
    "graphviz's dot is not in PATH (Debian's package graphviz); --dot writes what it reads, and "
    "--html needs nothing"};
const drawer gnuplot_drawer = {"gnuplot", NULL,
                               "gnuplot is not in PATH (Debian's package gnuplot-nox, or "
                               "tools/install_dependencies.sh --plot)"};

tdm_status draw_check(const drawer *by, const char *option) {
  const char *path = getenv("PATH");
  while (path && *path != '\0') {
    const size_t length = strcspn(path, ":");
    char candidate[4096];
    (void)snprintf(candidate, sizeof candidate, "%.*s/%s", (int)length, path, by->program);
    if (access(candidate, X_OK) == 0) return TDM_OK;
    path += length + (path[length] == ':');
  }
  return tdm_fail(TDM_UNAVAILABLE, "%s: %s", option, by->missing);
}

/* Becomes the program, which reads the file. */
static void become(const drawer *by, int input) {
  if (dup2(input, STDIN_FILENO) >= 0)
    (void)execlp(by->program, by->program, by->argument, (char *)NULL);
  _exit(errno == ENOENT ? NOT_FOUND : NOT_STARTED);
}

tdm_status draw(const drawer *by, const char *option, FILE *input) {
  if (fflush(input) != 0 || fflush(stdout) != 0 || fseek(input, 0, SEEK_SET) != 0)
    return tdm_fail(TDM_IO, "%s: %s", option, strerror(errno));
  const pid_t child = fork();
  if (child < 0) return tdm_fail(TDM_UNAVAILABLE, "%s: %s", option, strerror(errno));
  if (child == 0) become(by, fileno(input));
  int ended = 0;
  const bool waited = waitpid(child, &ended, 0) == child && WIFEXITED(ended);
  if (waited && WEXITSTATUS(ended) == 0) return TDM_OK;
  if (waited && WEXITSTATUS(ended) == NOT_FOUND)
    return tdm_fail(TDM_UNAVAILABLE, "%s: %s", option, by->missing);
  return tdm_fail(TDM_IO, "%s: %s has failed", option, by->program);
}

/* ---- gnuplot --------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text);
  return length > strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

tdm_status plot_check_path(const char *option, const char *path) {
  if (ends_with(path, ".svg") || ends_with(path, ".png")) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s takes FILE.svg or FILE.png, not \"%s\"", option, path);
}

/* Writes special characters as octal numbers: gnuplot passes text between backquotes to a shell,
 * also inside quotes. */
void plot_string(FILE *out, const char *text) {
  fputc('"', out);
  for (; *text != '\0'; text++) {
    const unsigned char byte = (unsigned char)*text;
    if (byte < ' ' || byte == 0x7F || strchr("\"\\`@$", *text))
      fprintf(out, "\\%03o", byte);
    else
      fputc(byte, out);
  }
  fputc('"', out);
}

tdm_status plot_begin(const char *option, const char *path, int width, int height,
                      plot_script *out_script) {
  *out_script = (plot_script){.option = option};
  if ((size_t)snprintf(out_script->path, sizeof out_script->path, "%s", path) >=
      sizeof out_script->path)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s: the path is too long", option);
  (void)snprintf(out_script->partial, sizeof out_script->partial, "%s.partial", path);
  out_script->stream = tmpfile();
  if (!out_script->stream) return tdm_fail(TDM_IO, "%s: %s", option, strerror(errno));
  fprintf(out_script->stream, "set terminal %s noenhanced size %d,%d background rgb 'white'\n",
          ends_with(path, ".svg") ? "svg" : "pngcairo", width, height);
  fputs("set output ", out_script->stream);
  plot_string(out_script->stream, out_script->partial);
  fputc('\n', out_script->stream);
  return TDM_OK;
}

tdm_status plot_end(plot_script *script, tdm_status status) {
  if (status == TDM_OK) status = draw(&gnuplot_drawer, script->option, script->stream);
  (void)fclose(script->stream);
  if (status == TDM_OK && rename(script->partial, script->path) != 0)
    status = tdm_fail(TDM_IO, "%s %s: %s", script->option, script->path, strerror(errno));
  if (status != TDM_OK) (void)remove(script->partial);
  return status;
}
