/* See support.h. */
#include "tests/checkpoint/support.h"
#include "tests/options.h"

#include <stdlib.h>

static tdm_loader *make_loader(tdm_context *context, const trainer_options *options) {
  static const char *const names[] = {"x", "ids", "class"};
  float x[ITEMS * FEATURES];
  int64_t ids[ITEMS], classes[ITEMS];
  for (int i = 0; i < ITEMS * FEATURES; i++)
    x[i] = (float)(i * 29 % 61) / 30.0f - 1.0f;
  for (int i = 0; i < ITEMS; i++) {
    ids[i] = i * 5 % 11;
    classes[i] = i * 7 % CLASSES;
  }
  tdm_tensor *tensors[] = {
      tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, ITEMS, FEATURES), x),
      tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, ITEMS), ids),
      tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, ITEMS), classes)};
  tdm_dataset *dataset = tdm_dataset_from_tensors(context, names, tensors, 3);
  const tdm_loader_options loading =
      OPTIONS(tdm_loader_options, o.batch_size = options->batch_size ? options->batch_size : BATCH,
              o.shuffle = true, o.seed = 11, o.prefetch = options->prefetch);
  tdm_loader *loader = tdm_loader_create(dataset, &loading);
  if (!loader) fail_msg("%s", tdm_last_message());
  for (int i = 0; i < 3; i++)
    tdm_tensor_release(tensors[i]);
  tdm_dataset_release(dataset);
  return loader;
}

static tdm_value build(tdm_graph *graph, const trainer_options *options) {
  const tdm_shape batch = tdm_shape_of(1, TDM_DIM("batch"));
  tdm_value x;
  if (options->has_table) {
    const tdm_embedding_options sparse = OPTIONS(tdm_embedding_options, o.sparse = true);
    const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, batch);
    x = tdm_embedding_with(graph, "table", ids, 11, FEATURES, &sparse);
  } else {
    x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), FEATURES));
  }
  x = tdm_batch_norm(graph, "norm", tdm_linear(graph, "first", x, 8));
  x = tdm_dropout(graph, "drop", tdm_relu(graph, "relu", x), 0.4);
  x = tdm_linear(graph, "second", x, options->classes ? options->classes : CLASSES);
  if (options->wrapped) {
    const tdm_parallel_options parallel =
        OPTIONS(tdm_parallel_options, o.devices = options->wrapped);
    tdm_data_parallel(graph, "first,norm,relu,drop,second", &parallel);
  }
  return tdm_cross_entropy(graph, "loss", x, tdm_input(graph, "class", TDM_INT64, batch));
}

trainer trainer_create(tdm_context *context, const trainer_options *options) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_optimizer optimizer = options->has_table ? tdm_adagrad(0.05) : tdm_adam(0.02);
  if (options->optimizer) optimizer = *options->optimizer;
  const tdm_session_options given =
      OPTIONS(tdm_session_options, o.loss = build(graph, options), o.optimizer = &optimizer,
              o.device_map = options->device_map, o.seed = options->seed,
              o.micro_batches = OR_ONE(options->micro_batches));
  const trainer made = {tdm_session_create(graph, &given), make_loader(context, options),
                        options->has_table};
  if (!made.session) fail_msg("%s", tdm_last_message());
  tdm_graph_release(graph);
  return made;
}

void trainer_release(trainer *made) {
  tdm_session_release(made->session);
  tdm_loader_release(made->loader);
}

double trainer_step(trainer *made) {
  tdm_tensor *fields[3];
  int64_t rows;
  assert_ok(tdm_loader_next(made->loader, fields, 3, &rows));
  if (rows == 0) {
    uint64_t epoch;
    tdm_loader_position(made->loader, &epoch, NULL);
    assert_ok(tdm_loader_start(made->loader, epoch + 1));
    assert_ok(tdm_loader_next(made->loader, fields, 3, &rows));
  }
  const tdm_feed feeds[] = {made->has_table ? (tdm_feed){"ids", fields[1], false}
                                            : (tdm_feed){"x", fields[0], false},
                            {"class", fields[2], false}};
  double loss;
  assert_ok(tdm_train_step(made->session, feeds, 2, NULL, 0, &loss));
  for (int i = 0; i < 3; i++)
    tdm_tensor_release(fields[i]);
  return loss;
}

const char *checkpoint_path(char *path, const char *name) {
  const char *folder = getenv("TEST_TMPDIR");
  (void)snprintf(path, 512, "%s/%s", folder ? folder : "/tmp", name);
  return path;
}
