/* Runs a fuzz target over its corpus in builds without libFuzzer: each given file, and each file in
 * the given folders. Invariant: fails if it found no file. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/fuzz/support.h"

enum { MOST_BYTES = 1 << 20 };

static int replay_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) return 0;
  uint8_t *room = malloc(MOST_BYTES);
  const size_t size = room ? fread(room, 1, MOST_BYTES, file) : 0;
  (void)fclose(file);
  /* A separate block, so that a sanitizer detects a read past the end. */
  uint8_t *exact = malloc(size ? size : 1);
  if (room && exact) {
    memcpy(exact, room, size);
    fprintf(stderr, "%s, %zu bytes\n", path, size);
    (void)LLVMFuzzerTestOneInput(exact, size);
  }
  const int count = room && exact;
  free(exact);
  free(room);
  return count;
}

static int replay(const char *path) {
  struct stat about;
  if (stat(path, &about) != 0) return 0;
  if (S_ISREG(about.st_mode)) return replay_file(path);
  DIR *folder = opendir(path);
  int count = 0;
  for (struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder)) {
    char below[4096];
    if (entry->d_name[0] == '.') continue;
    if (snprintf(below, sizeof below, "%s/%s", path, entry->d_name) < (int)sizeof below)
      count += replay(below);
  }
  if (folder) (void)closedir(folder);
  return count;
}

int main(int argc, char **argv) {
  int count = 0;
  for (int i = 1; i < argc; i++)
    count += replay(argv[i]);
  printf("%d inputs\n", count);
  return count > 0 ? 0 : 1;
}
