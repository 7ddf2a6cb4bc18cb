"""One case: a graph is built of tensors, run, and compared with what a peer answered, its gradients
too. Numbers are compared with the largest element of what is wanted: float64 by 1e-7 of it,
float32 by 2e-5, others exactly."""

import ctypes

import numpy

TOLERANCES = {"float64": 1e-7, "float32": 2e-5}
DTYPES = {"float64": "TDM_FLOAT64", "float32": "TDM_FLOAT32", "int64": "TDM_INT64",
          "int32": "TDM_INT32", "bool": "TDM_BOOL"}


class Refused(Exception):
    """A case that the library, or the conversion of its arguments, does not support."""


class Failed(Exception):
    """A wrong result."""


class Graph:
    """A graph that is built. Attributes are layers: graph.relu(x) is tdm_relu with a name made up;
    numpy arrays among the arguments become inputs, or parameters where they have a gradient."""

    def __init__(self, library, context):
        self.library, self.context = library, context
        self.graph = library.call("graph_create", context)
        self.leaves = {}     # name -> array: parameters, whose gradients are asked for
        self.state = {}      # name -> array: loaded, and not compared
        self.fed = {}        # name -> array
        self.known = {}      # id of an array -> (array, value)
        self.trained = set()  # ids of arrays with gradients
        self.names = {}      # id of an array -> the parameter that its gradient is read off
        self.count = 0

    def name(self):
        self.count += 1
        return "n%d" % self.count

    def shape(self, *sizes):
        return self.library.call("shape_make", len(sizes), [int(size) for size in sizes])

    def constant(self, name):
        return self.library.constants[name]

    def options(self, name, **members):
        return self.library.options("tdm_" + name, **members)

    def dtype(self, array):
        if array.dtype.name not in DTYPES:
            raise Refused("dtype " + array.dtype.name)
        return self.constant(DTYPES[array.dtype.name])

    def value(self, array):
        """The value of an array: the same one for the same array."""
        if not isinstance(array, numpy.ndarray):
            return array
        if id(array) not in self.known:
            name = "p%d" % len(self.known)
            make = self.trained_value if id(array) in self.trained else self.input
            self.known[id(array)] = (array, make(name, array))
        return self.known[id(array)][1]

    def trained_value(self, name, array):
        """A gradient is read off what it was added to: of what is not finite, off -0, which leaves
        every number as it is."""
        self.names[id(array)] = name
        if numpy.isfinite(array).all():
            return self.parameter(name, array)
        return self.add(self.parameter(name, numpy.full_like(array, -0.0)),
                        self.input(name + ".fed", array))

    def input(self, name, array):
        self.fed[name] = array
        return self.library.call("input", self.graph, name, self.dtype(array),
                                 self.shape(*array.shape))

    def parameter(self, name, array):
        self.leaves[name] = array
        return self.library.call("parameter", self.graph, name, self.dtype(array),
                                 self.shape(*array.shape), None)

    def constants(self, *arrays):
        """No gradient is asked for of these."""
        self.trained -= {id(array) for array in arrays}

    def named(self, name, array):
        """Gives the layer to come its parameter."""
        if array is not None:
            self.known[id(array)] = (array, self.parameter(name, array))
            self.names[id(array)] = name

    def has(self, layer):
        return layer in self.library.functions

    def __getattr__(self, layer):
        if layer not in self.library.functions:
            raise Refused("there is no tdm_" + layer)
        return lambda *given, name=None: self.library.call(
            layer, self.graph, name or self.name(), *[self.value(one) for one in given])

    def check(self):
        if self.library.call("graph_status", self.graph) != 0:
            raise Refused(self.library.message())

    def value_dtype(self, value):
        code = self.library.call("value_dtype", self.graph, value)
        return next((name for name, known in DTYPES.items() if self.constant(known) == code), None)

    def none(self):
        """The invalid value: an operand that is left out."""
        return self.library.types["tdm_value"]()

    def list_of(self, values):
        return [self.value(one) for one in values], len(values)

    def value_shape(self, value):
        shape = self.library.call("value_shape", self.graph, value)
        return tuple(shape.dims[i] for i in range(shape.rank))


def make_tensor(graph, array):
    array = numpy.ascontiguousarray(array).reshape(array.shape)
    return graph.library.call("tensor_from", graph.context, graph.dtype(array),
                              graph.shape(*array.shape), array.ctypes.data)


def read_tensor(library, tensor):
    dtype = next(name for name, known in DTYPES.items()
                 if library.constants[known] == library.call("tensor_dtype", tensor))
    shape = library.call("tensor_shape", tensor)
    array = numpy.empty([shape.dims[i] for i in range(shape.rank)], dtype)
    if library.call("tensor_read", tensor, array.ctypes.data, array.nbytes) != 0:
        raise Failed(library.message())
    return array


def make_list(graph, arrays):
    tensors = graph.library.call("tensor_list_create", graph.context)
    for name, array in arrays.items():
        tensor = make_tensor(graph, array)
        if graph.library.call("tensor_list_add", tensors, name, tensor) != 0:
            raise Failed(graph.library.message())
        graph.library.call("tensor_release", tensor)
    return tensors


def add_loss(graph, outputs, cotangents):
    """The sum of outputs times cotangents; None where none is floating."""
    total = None
    for output, cotangent in zip(outputs, cotangents):
        if cotangent is None:
            continue
        term = graph.sum(graph.mul(output, cotangent), None, 0, False)
        total = term if total is None else graph.add(total, term)
    return total


def feeds_of(graph):
    library = graph.library
    kind = library.types["tdm_feed"]
    feeds = [kind(name.encode(), make_tensor(graph, array), False)
             for name, array in graph.fed.items()]
    return (kind * max(1, len(feeds)))(*feeds), len(feeds)


def compare(what, found, wanted, slack=0, least=1e-3):
    """least: what all of is smaller is compared as if it had this."""
    wanted = numpy.asarray(wanted)
    if tuple(found.shape) != tuple(wanted.shape):
        raise Failed("%s has shape %s, not %s" % (what, found.shape, wanted.shape))
    if found.dtype != wanted.dtype:
        raise Failed("%s is %s, not %s" % (what, found.dtype, wanted.dtype))
    if wanted.dtype.name not in TOLERANCES:
        if not numpy.array_equal(found, wanted):
            raise Failed("%s differs" % what)
        return
    finite = numpy.isfinite(wanted)
    same = numpy.where(finite, numpy.isfinite(found),
                       (found == wanted) | (numpy.isnan(found) & numpy.isnan(wanted)))
    if not same.all():
        raise Failed("%s: %s" % (what, first_of(~same, found, wanted)))
    if not finite.any():
        return
    apart = numpy.where(finite, numpy.abs(numpy.where(finite, found - wanted, 0)), 0)
    largest = max(numpy.abs(wanted[finite]).max(), least)
    if not apart.max() <= TOLERANCES[wanted.dtype.name] * largest + slack:
        raise Failed("%s is off by %.2g of %.2g, %s" % (what, apart.max(), largest, first_of(
            apart == apart.max(), found, wanted)))


def first_of(places, found, wanted):
    at = tuple(int(i) for i in numpy.argwhere(places)[0])
    return "%.9g, not %.9g, at %s" % (found[at], wanted[at], at)


class Case:
    """A case. build(graph) returns values. outputs and gradients are those of the peer.

    gradients: id of an array -> its gradient, or name of a parameter -> (its value, its gradient).
    training: outputs are those of a step.
    kept: name of a state -> its value after a step."""

    least = 1e-3  # as compare has it

    def __init__(self, build, outputs, cotangents=(), trained=(), gradients=None, training=False,
                 tolerance=0, kept=None):
        self.kept = kept or {}
        self.tolerance = tolerance  # relative, where the peer's own is wider
        self.build, self.outputs, self.cotangents = build, outputs, cotangents
        self.trained, self.gradients, self.training = trained, gradients or {}, training
        flows = [gradient for gradient in self.gradients.values()
                 if numpy.any(gradient[1] if isinstance(gradient, tuple) else gradient)]
        if not flows:
            self.gradients = {}
        self.dtype = next((known for known in (outputs[0].dtype.name,) if known in TOLERANCES),
                          "float32") if outputs else "float32"

    def run(self, library, context):
        graph = Graph(library, context)
        graph.trained = {id(array) for array in self.trained} if self.gradients else set()
        library.call("scope_dtype", graph.graph, library.constants[DTYPES[self.dtype]])
        session = None
        try:
            made = self.build(graph)
            outputs = list(made) if isinstance(made, (list, tuple)) else [made]
            graph.check()
            for i, output in enumerate(outputs):
                library.call("output", graph.graph, "y%d" % i, output)
            session = self.open(graph, outputs)
            if not self.training:
                self.compare_outputs(graph, session)
            if self.trains(graph):
                self.compare_gradients(graph, session)
        finally:
            library.call("session_release", session)
            library.call("graph_release", graph.graph)

    def trains(self, graph):
        """Returns True if a value with a gradient has become a parameter."""
        return any(self.leaf(graph, key, wanted)[0] is not None
                   for key, wanted in self.gradients.items())

    def open(self, graph, outputs):
        library = graph.library
        options = graph.options("session_options")
        if self.trains(graph):
            loss = add_loss(graph, outputs, self.cotangents)
            optimizer = library.call("sgd", 1.0)
            options.loss, options.optimizer = loss, ctypes.addressof(optimizer)
        graph.check()
        session = library.call("session_create", graph.graph, options)
        if not session:
            raise Refused(library.message())
        tensors = make_list(graph, {**graph.leaves, **graph.state})
        status = library.call("store_load", library.call("session_store", session), tensors)
        library.call("tensor_list_release", tensors)
        if status != 0:
            raise Failed(library.message())
        return session

    def fetches(self, library):
        kind, count = library.types["tdm_fetch"], len(self.outputs)
        return (kind * max(1, count))(*[kind(b"y%d" % i, None) for i in range(count)]), count

    def compare_outputs(self, graph, session):
        library = graph.library
        fetches, fetch_count = self.fetches(library)
        feeds, count = feeds_of(graph)
        if library.call("run", session, feeds, count, fetches, fetch_count) != 0:
            raise Failed("running: " + library.message())
        self.compare_fetched(library, fetches)

    def compare_fetched(self, library, fetches):
        for i, wanted in enumerate(self.outputs):
            slack = 0
            if self.tolerance and wanted.dtype.name in TOLERANCES:
                finite = wanted[numpy.isfinite(wanted)]
                slack = self.tolerance * numpy.abs(finite).max(initial=0)
            compare("output %d" % i, read_tensor(library, fetches[i].tensor), wanted,
                    slack, self.least)
            library.call("tensor_release", fetches[i].tensor)

    def compare_gradients(self, graph, session):
        library = graph.library
        feeds, count = feeds_of(graph)
        fetches, fetch_count = self.fetches(library) if self.training else (None, 0)
        if library.call("train_step", session, feeds, count, fetches, fetch_count, None) != 0:
            raise Failed("training: " + library.message())
        if self.training:
            self.compare_fetched(library, fetches)
        tensors = library.call("store_save", library.call("session_store", session), False)
        for key, wanted in self.gradients.items():
            name, before, gradient = self.leaf(graph, key, wanted)
            if name is None or not numpy.isfinite(before).all():
                continue
            after = read_tensor(library, library.call("tensor_list_find", tensors, name))
            compare("gradient of " + name, before - after, gradient, self.slack(before),
                    self.least)
        for name, wanted in self.kept.items():
            found = read_tensor(library, library.call("tensor_list_find", tensors, name))
            compare(name, found, wanted, 0, self.least)
        library.call("tensor_list_release", tensors)

    def slack(self, before):
        """Returns the tolerance: the value to which a gradient is added is rounded. Cotangents that
        cancel in float32 leave their own rounding error."""
        slack = 2 * numpy.finfo(before.dtype).eps * numpy.abs(before).max(initial=1)
        if before.dtype == numpy.float32:
            given = [numpy.abs(one).max(initial=0) for one in self.cotangents if one is not None]
            slack += TOLERANCES["float32"] * max(given, default=0)
        return float(slack)

    @staticmethod
    def leaf(graph, key, wanted):
        if isinstance(key, str):
            return key, wanted[0], wanted[1]
        name = graph.names.get(key)
        return name, graph.leaves.get(name), wanted
