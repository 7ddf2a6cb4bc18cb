/* Declarations shared by the files of the MPI plug-in. The plug-in is compiled once against the
 * headers of each MPI, since Open MPI and MPICH have different handles and constants. It uses MPI
 * and declarations of the library, calls no function of the library, and exports one table.
 * Invariants: all messages use a communicator of the plug-in's own; errors are returned as
 * statuses; MPI is finalized at the end of a process in which the plug-in initialized it, unless a
 * job was lost. */
#ifndef TANDEM_NET_MPI_ENGINE_H
#define TANDEM_NET_MPI_ENGINE_H

#include <mpi.h>
#include <stddef.h>

#include "net/transport.h"

#if defined(OPEN_MPI)
#define ENGINE_NAME "openmpi"
#define ENGINE_VERSION_BEGIN "Open MPI"
#elif defined(MPICH_VERSION)
#define ENGINE_NAME "mpich"
#define ENGINE_VERSION_BEGIN "MPICH"
#else
#error "Open MPI and MPICH are known"
#endif

/* An endpoint of a job over MPI. */
typedef struct mpi_endpoint {
  tdm_endpoint base;
  MPI_Comm comm;
  /* Operands of MPI while a job is joined or left. They are members because MPI may still access
   * them after the wait for it has been given up (life.c). */
  MPI_Request pending;
  tdm_rank own;
  unsigned long long own_limit;
  unsigned long long least_limit;
  struct mpi_endpoint *next; /* next of the endpoints that were abandoned */
  size_t piece_bytes;
  uint32_t collectives;
  /* Messages in flight: one entry per piece. */
  size_t count;
  size_t capacity;
  MPI_Request *requests;    /* (capacity) */
  tdm_net_request **owners; /* (capacity) */
  int *done;                /* (capacity), scratch of poll */
  MPI_Status *statuses;     /* (capacity), scratch of poll */
} mpi_endpoint;
_Static_assert(offsetof(mpi_endpoint, base) == 0, "an endpoint is the beginning of the engine's");

/* The table that dlsym finds by TDM_TRANSPORT_SYMBOL. */
TDM_API extern const tdm_transport tdm_transport_plugin;

/* ---- words.c: statuses, messages, memory ----------------------------------------------------- */

/* Returns the version text of the MPI library in the process. */
const char *mpi_version(void);
/* Returns true if the process has the MPI that the plug-in was compiled for. */
bool mpi_is_ours(void);
/* Writes MPI's text for an error code. */
void mpi_code_text(tdm_endpoint *endpoint, int code, char *text, size_t capacity);
/* Returns the status for an MPI error code. */
tdm_status mpi_status_of(int code);
/* Returns the status for an MPI error code, and writes a message (TDM_NET_TEXT_BYTES) that names
 * the failed operation `what`. */
tdm_status mpi_check(int code, const char *what, char *message);
/* Writes a message (TDM_NET_TEXT_BYTES) and returns status. */
tdm_status mpi_refuse(tdm_status status, char *message, const char *format, ...) TDM_PRINTF(3, 4);
/* Allocates zeroed memory; NULL if there is none. */
void *mpi_take(const tdm_allocator *allocator, size_t bytes);
/* Frees memory of mpi_take; memory may be NULL. */
void mpi_give_back(const tdm_allocator *allocator, void *memory, size_t bytes);

/* ---- limits.c -------------------------------------------------------------------------------- */

/* Returns the largest size in bytes, above 0, of a message that this rank sends without waiting for
 * the receiver. MPI must be initialized. */
size_t mpi_eager_bytes(void);

/* ---- life.c ---------------------------------------------------------------------------------- */

/* Functions of the transport's table (net/transport.h). */
tdm_status mpi_open(const tdm_endpoint_options *options, tdm_endpoint **out_endpoint,
                    char *message);
tdm_status mpi_close(tdm_endpoint *endpoint, uint64_t timeout_ns, char *message);
void mpi_abandon(tdm_endpoint *endpoint);

/* ---- outstanding.c: messages in flight ------------------------------------------------------- */

/* Reserves entries for further pieces; changes nothing on failure. */
tdm_status mpi_reserve(mpi_endpoint *endpoint, size_t more);
/* Frees the tables of messages in flight. */
void mpi_free_tables(mpi_endpoint *endpoint);
/* Functions of the transport's table (net/transport.h). */
tdm_status mpi_poll(tdm_endpoint *endpoint, tdm_net_request **out_settled);
tdm_status mpi_cancel(tdm_endpoint *endpoint, tdm_net_request *request);

#endif
