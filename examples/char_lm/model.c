/* Describes the model. Names are those that PyTorch gives a module with attributes embedding, lstm
 * and scores. */
#include "examples/char_lm/model.h"

#include "examples/common/common_options.h"

/* The LSTM and the scores over several devices: rows are the first dimension of what is read, and
 * the second of what is remembered. */
static void wrap(tdm_graph *graph, tdm_value h0, tdm_value c0, const char *devices) {
  const tdm_scatter remembered[] = {{h0, 1}, {c0, 1}};
  tdm_parallel_options wrapped = tdm_parallel_options_default();
  wrapped.devices = devices;
  wrapped.scatter = remembered;
  wrapped.scatter_count = 2;
  tdm_data_parallel(graph, "lstm,scores", &wrapped);
}

char_model_values char_model_describe(tdm_graph *graph, const char_model_sizes *sizes,
                                      tdm_value characters, tdm_value targets, tdm_value h0,
                                      tdm_value c0, const char *accelerator, const char *parallel) {
  tdm_rnn_options lstm = tdm_rnn_options_default();
  lstm.layers = (int)sizes->layers;
  lstm.batch_first = true;
  lstm.h0 = h0;
  lstm.c0 = c0;
  tdm_value h_n, c_n;
  char first[DEVICE_TEXT];
  tdm_place(graph, "cpu:0");
  tdm_value x = tdm_embedding(graph, "embedding", characters, sizes->characters, sizes->embedding);
  if (accelerator) tdm_place(graph, accelerator);
  if (parallel) tdm_place(graph, first_device(parallel, first));
  x = tdm_lstm(graph, "lstm", x, sizes->hidden, &lstm, &h_n, &c_n);           /* (b, l, hidden) */
  const tdm_value scores = tdm_linear(graph, "scores", x, sizes->characters); /* (b, l, chars) */
  if (parallel) wrap(graph, h0, c0, parallel);
  const tdm_value flat =
      tdm_reshape(graph, "flat", scores, tdm_shape_of(2, TDM_INFER, sizes->characters));
  const tdm_value wanted = tdm_reshape(graph, "wanted", targets, tdm_shape_of(1, TDM_INFER));
  return (char_model_values){
      .scores = scores,
      .h_n = h_n,
      .c_n = c_n,
      .loss = tdm_cross_entropy(graph, "loss", flat, wanted),
  };
}
