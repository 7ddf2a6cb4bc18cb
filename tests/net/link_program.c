/* A program for two ranks with a link between them: replicas of one layer, whose gradients cross.
 *
 *     link_program count            trains some steps; prints the bytes that this rank's interface
 *                                   has sent and those that the plan explains
 *     link_program measure FILE     calibrates the link, saves it to FILE, and prints the cost of a
 *                                   message at each rank; then trains some steps
 *     link_program known            prints the cost of a message
 *     link_program cut STARTED TOLD trains on; rank 0 writes STARTED once it does, and each rank
 *                                   appends to TOLD when its step fails: "rank R NANOSECONDS
 *                                   MESSAGE", of CLOCK_REALTIME */
#define _GNU_SOURCE /* clock_gettime */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "devices/links/links.h"
#include "graph/run/session.h"
#include "tandem/tandem.h"
#include "tests/net/told.h"
#include "tests/options.h"

enum { ROWS = 8, WIDTH = 1024, STEPS = 20, WARM_STEPS = 3, MOST_STEPS = 100000 };

/* Returns the bytes that the interfaces of this network namespace have sent, except loopback. */
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
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  tdm_place(graph, "host:0/cpu:0");
  tdm_scope_push(graph, "model");
  const tdm_value y = tdm_linear(graph, "layer", x, WIDTH);
  tdm_scope_pop(graph);
  const tdm_value loss = tdm_mse(graph, "loss", y, x);
  const tdm_parallel_options everywhere = OPTIONS(tdm_parallel_options, o.devices = "host:*/cpu:0");
  tdm_data_parallel(graph, "model", &everywhere);
  const tdm_optimizer sgd = tdm_sgd(0.01);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = loss, o.optimizer = &sgd, o.deterministic = true);
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  return session;
}

static void count_bytes(const tdm_session *session, int rank, int steps, uint64_t before) {
  const uint64_t explained = session->newest->network.sent_bytes * (uint64_t)steps;
  const uint64_t counted = interface_bytes() - before;
  printf("rank %d: explained %" PRIu64 " bytes, the interface counted %" PRIu64 ": %.4f\n", rank,
         explained, counted, explained > 0 ? (double)counted / (double)explained : 0.0);
  fflush(stdout); /* an MPI may hang as the process ends */
}

/* ---- What messages are taken to cost --------------------------------------------------------- */

static void print_link(tdm_context *context) {
  tdm_link_estimate link;
  tdm_context_link(context, tdm_context_host_of(context, 0), tdm_context_host_of(context, 1), false,
                   &link);
  printf("rank %d: 1 MB takes %.9g ms, %s\n", tdm_context_rank(context),
         tdm_link_predict_ns(&link, 1e6) / 1e6, tdm_link_origin_name(link.origin));
  fflush(stdout);
}

static tdm_status measure(tdm_context *context, const char *file) {
  const tdm_status status = tdm_context_calibrate(context, file);
  if (status == TDM_OK) print_link(context);
  return status;
}

/* ---- Training -------------------------------------------------------------------------------- */

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
  if (status == TDM_OK) count_bytes(session, rank, STEPS, before);
  return status;
}

/* Prints warnings, for example about links that differ from the file. */
static void print_warning(void *user, tdm_log_level level, const char *message) {
  (void)user;
  if (level >= TDM_LOG_WARNING) fprintf(stderr, "%s\n", message);
}

int main(int count, char **arguments) {
  if (count < 2 || count > 4) return 2;
  const tdm_context_options logged = OPTIONS(tdm_context_options, o.log = print_warning);
  tdm_context *context = tdm_context_create(&logged);
  tdm_status status = context ? TDM_OK : TDM_INTERNAL;
  if (context && count == 3) status = measure(context, arguments[2]);
  const bool trains = status == TDM_OK && strcmp(arguments[1], "known") != 0;
  if (status == TDM_OK && !trains) print_link(context);
  tdm_session *session = trains ? make_session(context) : NULL;
  if (trains && !session) status = TDM_INTERNAL;
  if (session) {
    tdm_tensor *x = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH));
    const tdm_feed feed = {"x", x, false};
    status = train(session, &feed, tdm_context_rank(context), arguments);
    tdm_tensor_release(x);
  }
  if (status != TDM_OK) fprintf(stderr, "%s\n", tdm_last_message());
  tdm_session_release(session);
  tdm_context_release(context);
  return status == TDM_OK ? 0 : 1;
}
