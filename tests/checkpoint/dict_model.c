/* See dict_model.h. */
#include "tests/checkpoint/dict_model.h"

#include "tests/checkpoint/support.h"
#include "tests/options.h"

tdm_session *dict_session(tdm_context *context, const char *first, int64_t width, uint64_t seed) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape rows = tdm_shape_of(1, TDM_DIM("batch"));
  tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 3));
  tdm_place(graph, TEST_KIND ":0");
  x = tdm_batch_norm(graph, "block/inner/norm", tdm_linear(graph, first, x, width));
  x = tdm_linear(graph, "head", x, 2);
  const tdm_optimizer adam = tdm_adam(0.01);
  const tdm_session_options options = OPTIONS(
      tdm_session_options,
      o.loss = tdm_cross_entropy(graph, "loss", x, tdm_input(graph, "class", TDM_INT64, rows)),
      o.optimizer = &adam, o.seed = seed);
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_graph_release(graph);
  return session;
}

void dict_train(tdm_session *session) {
  tdm_context *context = tdm_session_context(session);
  static const float x[] = {1, 2, 3, -1, 0, 2};
  static const int64_t classes[] = {0, 1};
  tdm_tensor *tensors[] = {tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, 2, 3), x),
                           tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, 2), classes)};
  const tdm_feed feeds[] = {{"x", tensors[0], false}, {"class", tensors[1], false}};
  assert_ok(tdm_train_step(session, feeds, 2, NULL, 0, NULL));
  tdm_tensor_release(tensors[0]);
  tdm_tensor_release(tensors[1]);
}

tdm_tensor_list *dict_of(tdm_session *session, const tdm_state_dict_options *options) {
  tdm_tensor_list *list;
  assert_ok(tdm_session_state_dict(session, options, &list));
  return list;
}

void assert_same_parameters(tdm_session *a, tdm_session *b) {
  tdm_tensor_list *mine = dict_of(a, NULL);
  tdm_tensor_list *other = dict_of(b, NULL);
  assert_same_state(mine, other);
  tdm_tensor_list_release(mine);
  tdm_tensor_list_release(other);
}
