/* Files that programs write in one go: what is there stays until the new one is whole. Functions
 * fail by tdm_fail, naming the option and the path. */
#ifndef TOOLS_OPTIONS_OUTPUT_FILE_H
#define TOOLS_OPTIONS_OUTPUT_FILE_H

#include <limits.h>
#include <stdio.h>

#include <tandem/tandem.h>

typedef struct output_file {
  const char *option;
  char path[PATH_MAX]; /* path with symbolic links resolved */
  char partial[PATH_MAX + 16];
  FILE *stream;
} output_file;

/* Opens a temporary file in the folder of path for writing. */
tdm_status output_begin(const char *option, const char *path, output_file *out);
/* Renames it to path if status, what writing it came to, is TDM_OK; else removes it. */
tdm_status output_end(output_file *out, tdm_status status);

#endif
