"""PyTorch's samples of modules (torch.testing._internal.common_modules.module_db): as they answer
when they evaluate, and as they train, with the gradients of their parameters and inputs."""

import numpy
import torch
from torch.testing._internal.common_modules import module_db

from cases import Case, Refused
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


def convolution(layer):
    def build(g, m, x):
        members = {"stride": list(m.stride), "dilation": list(m.dilation)}
        if not isinstance(m.padding, str):
            members["padding"] = list(m.padding)
        kind = "conv_options"
        if "transpose" not in layer:
            members["same"] = m.padding == "same"
            mode = m.padding_mode.replace("zeros", "constant").upper()
            members["padding_mode"] = g.constant("TDM_PAD_" + mode)
        if "transpose" in layer:
            kind = "conv_transpose_options"
            members["output_padding"] = list(m.output_padding)
        options = g.options(kind, groups=m.groups, without_bias=m.bias is None, **members)
        return getattr(g, layer)(x, m.out_channels, *m.kernel_size, options, name="m")
    return build


def batch_norm(g, m, x):
    options = g.options("batch_norm_options", epsilon=m.eps,
                        momentum=-1 if m.momentum is None else m.momentum,
                        without_affine=not m.affine,
                        without_statistics=not m.track_running_stats)
    return g.batch_norm_with(x, options, name="m")


def instance_norm(g, m, x):
    if x.ndim != (4 if isinstance(m, torch.nn.InstanceNorm2d) else 3):
        raise Refused("an image without a batch")
    if m.affine and m.bias is None:
        raise Refused("a weight without a bias")
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
    options = g.options("rms_norm_options", epsilon=m.eps or 0,
                        without_affine=not m.elementwise_affine)
    return g.rms_norm_with(x, len(m.normalized_shape), options, name="m")


def recurrent(layer):
    def build(g, m, x, states=None):
        if getattr(m, "proj_size", 0):
            raise Refused("proj_size")
        members = {}
        if layer == "rnn":
            members["relu"] = m.nonlinearity == "relu"
        for name, state in zip(("h0", "c0"), states if isinstance(states, tuple) else [states]):
            if state is not None:
                members[name] = g.value(state)
        options = g.options("rnn_options", layers=m.num_layers, batch_first=m.batch_first,
                            bidirectional=m.bidirectional, without_bias=not m.bias, **members)
        count = m.num_layers * (2 if m.bidirectional else 1)
        value = g.library.types["tdm_value"]
        finals = [(value * count)() for _ in range(2 if layer == "lstm" else 1)]
        y = getattr(g, layer)(x, m.hidden_size, options, *finals, name="m")
        return [y] + [g.stack(list(final), count, 0) for final in finals]
    return build


def embedding(g, m, ids):
    if m.max_norm is not None or m.scale_grad_by_freq:
        raise Refused("max_norm, scale_grad_by_freq")
    options = g.options("embedding_options", has_padding_index=m.padding_idx is not None,
                        padding_index=m.padding_idx or 0)
    return g.embedding_with(ids, m.num_embeddings, m.embedding_dim, options, name="m")


def embedding_bag(g, m, ids):
    if m.max_norm is not None or m.scale_grad_by_freq:
        raise Refused("max_norm, scale_grad_by_freq")
    options = g.options("embedding_bag_options", mode=g.constant("TDM_BAG_" + m.mode.upper()),
                        has_padding_index=m.padding_idx is not None,
                        padding_index=m.padding_idx or 0)
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


BUILDERS_OF = {
    "Linear": linear, "Conv1d": convolution("conv1d"), "Conv2d": convolution("conv2d"),
    "ConvTranspose1d": convolution("conv_transpose1d"),
    "ConvTranspose2d": convolution("conv_transpose2d"), "BatchNorm1d": batch_norm,
    "BatchNorm2d": batch_norm, "InstanceNorm1d": instance_norm, "InstanceNorm2d": instance_norm,
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
    "Softmax2d": lambda g, m, x: g.softmax(x, -3),
    "LocalResponseNorm": lambda g, m, x: g.local_response_norm(x, m.size, m.alpha, m.beta, m.k),
    **{"%sPool%dd" % (kind, rank): pool("nn.functional.%s_pool%dd" % (kind.lower(), rank))
       for kind in ("Max", "Avg") for rank in (1, 2)},
    **{"Adaptive%sPool%dd" % (kind, rank):
       function("nn.functional.adaptive_%s_pool%dd" % (kind.lower(), rank), "output_size")
       for kind in ("Max", "Avg") for rank in (1, 2)},
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
    array_attributes(module)
    state = {} if not parameters and not module._buffers else state

    def build(graph):
        graph.state.update(state)
        return builder(graph, module, *args, **kwargs)

    return Case(build, [detached(output) for output in outputs], cotangents,
                [array for array, _ in leaves], gradients, training)


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
                    yield label, make_case(builder, module, sample.forward_input, training)
                except Refused as refused:
                    yield label, refused


def groups():
    torch.set_num_threads(1)
    for info in module_db:
        name = info.module_cls.__name__
        if name in BUILDERS_OF:
            yield name, (lambda info=info, builder=BUILDERS_OF[name]: samples_of(info, builder))
