/* One rank of a job that a launcher has started: the conformance suite on the engine's endpoint, by
 * a thread that is not the program's first, and twice, since a process may join again what it has
 * left in order. Standard output has "rank R of N passed on VERSION" for each time. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/status.h"
#include "net/launch.h"
#include "tests/net/conformance.h"

static int fail(const char *what) {
  (void)fprintf(stderr, "%s: %s\n", what, tdm_last_message());
  return EXIT_FAILURE;
}

static int run_job(const tdm_transport *transport) {
  const tdm_endpoint_options options = {.struct_size = sizeof(options),
                                        .allocator = tdm_allocator_default(),
                                        .timeout_ns = UINT64_C(30000000000),
                                        .piece_bytes = 4096};
  tdm_endpoint *endpoint;
  if (tdm_endpoint_open(transport, &options, &endpoint) != TDM_OK) return fail("open");
  const int rank = endpoint->rank, count = endpoint->rank_count;
  if (!conformance_run(endpoint, false)) {
    tdm_endpoint_abandon(endpoint);
    return EXIT_FAILURE;
  }
  if (tdm_endpoint_close(endpoint, UINT64_C(30000000000)) != TDM_OK) return fail("close");
  (void)printf("rank %d of %d passed on %s\n", rank, count, transport->version());
  return EXIT_SUCCESS;
}

static void *run(void *user) {
  const tdm_transport *transport;
  int *exit_status = user;
  *exit_status = EXIT_FAILURE;
  if (tdm_transport_find(&transport) != TDM_OK) {
    (void)fail("find");
  } else if (!transport) {
    (void)printf("alone\n");
    *exit_status = EXIT_SUCCESS;
  } else {
    for (int i = 0; i < 2 && (i == 0 || *exit_status == EXIT_SUCCESS); i++)
      *exit_status = run_job(transport);
  }
  return NULL;
}

int main(void) {
  pthread_t thread;
  int exit_status;
  if (pthread_create(&thread, NULL, run, &exit_status) != 0) return EXIT_FAILURE;
  (void)pthread_join(thread, NULL);
  return exit_status;
}
