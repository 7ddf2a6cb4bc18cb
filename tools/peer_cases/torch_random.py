"""Calls of the library and of PyTorch with options, shapes and values that are drawn: what the
samples of either do not reach. A case depends only on (seed, its subject's name, its number). Cases
that PyTorch refuses do not count."""

import types
import warnings

import torch

import torch_ops
from cases import Refused
from random_draws import Draw
from random_functions import FUNCTIONS, OWN_BUILDERS
from random_modules import MODULES
from random_training import TRAINING
from torch_modules import make_case as module_case
from torch_ops import BUILDERS


# float32 numbers that cancel leave only their rounding error, in PyTorch and here.
ILL_CONDITIONED = ("Norm", "Transformer", "cosine", "rmsprop")


def function_case(name, r):
    """None where PyTorch refuses what was drawn."""
    function, draw = FUNCTIONS[name]
    builder = OWN_BUILDERS.get(name) or BUILDERS.get(name) or BUILDERS[name.split("/")[0]]
    try:
        args, kwargs = draw(r)
        sample = types.SimpleNamespace(input=args[0], args=args[1:], kwargs=kwargs)
        return torch_ops.make_case(types.SimpleNamespace(op=function), builder, sample)
    except (RuntimeError, ValueError, IndexError, TypeError):
        return None


def module_of(name, r):
    builder, draw = MODULES[name]
    try:
        module, args, kwargs, training = draw(r)
        module = module.to(r.dtype).train(training)
        given = types.SimpleNamespace(args=args, kwargs=kwargs)
        return module_case(builder, module, given, training)
    except (RuntimeError, ValueError, IndexError):
        return None


def cases_of(name, make, seed, numbers):
    for number in numbers:
        r = Draw(seed, name, number)
        if any(part in name for part in ILL_CONDITIONED):
            r.dtype = torch.float64
        try:
            case = make(name, r)
        except Refused as refused:
            case = refused
        if case is not None:
            case.least = 1.0
            yield "seed %d number %d %s" % (seed, number, str(r.dtype)[6:]), case


def groups(seed, numbers):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for subjects, make in ((FUNCTIONS, function_case), (MODULES, module_of),
                           (TRAINING, lambda name, r: TRAINING[name](r))):
        for name in subjects:
            yield name, (lambda name=name, make=make: cases_of(name, make, seed, numbers))
