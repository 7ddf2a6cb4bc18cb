"""Sources of kernels for GPUs: nvcc and the emulation of tests compile the same list."""

# family -> sources in FAMILY/cuda/ that define kernels
_KERNELS = {
    "attention": [
        "attention",
        "attention_gradient",
    ],
    "convolution": [
        "convolution",
        "pool",
    ],
    "elementwise": [
        "cast",
        "compare",
        "dropout",
        "elementwise",
        "fused",
        "integers",
        "where",
    ],
    "losses": [
        "cross_entropy",
        "ctc",
        "nll",
        "pointwise_losses",
    ],
    "moves": [
        "gather",
        "parts",
        "shape",
        "sort",
        "strided",
    ],
    "normalization": [
        "batch_norm",
        "layer_norm",
        "softmax",
    ],
    "products": [
        "interaction",
        "linear",
        "matmul",
    ],
    "recurrent": [
        "recurrent",
        "recurrent_gradient",
    ],
    "reductions": [
        "deviations",
        "dimension",
        "reduce",
        "running",
    ],
    "tables": [
        "embedding",
        "embedding_bag",
        "index_copy",
        "row_copies",
        "shards",
        "sparse_add",
    ],
    "updates": [
        "adafactor",
        "norms",
        "updates",
    ],
}

# Helpers of several sources.
_HELPERS = [
    "cuda/column_sums.cu",
    "cuda/report.cu",
    "products/cuda/products.cu",
    "tables/cuda/segments.cu",
]

KERNEL_SOURCES = [
    "%s/cuda/%s.cu" % (family, name)
    for family, names in _KERNELS.items()
    for name in names
] + _HELPERS

# table.c gets the names of the sources by this macro.
TABLE_DEFINES = ["TDM_SOURCES(X)=" + "".join([
    "X(%s)" % name
    for names in _KERNELS.values()
    for name in names
])]

# Formulas that also run fused. Contraction into multiply-adds, within an operation or across the
# border of two members, would change their bits. Memory bounds these kernels, not arithmetic.
UNCONTRACTED_SOURCES = [
    "elementwise/cuda/dropout.cu",
    "elementwise/cuda/elementwise.cu",
    "elementwise/cuda/fused.cu",
]

def stem(source):
    """Returns the name of a source without its folder and ending."""
    return source.split("/")[-1].split(".")[0]
