/* See find.h. */
#define _GNU_SOURCE /* popen */
#include "tools/launch/find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/plugin.h"

/* Names of launchers, and words of their --version. */
static const struct {
  const char *text;
  const char *own_names[3]; /* names of this launcher only */
  const char *version;
} known[MPI_COUNT] = {
    [OPENMPI] = {"openmpi", {"mpirun.openmpi", "prterun"}, "Open MPI|OpenRTE"},
    [MPICH] = {"mpich", {"mpiexec.mpich", "mpiexec.hydra"}, "HYDRA|MPICH"},
};
static const char *const shared_names[] = {"mpirun", "mpiexec"};

const char *mpi_text(mpi_name name) {
  return known[name].text;
}

bool find_in_path(const char *program, char path[PATH_MAX]) {
  for (const char *folders = getenv("PATH"); folders && *folders;) {
    const size_t length = strcspn(folders, ":");
    const int written = snprintf(path, PATH_MAX, "%.*s/%s", (int)length, folders, program);
    if (length > 0 && written < PATH_MAX && access(path, X_OK) == 0) return true;
    folders += length + (folders[length] == ':');
  }
  return false;
}

/* Returns true if its --version has one of the words between the bars. */
static bool says(const char *path, const char *version) {
  char command[PATH_MAX + 32], told[1024];
  (void)snprintf(command, sizeof command, "'%s' --version 2>&1", path);
  if (strchr(path, '\'')) return false;
  FILE *pipe = popen(command, "r"); /* NOLINT(cert-env33-c): a launcher is a user's choice */
  if (!pipe) return false;
  told[fread(told, 1, sizeof told - 1, pipe)] = '\0';
  (void)pclose(pipe);
  for (const char *word = version; *word;) {
    char text[32];
    const size_t length = strcspn(word, "|");
    (void)snprintf(text, sizeof text, "%.*s", (int)length, word);
    if (strstr(told, text)) return true;
    word += length + (word[length] == '|');
  }
  return false;
}

static bool find_launcher(mpi_name name, char path[PATH_MAX]) {
  for (int i = 0; known[name].own_names[i]; i++)
    if (find_in_path(known[name].own_names[i], path)) return true;
  for (size_t i = 0; i < sizeof shared_names / sizeof *shared_names; i++)
    if (find_in_path(shared_names[i], path) && says(path, known[name].version)) return true;
  return false;
}

/* ---- Plug-ins -------------------------------------------------------------------------------- */

bool find_plugin(const char *name, const char *variable, char folder[PATH_MAX]) {
  char path[TDM_PLUGIN_PATH];
  bool found = tdm_plugin_find(name, variable, path);
  if (!found) { /* a tool in a build folder: tools/tandem, with net/ next to tools/ */
    char own[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length <= 0) return false;
    own[length] = '\0';
    *strrchr(own, '/') = '\0';
    const int written = snprintf(path, sizeof path, "%s/../net/libtandem_%s.so", own, name);
    found = written < (int)sizeof path && access(path, R_OK) == 0;
  }
  if (!found) return false;
  (void)snprintf(folder, PATH_MAX, "%.*s", (int)(strrchr(path, '/') - path), path);
  return true;
}

void mpi_find(mpi_name name, mpi_found *out_found) {
  *out_found = (mpi_found){.has_launcher = false};
  out_found->has_launcher = find_launcher(name, out_found->launcher);
  out_found->has_plugin =
      find_plugin(known[name].text, "TANDEM_NET_PATH", out_found->plugin_folder);
}
