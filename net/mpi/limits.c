/* Finds the largest message that an MPI sends without a handshake with the receiver, from its
 * control variables (MPI_T), or from UCX's environment if UCX carries the messages. Invariant: if
 * an engine does not provide the value, a low value is assumed, which is correct for any engine. */
#include <stdlib.h>
#include <string.h>

#include "net/mpi/engine.h"

enum {
  /* Upper limit of an engine's headers, which its limit may include: Open MPI's take 56 over TCP,
   * UCX's 8. */
  HEADER_BYTES = 256,
  /* UCX 1.13 was observed to choose 19.5 KiB over TCP, based on the interface. */
  UNTOLD_BYTES = 16 << 10,
  MOST_BYTES = 1 << 30,
  TEXT_BYTES = 1024,
};

static size_t without_headers(double bytes) {
  if (bytes > MOST_BYTES) return MOST_BYTES;
  return bytes > 2 * HEADER_BYTES ? (size_t)bytes - HEADER_BYTES : HEADER_BYTES;
}

/* ---- UCX ------------------------------------------------------------------------------------- */

/* UCX writes sizes as "65536", "64k", "64KB", "1m", "inf", "auto". */
static size_t ucx_bytes(void) {
  const char *text = getenv("UCX_RNDV_THRESH");
  if (!text) return UNTOLD_BYTES;
  if (strcmp(text, "inf") == 0) return MOST_BYTES;
  char *unit = NULL;
  double bytes = strtod(text, &unit);
  if (unit == text) return UNTOLD_BYTES;
  static const char units[] = "kmg";
  if (*unit != '\0' && *unit != 'b' && *unit != 'B') {
    const char *found = strchr(units, *unit | ('a' - 'A'));
    if (!found) return UNTOLD_BYTES;
    for (const char *at = units; at <= found; at++)
      bytes *= 1024;
  }
  return without_headers(bytes);
}

/* ---- Control variables ----------------------------------------------------------------------- */

/* Reads the variable into value of capacity, and its type into *out_type. Returns false if it does
 * not exist or is larger. */
static bool read_variable(const char *name, MPI_Datatype *out_type, void *value, size_t capacity) {
  int index = 0, count = 0, bytes = 0;
  MPI_T_cvar_handle handle;
  if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS ||
      MPI_T_cvar_get_info(index, NULL, NULL, NULL, out_type, NULL, NULL, NULL, NULL, NULL) !=
          MPI_SUCCESS ||
      MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS)
    return false;
  const bool fits = MPI_Type_size(*out_type, &bytes) == MPI_SUCCESS && count > 0 &&
                    (size_t)count * (size_t)bytes <= capacity;
  const bool read = fits && MPI_T_cvar_read(handle, value) == MPI_SUCCESS;
  (void)MPI_T_cvar_handle_free(&handle);
  return read;
}

/* Returns a limit in bytes. A variable that is missing or has no own limit (-1) counts as
 * unknown. */
static size_t variable_bytes(const char *name) {
  MPI_Datatype type;
  union {
    int small;
    long long large;
  } value = {.large = 0};
  int bytes = 0;
  if (!read_variable(name, &type, &value, sizeof(value))) return UNTOLD_BYTES;
  (void)MPI_Type_size(type, &bytes);
  const long long limit = bytes == (int)sizeof(int) ? value.small : value.large;
  return limit < 0 ? UNTOLD_BYTES : without_headers((double)limit);
}

#if defined(OPEN_MPI)

/* Between machines Open MPI uses TCP, unless UCX was requested. */
static size_t engine_bytes(void) {
  char layer[TEXT_BYTES] = "";
  MPI_Datatype type;
  const bool named = read_variable("pml", &type, layer, sizeof(layer) - 1);
  if (named && layer[0] != '^' && strstr(layer, "ucx")) return ucx_bytes();
  return variable_bytes("btl_tcp_eager_limit");
}

#else

/* MPICH has variables for all its devices, and reports the device that it was built with. */
static size_t engine_bytes(void) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  (void)MPI_Get_library_version(text, &length);
  if (strstr(text, "ch4:ucx")) return ucx_bytes();
  if (strstr(text, "ch4:ofi")) return variable_bytes("MPIR_CVAR_CH4_OFI_EAGER_MAX_MSG_SIZE");
  if (strstr(text, "ch3")) return variable_bytes("MPIR_CVAR_CH3_EAGER_MAX_MSG_SIZE");
  return UNTOLD_BYTES;
}

#endif

size_t mpi_eager_bytes(void) {
  int provided = MPI_THREAD_SINGLE;
  if (MPI_T_init_thread(MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS) return UNTOLD_BYTES;
  const size_t bytes = engine_bytes();
  (void)MPI_T_finalize();
  return bytes;
}
