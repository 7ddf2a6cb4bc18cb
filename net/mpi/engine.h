/* What the files of a plug-in for an MPI share. They are compiled once against each MPI's headers,
 * since Open MPI and MPICH give handles and numbers of their own, stand on MPI and on declarations
 * of the library, call nothing of it, and export one table. Invariant: all messages go over a
 * communicator of its own, errors come back as statuses, and MPI is finalised at the end of a
 * process that it was initialised for here, unless a job was lost. */
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

typedef struct mpi_endpoint {
  tdm_endpoint base;
  MPI_Comm comm;
  /* What MPI reads and writes while a job is joined or left: here, since it may still do so when
   * nobody waits for it any more (life.c). */
  MPI_Request pending;
  tdm_rank own;
  unsigned long long own_limit;
  unsigned long long least_limit;
  struct mpi_endpoint *next; /* of those that are forgotten */
  size_t piece_bytes;
  uint32_t collectives;
  /* What is out, one entry a piece. */
  size_t count;
  size_t capacity;
  MPI_Request *requests;    /* (capacity) */
  tdm_net_request **owners; /* (capacity) */
  int *done;                /* (capacity), scratch of poll */
  MPI_Status *statuses;     /* (capacity), likewise */
} mpi_endpoint;
_Static_assert(offsetof(mpi_endpoint, base) == 0, "an endpoint is the beginning of the engine's");

/* What dlsym finds, by TDM_TRANSPORT_SYMBOL. */
TDM_API extern const tdm_transport tdm_transport_plugin;

/* ---- words.c: statuses, messages, memory ---- */

const char *mpi_version(void);
/* Does the process have the MPI that this was compiled for? */
bool mpi_is_ours(void);
void mpi_code_text(tdm_endpoint *endpoint, int code, char *text, size_t capacity);
tdm_status mpi_status_of(int code);
/* The status of an MPI's answer; message (TDM_NET_TEXT_BYTES) tells what failed. */
tdm_status mpi_check(int code, const char *what, char *message);
tdm_status mpi_refuse(tdm_status status, char *message, const char *format, ...) TDM_PRINTF(3, 4);
/* Zeroed; NULL where memory is short. */
void *mpi_take(const tdm_allocator *allocator, size_t bytes);
void mpi_give_back(const tdm_allocator *allocator, void *memory, size_t bytes);

/* ---- limits.c ---- */

/* How much this rank sends without asking the receiver first; above 0. MPI is up. */
size_t mpi_eager_bytes(void);

/* ---- life.c ---- */

tdm_status mpi_open(const tdm_endpoint_options *options, tdm_endpoint **out_endpoint,
                    char *message);
tdm_status mpi_close(tdm_endpoint *endpoint, uint64_t timeout_ns, char *message);
void mpi_abandon(tdm_endpoint *endpoint);

/* ---- outstanding.c: what is out ---- */

/* Room for so many pieces more; on failure all is as it was. */
tdm_status mpi_reserve(mpi_endpoint *endpoint, size_t more);
void mpi_free_tables(mpi_endpoint *endpoint);
tdm_status mpi_poll(tdm_endpoint *endpoint, tdm_net_request **out_settled);
tdm_status mpi_cancel(tdm_endpoint *endpoint, tdm_net_request *request);

#endif
