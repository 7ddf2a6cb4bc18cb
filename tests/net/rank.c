/* One rank of a launched job. A thread other than the program's first one executes it.
 *
 * The first argument selects the test:
 *
 * - `conformance`: the suite, twice, since a process may join again after it has left in order.
 *   Standard output has "rank R of N passed on VERSION" for each time.
 * - `late`: rank 0 leaves and does not wait for the others, who never leave. It prints whether the
 *   memory for which MPI still has a request stays.
 * - `limit`: rank 0 sets the limit of its MPI for messages without a handshake to 40,000 bytes, and
 *   rank 1 to 20,000. Rank 0 sends rank 1 the limit of its endpoint, which settles before rank 1
 * polls.
 * - `killed`, `stopped`: rank 1 does that to itself. The others write the message of the control
 *   channel, "rank R: rank 1 (host ...", into the file that the second argument names.
 *
 * Built with OWN_MPI it initialises MPI itself, for one thread if the argument is `single`, and
 * executes the suite on a part of its ranks. With `unnamed` rank 0 joins in vain, since rank 1
 * comes when it waits no more. */
#define _GNU_SOURCE /* usleep, kill, setenv */
#ifdef OWN_MPI
#include <mpi.h>
#endif
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/park.h"
#include "core/status.h"
#include "net/control.h"
#include "net/launch.h"
#include "tests/net/conformance.h"
#include "tests/net/told.h"

#define LIMIT_NS UINT64_C(30000000000)

static int fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, tdm_last_message());
  return EXIT_FAILURE;
}

static tdm_status open_job(const tdm_transport *transport, const void *place,
                           tdm_endpoint **out_endpoint) {
  const tdm_endpoint_options options = {.struct_size = sizeof(options),
                                        .allocator = tdm_allocator_default(),
                                        .job = place,
                                        .timeout_ns = LIMIT_NS,
                                        .piece_bytes = 4096};
  return tdm_endpoint_open(transport, &options, out_endpoint);
}

static int run_conformance(const tdm_transport *transport, const void *place) {
  for (int i = 0; i < 2; i++) {
    tdm_endpoint *endpoint;
    if (open_job(transport, place, &endpoint) != TDM_OK) return fail("open");
    const int rank = endpoint->rank, count = endpoint->rank_count;
    if (!conformance_run(endpoint, false)) {
      tdm_endpoint_abandon(endpoint);
      return EXIT_FAILURE;
    }
    if (tdm_endpoint_close(endpoint, LIMIT_NS) != TDM_OK) return fail("close");
    printf("rank %d of %d passed on %s\n", rank, count, transport->version());
  }
  return EXIT_SUCCESS;
}

static const char *told_path = "told";

/* Returns true for rank 1 by the variables of the launchers, before MPI is initialised. */
static bool is_rank_1(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *rank = getenv(names[i]);
    if (rank) return strcmp(rank, "1") == 0;
  }
  return false;
}

static void set_limit(const char *bytes) {
  (void)setenv("OMPI_MCA_btl", "tcp,self", 1); /* memory that processes share has another */
  (void)setenv("OMPI_MCA_btl_tcp_if_include", "lo", 1);
  (void)setenv("OMPI_MCA_btl_tcp_eager_limit", bytes, 1);
  (void)setenv("OMPI_MCA_btl_tcp_rndv_eager_limit", bytes, 1);
  (void)setenv("UCX_RNDV_THRESH", bytes, 1);
}

static tdm_status send_what_nobody_looks_for(tdm_endpoint *endpoint, char *memory) {
  tdm_net_request request;
  const size_t bytes = endpoint->eager_bytes;
  if (endpoint->rank == 0) {
    TDM_TRY(tdm_endpoint_send(endpoint, &request, 1, 1, memory, bytes));
    TDM_TRY(tdm_endpoint_wait(endpoint, &request, LIMIT_NS));
    return told_add(told_path, "sent") ? TDM_OK : TDM_IO;
  }
  told_await(told_path, 1);
  TDM_TRY(tdm_endpoint_receive(endpoint, &request, 0, 1, memory, bytes));
  return tdm_endpoint_wait(endpoint, &request, LIMIT_NS);
}

static int run_limit(const tdm_transport *transport) {
  static char memory[1 << 16];
  tdm_endpoint *endpoint;
  tdm_net_request request;
  set_limit(is_rank_1() ? "20000" : "40000");
  if (open_job(transport, NULL, &endpoint) != TDM_OK) return fail("open");
  printf("rank %d sends %zu bytes at once\n", endpoint->rank, endpoint->eager_bytes);
  if (endpoint->eager_bytes > sizeof(memory)) return fail("limit");
  if (tdm_endpoint_barrier(endpoint, &request) != TDM_OK ||
      tdm_endpoint_wait(endpoint, &request, LIMIT_NS) != TDM_OK)
    return fail("barrier");
  if (send_what_nobody_looks_for(endpoint, memory) != TDM_OK) return fail("send");
  return tdm_endpoint_close(endpoint, LIMIT_NS) == TDM_OK ? EXIT_SUCCESS : fail("close");
}

static size_t allocated_bytes;

static void *allocate_counted(void *user, size_t bytes, size_t alignment) {
  (void)user;
  const tdm_allocator plain = tdm_allocator_default();
  allocated_bytes += bytes;
  return plain.allocate(plain.user, bytes, alignment);
}

static void release_counted(void *user, void *memory, size_t bytes) {
  (void)user;
  const tdm_allocator plain = tdm_allocator_default();
  if (memory) allocated_bytes -= bytes;
  plain.release(plain.user, memory, bytes);
}

static int run_late(const tdm_transport *transport) {
  const tdm_endpoint_options options = {
      .struct_size = sizeof(options),
      .allocator = {.allocate = allocate_counted, .release = release_counted},
      .timeout_ns = LIMIT_NS};
  tdm_endpoint *endpoint;
  if (tdm_endpoint_open(transport, &options, &endpoint) != TDM_OK) return fail("open");
  if (endpoint->rank != 0) {
    (void)usleep(600000);
    tdm_endpoint_abandon(endpoint);
    return EXIT_SUCCESS;
  }
  const tdm_status status = tdm_endpoint_close(endpoint, 200000000);
  printf("rank 0: %s: %s\n", tdm_status_name(status), tdm_last_message());
  printf("rank 0: its memory %s\n", allocated_bytes > 0 ? "stays" : "was released");
  printf("rank 0: %s", tdm_status_name(open_job(transport, NULL, &endpoint)));
  printf(": %s\n", tdm_last_message());
  fflush(stdout);
  return EXIT_SUCCESS;
}

/* The others end the one that is stopped, so that the launcher can end. */
static int run_lost(const tdm_transport *transport, int own_signal) {
  tdm_endpoint *endpoint;
  tdm_control *control;
  const tdm_control_options options = {
      .struct_size = sizeof(options), .allocator = tdm_allocator_default(), .queue_count = 1};
  if (open_job(transport, NULL, &endpoint) != TDM_OK) return fail("open");
  if (tdm_control_start(endpoint, &options, &control) != TDM_OK) return fail("control");
  tdm_control_progress(control, 0, 42);
  (void)usleep(300000);
  const uint64_t begin_ns = tdm_time_ns();
  if (endpoint->rank == 1) (void)kill(getpid(), own_signal);
  tdm_control_failure failure;
  while (!tdm_control_failed(control, &failure) && tdm_time_ns() - begin_ns < LIMIT_NS)
    (void)usleep(1000);
  char text[TDM_CONTROL_TEXT_BYTES] = "nothing was told";
  if (tdm_control_failed(control, &failure)) (void)tdm_control_failure_text(&failure, text);
  if (!told_add(told_path, "rank %d: %s (after %.0f ms)", endpoint->rank, text,
                (double)(tdm_time_ns() - begin_ns) * 1e-6))
    return fail(told_path);
  told_await(told_path, endpoint->rank_count - 1);
  if (endpoint->rank == 0) (void)kill((pid_t)endpoint->ranks[1].pid, SIGKILL);
  tdm_control_leave(control);
  tdm_endpoint_abandon(endpoint);
  return EXIT_SUCCESS;
}

static const char *task = "conformance";
static const void *given_place;

static void *run(void *user) {
  const tdm_transport *transport;
  int *exit_status = user;
  if (tdm_transport_find(&transport) != TDM_OK) {
    *exit_status = fail("find");
  } else if (!transport) {
    printf("alone\n");
    *exit_status = EXIT_SUCCESS;
  } else if (strcmp(task, "late") == 0) {
    *exit_status = run_late(transport);
  } else if (strcmp(task, "limit") == 0) {
    *exit_status = run_limit(transport);
  } else if (strcmp(task, "killed") == 0 || strcmp(task, "stopped") == 0) {
    *exit_status = run_lost(transport, strcmp(task, "killed") == 0 ? SIGKILL : SIGSTOP);
  } else {
    *exit_status = run_conformance(transport, given_place);
  }
  return NULL;
}

static int run_in_thread(void) {
  pthread_t thread;
  int exit_status = EXIT_FAILURE;
  if (pthread_create(&thread, NULL, run, &exit_status) != 0) return EXIT_FAILURE;
  (void)pthread_join(thread, NULL);
  return exit_status;
}

#ifdef OWN_MPI
/* All ranks but the first are a job, and the first has none; MPI continues afterwards. With
 * `single`, MPI is only for this thread. */
static int run_split(bool single) {
  int provided, rank, sum = 0;
  const int one = 1;
  MPI_Comm part;
  (void)MPI_Init_thread(NULL, NULL, single ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &provided);
  /* MPICH calls these handlers for its requests, not those of the transport's communicator. */
  (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  (void)MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  (void)MPI_Comm_split(MPI_COMM_WORLD, rank == 0, rank, &part);
  given_place = &part;
  const int exit_status = run_in_thread();
  (void)MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks go on\n", sum);
  (void)MPI_Comm_free(&part);
  (void)MPI_Finalize();
  return exit_status;
}

/* ---- A rank that comes too late -------------------------------------------------------------- */

enum { GIVEN_BACK = 0xA5, MOST_GIVEN_BACK = 16 };
static struct {
  unsigned char *memory;
  size_t bytes;
} given_back[MOST_GIVEN_BACK];
static int given_back_count;

static void *take(void *user, size_t bytes, size_t alignment) {
  (void)user;
  return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

/* Does not free the memory, so that later writes are detected. */
static void give_back(void *user, void *memory, size_t bytes) {
  (void)user;
  if (!memory || given_back_count == MOST_GIVEN_BACK) return;
  memset(memory, GIVEN_BACK, bytes);
  given_back[given_back_count].memory = memory;
  given_back[given_back_count++].bytes = bytes;
}

static bool is_untouched(void) {
  bool untouched = true;
  for (int i = 0; i < given_back_count; i++)
    for (size_t at = 0; at < given_back[i].bytes; at++)
      untouched &= given_back[i].memory[at] == GIVEN_BACK;
  return untouched;
}

static int join_in_vain(void) {
  const tdm_endpoint_options options = {.struct_size = sizeof(options),
                                        .allocator = {.allocate = take, .release = give_back},
                                        .timeout_ns = 500000000};
  const tdm_transport *transport;
  tdm_endpoint *endpoint;
  int word = 0;
  if (tdm_transport_find(&transport) != TDM_OK) return fail("find");
  printf("rank 0: %s", tdm_status_name(tdm_endpoint_open(transport, &options, &endpoint)));
  printf(": %s\n", tdm_last_message());
  (void)MPI_Send(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
  (void)MPI_Recv(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  printf("rank 0: what was given back is %s\n", is_untouched() ? "untouched" : "written to");
  return EXIT_SUCCESS;
}

/* Joins as the transport does, but late. */
static int come_late(void) {
  tdm_rank own = {.host = "late"}, ranks[2];
  MPI_Comm comm;
  MPI_Request request;
  int word;
  (void)MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
  (void)MPI_Wait(&request, MPI_STATUS_IGNORE);
  (void)MPI_Recv(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  (void)MPI_Iallgather(&own, (int)sizeof own, MPI_BYTE, ranks, (int)sizeof own, MPI_BYTE, comm,
                       &request);
  (void)MPI_Wait(&request, MPI_STATUS_IGNORE);
  (void)MPI_Send(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
  return EXIT_SUCCESS;
}

static int run_unnamed(void) {
  int provided, rank;
  (void)MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
  (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int exit_status = rank == 0 ? join_in_vain() : come_late();
  (void)MPI_Finalize();
  return exit_status;
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "unnamed") == 0) return run_unnamed();
  return run_split(argc > 1 && strcmp(argv[1], "single") == 0);
}
#else
int main(int argc, char **argv) {
  if (argc > 1) task = argv[1];
  if (argc > 2) told_path = argv[2];
  return run_in_thread();
}
#endif
