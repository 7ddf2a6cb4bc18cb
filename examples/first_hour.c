/* The program of docs/first_hour.md. Each call continues training for one more epoch. "explain"
 * prints the transfers of a step, without training. */
#include <string.h>
#include <unistd.h>

#include "examples/first_steps/training.h"

enum { STEPS = 6400 / BATCH }; /* number of steps of an epoch */

/* Makes the plan of a training step, prints it, and writes the page about it. */
static void tell(tdm_session *session) {
  tdm_tensor *baskets[2];
  make_baskets(tdm_session_context(session), BATCH, 3, baskets);
  const tdm_feed feeds[] = {{"items", baskets[0], false}, {"kinds", baskets[1], false}};
  check(tdm_train_step(session, feeds, 2, NULL, 0, NULL) == TDM_OK);
  check(tdm_session_explain(session, TDM_PLAN_TEXT, stdout) == TDM_OK);
  FILE *page = fopen("report.html", "w");
  check(page && tdm_session_report(session, page) == TDM_OK && fclose(page) == 0);
  tdm_tensor_release(baskets[0]);
  tdm_tensor_release(baskets[1]);
}

int main(int argc, char **argv) {
  const bool explain = argc == 2 && strcmp(argv[1], "explain") == 0;
  if (argc > 1 && !explain)
    return printf("usage: %s [explain]\nTrains for an epoch, or explains a step.\n", argv[0]) < 0;
  const char *file = "first_hour.checkpoint";
  tdm_context *context = tdm_context_create(NULL);
  tdm_session_options options = tdm_session_options_default();
  options.profile = true;
  options.trace_runs = 3;
  tdm_graph *graph = describe_training(context, &options);
  tdm_session *session = tdm_session_create(graph, &options);
  check(session != NULL);
  tdm_loader *loader = make_loader(context);
  if (access(file, R_OK) == 0) check(tdm_checkpoint_load(session, loader, file) == TDM_OK);
  const uint64_t done = tdm_session_step(session) / STEPS;
  if (explain) {
    tell(session);
  } else {
    train(session, loader, done + 1, done + 1);
    check(tdm_checkpoint_save(session, loader, file) == TDM_OK);
  }
  tdm_loader_release(loader);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
  return 0;
}
