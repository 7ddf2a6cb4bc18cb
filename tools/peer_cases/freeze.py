#!/usr/bin/python3
"""freeze.py FOLDER [ops] [modules] [onnx]: writes some of the cases that pass, of each operation,
to FOLDER/SUITE.cases, and how many these are of each to FOLDER/SUITE.txt. They run without PyTorch
and ONNX, by tests/tools/peer_cases_test.py. Needs what run.py needs."""

import base64
import ctypes
import importlib
import itertools
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)

import numpy  # noqa: E402

import binding  # noqa: E402
import cases  # noqa: E402
import frozen  # noqa: E402
import run  # noqa: E402

MOST_BYTES = 6000  # limit of a case's arrays
MOST_CASES = 3     # limit per operation
MOST_TRIED = 120   # likewise
QUESTIONS = ("graph_create", "graph_release", "graph_status", "value_dtype", "value_shape",
             "session_create")


class Unspoken(Exception):
    """A call that a file has no words for."""


class Recording(binding.Library):
    """Writes down the calls that build a graph."""

    def begin(self):
        self.calls, self.values, self.loss = [], frozen.Values(self), None

    def call(self, name, *arguments):
        function, _ = self.functions[name]
        records = (getattr(self, "calls", None) is not None and name not in QUESTIONS and
                   function.argtypes[:1] == [ctypes.c_void_p] and arguments and
                   arguments[0] == getattr(self, "graph", None))
        told = [name, *[self.tell(one) for one in arguments[1:]]] if records else None
        answer = super().call(name, *arguments)
        if name == "graph_create":
            self.graph = answer
        if name == "session_create" and getattr(self, "calls", None) is not None:
            loss = arguments[1].loss
            self.loss = self.values.number(loss) if any(bytes(loss)) else None
        if records:
            self.values.take(answer, arguments)
            self.calls.append(told)
        return answer

    def tell(self, argument):
        if argument is None or isinstance(argument, (str, bool)):
            return argument
        if isinstance(argument, (int, numpy.integer)):
            return int(argument)
        if isinstance(argument, (float, numpy.floating)):
            return float(argument)
        if isinstance(argument, (list, tuple)):
            return [self.tell(one) for one in argument]
        if isinstance(argument, self.values.kind):
            return {"value": self.values.number(argument)}
        if isinstance(argument, ctypes.Array) and argument._type_ is self.values.kind:
            return {"room": len(argument)}
        if isinstance(argument, ctypes.Structure):
            return {"struct": type(argument).__name__, "members": self.tell_members(argument)}
        raise Unspoken(type(argument).__name__)

    def tell_members(self, struct):
        members = {}
        for name, kind in struct._fields_:
            value = getattr(struct, name)
            if name == "struct_size" or value is None:
                continue
            if name == "out_weights":
                members[name] = True
            elif kind is ctypes.c_void_p:
                raise Unspoken("a pointer")
            elif isinstance(value, ctypes.Array):
                members[name] = list(value)
            elif isinstance(value, ctypes.Structure):
                if any(bytes(value)):
                    members[name] = self.tell(value)
            else:
                members[name] = value
        return members


def told_array(given, slack=0):
    given = numpy.asarray(given)
    told = {"dtype": given.dtype.name, "shape": list(given.shape),
            "data": base64.b64encode(numpy.ascontiguousarray(given).tobytes()).decode()}
    return dict(told, slack=slack) if slack else told


def record(library, context, case):
    """The case for a file; None where it does not pass, or is large."""
    kept = {}
    library.begin()
    opened = case.open

    def open_and_keep(graph, outputs):
        kept["graph"] = graph
        return opened(graph, outputs)

    case.open = open_and_keep
    try:
        verdict, _ = run.run_case(library, context, case)
    except Unspoken:
        return None
    finally:
        calls, library.calls = library.calls, None
    if verdict != "passed":
        return None
    graph = kept["graph"]
    loaded = {**graph.leaves, **graph.state}
    gradients = []
    for key, wanted in case.gradients.items() if library.loss is not None else ():
        name, before, gradient = case.leaf(graph, key, wanted)
        if name is not None and name in loaded and numpy.isfinite(before).all():
            gradients.append([name, told_array(gradient), case.slack(before)])
    outputs = [] if case.training else case.outputs
    size = sum(one.nbytes for one in (*loaded.values(), *graph.fed.values(), *outputs))
    if size > MOST_BYTES or not (outputs or gradients):
        return None
    return {"calls": calls, "loss": library.loss if gradients else None,
            "fed": {name: told_array(one) for name, one in graph.fed.items()},
            "loaded": {name: told_array(one) for name, one in loaded.items()},
            "outputs": [told_array(one, slack_of(case, one)) for one in outputs],
            "gradients": gradients}


def slack_of(case, wanted):
    if not case.tolerance or wanted.dtype.kind != "f":
        return 0
    return float(case.tolerance * numpy.abs(wanted[numpy.isfinite(wanted)]).max(initial=0))


def chosen(made):
    """The first, which is float64 with gradients, the last, and one in between of another kind."""
    made = [one for one in made if isinstance(one, dict)]
    with_gradients = [one for one in made if one["gradients"]]
    picked = with_gradients[:1] + made[len(made) // 2:][:1] + made[-1:] + made[:1]
    unique = []
    for one in picked:
        if one not in unique:
            unique.append(one)
    return unique[:MOST_CASES]


def main():
    folder, suites = sys.argv[1], sys.argv[2:] or list(run.SUITES)
    path = os.path.join(ROOT, "bazel-bin", "libtandem.so.0.3.0")
    for suite in suites:
        library = Recording(path, ROOT)
        groups = {}
        for name, make in importlib.import_module(run.SUITES[suite]).groups():
            made = run.run_apart(library, make, record_group)
            groups[name] = chosen(made)
            print(suite, name, len(groups[name]), flush=True)
        groups = {name: kept for name, kept in sorted(groups.items()) if kept}
        frozen.write(os.path.join(folder, suite + ".cases"), groups)
        with open(os.path.join(folder, suite + ".txt"), "w") as file:
            file.writelines("%s %d\n" % (name, len(kept)) for name, kept in groups.items())


def record_group(library, make):
    context = library.call("context_create", None)
    return [None if isinstance(case, cases.Refused) else record(library, context, case)
            for _, case in itertools.islice(make(), MOST_TRIED)]


if __name__ == "__main__":
    main()
