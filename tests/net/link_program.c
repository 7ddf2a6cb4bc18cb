/* A program for two ranks with a link between them: replicas of one layer, whose gradients cross.
 *
 *     link_program count            trains some steps, and prints what this rank's interface has
 *                                   sent beside what the plan explains
 *     link_program cut STARTED TOLD trains on; rank 0 writes STARTED once it does, and each rank
 *                                   appends to TOLD when its step fails: "rank R NANOSECONDS
 *                                   MESSAGE", of CLOCK_REALTIME */
#define _GNU_SOURCE /* clock_gettime */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "graph/run/session.h"
#include "tandem/tandem.h"
#include "tests/net/told.h"

enum { ROWS = 8, WIDTH = 1024, STEPS = 20, WARM_STEPS = 3, MOST_STEPS = 100000 };

/* What the interfaces of this process' network namespace have sent, its own machine's apart. */
static uint64_t interface_bytes(void) {
  char line[512];
  uint64_t sum = 0;
  FILE *file = fopen("/proc/self/net/dev", "r");
  while (file && fgets(line, sizeof line, file)) {
    char name[64];
    uint64_t sent = 0;
    if (sscanf(line, " %63[^:]: %*u %*u %*u %*u %*u %*u %*u %*u %" SCNu64, name, &sent) == 2 &&
        strcmp(name, "lo") != 0)
      sum += sent;
  }
  if (file) (void)fclose(file);
  return sum;
}

static tdm_session *make_session(tdm_context *context) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x =
      tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  tdm_place(graph, "host:0/cpu:0");
  tdm_scope_push(graph, "model");
  const tdm_value y = tdm_linear(graph, "layer", x, WIDTH);
  tdm_scope_pop(graph);
  const tdm_value loss = tdm_mse(graph, "loss", y, x);
  const tdm_parallel_options everywhere = {.struct_size = sizeof everywhere,
                                           .devices = "host:*/cpu:0"};
  tdm_data_parallel(graph, "model", &everywhere);
  const tdm_optimizer sgd = tdm_sgd(0.01);
  const tdm_session_options options = {
      .struct_size = sizeof options, .loss = loss, .optimizer = &sgd, .deterministic = true};
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  return session;
}

static void count(const tdm_session *session, int rank, int steps, uint64_t before) {
  const uint64_t explained = session->newest->network.sent_bytes * (uint64_t)steps;
  const uint64_t counted = interface_bytes() - before;
  printf("rank %d: explained %" PRIu64 " bytes, the interface counted %" PRIu64 ": %.4f\n", rank,
         explained, counted, explained > 0 ? (double)counted / (double)explained : 0.0);
}

static void tell(const char *path, int rank) {
  struct timespec now;
  (void)clock_gettime(CLOCK_REALTIME, &now);
  (void)told_add(path, "rank %d %lld%09ld %s", rank, (long long)now.tv_sec, now.tv_nsec,
                 tdm_last_message());
}

static tdm_status train(tdm_session *session, const tdm_feed *feed, int rank, char **arguments) {
  const bool cut = strcmp(arguments[1], "cut") == 0;
  const int steps = cut ? MOST_STEPS : WARM_STEPS + STEPS;
  uint64_t before = 0;
  tdm_status status = TDM_OK;
  for (int step = 0; step < steps && status == TDM_OK; step++) {
    if (step == WARM_STEPS) before = interface_bytes();
    if (cut && step == WARM_STEPS && rank == 0) (void)told_add(arguments[2], "training");
    status = tdm_train_step(session, feed, 1, NULL, 0, NULL);
  }
  if (status != TDM_OK && cut) tell(arguments[3], rank);
  if (status == TDM_OK) count(session, rank, STEPS, before);
  return status;
}

int main(int count_of_arguments, char **arguments) {
  if (count_of_arguments != 2 && count_of_arguments != 4) return 2;
  tdm_context *context = tdm_context_create(NULL);
  tdm_session *session = context ? make_session(context) : NULL;
  tdm_status status = TDM_INTERNAL;
  if (session) {
    tdm_tensor *x = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH));
    const tdm_feed feed = {"x", x, false};
    status = train(session, &feed, tdm_context_rank(context), arguments);
    tdm_tensor_release(x);
  }
  if (status != TDM_OK) (void)fprintf(stderr, "%s\n", tdm_last_message());
  tdm_session_release(session);
  tdm_context_release(context);
  return status == TDM_OK ? 0 : 1;
}
