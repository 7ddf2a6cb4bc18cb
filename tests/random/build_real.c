/* Describes to the library the parts without an oracle: layers of real numbers, and their
 * optimizers. Invariant: each division by the root of a small sum has an epsilon so large that
 * rounding does not decide the result. */
#include "tests/options.h"
#include "tests/random/view.h"

static tdm_value build_recurrent(tdm_graph *graph, const random_node *what, tdm_value x,
                                 int64_t hidden) {
  const tdm_rnn_options options = OPTIONS(tdm_rnn_options, o.batch_first = true);
  if (what->which == REAL_LSTM) return tdm_lstm(graph, "it", x, hidden, &options, NULL, NULL);
  if (what->which == REAL_GRU) return tdm_gru(graph, "it", x, hidden, &options, NULL);
  return tdm_rnn(graph, "it", x, hidden, &options, NULL);
}

static tdm_value build_heads(tdm_graph *graph, tdm_value x) {
  const tdm_multi_head_attention_options options =
      OPTIONS(tdm_multi_head_attention_options, o.batch_first = true);
  return tdm_multi_head_attention(graph, "it", x, x, x, 1, &options);
}

static tdm_value build_layer_norm(tdm_graph *graph, tdm_value x) {
  const tdm_layer_norm_options options = OPTIONS(tdm_layer_norm_options, o.epsilon = 0.1);
  return tdm_layer_norm_with(graph, "it", x, 1, &options);
}

tdm_value build_real(tdm_graph *graph, const random_node *what, tdm_value x, const extent *made) {
  switch (what->which) {
  case REAL_TANH:
    return tdm_tanh(graph, "it", x);
  case REAL_SIGMOID:
    return tdm_sigmoid(graph, "it", x);
  case REAL_GELU:
    return tdm_gelu(graph, "it", x);
  case REAL_SILU:
    return tdm_silu(graph, "it", x);
  case REAL_ELU:
    return tdm_elu(graph, "it", x, 1);
  case REAL_SOFTPLUS:
    return tdm_softplus(graph, "it", x, 1, 20);
  case REAL_SOFTMAX:
    return tdm_softmax(graph, "it", x, what->dimension);
  case REAL_LOG_SOFTMAX:
    return tdm_log_softmax(graph, "it", x, what->dimension);
  case REAL_VARIANCE:
    return tdm_variance(graph, "it", x, &what->dimension, 1, 0, false);
  case REAL_DROPOUT:
    return tdm_dropout(graph, "it", x, 0.3);
  case REAL_LAYER_NORM:
    return build_layer_norm(graph, x);
  case REAL_ATTENTION:
    return tdm_attention(graph, "it", x, x, x, NULL);
  case REAL_HEADS:
    return build_heads(graph, x);
  default:
    return build_recurrent(graph, what, x, made->dims[2]);
  }
}

static tdm_optimizer make_optimizer(const random_model *of, int number, double learning_rate) {
  const random_group *group = &of->groups[number];
  const tdm_adam_options adam =
      OPTIONS(tdm_adam_options, o.learning_rate = learning_rate / 100, o.epsilon = 0.1);
  const tdm_adagrad_options adagrad =
      OPTIONS(tdm_adagrad_options, o.learning_rate = learning_rate / 100,
              o.initial_accumulator = 0.1, o.epsilon = 0.1);
  const tdm_rmsprop_options rmsprop =
      OPTIONS(tdm_rmsprop_options, o.learning_rate = learning_rate / 100, o.epsilon = 0.1);
  const tdm_sgd_options sgd =
      OPTIONS(tdm_sgd_options, o.learning_rate = of->real ? learning_rate / 1024 : learning_rate,
              o.momentum = group->momentum, o.weight_decay = group->weight_decay,
              o.nesterov = group->nesterov);
  const tdm_nadam_options nadam =
      OPTIONS(tdm_nadam_options, o.learning_rate = learning_rate / 100, o.epsilon = 0.1);
  const tdm_adafactor_options adafactor =
      OPTIONS(tdm_adafactor_options, o.learning_rate = learning_rate / 100, o.epsilon1 = 0.1);
  if (of->optimizer == OPTIMIZER_NADAM) return tdm_nadam_with(&nadam);
  if (of->optimizer == OPTIMIZER_ADAFACTOR) return tdm_adafactor_with(&adafactor);
  if (of->optimizer == OPTIMIZER_ADAM) return tdm_adam_with(&adam);
  if (of->optimizer == OPTIMIZER_ADAGRAD) return tdm_adagrad_with(&adagrad);
  if (of->optimizer == OPTIMIZER_RMSPROP) return tdm_rmsprop_with(&rmsprop);
  return tdm_sgd_with(&sgd);
}

tdm_optimizer build_optimizer(const random_model *of, int group, double learning_rate) {
  tdm_optimizer made = make_optimizer(of, group, learning_rate * of->groups[group].rate);
  made.maximize = of->groups[group].maximize;
  if (of->clip_norm > 0) made.clip_norm = of->clip_norm;
  if (of->average_decay != 0) made.average_decay = of->average_decay;
  return made;
}
