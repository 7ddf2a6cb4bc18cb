/* Finds the transport of a process and opens its plug-in. Invariant: see launch.h. */
#include "net/launch.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "core/plugin.h"
#include "core/status.h"

/* Environment variables that launchers set for their processes, in order of precedence. */
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

/* ---- Opening --------------------------------------------------------------------------------- */

static tdm_status load(const char *name, const char *reason, const tdm_transport **out_transport) {
  void *object;
  TDM_TRY(tdm_plugin_open(name, "TANDEM_NET_PATH", &object));
  if (!object) {
    return tdm_fail(TDM_UNAVAILABLE,
                    "%s requires the transport %s, and libtandem_%s.so is neither in "
                    "TANDEM_NET_PATH nor next to the library; TANDEM_NET=none: every process is "
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
