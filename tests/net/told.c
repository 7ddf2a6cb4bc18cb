/* See `told.h`. */
#define _GNU_SOURCE /* usleep */
#include "tests/net/told.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

_Bool told_add(const char *path, const char *format, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  FILE *told = fopen(path, "a");
  if (!told) return 0;
  fprintf(told, "%s\n", line);
  return fclose(told) == 0;
}

static int count_lines(const char *path) {
  FILE *told = fopen(path, "r");
  int count = 0;
  for (int c; told && (c = fgetc(told)) != EOF;)
    count += c == '\n';
  if (told) (void)fclose(told);
  return count;
}

void told_await(const char *path, int lines) {
  for (int i = 0; i < 5000 && count_lines(path) < lines; i++)
    (void)usleep(10000);
}
