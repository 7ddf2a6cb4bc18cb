"""PyTorch's samples of modules (torch.testing._internal.common_modules.module_db): as they answer
when they evaluate, and as they train, with the gradients of their parameters and inputs."""

import ctypes

import numpy
import torch
from torch.testing._internal.common_modules import module_db

from cases import Case, Refused
from torch_layers import options_of, same_padding, spatial
from torch_ops import BUILDERS, Arrays, detached, judge, pairwise_distance

DTYPES = [torch.float64, torch.float32]


# ---- Builders: (graph, the module, its inputs) -> values; the layer's name is "m" ----

def plain(layer, *numbers):
    return lambda g, m, x: getattr(g, layer)(x, *numbers)


def function(name, *attributes):
    """The builder of a function, given the module's attributes by their names."""
    def build(g, m, *inputs):
        given = {key: getattr(m, key) for key in attributes}
        return BUILDERS[name](g, *inputs, **given)
    return build


def linear(g, m, input):
    x = input
    layer = g.linear if m.bias is not None else g.linear_without_bias
    return layer(x, m.out_features, name="m")


def convolution(layer, rank):
    def build(g, m, x):
        members = {"stride": list(m.stride), "dilation": list(m.dilation), "groups": m.groups,
                   "without_bias": m.bias is None}
        same_padding(g, rank, members, m.padding if isinstance(m.padding, str)
                     else list(m.padding))
        kind = "conv"
        if "transpose" in layer:
            kind = "conv_transpose"
            members["output_padding"] = list(m.output_padding)
        if m.padding_mode != "zeros":
            members["padding_mode"] = g.constant("TDM_PAD_" + m.padding_mode.upper())
        return spatial(g, layer, rank, x, m.kernel_size, options_of(g, kind, rank, **members),
                       m.out_channels, "m")
    return build


def batch_norm(g, m, x):
    options = g.options("batch_norm_options", epsilon=m.eps,
                        momentum=-1 if m.momentum is None else m.momentum,
                        without_affine=not m.affine,
                        without_statistics=not m.track_running_stats)
    return g.batch_norm_with(x, options, name="m")


def instance_norm(g, m, x):
    rank = 3 + isinstance(m, torch.nn.InstanceNorm2d) + 2 * isinstance(m, torch.nn.InstanceNorm3d)
    if m.affine and m.bias is None:
        raise Refused("a weight without a bias")
    if x.ndim < rank:
        return g.squeeze(normalized(g, m, g.unsqueeze(x, 0)), 0)
    return normalized(g, m, x)


def normalized(g, m, x):
    options = g.options("instance_norm_options", epsilon=m.eps, affine=m.affine,
                        track_statistics=m.track_running_stats,
                        momentum=-1 if m.momentum is None else m.momentum)
    return g.instance_norm_with(x, options, name="m")


def group_norm(g, m, x):
    options = g.options("group_norm_options", epsilon=m.eps, without_affine=not m.affine)
    return g.group_norm_with(x, m.num_groups, options, name="m")


def layer_norm(g, m, x):
    options = g.options("layer_norm_options", epsilon=m.eps,
                        without_affine=not m.elementwise_affine,
                        without_bias=m.elementwise_affine and m.bias is None)
    return g.layer_norm_with(x, len(m.normalized_shape), options, name="m")


def rms_norm(g, m, x):
    options = g.options("rms_norm_options", epsilon=m.eps,
                        without_affine=not m.elementwise_affine)
    return g.rms_norm_with(x, len(m.normalized_shape), options, name="m")


def recurrent(layer):
    def build(g, m, x, states=None, lengths=None):
        members = {} if lengths is None else {"lengths": g.value(lengths)}
        if getattr(m, "proj_size", 0):
            members["projection"] = m.proj_size
        if layer == "rnn":
            members["relu"] = m.nonlinearity == "relu"
        for name, state in zip(("h0", "c0"), states if isinstance(states, tuple) else [states]):
            if state is not None:
                members[name] = g.value(state)
        options = g.options("rnn_options", layers=m.num_layers, batch_first=m.batch_first,
                            bidirectional=m.bidirectional, without_bias=not m.bias, **members)
        finals = [g.none() for _ in range(2 if layer == "lstm" else 1)]
        y = getattr(g, layer)(x, m.hidden_size, options, *finals, name="m")
        return [y] + finals
    return build


def embedding(g, m, ids):
    if m.max_norm is not None or m.scale_grad_by_freq:
        raise Refused("max_norm, scale_grad_by_freq")
    options = g.options("embedding_options", padding_index=m.padding_idx, sparse=m.sparse)
    return g.embedding_with(ids, m.num_embeddings, m.embedding_dim, options, name="m")


def embedding_bag(g, m, ids):
    if m.max_norm is not None or m.scale_grad_by_freq:
        raise Refused("max_norm, scale_grad_by_freq")
    options = g.options("embedding_bag_options", mode=g.constant("TDM_BAG_" + m.mode.upper()),
                        padding_index=m.padding_idx, sparse=m.sparse)
    return g.embedding_bag(ids, m.num_embeddings, m.embedding_dim, options, name="m")


def pool(name):
    def build(g, m, x):
        given = {"kernel_size": m.kernel_size, "stride": m.stride, "padding": m.padding,
                 "ceil_mode": m.ceil_mode}
        for key in ("dilation", "return_indices", "count_include_pad", "divisor_override"):
            if hasattr(m, key):
                given[key] = getattr(m, key)
        return BUILDERS[name](g, x, **given)
    return build


def padding(mode):
    def build(g, m, x):
        return g.pad(x, list(m.padding), len(m.padding), g.constant("TDM_PAD_" + mode),
                     float(getattr(m, "value", 0)))
    return build


def flatten(g, m, x):
    return g.flatten(x, m.start_dim, m.end_dim)


def prelu(g, m, x):
    return g.prelu(x, m.num_parameters, name="m")


def cell(layer):
    def build(g, m, x, state=None):
        states = state if isinstance(state, tuple) else [state]
        states = [g.none() if one is None else one for one in states]
        members = {"relu": m.nonlinearity == "relu"} if layer == "rnn_cell" else {}
        options = g.options("cell_options", without_bias=not m.bias, **members)
        if layer != "lstm_cell":
            return getattr(g, layer)(x, *states, m.hidden_size, options, name="m")
        c = g.none()
        states = states if len(states) == 2 else states * 2
        return [g.lstm_cell(x, *states, m.hidden_size, options, c, name="m"), c]
    return build


def mask_of(g, mask):
    """No gradient flows into what is added."""
    if mask is None:
        return g.none()
    g.constants(mask)
    return g.value(mask)


def multi_head(g, m, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
               average_attn_weights=True, is_causal=False):
    if key_padding_mask is not None and key_padding_mask.dtype != bool:
        raise Refused("a padding that is added")
    weights = g.none()
    options = g.options("multi_head_attention_options", batch_first=m.batch_first,
                        without_bias=m.in_proj_bias is None, padding=mask_of(g, key_padding_mask),
                        mask=mask_of(g, attn_mask), add_bias_kv=m.bias_k is not None,
                        add_zero_attn=m.add_zero_attn, dropout=m.dropout,
                        weights_by_head=not average_attn_weights)
    if need_weights:
        options.out_weights = ctypes.addressof(weights)
    y = g.multi_head_attention(query, key, value, m.num_heads, options, name="m")
    return [y, weights] if need_weights else [y]


def transformer_options(g, m, **members):
    known = {torch.nn.functional.relu: False, torch.nn.functional.gelu: True}
    if m.activation not in known:
        raise Refused("activation=%s" % m.activation)
    return g.options("transformer_options", feedforward=m.linear1.out_features,
                     dropout=m.dropout.p, epsilon=m.norm1.eps, gelu=known[m.activation],
                     norm_first=m.norm_first, batch_first=m.self_attn.batch_first,
                     without_bias=m.linear1.bias is None, **members)


def encoder_layer(g, m, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
    options = transformer_options(g, m, mask=mask_of(g, src_mask),
                                  padding=mask_of(g, src_key_padding_mask))
    return g.transformer_encoder_layer(src, m.self_attn.num_heads, options, name="m")


def decoder_layer(g, m, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
                  memory_key_padding_mask=None, tgt_is_causal=False, memory_is_causal=False):
    options = transformer_options(g, m, mask=mask_of(g, tgt_mask),
                                  padding=mask_of(g, tgt_key_padding_mask),
                                  memory_mask=mask_of(g, memory_mask),
                                  memory_padding=mask_of(g, memory_key_padding_mask))
    return g.transformer_decoder_layer(tgt, memory, m.self_attn.num_heads, options, name="m")


def bilinear(g, m, a, b):
    layer = g.bilinear if m.bias is not None else g.bilinear_without_bias
    return layer(a, b, m.out_features, name="m")


BUILDERS_OF = {
    "Linear": linear, "Bilinear": bilinear,
    **{"%s%s%dd" % (lazy, kind, rank): convolution("%s%dd" % (layer, rank), rank)
       for lazy in ("", "Lazy") for kind, layer in
       (("Conv", "conv"), ("ConvTranspose", "conv_transpose")) for rank in (1, 2, 3)},
    **{"BatchNorm%dd" % rank: batch_norm for rank in (1, 2, 3)},
    **{"InstanceNorm%dd" % rank: instance_norm for rank in (1, 2, 3)},
    "RNNCell": cell("rnn_cell"), "LSTMCell": cell("lstm_cell"), "GRUCell": cell("gru_cell"),
    "MultiheadAttention": multi_head, "TransformerEncoderLayer": encoder_layer,
    "TransformerDecoderLayer": decoder_layer,
    "GroupNorm": group_norm, "LayerNorm": layer_norm, "RMSNorm": rms_norm,
    "RNN": recurrent("rnn"), "LSTM": recurrent("lstm"), "GRU": recurrent("gru"),
    "Embedding": embedding, "EmbeddingBag": embedding_bag, "Flatten": flatten, "PReLU": prelu,
    **{name: plain(layer) for name, layer in {
        "ReLU": "relu", "ReLU6": "relu6", "Tanh": "tanh", "Sigmoid": "sigmoid", "SiLU": "silu",
        "Hardsigmoid": "hardsigmoid", "Hardswish": "hardswish", "Mish": "mish"}.items()},
    "LeakyReLU": function("nn.functional.leaky_relu", "negative_slope"),
    "ELU": function("nn.functional.elu", "alpha"),
    "GELU": function("nn.functional.gelu", "approximate"),
    "GLU": function("nn.functional.glu", "dim"),
    "Softplus": function("nn.functional.softplus", "beta", "threshold"),
    "Hardtanh": function("nn.functional.hardtanh", "min_val", "max_val"),
    "Softmax": lambda g, m, x: g.softmax(x, m.dim),
    "LogSoftmax": lambda g, m, x: g.log_softmax(x, m.dim),
    "CELU": function("nn.functional.celu", "alpha"), "SELU": function("nn.functional.selu"),
    "Softsign": function("nn.functional.softsign"),
    "Softmin": function("nn.functional.softmin", "dim"),
    "Softshrink": function("nn.functional.softshrink", "lambd"),
    "Hardshrink": function("nn.functional.hardshrink", "lambd"),
    "Tanhshrink": function("nn.functional.tanhshrink"),
    "Threshold": function("nn.functional.threshold", "threshold", "value"),
    "LogSigmoid": function("nn.functional.logsigmoid"),
    "CTCLoss": function("nn.functional.ctc_loss", "blank", "reduction", "zero_infinity"),
    "Softmax2d": lambda g, m, x: g.softmax(x, -3),
    "LocalResponseNorm": lambda g, m, x: g.local_response_norm(x, m.size, m.alpha, m.beta, m.k),
    **{"%sPool%dd" % (kind, rank): pool("nn.functional.%s_pool%dd" % (kind.lower(), rank))
       for kind in ("Max", "Avg") for rank in (1, 2, 3)},
    **{"Adaptive%sPool%dd" % (kind, rank):
       function("nn.functional.adaptive_%s_pool%dd" % (kind.lower(), rank), "output_size")
       for kind in ("Max", "Avg") for rank in (1, 2, 3)},
    **{"%sPad%dd" % (kind, rank): padding(mode) for rank in (1, 2, 3) for kind, mode in
       (("Constant", "CONSTANT"), ("Zero", "CONSTANT"), ("Reflection", "REFLECT"),
        ("Replication", "REPLICATE"), ("Circular", "CIRCULAR"))},
    "MarginRankingLoss": function("nn.functional.margin_ranking_loss", "margin", "reduction"),
    "HingeEmbeddingLoss": function("nn.functional.hinge_embedding_loss", "margin", "reduction"),
    "SoftMarginLoss": function("nn.functional.soft_margin_loss", "reduction"),
    "MultiMarginLoss": function("nn.functional.multi_margin_loss", "margin", "p", "weight",
                                "reduction"),
    "MultiLabelMarginLoss": function("nn.functional.multilabel_margin_loss", "reduction"),
    "MultiLabelSoftMarginLoss": function("nn.functional.multilabel_soft_margin_loss", "weight",
                                         "reduction"),
    "CosineEmbeddingLoss": function("nn.functional.cosine_embedding_loss", "margin",
                                    "reduction"),
    "TripletMarginLoss": function("nn.functional.triplet_margin_loss", "margin", "p", "eps",
                                  "swap", "reduction"),
    "GaussianNLLLoss": function("nn.functional.gaussian_nll_loss", "full", "eps", "reduction"),
    "PoissonNLLLoss": function("nn.functional.poisson_nll_loss", "log_input", "full", "eps",
                               "reduction"),
    "CosineSimilarity": function("nn.functional.cosine_similarity", "dim", "eps"),
    "PairwiseDistance": lambda g, m, a, b: pairwise_distance(g, a, b, m.norm, m.eps, m.keepdim),
    "CrossEntropyLoss": function("nn.functional.cross_entropy", "weight", "reduction",
                                 "ignore_index", "label_smoothing"),
    "NLLLoss": function("nn.functional.nll_loss", "weight", "reduction", "ignore_index"),
    "KLDivLoss": function("nn.functional.kl_div", "reduction", "log_target"),
    "BCEWithLogitsLoss": function("nn.functional.binary_cross_entropy_with_logits", "weight",
                                  "pos_weight", "reduction"),
    "MSELoss": function("nn.functional.mse_loss", "reduction"),
    "L1Loss": function("nn.functional.l1_loss", "reduction"),
    "SmoothL1Loss": function("nn.functional.smooth_l1_loss", "beta", "reduction"),
    "HuberLoss": function("nn.functional.huber_loss", "delta", "reduction"),
}


# ---- Samples as cases ----

def flat(answer):
    if isinstance(answer, torch.Tensor):
        return [answer]
    if answer is None:
        return []
    return [tensor for one in answer for tensor in flat(one)]


def array_attributes(module):
    """Weights of losses, which the builders of functions take as arrays."""
    for name, buffer in list(module._buffers.items()):
        if buffer is not None and name in ("weight", "pos_weight"):
            del module._buffers[name]
            setattr(module, name, buffer.detach().numpy().copy())


def make_case(builder, module, given, training):
    arrays = Arrays()
    args = [arrays.of(one) for one in given.args]
    kwargs = {name: arrays.of(one) for name, one in given.kwargs.items()}
    state = {"m." + name: detached(value) for name, value in module.state_dict().items()}
    parameters = {"m." + name: value for name, value in module.named_parameters()}
    outputs = flat(module(*given.args, **given.kwargs))
    cotangents, total = judge(outputs, 1)
    leaves = [(array, tensor) for array, tensor in arrays.tensors if tensor.requires_grad]
    gradients = {}
    if total is not None and training:
        asked = [tensor for _, tensor in leaves] + list(parameters.values())
        found = torch.autograd.grad(total, asked, allow_unused=True) if asked else []
        found = [numpy.zeros(tuple(one.shape), detached(one).dtype) if gradient is None else
                 detached(gradient.to_dense() if gradient.is_sparse else gradient)
                 for one, gradient in zip(asked, found)]
        for (array, _), gradient in zip(leaves, found):
            gradients[id(array)] = gradient
        for name, gradient in zip(parameters, found[len(leaves):]):
            gradients[name] = (state[name], gradient)
    kept = {"m." + name: detached(value) for name, value in module.named_buffers()
            if training and name.startswith(("running_", "num_batches"))}
    array_attributes(module)
    state = {} if not parameters and not module._buffers else state

    def build(graph):
        graph.state.update(state)
        return builder(graph, module, *args, **kwargs)

    return Case(build, [detached(output) for output in outputs], cotangents,
                [array for array, _ in leaves], gradients, training, kept=kept)


def samples_of(info, builder):
    for dtype in DTYPES:
        for training in (False, True):
            torch.manual_seed(1)
            inputs = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True,
                                             training=training)
            for number, sample in enumerate(inputs):
                label = "%s %s sample %d" % (str(dtype)[6:], "train" if training else "eval",
                                             number)
                try:
                    made = sample.constructor_input
                    module = info.module_cls(*made.args, **made.kwargs).to(dtype).train(training)
                    if isinstance(module, torch.nn.modules.lazy.LazyModuleMixin):
                        module(*sample.forward_input.args)  # initializes its shapes
                    yield label, make_case(builder, module, sample.forward_input, training)
                except Refused as refused:
                    yield label, refused


def groups():
    torch.set_num_threads(1)
    for info in module_db:
        name = info.module_cls.__name__
        if name in BUILDERS_OF:
            yield name, (lambda info=info, builder=BUILDERS_OF[name]: samples_of(info, builder))
