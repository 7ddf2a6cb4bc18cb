/* A network learns which points lie in a circle; its parameters are saved and loaded again. */
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

/* Points and their classes. */
static void make_data(tdm_context *context, int64_t count, uint64_t seed, tdm_tensor *out[2]) {
  out[0] =
      tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, count, 2), seed, -1, 1);
  out[1] = tdm_tensor_zeros(context, "cpu:0", TDM_INT64, tdm_shape_of(1, count));
  check(out[0] && out[1]);
  const float *xy = tdm_tensor_data(out[0]);
  for (int64_t i = 0; i < count; i++)
    ((int64_t *)tdm_tensor_data(out[1]))[i] =
        xy[2 * i] * xy[2 * i] + xy[2 * i + 1] * xy[2 * i + 1] < 0.49F;
}

static double train(tdm_session *model, tdm_loader *loader, uint64_t epoch) {
  tdm_tensor *batch[2];
  int64_t rows;
  double loss = 0;
  check(tdm_loader_start(loader, epoch) == TDM_OK);
  while (tdm_loader_next(loader, batch, &rows) == TDM_OK && rows > 0) {
    const tdm_feed feeds[] = {{"points", batch[0], false}, {"classes", batch[1], false}};
    check(tdm_train_step(model, feeds, 2, NULL, 0, &loss) == TDM_OK);
    tdm_tensor_release(batch[0]);
    tdm_tensor_release(batch[1]);
  }
  return loss;
}

/* The class found for each point. */
static tdm_tensor *ask(tdm_session *model, tdm_tensor *points) {
  const tdm_feed feed = {"points", points, false};
  tdm_fetch found = {"class", NULL};
  check(tdm_run(model, &feed, 1, &found, 1) == TDM_OK);
  return found.tensor;
}

static int test(tdm_session *model, tdm_tensor *const data[2]) {
  tdm_tensor *found = ask(model, data[0]);
  int right = 0;
  for (int i = 0; i < 200; i++)
    right += ((int64_t *)tdm_tensor_data(found))[i] == ((int64_t *)tdm_tensor_data(data[1]))[i];
  tdm_tensor_release(found);
  return right;
}

int main(void) {
  tdm_context *context = tdm_context_create(NULL);
  tdm_tensor *training_data[2], *test_data[2];
  make_data(context, 800, 1, training_data);
  make_data(context, 200, 2, test_data);
  tdm_dataset *dataset = tdm_dataset_from_tensors(
      context, (const char *const[]){"points", "classes"}, training_data, 2);
  tdm_loader *loader = tdm_loader_create(
      dataset, &(tdm_loader_options){
                   .struct_size = sizeof(tdm_loader_options), .batch_size = 50, .shuffle = true});

  tdm_graph *graph = tdm_graph_create(context);
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value points = tdm_input(graph, "points", TDM_FLOAT32, tdm_shape_of(2, batch, 2));
  const tdm_value classes = tdm_input(graph, "classes", TDM_INT64, tdm_shape_of(1, batch));
  const tdm_value scores = network(graph, points);
  tdm_output(graph, "class", tdm_argmax(graph, "class", scores, 1, false));
  const tdm_optimizer sgd = tdm_sgd_with(&(tdm_sgd_options){.learning_rate = 0.1, .momentum = 0.9});
  tdm_session_options options = {.struct_size = sizeof options, .optimizer = &sgd};
  options.loss = tdm_cross_entropy(graph, "loss", scores, classes);
  tdm_session *model = tdm_session_create(graph, &options);
  check(model != NULL);
  for (uint64_t epoch = 1; epoch <= 5; epoch++) {
    const double loss = train(model, loader, epoch);
    printf("epoch %d: loss %.3f, right on %d of 200\n", (int)epoch, loss, test(model, test_data));
  }

  check(tdm_state_dict_save(model, "quickstart.safetensors", NULL) == TDM_OK);
  tdm_session_release(model);
  model = tdm_session_create(graph, NULL);
  check(tdm_state_dict_load(model, "quickstart.safetensors", NULL) == TDM_OK);
  printf("loaded: right on %d of 200\n", test(model, test_data));
  const float point[] = {0.1F, -0.2F};
  tdm_tensor *one = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, 1, 2), point);
  tdm_tensor *found = ask(model, one);
  printf("(0.1, -0.2) is %s\n", class_names[*(int64_t *)tdm_tensor_data(found)]);

  tdm_tensor *tensors[] = {
      training_data[0], training_data[1], test_data[0], test_data[1], one, found};
  for (int i = 0; i < 6; i++)
    tdm_tensor_release(tensors[i]);
  tdm_loader_release(loader);
  tdm_dataset_release(dataset);
  tdm_session_release(model);
  tdm_graph_release(graph);
  tdm_context_release(context);
  return 0;
}
