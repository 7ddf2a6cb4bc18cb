"""Recorded cases: the calls of the library, with the results of a peer. They run without the peer,
with Python only. freeze.py writes them.

A file is compressed JSON: {group: [case, ...]}. A case has "calls", each [function, argument, ...]
after the graph, "loss" (a value, or null), "fed", "loaded" (arrays by name), "outputs" and
"gradients" ([parameter, array, slack]). Values are numbered as calls answer them."""

import array
import base64
import ctypes
import json
import math
import zlib

TOLERANCES = {"float64": 1e-7, "float32": 2e-5}
CODES = {"float64": "d", "float32": "f", "int64": "q", "int32": "i", "bool": "b"}
DTYPES = {"float64": "TDM_FLOAT64", "float32": "TDM_FLOAT32", "int64": "TDM_INT64",
          "int32": "TDM_INT32", "bool": "TDM_BOOL"}


class Differs(Exception):
    """The library fails, or returns another result than when the case was written."""


def read(path):
    with open(path, "rb") as file:
        return json.loads(zlib.decompress(file.read()))


def write(path, cases):
    text = json.dumps(cases, separators=(",", ":"))
    with open(path, "wb") as file:
        file.write(zlib.compress(text.encode(), 9))


# ---- Values, numbered in the order in which calls answer them ----

class Values:
    def __init__(self, library):
        self.kind = library.types["tdm_value"]
        self.numbers, self.known = {}, []

    def add(self, value):
        key = bytes(value)
        if any(key) and key not in self.numbers:
            self.numbers[key] = len(self.known)
            self.known.append(self.kind.from_buffer_copy(key))

    def number(self, value):
        return self.numbers[bytes(value)] if any(bytes(value)) else -1

    def get(self, number):
        return self.kind.from_buffer_copy(bytes(self.known[number])) if number >= 0 else self.kind()

    def take(self, answer, arguments):
        """Adds the result of a call, and the objects that it wrote to its arguments."""
        if isinstance(answer, self.kind):
            self.add(answer)
        for argument in arguments:
            if isinstance(argument, self.kind):
                self.add(argument)
            elif isinstance(argument, ctypes.Array) and argument._type_ is self.kind:
                for one in argument:
                    self.add(one)
            elif getattr(argument, "out_weights", None):
                self.add(self.kind.from_address(argument.out_weights))


# ---- Running a case ----

class Frozen:
    def __init__(self, library, context, case):
        self.library, self.context, self.case = library, context, case
        self.values, self.held = Values(library), []

    def decode(self, told):
        if isinstance(told, list):
            return [self.decode(one) for one in told]
        if not isinstance(told, dict):
            return told
        if "value" in told:
            if told["value"] >= len(self.values.known):  # the call that makes it was refused
                raise Differs(self.library.message())
            return self.values.get(told["value"])
        if "room" in told:
            return (self.values.kind * told["room"])()
        return self.decode_struct(told["struct"], told["members"])

    def decode_struct(self, name, members):
        made = self.library.default(name)
        for member, told in members.items():
            if member == "out_weights":
                self.held.append(self.values.kind())
                made.out_weights = ctypes.addressof(self.held[-1])
            elif isinstance(told, list):
                getattr(made, member)[:len(told)] = told
            else:
                setattr(made, member, self.decode(told))
        return made

    def tensor(self, told):
        raw = base64.b64decode(told["data"])
        shape = self.library.call("shape_make", len(told["shape"]), told["shape"] or [0])
        return self.library.call("tensor_from", self.context,
                                 self.library.constants[DTYPES[told["dtype"]]], shape, raw)

    def check(self, done):
        if not done:
            raise Differs(self.library.message())

    def run(self):
        call = self.library.call
        graph = call("graph_create", self.context)
        session = None
        try:
            for name, *told in self.case["calls"]:
                arguments = [self.decode(one) for one in told]
                self.values.take(call(name, graph, *arguments), arguments)
            self.check(call("graph_status", graph) == 0)
            session = self.open(graph)
            self.compare_outputs(session)
            self.compare_gradients(session)
        finally:
            call("session_release", session)
            call("graph_release", graph)

    def open(self, graph):
        call = self.library.call
        options = self.library.options("tdm_session_options")
        optimizer = call("sgd", 1.0)
        if self.case["loss"] is not None:
            options.loss = self.values.get(self.case["loss"])
            options.optimizer = ctypes.addressof(optimizer)
        session = call("session_create", graph, options)
        self.check(session)
        tensors = call("tensor_list_create", self.context)
        for name, told in self.case["loaded"].items():
            tensor = self.tensor(told)
            self.check(call("tensor_list_add", tensors, name, tensor) == 0)
            call("tensor_release", tensor)
        status = call("store_load", call("session_store", session), tensors)
        call("tensor_list_release", tensors)
        self.check(status == 0)
        return session

    def feeds(self):
        kind = self.library.types["tdm_feed"]
        feeds = [kind(name.encode(), self.tensor(told), False)
                 for name, told in self.case["fed"].items()]
        return (kind * max(1, len(feeds)))(*feeds), len(feeds)

    def let_go(self, feeds, count):
        for i in range(count):
            self.library.call("tensor_release", feeds[i].tensor)

    def compare_outputs(self, session):
        wanted = self.case["outputs"]
        if not wanted:
            return
        call, kind = self.library.call, self.library.types["tdm_fetch"]
        names = [b"y%d" % i for i in range(len(wanted))]
        fetches = (kind * len(wanted))(*[kind(name, None) for name in names])
        feeds, count = self.feeds()
        self.check(call("run", session, feeds, count, fetches, len(wanted)) == 0)
        self.let_go(feeds, count)
        for i, told in enumerate(wanted):
            found = self.read(fetches[i].tensor, told)
            call("tensor_release", fetches[i].tensor)
            compare("output %d" % i, found, told, told.get("slack", 0))

    def compare_gradients(self, session):
        if not self.case["gradients"]:
            return
        call = self.library.call
        feeds, count = self.feeds()
        self.check(call("train_step", session, feeds, count, None, 0, None) == 0)
        self.let_go(feeds, count)
        tensors = call("store_save", call("session_store", session), False)
        for name, told, slack in self.case["gradients"]:
            before = numbers_of(self.case["loaded"][name])
            after = self.read(call("tensor_list_find", tensors, name), told)
            compare("gradient of " + name, [a - b for a, b in zip(before, after)], told, slack)
        call("tensor_list_release", tensors)

    def read(self, tensor, told):
        library = self.library
        shape = library.call("tensor_shape", tensor)
        found = [shape.dims[i] for i in range(shape.rank)]
        dtype = library.call("tensor_dtype", tensor)
        if found != told["shape"] or dtype != library.constants[DTYPES[told["dtype"]]]:
            raise Differs("shape %s or dtype %d, not %s %s" % (found, dtype, told["shape"],
                                                               told["dtype"]))
        numbers = array.array(CODES[told["dtype"]], bytes(len(base64.b64decode(told["data"]))))
        address, count = numbers.buffer_info()
        self.check(library.call("tensor_read", tensor, address, count * numbers.itemsize) == 0)
        return numbers


def numbers_of(told):
    return array.array(CODES[told["dtype"]], base64.b64decode(told["data"]))


def compare(what, found, told, slack):
    wanted = numbers_of(told)
    if told["dtype"] not in TOLERANCES:
        if list(found) != list(wanted):
            raise Differs("%s differs" % what)
        return
    largest = max([abs(one) for one in wanted if math.isfinite(one)], default=0)
    most = TOLERANCES[told["dtype"]] * max(largest, 1e-3) + slack
    for a, b in zip(found, wanted):
        same = a == b or (math.isnan(a) and math.isnan(b))
        if not same and not (math.isfinite(b) and abs(a - b) <= most):
            raise Differs("%s: %g, not %g" % (what, a, b))
