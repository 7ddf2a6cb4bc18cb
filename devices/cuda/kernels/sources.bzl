"""The kernels' sources, one a family: nvcc and the tests' emulation compile the same list."""

_KERNELS = [
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "attention",
    "attention_gradient",
    "average",
    "batch_norm",
    "cast",
    "compare",
    "convolution",
    "cross_entropy",
    "ctc",
    "deviations",
    "dimension",
    "dropout",
    "elementwise",
    "embedding",
    "embedding_bag",
    "fused",
    "gather",
    "index_copy",
    "integers",
    "interaction",
    "layer_norm",
    "linear",
    "matmul",
    "nll",
    "norms",
    "parts",
    "pointwise_losses",
    "pool",
    "recurrent",
    "recurrent_gradient",
    "reduce",
    "rmsprop",
    "row_copies",
    "running",
    "sgd",
    "shape",
    "shards",
    "softmax",
    "sort",
    "sparse_add",
    "strided",
    "where",
]

# What these call.
_SHARED = [
    "column_sums",
    "products",
    "report",
    "segments",
]

KERNEL_SOURCES = [name + ".cu" for name in _KERNELS + _SHARED]

# How table.c learns of the kernels.
TABLE_DEFINES = ["TDM_SOURCES(X)=" + "".join(["X(%s)" % name for name in _KERNELS])]

# Formulas that also run fused: contracted into multiply-adds here and not there, or over the border
# of two members, they would give other bits. These kernels wait for memory, not for arithmetic.
UNCONTRACTED_SOURCES = [
    "dropout.cu",
    "elementwise.cu",
    "fused.cu",
]
