/* Stores of a job's ranks have the same parameters: what some rank has otherwise is refused on all
 * of them, by the name of the first such rank. */
#include "tests/graph/job.h"

enum { RANKS = 3, WIDTH = 4 };

/* The difference between a rank's model and the others'. */
typedef struct unlike {
  int odd;     /* the rank; RANKS: none */
  bool longer; /* it has an additional layer; otherwise one of another name */
  bool loads;  /* the ranks load; otherwise they save */
} unlike;

static tdm_status load_first(tdm_store *store, tdm_context *context) {
  tdm_tensor_list *list = tdm_tensor_list_create(context);
  tdm_tensor *ones = tdm_tensor_ones(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, WIDTH, WIDTH));
  tdm_status status = tdm_tensor_list_add(list, "first.weight", ones);
  if (status == TDM_OK) status = tdm_store_load(store, list);
  tdm_tensor_release(ones);
  tdm_tensor_list_release(list);
  return status;
}

static tdm_status load_or_save(job_rank *rank) {
  const unlike *of = rank->user;
  const bool odd = rank->rank == of->odd;
  tdm_graph *graph = tdm_graph_create(rank->context);
  tdm_place(graph, "host:0/cpu:0");
  tdm_value y = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 1, WIDTH));
  y = tdm_linear(graph, "first", y, WIDTH);
  y = tdm_linear(graph, odd && !of->longer ? "other" : "second", y, WIDTH);
  if (odd && of->longer) y = tdm_linear(graph, "third", y, WIDTH);
  tdm_output(graph, "y", y);
  tdm_session *session = job_session(graph, (tdm_value){0}, NULL);
  if (!session) return TDM_INTERNAL;
  tdm_store *store = tdm_session_store(session);
  tdm_status status = TDM_OK;
  if (of->loads) {
    status = load_first(store, rank->context);
  } else {
    tdm_tensor_list *saved = tdm_store_save(store, true);
    if (!saved) status = tdm_last_status();
    tdm_tensor_list_release(saved);
  }
  tdm_session_release(session);
  return status;
}

static void what_one_rank_has_otherwise_is_refused_on_all(void **unused) {
  (void)unused;
  for (int odd = 0; odd <= RANKS; odd++)
    for (int kind = 0; kind < 4; kind++) {
      const unlike of = {.odd = odd, .longer = kind & 1, .loads = kind & 2};
      job_rank ranks[JOB_MOST_RANKS];
      job_run(&(job_options){.rank_count = RANKS, .user = &of}, load_or_save, ranks);
      char wanted[64];
      (void)snprintf(wanted, sizeof wanted, "rank %d %s other parameters than rank 0",
                     odd == 0 ? 1 : odd, of.loads ? "has" : "saves");
      for (int r = 0; r < RANKS; r++) {
        assert_status(ranks[r].status, odd < RANKS ? TDM_INVALID_ARGUMENT : TDM_OK);
        if (odd < RANKS && !strstr(ranks[r].message, wanted))
          fail_msg("\"%s\" is not in \"%s\"", wanted, ranks[r].message);
      }
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_one_rank_has_otherwise_is_refused_on_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
