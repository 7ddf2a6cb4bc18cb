/* Finds and opens a plug-in. Invariant: see plugin.h. */
#define _GNU_SOURCE /* dladdr, secure_getenv */
#include "core/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/status.h"

/* Debian's name of the architecture, as used in library folders. */
#if defined(__x86_64__)
#define MULTIARCH "x86_64-linux-gnu"
#elif defined(__aarch64__)
#define MULTIARCH "aarch64-linux-gnu"
#else
#define MULTIARCH "."
#endif

/* Folders relative to that of this code: first for a library, then for a program in bin/, whose
 * plug-ins are in lib/. */
static const char *const beside[] = {"/tandem", "", "/../lib/tandem",
                                     "/../lib/" MULTIARCH "/tandem"};

/* An address inside the library or program that contains this code. */
static const char here;

/* Gets the folder of the library or program; false if it is unknown. */
static bool own_folder(char folder[PATH_MAX]) {
  Dl_info info;
  /* dladdr has the name by which a program was called; the kernel has its path. */
  const bool found = dladdr(&here, &info) != 0 && info.dli_fname;
  if (!found || !strstr(info.dli_fname, ".so") || !realpath(info.dli_fname, folder)) {
    const ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    if (length <= 0) return false;
    folder[length] = '\0';
  }
  char *slash = strrchr(folder, '/');
  if (!slash) return false;
  *slash = '\0';
  return true;
}

/* Returns true if folder, sub, "/libtandem_NAME.so" exists. */
static bool is_in(const char *folder, size_t folder_length, const char *sub, const char *name,
                  char path[TDM_PLUGIN_PATH]) {
  const int length = snprintf(path, TDM_PLUGIN_PATH, "%.*s%s/libtandem_%s.so", (int)folder_length,
                              folder, sub, name);
  return length < TDM_PLUGIN_PATH && access(path, R_OK) == 0;
}

bool tdm_plugin_find(const char *name, const char *variable, char path[TDM_PLUGIN_PATH]) {
  const char *folders = secure_getenv(variable);
  while (folders) {
    const size_t length = strcspn(folders, ":");
    if (length > 0 && is_in(folders, length, "", name, path)) return true;
    folders = folders[length] == ':' ? folders + length + 1 : NULL;
  }
  char own[PATH_MAX];
  if (!own_folder(own)) return false;
  for (size_t i = 0; i < TDM_COUNT_OF(beside); i++)
    if (is_in(own, strlen(own), beside[i], name, path)) return true;
  return false;
}

tdm_status tdm_plugin_open(const char *name, const char *variable, void **out_object) {
  char path[TDM_PLUGIN_PATH];
  *out_object = NULL;
  if (!tdm_plugin_find(name, variable, path)) return TDM_OK;
  /* It stays loaded: plug-ins have threads and handlers that outlive their users. */
  *out_object = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (*out_object) return TDM_OK;
  return tdm_fail(TDM_UNAVAILABLE, "cannot open %s: %s", path, dlerror());
}
