/* Describes the model. Rows of x (batch, length, width) are characters; while it writes, batch is
 * the texts. */
#include "examples/gpt/model.h"

#include <stdio.h>

typedef struct gpt {
  tdm_graph *graph;
  const gpt_sizes *sizes;
  int64_t texts;    /* number of texts that it writes; 0: it trains */
  tdm_value rows;   /* rows of the new characters in the cache of keys and values, (texts n) */
  tdm_value hidden; /* bool (n, window): keys after each position, which are masked */
} gpt;

/* Keys or values of all positions so far, for those of x: what is kept of them, while it writes. */
static tdm_value so_far(const gpt *self, const char *name, tdm_value rows) {
  tdm_graph *graph = self->graph;
  const gpt_sizes *sizes = self->sizes;
  if (self->texts == 0) return rows;
  tdm_scope_push(graph, name);
  const tdm_value kept = tdm_kept(graph, "cache", TDM_FLOAT32,
                                  tdm_shape_of(2, self->texts * sizes->window, sizes->width));
  const tdm_value made = tdm_reshape(graph, "made", rows, tdm_shape_of(2, TDM_INFER, sizes->width));
  const tdm_value cache = tdm_keep_rows(graph, "keep", kept, made, self->rows);
  const tdm_value all =
      tdm_reshape(graph, "all", cache, tdm_shape_of(3, self->texts, sizes->window, sizes->width));
  tdm_scope_pop(graph);
  return all;
}

static tdm_value attend(const gpt *self, tdm_value x) {
  tdm_graph *graph = self->graph;
  const int64_t width = self->sizes->width;
  tdm_attention_options options = tdm_attention_options_default();
  options.heads = self->sizes->heads;
  options.causal = self->texts == 0;
  if (self->texts > 0) options.mask = self->hidden;
  const tdm_value q = tdm_linear(graph, "query", x, width);
  const tdm_value k = so_far(self, "keys", tdm_linear(graph, "key", x, width));
  const tdm_value v = so_far(self, "values", tdm_linear(graph, "value", x, width));
  return tdm_linear(graph, "out", tdm_attention(graph, "attention", q, k, v, &options), width);
}

static tdm_value block(const gpt *self, tdm_value x) {
  tdm_graph *graph = self->graph;
  const int64_t width = self->sizes->width;
  const tdm_value seen = attend(self, tdm_layer_norm(graph, "norm1", x, 1));
  x = tdm_add(graph, "seen", x, seen);
  const tdm_value wide = tdm_linear(graph, "up", tdm_layer_norm(graph, "norm2", x, 1), 4 * width);
  const tdm_value thought = tdm_linear(graph, "down", tdm_gelu(graph, "gelu", wide), width);
  return tdm_add(graph, "thought", x, thought);
}

/* characters (batch, length), positions (length) -> scores (batch, length, characters). */
static tdm_value describe(const gpt *self, tdm_value characters, tdm_value positions,
                          const char *accelerator) {
  tdm_graph *graph = self->graph;
  const gpt_sizes *sizes = self->sizes;
  if (accelerator) tdm_place(graph, "cpu:0");
  tdm_value x = tdm_add(
      graph, "x", tdm_embedding(graph, "characters", characters, sizes->characters, sizes->width),
      tdm_embedding(graph, "positions", positions, sizes->window, sizes->width));
  for (int64_t i = 0; i < sizes->layers; i++) {
    char name[32];
    (void)snprintf(name, sizeof name, "block%lld", (long long)i);
    if (accelerator && i == sizes->layers / 2) tdm_place(graph, accelerator);
    tdm_scope_push(graph, name);
    x = block(self, x);
    tdm_scope_pop(graph);
  }
  return tdm_linear(graph, "scores", tdm_layer_norm(graph, "norm", x, 1), sizes->characters);
}

tdm_value gpt_learns(tdm_graph *graph, const gpt_sizes *sizes, tdm_value characters,
                     const char *accelerator) {
  const gpt self = {.graph = graph, .sizes = sizes};
  return describe(&self, characters, tdm_arange_like(graph, "places", characters, 1), accelerator);
}

tdm_value gpt_writes(tdm_graph *graph, const gpt_sizes *sizes, int64_t texts, tdm_value characters,
                     tdm_value positions, const char *accelerator) {
  const double window = (double)sizes->window, all = (double)texts * window;
  const tdm_value keys = tdm_arange(graph, "keys", TDM_INT64, 0, window, 1);
  const tdm_value queries = tdm_reshape(graph, "queries", positions, tdm_shape_of(2, TDM_INFER, 1));
  const tdm_value first =
      tdm_reshape(graph, "first", tdm_arange(graph, "texts", TDM_INT64, 0, all, window),
                  tdm_shape_of(2, texts, 1));
  const gpt self = {.graph = graph,
                    .sizes = sizes,
                    .texts = texts,
                    .rows = tdm_reshape(graph, "rows", tdm_add(graph, "places", first, positions),
                                        tdm_shape_of(1, TDM_INFER)),
                    .hidden = tdm_compare(graph, "hidden", keys, TDM_GREATER, queries)};
  return describe(&self, characters, positions, accelerator);
}
