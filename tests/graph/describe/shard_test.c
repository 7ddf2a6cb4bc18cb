/* Placement of tables that are distributed whole: the largest first, each on the device with the
 * least bytes for its weight. If tables are equal, the first one is placed on the first device. */
#include "graph/ir/ir.h"
#include "tests/graph/group.h"
#include "tests/options.h"

enum { TABLES = 4 };

static void tables_go_where_there_is_least(void **unused) {
  (void)unused;
  static const struct {
    int rows[TABLES];
    double weights[3]; /* weights of the shards; all 0: not given */
    const char *homes[TABLES];
  } cases[] = {
      {{5, 5, 5, 5}, {0, 0, 0}, {"cpu:0", "cpu:1", "sim:0", "cpu:0"}},
      {{10, 40, 20, 30}, {0, 0, 0}, {"sim:0", "cpu:0", "sim:0", "cpu:1"}},
      {{10, 40, 20, 30}, {1, 1, 1}, {"sim:0", "cpu:0", "sim:0", "cpu:1"}},
      {{10, 20, 30, 40}, {1, 0, 0}, {"cpu:0", "cpu:0", "cpu:0", "cpu:0"}},
      {{10, 20, 30, 40}, {0, 0, 2}, {"sim:0", "sim:0", "sim:0", "sim:0"}},
      {{10, 20, 30, 40}, {1, 4, 0}, {"cpu:1", "cpu:0", "cpu:1", "cpu:1"}},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
    for (int t = 0; t < TABLES; t++) {
      char name[16];
      (void)snprintf(name, sizeof name, "t%d", t);
      tdm_output(graph, name, tdm_embedding(graph, name, ids, cases[i].rows[t], 3));
    }
    const double *weights = cases[i].weights;
    const bool given = weights[0] + weights[1] + weights[2] > 0;
    const tdm_shard_options options =
        OPTIONS(tdm_shard_options, o.devices = "cpu:0,cpu:1,sim:0",
                o.weights = given ? weights : NULL, o.by = TDM_SHARD_TABLES);
    tdm_shard(graph, "", &options);
    assert_ok(tdm_graph_status(graph));
    assert_int_equal(graph->persistents.count, TABLES);
    for (int t = 0; t < TABLES; t++) {
      const tdm_ir_value *table = tdm_ir_value_at(graph, graph->persistents.items[t].value);
      const char *home = tdm_context_device(context, (size_t)table->device)->name;
      if (strcmp(home, cases[i].homes[t]) != 0) fail_msg("case %zu, t%d: %s", i, t, home);
    }
    tdm_graph_release(graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tables_go_where_there_is_least),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
