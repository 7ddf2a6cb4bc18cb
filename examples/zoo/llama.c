/* A Llama (Touvron et al., "Llama 2", 2023): RMSNorm, rotary embedding, SwiGLU and grouped-query
 * attention, small; llama.py is the same in PyTorch. */
#include <math.h>

#include "examples/zoo/zoo.h"

enum { VOCABULARY = 40, WIDTH = 32, HEADS = 4, KV_HEADS = 2, HIDDEN = 64, LAYERS = 2 };
enum { DIM = WIDTH / HEADS, SHARE = HEADS / KV_HEADS };

static tdm_value norm(tdm_graph *graph, const char *name, tdm_value x) {
  tdm_rms_norm_options options = tdm_rms_norm_options_default();
  options.epsilon = 1e-5;
  return tdm_rms_norm_with(graph, name, x, 1, &options);
}

static tdm_shape split_heads(int64_t heads) {
  return tdm_shape_of(4, TDM_DIM("batch"), TDM_DIM("length"), heads, DIM);
}

/* x (batch, length, heads dim), angles (length, 1, dim) -> (batch, length, heads, dim). */
static tdm_value rotate(tdm_graph *graph, tdm_value x, int64_t heads, tdm_value angles) {
  x = tdm_reshape(graph, NULL, x, split_heads(heads));
  const tdm_value first = tdm_slice(graph, NULL, x, 3, 0, DIM / 2, 1);
  const tdm_value second = tdm_slice(graph, NULL, x, 3, DIM / 2, TDM_TO_THE_END, 1);
  const tdm_value parts[] = {tdm_neg(graph, NULL, second), first};
  const tdm_value turned = tdm_concat(graph, NULL, parts, 2, 3);
  return tdm_add(graph, NULL, tdm_mul(graph, NULL, x, tdm_cos(graph, NULL, angles)),
                 tdm_mul(graph, NULL, turned, tdm_sin(graph, NULL, angles)));
}

/* x (batch, length, kv_heads, dim) -> (batch, length, heads dim), each head as often as it is read.
 */
static tdm_value share_heads(tdm_graph *graph, tdm_value x) {
  const int64_t times[] = {1, 1, 1, SHARE, 1};
  x = tdm_repeat(graph, NULL, tdm_unsqueeze(graph, NULL, x, 3), times, 5);
  return tdm_flatten(graph, NULL, x, 2, 4);
}

static tdm_value attention(tdm_graph *graph, tdm_value x, tdm_value angles) {
  tdm_attention_options causal = tdm_attention_options_default();
  causal.heads = HEADS;
  causal.causal = true;
  tdm_scope_push(graph, "self_attn");
  tdm_value q = tdm_linear_without_bias(graph, "q_proj", x, WIDTH);
  tdm_value k = tdm_linear_without_bias(graph, "k_proj", x, KV_HEADS * DIM);
  tdm_value v = tdm_linear_without_bias(graph, "v_proj", x, KV_HEADS * DIM);
  q = tdm_flatten(graph, NULL, rotate(graph, q, HEADS, angles), 2, 3);
  k = share_heads(graph, rotate(graph, k, KV_HEADS, angles));
  v = share_heads(graph, tdm_reshape(graph, NULL, v, split_heads(KV_HEADS)));
  x = tdm_attention(graph, "heads", q, k, v, &causal);
  x = tdm_linear_without_bias(graph, "o_proj", x, WIDTH);
  tdm_scope_pop(graph);
  return x;
}

static tdm_value mlp(tdm_graph *graph, tdm_value x) {
  tdm_scope_push(graph, "mlp");
  const tdm_value gate = tdm_linear_without_bias(graph, "gate_proj", x, HIDDEN);
  const tdm_value up = tdm_linear_without_bias(graph, "up_proj", x, HIDDEN);
  x = tdm_mul(graph, "gated", tdm_silu(graph, "silu", gate), up);
  x = tdm_linear_without_bias(graph, "down_proj", x, WIDTH);
  tdm_scope_pop(graph);
  return x;
}

static tdm_value layer(tdm_graph *graph, int i, tdm_value x, tdm_value angles) {
  tdm_scope_push_index(graph, "layers", i);
  const tdm_value y = attention(graph, norm(graph, "input_layernorm", x), angles);
  x = tdm_add(graph, "attended", x, y);
  x = tdm_add(graph, "thought", x, mlp(graph, norm(graph, "post_attention_layernorm", x)));
  tdm_scope_pop(graph);
  return x;
}

/* (length, 1, dim): how far each pair of numbers is turned at each place. */
static tdm_value rotations(tdm_graph *graph, tdm_value ids) {
  tdm_value places = tdm_cast(graph, NULL, tdm_arange_like(graph, NULL, ids, 1), TDM_FLOAT32);
  places = tdm_reshape(graph, NULL, places, tdm_shape_of(3, TDM_DIM("length"), 1, 1));
  tdm_value speeds = tdm_arange(graph, NULL, TDM_FLOAT32, 0, DIM, 2);
  speeds = tdm_exp(graph, NULL, tdm_mul_scalar(graph, NULL, speeds, -log(10000) / DIM));
  speeds = tdm_repeat(graph, NULL, speeds, (const int64_t[]){2}, 1);
  return tdm_mul(graph, "angles", places, speeds);
}

zoo_training zoo_llama(tdm_graph *graph) {
  const tdm_shape window = tdm_shape_of(2, TDM_DIM("batch"), TDM_DIM("length"));
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, window);
  const tdm_value targets = tdm_input(graph, "targets", TDM_INT64, window);
  const tdm_value angles = rotations(graph, ids);
  tdm_value x = tdm_embedding(graph, "embed_tokens", ids, VOCABULARY, WIDTH);
  for (int i = 0; i < LAYERS; i++)
    x = layer(graph, i, x, angles);
  x = tdm_linear_without_bias(graph, "lm_head", norm(graph, "norm", x), VOCABULARY);
  tdm_output(graph, "output", x);
  x = tdm_cross_entropy(graph, "loss", tdm_flatten(graph, NULL, x, 0, 1),
                        tdm_flatten(graph, NULL, targets, 0, 1));
  return (zoo_training){x, tdm_adamw(1e-3)};
}
