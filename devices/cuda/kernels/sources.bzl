"""The kernels' sources, one a family: nvcc and the tests' emulation compile the same list."""

KERNEL_SOURCES = [
    "activations.cu",
    "adam.cu",
    "cast.cu",
    "cross_entropy.cu",
    "elementwise.cu",
    "embedding.cu",
    "linear.cu",
    "mse.cu",
    "norms.cu",
    "parts.cu",
    "products.cu",
    "report.cu",
    "rnn.cu",
    "segments.cu",
    "sgd.cu",
    "shape.cu",
    "softmax.cu",
    "sparse_add.cu",
]
