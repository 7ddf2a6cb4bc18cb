"""Modules of PyTorch with options, shapes and inputs that are drawn: of each its builder, as
torch_modules has it, and what draws (module, inputs, named inputs, does it train)."""

import torch

import torch_modules
from torch_modules import BUILDERS_OF

nn = torch.nn


def linear(r):
    width = r.size(40)
    return nn.Linear(width, r.size(40), bias=r.chance(0.7)), \
        [r.values([*r.shape(0, 3), width])], {}, r.chance()


def bilinear(r):
    a, b, lead = r.size(6), r.size(6), r.shape(1, 2)
    return nn.Bilinear(a, b, r.size(6), bias=r.chance()), \
        [r.values([*lead, a]), r.values([*lead, b])], {}, r.chance()


def statistics(module):
    """Running statistics that are not those of a fresh module."""
    for name, buffer in module.named_buffers():
        if name.startswith("running"):
            buffer.copy_(torch.rand(buffer.shape) + 0.5)
    return module


def batch_norm(r):
    rank = r.number(0, 3)
    channels = r.size(20)
    kind = [nn.BatchNorm1d, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d][rank]
    module = kind(channels, eps=r.one_of([1e-5, 0.1]), momentum=r.one_of([0.1, None, 1.0, 0.3]),
                  affine=r.chance(0.7), track_running_stats=r.chance(0.8))
    return statistics(module), \
        [r.values([r.size(6), channels, *[r.size(5) for _ in range(rank)]])], {}, r.chance()


def instance_norm(r):
    rank, channels = r.number(1, 3), r.size(9)
    kind = [nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d][rank - 1]
    module = kind(channels, eps=r.one_of([1e-5, 0.1]), momentum=r.one_of([0.1, None, 1.0]),
                  affine=r.chance(), track_running_stats=r.chance())
    return statistics(module), \
        [r.values([r.size(5), channels, *[r.size(6) for _ in range(rank)]])], {}, r.chance()


def group_norm(r):
    groups = r.number(1, 4)
    channels = groups * r.number(1, 4)
    return nn.GroupNorm(groups, channels, eps=r.one_of([1e-5, 0.1]), affine=r.chance()), \
        [r.values([r.size(5, 0), channels, *r.shape(0, 3, 5)])], {}, r.chance()


def normalized(r):
    shape = r.shape(1, 4)
    return shape, shape[r.number(0, len(shape) - 1):]


def layer_norm(r):
    shape, inner = normalized(r)
    return nn.LayerNorm(inner, eps=r.one_of([1e-5, 0.1]), elementwise_affine=r.chance(0.7),
                        bias=r.chance(0.7)), [r.values(shape)], {}, r.chance()


def rms_norm(r):
    shape, inner = normalized(r)
    return nn.RMSNorm(inner, eps=r.one_of([None, 1e-5, 0.1]), elementwise_affine=r.chance(0.7)), \
        [r.values(shape)], {}, r.chance()


def padded_convolution(r):
    rank, groups = r.number(1, 3), r.one_of([1, 1, 2, 4])
    kind = [nn.Conv1d, nn.Conv2d, nn.Conv3d][rank - 1]
    into = groups * r.number(1, 5)
    module = kind(into, groups * r.number(1, 5), [r.number(1, 4) for _ in range(rank)],
                  stride=[r.number(1, 3) for _ in range(rank)],
                  padding=[r.number(0, 3) for _ in range(rank)],
                  dilation=[r.number(1, 3) for _ in range(rank)], groups=groups,
                  bias=r.chance(), padding_mode=r.one_of(["reflect", "replicate", "circular"]))
    if r.chance(0.3):
        module = kind(into, groups, [r.number(1, 4) for _ in range(rank)], padding="same",
                      groups=groups, dilation=[r.number(1, 3) for _ in range(rank)],
                      padding_mode=r.one_of(["zeros", "reflect", "replicate", "circular"]))
    sizes = [r.size(9 if rank < 3 else 5) for _ in range(rank)]
    return module, [r.values([r.size(3), into, *sizes])], {}, r.chance()


# ---- Recurrent ----

def packed(kind):
    """The module that takes lengths as well, whose results are padded with zeros."""
    def forward(self, x, states=None, lengths=None):
        if lengths is None:
            return kind.forward(self, x, states)
        total = x.shape[1 if self.batch_first else 0]
        given = nn.utils.rnn.pack_padded_sequence(x, lengths, self.batch_first, False)
        y, states = kind.forward(self, given, states)
        return nn.utils.rnn.pad_packed_sequence(y, self.batch_first, total_length=total)[0], states
    return type("Packed" + kind.__name__, (kind,), {"forward": forward})


PACKED = {name: packed(getattr(nn, name)) for name in ("RNN", "LSTM", "GRU")}


def recurrent(name):
    def draw(r):
        into, hidden, layers = r.size(9), r.size(9), r.number(1, 3)
        options = {"num_layers": layers, "bias": r.chance(0.8), "batch_first": r.chance(),
                   "bidirectional": r.chance()}
        if name == "RNN":
            options["nonlinearity"] = r.one_of(["tanh", "relu"])
        if name == "LSTM" and hidden > 1 and r.chance(0.4):
            options["proj_size"] = r.number(1, hidden - 1)
        module = PACKED[name](into, hidden, **options)
        single, batch, length = r.chance(0.15), r.size(5), r.size(7)
        lead = [length] if single else [batch, length] if module.batch_first else [length, batch]
        count = layers * (1 + module.bidirectional)
        states = [r.values([count, *([] if single else [batch]), size], kinds=("plain",))
                  for size in (options.get("proj_size") or hidden, hidden)]
        kwargs = {}
        if r.chance():
            kwargs["states"] = tuple(states) if name == "LSTM" else states[0]
        if not single and r.chance(0.4):
            kwargs["lengths"] = torch.tensor([r.number(1, length) for _ in range(batch)])
        return module, [r.values([*lead, into], kinds=("plain",))], kwargs, r.chance()
    return draw


def cell(name):
    def draw(r):
        into, hidden = r.size(9), r.size(9)
        options = {"nonlinearity": r.one_of(["tanh", "relu"])} if name == "RNNCell" else {}
        lead = [] if r.chance(0.2) else [r.size(6)]
        module = getattr(nn, name)(into, hidden, bias=r.chance(), **options)
        args = [r.values([*lead, into])]
        if r.chance(0.7):
            states = tuple(r.values([*lead, hidden]) for _ in range(2))
            args.append(states if name == "LSTMCell" else states[0])
        return module, args, {}, r.chance()
    return draw


# ---- Tables ----

def embedding(r):
    rows = r.size(20)
    padding = r.one_of([None, r.number(-rows, rows - 1)])
    return nn.Embedding(rows, r.size(9), padding_idx=padding), [r.ids(rows, r.shape(0, 3))], {}, \
        r.chance()


def embedding_bag(r):
    rows = r.size(20)
    mode = r.one_of(["mean", "sum", "max"])
    padding = r.one_of([None, r.number(-rows, rows - 1)])
    by_offsets = r.chance()
    last = by_offsets and r.chance(0.3)
    module = nn.EmbeddingBag(rows, r.size(9), mode=mode, padding_idx=padding,
                             include_last_offset=last)
    kwargs = {}
    if not by_offsets:
        ids = r.ids(rows, [r.size(6), r.size(6)])
    else:
        count = r.size(20)
        ids = r.ids(rows, [count])
        begins = sorted(r.number(0, count) for _ in range(r.number(0, 5)))
        kwargs["offsets"] = torch.tensor([0, *begins, *([count] if last else [])], dtype=ids.dtype)
    if mode == "sum" and r.chance():
        kwargs["per_sample_weights"] = r.values(list(ids.shape))
    return module, [ids], kwargs, r.chance()


def build_bag(g, m, ids, offsets=None, per_sample_weights=None):
    members = {name: g.value(given) for name, given in
               (("offsets", offsets), ("scales", per_sample_weights)) if given is not None}
    options = g.options("embedding_bag_options", mode=g.constant("TDM_BAG_" + m.mode.upper()),
                        padding_index=m.padding_idx,
                        include_last_offset=m.include_last_offset, **members)
    return g.embedding_bag(ids, m.num_embeddings, m.embedding_dim, options, name="m")


# ---- Attention ----

def masks(r, queries, keys, batch, heads):
    """An attn_mask and a key_padding_mask that leave the first key to every query."""
    attn = r.one_of([None, r.values([queries, keys], torch.bool),
                     r.values([queries, keys], kinds=("plain",), grad=False),
                     r.values([batch * heads, queries, keys], torch.bool)])
    padding = r.one_of([None, None, r.values([batch, keys], torch.bool)])
    for mask in (attn, padding):
        if mask is not None and mask.dtype == torch.bool:
            mask[..., 0] = False
    return attn, padding


def multi_head(r):
    heads = r.number(1, 3)
    width = heads * r.number(1, 5)
    first = r.chance()
    batch, queries, keys = r.size(4), r.size(6), r.size(6)
    kdim, vdim = (None, None) if r.chance(0.7) else (r.size(7), r.size(7))
    module = nn.MultiheadAttention(width, heads, bias=r.chance(0.7), add_bias_kv=r.chance(0.2),
                                   add_zero_attn=r.chance(0.2), kdim=kdim, vdim=vdim,
                                   batch_first=first)
    lead = [(batch, length) if first else (length, batch) for length in (queries, keys)]
    itself = kdim is None and r.chance(0.3)
    query = r.values([*lead[0], width], kinds=("plain",))
    inputs = [query] * 3 if itself else [
        query, r.values([*lead[1], kdim or width]), r.values([*lead[1], vdim or width])]
    attn, padding = masks(r, queries, queries if itself else keys, batch, heads)
    return module, inputs, {
        "attn_mask": attn, "key_padding_mask": padding, "need_weights": r.chance(),
        "average_attn_weights": r.chance()}, r.chance()


def transformer(r):
    heads = r.number(1, 3)
    width = heads * r.number(1, 5)
    return (width, heads), {
        "dim_feedforward": r.size(12), "dropout": 0.0, "activation": r.one_of(["relu", "gelu"]),
        "layer_norm_eps": r.one_of([1e-5, 0.1]), "norm_first": r.chance(),
        "batch_first": r.chance(), "bias": r.chance(0.7)}


def encoder_layer(r):
    sizes, options = transformer(r)
    batch, length = r.size(4), r.size(6)
    lead = [batch, length] if options["batch_first"] else [length, batch]
    attn, padding = masks(r, length, length, batch, sizes[1])
    return nn.TransformerEncoderLayer(*sizes, **options), \
        [r.values([*lead, sizes[0]], kinds=("plain",))], \
        {"src_mask": attn, "src_key_padding_mask": padding}, True


def decoder_layer(r):
    sizes, options = transformer(r)
    batch, length, memory = r.size(4), r.size(6), r.size(6)
    lead = [[batch, one] if options["batch_first"] else [one, batch] for one in (length, memory)]
    attn, padding = masks(r, length, length, batch, sizes[1])
    memory_attn, memory_padding = masks(r, length, memory, batch, sizes[1])
    return nn.TransformerDecoderLayer(*sizes, **options), \
        [r.values([*one, sizes[0]], kinds=("plain",)) for one in lead], \
        {"tgt_mask": attn, "tgt_key_padding_mask": padding, "memory_mask": memory_attn,
         "memory_key_padding_mask": memory_padding}, True


MODULES = {
    "Linear": (BUILDERS_OF["Linear"], linear), "Bilinear": (BUILDERS_OF["Bilinear"], bilinear),
    "BatchNorm": (torch_modules.batch_norm, batch_norm),
    "InstanceNorm": (torch_modules.normalized, instance_norm),
    "GroupNorm": (BUILDERS_OF["GroupNorm"], group_norm),
    "LayerNorm": (BUILDERS_OF["LayerNorm"], layer_norm),
    "RMSNorm": (BUILDERS_OF["RMSNorm"], rms_norm),
    "Conv/padding_mode": (lambda g, m, x: BUILDERS_OF["Conv%dd" % (x.ndim - 2)](g, m, x),
                          padded_convolution),
    **{name: (torch_modules.recurrent(name.lower()), recurrent(name)) for name in PACKED},
    **{name: (BUILDERS_OF[name], cell(name)) for name in ("RNNCell", "LSTMCell", "GRUCell")},
    "Embedding": (BUILDERS_OF["Embedding"], embedding),
    "EmbeddingBag": (build_bag, embedding_bag),
    "MultiheadAttention": (BUILDERS_OF["MultiheadAttention"], multi_head),
    "TransformerEncoderLayer": (BUILDERS_OF["TransformerEncoderLayer"], encoder_layer),
    "TransformerDecoderLayer": (BUILDERS_OF["TransformerDecoderLayer"], decoder_layer),
}
