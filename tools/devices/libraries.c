/* See libraries.h. */
#include "tools/devices/libraries.h"

#include <dlfcn.h>
#include <hwloc.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <uv.h>

#include "tools/launch/find.h"

enum { DETAIL_BYTES = 2 * PATH_MAX + 64 };

typedef void teller(void *user, const library *one);

/* Those that the program is linked with; the versions are of what runs. */
static void tell_linked(teller *tell, void *user) {
  char hwloc[32];
  const unsigned version = hwloc_get_api_version();
  (void)snprintf(hwloc, sizeof hwloc, "API %u.%u", version >> 16, version >> 8 & 0xff);
  const library linked[] = {
      {"hwloc", "processors, caches and NUMA nodes", true, hwloc},
      {"libuv", "completions, timers and sockets", true, uv_version_string()},
      {"jansson", "JSON", true, jansson_version_str()},
      {"libsodium", "what ranks of a job sign", true, sodium_version_string()},
  };
  for (size_t i = 0; i < sizeof linked / sizeof *linked; i++)
    tell(user, &linked[i]);
}

/* Reports the driver, and cuBLAS if there is a driver. Opened libraries stay open, as they do where
 * they are used. */
static void tell_nvidia(teller *tell, void *user) {
  static const char *const products[] = {"libcublas.so.13", "libcublas.so.12"};
  enum {
    PRODUCTS = sizeof products / sizeof *products,
    HOW = RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE
  };
  char why[DETAIL_BYTES] = "not used without a driver";
  library driver = {"CUDA driver", "GPUs", false, "libcuda.so.1"};
  library cublas = {"cuBLAS", "products of matrices on GPUs", false, why};
  driver.found = dlopen("libcuda.so.1", HOW) != NULL;
  if (!driver.found) driver.detail = dlerror();
  tell(user, &driver);
  for (int i = 0; i < PRODUCTS && driver.found && !cublas.found; i++) {
    cublas.found = dlopen(products[i], HOW) != NULL;
    (void)snprintf(why, sizeof why, "%s", cublas.found ? products[i] : dlerror());
  }
  tell(user, &cublas);
}

static void tell_plugin(teller *tell, void *user) {
  char folder[PATH_MAX], detail[DETAIL_BYTES];
  library one = {"libtandem_cuda", "kernels for GPUs of the shared library", false, detail};
  one.found = find_plugin("cuda", "TANDEM_CUDA_PATH", folder);
  (void)snprintf(detail, sizeof detail, "%s",
                 one.found ? folder
                           : "neither in TANDEM_CUDA_PATH nor where it is installed (Debian: "
                             "libtandem-cuda); wanted where there is a GPU");
  tell(user, &one);
}

static void tell_mpi(teller *tell, void *user, mpi_name name) {
  mpi_found found;
  char detail[DETAIL_BYTES];
  mpi_find(name, &found);
  library one = {mpi_text(name), "jobs of several ranks", found.has_launcher && found.has_plugin,
                 detail};
  if (one.found)
    (void)snprintf(detail, sizeof detail, "%s, %s", found.launcher, found.plugin_folder);
  else if (found.has_launcher)
    (void)snprintf(detail, sizeof detail,
                   "%s is here, and libtandem_%s.so neither in TANDEM_NET_PATH nor where it is "
                   "installed",
                   found.launcher, one.name);
  else
    (void)snprintf(detail, sizeof detail, "no launcher of it is in PATH");
  tell(user, &one);
}

void libraries_each(teller *tell, void *user) {
  tell_linked(tell, user);
  tell_nvidia(tell, user);
  tell_plugin(tell, user);
  for (int name = 0; name < MPI_COUNT; name++)
    tell_mpi(tell, user, (mpi_name)name);
}
