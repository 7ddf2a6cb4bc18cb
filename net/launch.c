/* Finding and opening a plug-in. Invariant: see launch.h. */
#define _GNU_SOURCE /* dladdr, secure_getenv */
#include "net/launch.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/status.h"

/* What launchers leave in the environment of those that they start; first come first. */
static const struct {
  const char *variable;
  const char *name;
} marks[] = {
    {"OMPI_COMM_WORLD_SIZE", "openmpi"}, /* mpirun of Open MPI */
    {"PMIX_RANK", "openmpi"},            /* Slurm's pmix, prterun */
    {"PMI_RANK", "mpich"},               /* mpiexec of MPICH, Slurm's pmi2 */
};

static const char *const names[] = {"openmpi", "mpich"};

const char *tdm_launcher_name(const char *(*variable)(const char *name),
                              const char **out_variable) {
  for (size_t i = 0; i < TDM_COUNT_OF(marks); i++) {
    if (!variable(marks[i].variable)) continue;
    if (out_variable) *out_variable = marks[i].variable;
    return marks[i].name;
  }
  return NULL;
}

static const char *environment(const char *name) {
  return getenv(name);
}

/* ---- Opening ---- */

/* The folder of the library or program that holds this function; false where nobody says. */
static bool own_folder(char *folder, size_t capacity) {
  Dl_info info;
  char path[PATH_MAX];
  /* A program is known to dladdr by the name it was called by; the kernel knows its path. */
  const bool found = dladdr((const void *)&marks, &info) != 0 && info.dli_fname;
  if (!found || !strstr(info.dli_fname, ".so") || !realpath(info.dli_fname, path)) {
    const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (length <= 0) return false;
    path[length] = '\0';
  }
  char *slash = strrchr(path, '/');
  if (!slash) return false;
  *slash = '\0';
  return snprintf(folder, capacity, "%s", path) < (int)capacity;
}

/* Opens folder/libtandem_NAME.so if it is there; *out_status tells of one that does not open. */
static void *open_in(const char *folder, size_t folder_length, const char *sub, const char *name,
                     tdm_status *out_status) {
  char path[PATH_MAX];
  const int length =
      snprintf(path, sizeof(path), "%.*s%s/libtandem_%s.so", (int)folder_length, folder, sub, name);
  if (length >= (int)sizeof(path) || access(path, R_OK) != 0) return NULL;
  /* Engines stay: they have threads and handlers that outlive an endpoint. */
  void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!object) *out_status = tdm_fail(TDM_UNAVAILABLE, "cannot open %s: %s", path, dlerror());
  return object;
}

/* The first that is there, which has to open. */
static void *open_object(const char *name, tdm_status *out_status) {
  void *object = NULL;
  const char *folders = secure_getenv("TANDEM_NET_PATH");
  while (folders && !object && *out_status == TDM_OK) {
    const size_t length = strcspn(folders, ":");
    if (length > 0) object = open_in(folders, length, "", name, out_status);
    folders = folders[length] == ':' ? folders + length + 1 : NULL;
  }
  char own[PATH_MAX];
  if (!own_folder(own, sizeof(own))) return object;
  if (!object && *out_status == TDM_OK)
    object = open_in(own, strlen(own), "/tandem", name, out_status);
  if (!object && *out_status == TDM_OK) object = open_in(own, strlen(own), "", name, out_status);
  return object;
}

static tdm_status load(const char *name, const char *reason, const tdm_transport **out_transport) {
  tdm_status status = TDM_OK;
  void *object = open_object(name, &status);
  if (status != TDM_OK) return status;
  if (!object) {
    return tdm_fail(TDM_UNAVAILABLE,
                    "%s asks for the transport %s, and libtandem_%s.so is neither in "
                    "TANDEM_NET_PATH nor beside the library; TANDEM_NET=none: every process is "
                    "alone",
                    reason, name, name);
  }
  const tdm_transport *transport = dlsym(object, TDM_TRANSPORT_SYMBOL);
  if (!transport || transport->abi != TDM_TRANSPORT_ABI) {
    return tdm_fail(TDM_UNSUPPORTED,
                    "libtandem_%s.so is no plug-in of this version of Tandem (%s): build it anew",
                    name, tdm_version());
  }
  *out_transport = transport;
  return TDM_OK;
}

tdm_status tdm_transport_find(const tdm_transport **out_transport) {
  *out_transport = NULL;
  const char *asked = getenv("TANDEM_NET");
  if (asked && strcmp(asked, "none") == 0) return TDM_OK;
  if (asked && asked[0] != '\0') {
    for (size_t i = 0; i < TDM_COUNT_OF(names); i++)
      if (strcmp(asked, names[i]) == 0) return load(asked, "TANDEM_NET", out_transport);
    return tdm_fail(TDM_INVALID_ARGUMENT, "TANDEM_NET is \"%s\": openmpi, mpich and none are known",
                    asked);
  }
  const char *variable = NULL;
  const char *name = tdm_launcher_name(environment, &variable);
  return name ? load(name, variable, out_transport) : TDM_OK;
}

tdm_status tdm_net_open(const tdm_allocator *allocator, uint64_t timeout_ns,
                        tdm_endpoint **out_endpoint) {
  *out_endpoint = NULL;
  const tdm_transport *transport;
  TDM_TRY(tdm_transport_find(&transport));
  if (!transport) return TDM_OK;
  const tdm_endpoint_options options = {
      .struct_size = sizeof(options), .allocator = *allocator, .timeout_ns = timeout_ns};
  return tdm_endpoint_open(transport, &options, out_endpoint);
}
