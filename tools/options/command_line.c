/* Reading a command line. Invariant: an output is written only when the whole call succeeds. */
#include "tools/options/command_line.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static tdm_status hold_standard_streams(void) {
  for (;;) {
    const int descriptor = open("/dev/null", O_RDONLY);
    if (descriptor < 0) return tdm_fail(TDM_IO, "/dev/null: %s", strerror(errno));
    if (descriptor <= STDERR_FILENO) continue;
    (void)close(descriptor);
    return TDM_OK;
  }
}

tdm_status command_line_begin(void) {
  const char *folder = getenv("BUILD_WORKING_DIRECTORY");
  const tdm_status status = hold_standard_streams();
  if (status != TDM_OK || !folder || chdir(folder) == 0) return status;
  return tdm_fail(TDM_IO, "cannot enter %s: %s", folder, strerror(errno));
}

tdm_status command_line_written(void) {
  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout)) return TDM_OK;
  return tdm_fail(TDM_IO, "cannot write it all: %s",
                  errno ? strerror(errno) : "standard output has failed before");
}

tdm_status read_integer(const char *option, const char *text, int64_t low, int64_t high,
                        int64_t *out_number) {
  char *end = NULL;
  errno = 0;
  const long long number = strtoll(text, &end, 10);
  if (end == text || *end != '\0' || errno != 0 || number < low || number > high)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s takes a whole number from %lld to %lld, not \"%s\"",
                    option, (long long)low, (long long)high, text);
  *out_number = number;
  return TDM_OK;
}

tdm_status read_positive_real(const char *option, const char *text, double *out_number) {
  char *end = NULL;
  const double number = strtod(text, &end);
  if (end == text || *end != '\0' || !isfinite(number) || number <= 0)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s takes a number above 0, not \"%s\"", option, text);
  *out_number = number;
  return TDM_OK;
}

tdm_status read_choice(const char *option, const char *text, const char *const *choices,
                       int choice_count, int *out_index) {
  char known[256] = "";
  for (int i = 0; i < choice_count; i++) {
    if (strcmp(text, choices[i]) == 0) {
      *out_index = i;
      return TDM_OK;
    }
    const size_t at = strlen(known);
    (void)snprintf(known + at, sizeof known - at, "%s%s", i > 0 ? ", " : "", choices[i]);
  }
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s takes one of %s, not \"%s\"", option, known, text);
}

tdm_status check_writable(const char *option, const char *path) {
  char folder[4096];
  if ((size_t)snprintf(folder, sizeof folder, "%s", path) >= sizeof folder)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s: the path is too long", option);
  char *slash = strrchr(folder, '/');
  if (slash)
    slash[slash == folder ? 1 : 0] = '\0';
  else
    strcpy(folder, ".");
  if (access(folder, W_OK | X_OK) != 0)
    return tdm_fail(TDM_IO, "%s %s: folder %s: %s", option, path, folder, strerror(errno));
  struct stat there;
  if (stat(path, &there) == 0 && S_ISDIR(there.st_mode))
    return tdm_fail(TDM_IO, "%s %s is a folder", option, path);
  return TDM_OK;
}

tdm_status check_made(const void *object) {
  return object ? TDM_OK : TDM_UNAVAILABLE;
}

tdm_status fail_within(tdm_status status, const char *what) {
  return tdm_fail(status, "%s: %s", what, tdm_last_message());
}
