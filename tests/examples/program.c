/* Runs programs through the shell. Invariant: every helper fails the running test when the machine,
 * not the program under test, is at fault. */
#include "tests/examples/program.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char program[PATH_MAX];

void program_use(const char *path) {
  assert_non_null(realpath(path, program));
  const char *folder = getenv("TEST_TMPDIR");
  assert_non_null(folder);
  assert_int_equal(chdir(folder), 0);
}

static char *read_all(FILE *file, size_t *out_size) {
  size_t capacity = 1 << 16;
  size_t size = 0;
  char *text = malloc(capacity);
  assert_non_null(text);
  for (size_t got = 1; got > 0; size += got) {
    if (capacity - size < 2) {
      capacity *= 2;
      text = realloc(text, capacity);
      assert_non_null(text);
    }
    got = fread(text + size, 1, capacity - size - 1, file);
  }
  text[size] = '\0';
  if (out_size) *out_size = size;
  return text;
}

outcome program_run(const char *arguments) {
  char command[2 * PATH_MAX];
  assert_true(snprintf(command, sizeof command, "'%s' %s", program, arguments) <
              (int)sizeof command);
  return program_run_as(command);
}

outcome program_run_as(const char *line) {
  char command[2 * PATH_MAX + 16];
  assert_true(snprintf(command, sizeof command, "{ %s ; } 2>&1", line) < (int)sizeof command);
  FILE *pipe = popen(command, "r"); /* NOLINT(cert-env33-c): a shell is what users have */
  assert_non_null(pipe);
  outcome ended = {.output = read_all(pipe, NULL)};
  const int status = pclose(pipe);
  ended.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ended;
}

void outcome_free(outcome *ended) {
  free(ended->output);
  ended->output = NULL;
}

void program_expect(const char *arguments, int exit_code, const char *const *texts) {
  outcome ended = program_run(arguments);
  if (ended.exit_code != exit_code)
    fail_msg("%s\nended with %d, not %d, and said:\n%s", arguments, ended.exit_code, exit_code,
             ended.output);
  for (; *texts; texts++)
    if (!strstr(ended.output, *texts))
      fail_msg("%s\ndid not say \"%s\", but:\n%s", arguments, *texts, ended.output);
  outcome_free(&ended);
}

char *last_line(const char *output) {
  size_t end = strlen(output);
  assert_true(end > 0 && output[end - 1] == '\n');
  size_t begin = --end;
  while (begin > 0 && output[begin - 1] != '\n')
    begin--;
  return strndup(output + begin, end - begin);
}

void write_words(const char *path, char first, char last, int count, unsigned seed) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  uint32_t state = seed;
  for (int i = 0; i < count; i++) {
    const int length = 4 + i % 4;
    for (int j = 0; j < length; j++) {
      state = state * 1664525u + 1013904223u; /* Numerical Recipes' generator */
      fputc(first + (int)((state >> 16) % (uint32_t)(last - first + 1)), file);
    }
    fputc('\n', file);
  }
  assert_int_equal(fclose(file), 0);
}

void write_file(const char *path, const void *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

char *read_whole(const char *path, size_t *out_size) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  char *text = read_all(file, out_size);
  (void)fclose(file);
  return text;
}

bool file_exists(const char *path) {
  return access(path, F_OK) == 0;
}
