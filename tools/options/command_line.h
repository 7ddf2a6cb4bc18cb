/* What command lines share: numbers with limits, files that can be written, and the
 * folder that a program started by `bazel run` was called from. Functions fail by tdm_fail, naming
 * the option and what was given. */
#ifndef TOOLS_OPTIONS_COMMAND_LINE_H
#define TOOLS_OPTIONS_COMMAND_LINE_H

#include <tandem/tandem.h>

/* What every program begins with. Standard streams that are closed are opened, so that no file
 * which is opened later gets their numbers, and what is printed; printing to them fails. `bazel
 * run` starts a program in a folder of its own; this goes back to the user's, so that relative
 * paths mean what they say. */
tdm_status command_line_begin(void);
/* Is all that was printed written? IO. */
tdm_status command_line_written(void);
/* A whole number from low to high. */
tdm_status read_integer(const char *option, const char *text, int64_t low, int64_t high,
                        int64_t *out_number);
/* One of choices (choice_count); *out_index says which. */
tdm_status read_choice(const char *option, const char *text, const char *const *choices,
                       int choice_count, int *out_index);
/* A number above 0. */
tdm_status read_positive_real(const char *option, const char *text, double *out_number);
/* Can path be written (later, in one go)? Found out early, without touching what is there. */
tdm_status check_writable(const char *option, const char *path);
/* What a creation function's answer means: TDM_OK unless it is NULL; its message stays. */
tdm_status check_made(const void *object);
/* Puts "what: " before the thread's message; returns status. */
tdm_status fail_within(tdm_status status, const char *what);

#endif
