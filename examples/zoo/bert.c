/* BERT (Devlin et al., "BERT: pre-training of deep bidirectional transformers", 2019) that
 * classifies pairs of sentences, small; bert.py is the same in PyTorch. */
#include "examples/zoo/zoo.h"

enum { LENGTH = 10, VOCABULARY = 40, WIDTH = 32, HEADS = 4, LAYERS = 2, CLASSES = 3 };

static tdm_value norm(tdm_graph *graph, tdm_value x) {
  tdm_layer_norm_options options = tdm_layer_norm_options_default();
  options.epsilon = 1e-12;
  return tdm_layer_norm_with(graph, "LayerNorm", x, 1, &options);
}

static tdm_value self_attention(tdm_graph *graph, tdm_value x, tdm_value hidden) {
  tdm_attention_options options = tdm_attention_options_default();
  options.heads = HEADS;
  options.padding = hidden;
  tdm_scope_push(graph, "self");
  const tdm_value q = tdm_linear(graph, "query", x, WIDTH);
  const tdm_value k = tdm_linear(graph, "key", x, WIDTH);
  const tdm_value v = tdm_linear(graph, "value", x, WIDTH);
  const tdm_value y = tdm_attention(graph, "heads", q, k, v, &options);
  tdm_scope_pop(graph);
  return y;
}

static tdm_value output(tdm_graph *graph, tdm_value y, tdm_value x) {
  tdm_scope_push(graph, "output");
  y = tdm_linear(graph, "dense", y, WIDTH);
  y = norm(graph, tdm_add(graph, "sum", y, x));
  tdm_scope_pop(graph);
  return y;
}

static tdm_value layer(tdm_graph *graph, int i, tdm_value x, tdm_value hidden) {
  tdm_scope_push_index(graph, "layer", i);
  tdm_scope_push(graph, "attention");
  x = output(graph, self_attention(graph, x, hidden), x);
  tdm_scope_pop(graph);
  tdm_value y = tdm_linear(graph, "intermediate/dense", x, 4 * WIDTH);
  y = output(graph, tdm_gelu(graph, "gelu", y), x);
  tdm_scope_pop(graph);
  return y;
}

static tdm_value embeddings(tdm_graph *graph, tdm_value ids, tdm_value types) {
  tdm_embedding_options padded = tdm_embedding_options_default();
  padded.padding_index = 0;
  const tdm_value places = tdm_arange_like(graph, "places", ids, 1);
  tdm_scope_push(graph, "embeddings");
  tdm_value x = tdm_embedding_with(graph, "word_embeddings", ids, VOCABULARY, WIDTH, &padded);
  x = tdm_add(graph, "typed", x, tdm_embedding(graph, "token_type_embeddings", types, 2, WIDTH));
  x = tdm_add(graph, "placed", x,
              tdm_embedding(graph, "position_embeddings", places, LENGTH, WIDTH));
  x = norm(graph, x);
  tdm_scope_pop(graph);
  return x;
}

zoo_training zoo_bert(tdm_graph *graph) {
  const tdm_shape sentence = tdm_shape_of(2, TDM_DIM("batch"), TDM_DIM("length"));
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, sentence);
  const tdm_value types = tdm_input(graph, "types", TDM_INT64, sentence);
  const tdm_value classes =
      tdm_input(graph, "classes", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value hidden = tdm_compare_scalar(graph, "hidden", ids, TDM_EQUAL, 0);
  tdm_value x = embeddings(graph, ids, types);
  tdm_scope_push(graph, "encoder");
  for (int i = 0; i < LAYERS; i++)
    x = layer(graph, i, x, hidden);
  tdm_scope_pop(graph);
  x = tdm_linear(graph, "pooler/dense", tdm_select(graph, "first", x, 1, 0), WIDTH);
  x = tdm_linear(graph, "classifier", tdm_tanh(graph, "tanh", x), CLASSES);
  tdm_output(graph, "output", x);
  return (zoo_training){tdm_cross_entropy(graph, "loss", x, classes), tdm_adamw(5e-4)};
}
