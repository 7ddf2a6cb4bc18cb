/* Trains a network to classify points inside and outside of a circle. Saves its parameters and
 * loads them again. */
#include "examples/tutorials/tutorial.h"

static const char *const class_names[] = {"outside", "inside"};

static tdm_value network(tdm_graph *graph, tdm_value points) {
  tdm_scope_push(graph, "layers");
  tdm_value x = tdm_relu(graph, NULL, tdm_linear(graph, NULL, points, 32));
  x = tdm_relu(graph, NULL, tdm_linear(graph, NULL, x, 32));
  x = tdm_linear(graph, NULL, x, 2);
  tdm_scope_pop(graph);
  return x;
}

static void make_data(tdm_context *context, int64_t count, uint64_t seed, tdm_tensor *out[2]) {
  out[0] = tdm_tensor_uniform(context, "cpu", TDM_FLOAT32, tdm_shape_of(2, count, 2), seed, -1, 1);
  out[1] = tdm_tensor_zeros(context, "cpu", TDM_INT64, tdm_shape_of(1, count));
  const float *xy = tdm_tensor_data(out[0]);
  int64_t *inside = tdm_tensor_data(out[1]);
  for (int64_t i = 0; i < count; i++)
    inside[i] = xy[2 * i] * xy[2 * i] + xy[2 * i + 1] * xy[2 * i + 1] < 0.49F;
}

static double test(tdm_session *model, tdm_tensor *const data[2]) {
  const tdm_feed feeds[] = {{"points", data[0], false}, {"classes", data[1], false}};
  tdm_tensor *accuracy = tdm_run_output(model, feeds, 2, "accuracy");
  check(accuracy != NULL);
  const double found = tdm_tensor_item(accuracy, 0);
  tdm_tensor_release(accuracy);
  return found;
}

int main(void) {
  tdm_context *context = tdm_context_create(NULL);
  tdm_tensor *training_data[2], *test_data[2];
  make_data(context, 800, 1, training_data);
  make_data(context, 200, 2, test_data);
  static const char *const names[] = {"points", "classes"};
  tdm_dataset *dataset = tdm_dataset_from_tensors(context, names, training_data, 2);
  tdm_loader_options batches = tdm_loader_options_default();
  batches.batch_size = 50;
  batches.shuffle = true;
  tdm_loader *loader = tdm_loader_create(dataset, &batches);

  tdm_graph *graph = tdm_graph_create(context);
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value points = tdm_input(graph, "points", TDM_FLOAT32, tdm_shape_of(2, batch, 2));
  const tdm_value classes = tdm_input(graph, "classes", TDM_INT64, tdm_shape_of(1, batch));
  const tdm_value scores = network(graph, points);
  tdm_output(graph, "class", tdm_argmax(graph, NULL, scores, 1, false));
  tdm_output(graph, "accuracy", tdm_accuracy(graph, NULL, scores, classes));
  tdm_sgd_options momentum = tdm_sgd_options_default();
  momentum.learning_rate = 0.1;
  momentum.momentum = 0.9;
  const tdm_optimizer sgd = tdm_sgd_with(&momentum);
  tdm_session_options options = tdm_session_options_default();
  options.optimizer = &sgd;
  options.loss = tdm_cross_entropy(graph, "loss", scores, classes);
  tdm_session *model = tdm_session_create(graph, &options);
  for (uint64_t epoch = 1; epoch <= 5; epoch++) {
    double loss;
    check(tdm_train_epoch(model, loader, names, 2, epoch, &loss) == TDM_OK);
    printf("epoch %d: loss %.3f, accuracy %.3f\n", (int)epoch, loss, test(model, test_data));
  }

  check(tdm_state_dict_save(model, "quickstart.safetensors", NULL) == TDM_OK);
  tdm_session_release(model);
  model = tdm_session_create(graph, NULL);
  check(tdm_state_dict_load(model, "quickstart.safetensors", NULL) == TDM_OK);
  printf("loaded: accuracy %.3f\n", test(model, test_data));
  const float point[] = {0.1F, -0.2F};
  tdm_tensor *one = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, 1, 2), point);
  tdm_tensor *class = tdm_run_output(model, &(tdm_feed){"points", one, false}, 1, "class");
  check(class != NULL);
  printf("(0.1, -0.2) is %s\n", class_names[(int)tdm_tensor_item(class, 0)]);

  tdm_tensor *all[] = {training_data[0], training_data[1], test_data[0], test_data[1], one, class};
  for (int i = 0; i < 6; i++)
    tdm_tensor_release(all[i]);
  tdm_loader_release(loader);
  tdm_dataset_release(dataset);
  tdm_session_release(model);
  tdm_graph_release(graph);
  tdm_context_release(context);
  return 0;
}
