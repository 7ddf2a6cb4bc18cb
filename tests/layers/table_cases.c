/* Builders of the golden cases of tests/golden/table_cases.py. */
#include "tests/layers/layer_cases.h"

/* mode, rows, dim, by offsets, ends, scaled, has padding, padding, sparse */
static void bag(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  const tdm_embedding_bag_options chosen = {
      .struct_size = sizeof chosen,
      .mode = (tdm_bag_mode)(int)numbers[0],
      .offsets = numbers[3] != 0 ? layer_input(test, "offsets") : (tdm_value){0, 0},
      .include_last_offset = numbers[4] != 0,
      .scales = numbers[5] != 0 ? layer_parameter(test, "scales") : (tdm_value){0, 0},
      .has_padding_index = numbers[6] != 0,
      .padding_index = (int64_t)numbers[7],
      .sparse = numbers[8] != 0};
  const tdm_value ids = layer_input(test, "ids");
  layer_judge(test, "y",
              tdm_embedding_bag(test->graph, "layer", ids, (int64_t)numbers[1], (int64_t)numbers[2],
                                &chosen));
}

const layer_builder table_builders[] = {
    {"embedding_bag", {.build = bag}},
    {.layer = NULL},
};
