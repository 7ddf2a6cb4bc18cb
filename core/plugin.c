/* Finding and opening a plug-in. Invariant: see plugin.h. */
#define _GNU_SOURCE /* dladdr, secure_getenv */
#include "core/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/status.h"

/* An address of the library or program that this code is in. */
static const char here;

/* The folder of that; false where nobody says. */
static bool own_folder(char folder[PATH_MAX]) {
  Dl_info info;
  /* A program is known to dladdr by the name it was called by; the kernel knows its path. */
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

/* Opens folder, sub, "/libtandem_NAME.so" if it is there. */
static tdm_status open_in(const char *folder, size_t folder_length, const char *sub,
                          const char *name, void **out_object) {
  char path[PATH_MAX];
  const int length =
      snprintf(path, sizeof(path), "%.*s%s/libtandem_%s.so", (int)folder_length, folder, sub, name);
  if (length >= (int)sizeof(path) || access(path, R_OK) != 0) return TDM_OK;
  /* It stays: plug-ins have threads and handlers that outlive who asked for them. */
  *out_object = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (*out_object) return TDM_OK;
  return tdm_fail(TDM_UNAVAILABLE, "cannot open %s: %s", path, dlerror());
}

tdm_status tdm_plugin_open(const char *name, const char *variable, void **out_object) {
  *out_object = NULL;
  const char *folders = secure_getenv(variable);
  while (folders && !*out_object) {
    const size_t length = strcspn(folders, ":");
    if (length > 0) TDM_TRY(open_in(folders, length, "", name, out_object));
    folders = folders[length] == ':' ? folders + length + 1 : NULL;
  }
  char own[PATH_MAX];
  if (*out_object || !own_folder(own)) return TDM_OK;
  TDM_TRY(open_in(own, strlen(own), "/tandem", name, out_object));
  return *out_object ? TDM_OK : open_in(own, strlen(own), "", name, out_object);
}
