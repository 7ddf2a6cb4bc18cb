/* Runs a program of examples/ as a user would: its arguments, its output, its exit status. Files
 * are created in the test's own folder. One thread. */
#ifndef TESTS_EXAMPLES_PROGRAM_H
#define TESTS_EXAMPLES_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/* Sets which program is run; goes to the test's folder, so that names below are relative to it. */
void program_use(const char *path);

typedef struct outcome {
  int exit_code; /* -1: it did not end by itself */
  char *output;  /* stdout and stderr, in order; freed by outcome_free */
} outcome;

/* Runs it with arguments, as a shell reads them. */
outcome program_run(const char *arguments);
/* Runs a shell command instead of the program that program_use has set. */
outcome program_run_as(const char *line);
void outcome_free(outcome *ended);
/* Runs it; it must end with exit_code and print each of the texts (the last is NULL). */
void program_expect(const char *arguments, int exit_code, const char *const *texts);
/* Returns the last line of output, without its end; the caller frees it. */
char *last_line(const char *output);

/* Writes count words over the letters [first, last], different ones for different seeds. */
void write_words(const char *path, char first, char last, int count, unsigned seed);
void write_file(const char *path, const void *bytes, size_t size);
/* Returns the contents, ended by a zero; the caller frees them. The file must exist. */
char *read_whole(const char *path, size_t *out_size);
bool file_exists(const char *path);

#endif
