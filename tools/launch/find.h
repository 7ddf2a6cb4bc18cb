/* Which MPI is there: its launcher in PATH, and Tandem's plug-in for it. */
#ifndef TOOLS_LAUNCH_FIND_H
#define TOOLS_LAUNCH_FIND_H

#include <limits.h>
#include <stdbool.h>

typedef enum mpi_name { OPENMPI, MPICH, MPI_COUNT } mpi_name;

typedef struct mpi_found {
  bool has_launcher;
  bool has_plugin;
  char launcher[PATH_MAX];
  char plugin_folder[PATH_MAX];
} mpi_found;

/* "openmpi", "mpich", as TANDEM_NET has them. */
const char *mpi_text(mpi_name name);
/* Searches for the launcher by its own name (mpirun.openmpi, mpiexec.hydra, ...), then for mpirun
 * or mpiexec whose --version names the implementation. Searches for libtandem_NAME.so in
 * TANDEM_NET_PATH, then in the folders of an installed or built tool. */
void mpi_find(mpi_name name, mpi_found *out_found);
/* The folder of libtandem_NAME.so: one of those in the environment's variable, or where an
 * installed or a built tool has it; false: in none of them. */
bool find_plugin(const char *name, const char *variable, char folder[PATH_MAX]);
/* Finds a program in PATH. Returns false if it is not there. */
bool find_in_path(const char *program, char path[PATH_MAX]);

#endif
