"""Converts the arguments of samples, for the builders of all peers."""

import numpy

from cases import Refused


def only(given, **defaults):
    """Refuses arguments that have no counterpart, unless they are the defaults."""
    for name, value in given.items():
        if name not in defaults or value not in (defaults[name] if isinstance(
                defaults[name], tuple) else (defaults[name],)):
            raise Refused("%s=%s" % (name, str(value)[:60]))


def is_array(x):
    return isinstance(x, numpy.ndarray)


def dims_of(dim):
    if dim is None:
        return []
    return [dim] if isinstance(dim, int) else list(dim)


def pair(value, rank=2):
    """Returns a list with a number for each dimension."""
    return [value] * rank if isinstance(value, int) else list(value)


def dtype_of(g, dtype):
    """The library's constant of PyTorch's dtype; None for None."""
    known = {"torch.float32": "TDM_FLOAT32", "torch.float64": "TDM_FLOAT64",
             "torch.int64": "TDM_INT64", "torch.int32": "TDM_INT32"}
    if dtype is None:
        return None
    if str(dtype) not in known:
        raise Refused("dtype=%s" % dtype)
    return g.constant(known[str(dtype)])


def shape_of(g, x):
    return list(x.shape) if is_array(x) else list(g.value_shape(x))


def as_vector(g, x):
    return g.reshape(x, g.shape(int(numpy.prod(shape_of(g, x)))))


def cast(g, x, dtype):
    return x if dtype is None else g.cast(x, dtype_of(g, dtype))


def put_together(g, layer, values, dim):
    values, count = g.list_of(values)
    return getattr(g, layer)(values, count, dim)
