/* Shared by command lines: numbers with limits, files that can be written, and the folder in which
 * `bazel run` was called. Functions fail with tdm_fail; the message names the option and its value.
 */
#ifndef TOOLS_OPTIONS_COMMAND_LINE_H
#define TOOLS_OPTIONS_COMMAND_LINE_H

#include <tandem/tandem.h>

/* Prepares a program; called first. Opens closed standard streams, so that no file that is opened
 * later gets their number and the printed text; printing to them fails. Changes from the folder in
 * which `bazel run` starts programs to the user's folder, to which relative paths refer. */
tdm_status command_line_begin(void);
/* Checks that the printed text was written; otherwise IO. */
tdm_status command_line_written(void);
/* Reads a whole number from low to high. */
tdm_status read_integer(const char *option, const char *text, int64_t low, int64_t high,
                        int64_t *out_number);
/* Reads one of choices (choice_count); *out_index is its index. */
tdm_status read_choice(const char *option, const char *text, const char *const *choices,
                       int choice_count, int *out_index);
/* Reads a number above 0. */
tdm_status read_positive_real(const char *option, const char *text, double *out_number);
/* Checks early that path can be written later, without changing an existing file. */
tdm_status check_writable(const char *option, const char *path);
/* Returns TDM_OK unless the created object is NULL; the message of its function is kept. */
tdm_status check_made(const void *object);
/* Puts "what: " before the thread's message; returns status. */
tdm_status fail_within(tdm_status status, const char *what);

#endif
