"""The model in the library: its graph, and sessions that step, evaluate, save and load."""

import ctypes

import torch

from cases import Failed, Graph, Refused, feeds_of, make_list, read_tensor

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
CALLBACKS = []  # kept permanently: a run may use its callback after the end of its session


class Session:
    """A session, and its last rates and momentum."""

    def __init__(self, run, frozen, store=None):
        library, case = run.library, run.case
        self.run, self.frozen, self.told = run, frozen, None
        given = ([frozen] if frozen else []) + case.groups[:-1]
        kept = [group.of_library(library) for group in given]
        groups = (library.types["tdm_parameter_group"] * max(1, len(given)))(
            *[(group.pattern.encode(), None if optimizer is None else ctypes.addressof(optimizer))
              for group, optimizer in zip(given, kept)])
        rest = case.groups[-1].of_library(library)
        options = run.graph.options(
            "session_options", loss=run.loss, optimizer=ctypes.addressof(rest), store=store,
            groups=ctypes.addressof(groups), group_count=len(given), seed=7,
            micro_batches=case.micro_batches, batch_dimension=b"rows", **case.options)
        self.session = library.call("session_create", run.graph.graph, options)
        if not self.session:
            raise Refused(library.message())
        self.store = library.call("session_store", self.session)

    def tell(self, told):
        """Sets rates and momentum, given as (factor, {group: rate}, momentum)."""
        if told == self.told:
            return
        library, case = self.run.library, self.run.case
        factor, rates, momentum = self.told = told
        statuses = [library.call("session_set_learning_rate", self.session,
                                 case.groups[-1].rate * factor)]
        for group, rate in rates.items():
            statuses.append(library.call("session_set_group_learning_rate", self.session,
                                         case.groups.index(group) + bool(self.frozen), rate))
        if momentum is not None:
            statuses.append(library.call("session_set_momentum", self.session, momentum))
        if any(statuses):
            raise Failed("rates: " + library.message())

    def tensors(self):
        """All that its store has."""
        library = self.run.library
        saved = library.call("store_save", self.store, True)
        found = {}
        for i in range(library.call("tensor_list_count", saved)):
            name = library.call("tensor_list_name", saved, i).decode()
            found[name.replace("/", ".")] = read_tensor(
                library, library.call("tensor_list_tensor", saved, i))
        library.call("tensor_list_release", saved)
        return found


class Run:
    """A graph of the case, and its sessions: with nothing frozen, and with what the case freezes
    in some steps."""

    def __init__(self, library, context, case, places):
        self.library, self.context, self.case = library, context, case
        self.graph = Graph(library, context)
        self.failures, self.places = [], places
        self.build()
        self.sessions = [Session(self, None)]
        if case.frozen:
            self.sessions.append(Session(self, case.frozen, self.sessions[0].store))

    def build(self):
        library, case, graph, g = self.library, self.case, self.graph.graph, self.graph
        floats = g.constant("TDM_" + str(case.dtype)[6:].upper())
        library.call("scope_dtype", graph, floats)
        model = case.model
        x = x_fed = self.input("x", g.constant("TDM_INT64") if model.integer else floats,
                       case.steps[0].x.shape[1:])
        target = case.steps[0].target
        aim = self.input("target", g.constant("TDM_INT64") if target.dtype == torch.int64 else
                         floats, target.shape[1:])
        for name, layer, place in zip(model.names(), model.layers, self.places):
            if name == model.tied:
                library.call("tie", graph, name + "/m", "l0/m")
            library.call("scope_push", graph, name)
            if place:
                library.call("place", graph, place)
            x = layer.build(g, layer.m, x)
            library.call("scope_pop", graph)
        library.call("output", graph, "y", x)
        judged = {**model.judge_options}
        judged["reduction"] = g.constant("TDM_LOSS_" + judged["reduction"].upper())
        if model.class_weights is not None:
            judged["weight"] = library.call("state", graph, "class_weights", floats,
                                            g.shape(model.width), None, g.none())
        if model.steps:
            aim = g.flatten(aim, 0, 1, name="loss/aim")  # where the loss is
        self.loss = getattr(g, model.judge + "_with")(
            x, aim, g.options("loss_options", **judged), name="loss")
        self.add_regions()
        if case.penalized:
            weight = library.call("get_parameter", graph, case.penalized.replace(".", "/", 1))
            self.loss = g.add(self.loss, g.mul_scalar(
                g.sum(g.mul(weight, weight), None, 0, False), 0.01))
        if case.asked:
            of = x_fed if case.asked == "x" else library.call("get_parameter", graph,
                                                              case.asked.replace(".", "/", 1))
            library.call("output", graph, "gradient", g.gradient_of(self.loss, of))
        g.check()

    def input(self, name, dtype, shape):
        library = self.library
        rows = library.call("dim_named", "rows")
        return library.call("input", self.graph.graph, name, dtype, self.graph.shape(rows, *shape))

    def add_regions(self):
        library, case, graph = self.library, self.case, self.graph.graph
        for i, (span, devices) in enumerate(case.regions):
            scopes = [case.model.names()[k] for k in span]
            members = {} if i > 0 else case.homes
            options = self.graph.options("parallel_options", devices=",".join(devices).encode(),
                                         **members)
            weights = (ctypes.c_double * len(devices))(*case.weights or [] if i == 0 else [])
            if i == 0 and case.weights:
                options.weights = ctypes.addressof(weights)
            scopes += ["loss"] if i == 0 and case.judges_inside else []
            library.call("data_parallel", graph, ",".join(scopes), options)
        if case.shards:
            options = self.graph.options("shard_options", devices=",".join(case.shards).encode())
            library.call("shard", graph, "l0", options)

    def load(self, weights):
        """Loads weights by PyTorch's names. The weights of classes are not among them."""
        if weights is None:
            return
        tensors = make_list(self.graph, weights)
        options = self.graph.options("state_dict_options", allow_missing=weights is not
                                     self.case.begun)
        status = self.library.call("session_load_state_dict", self.sessions[0].session, tensors,
                                   options)
        self.library.call("tensor_list_release", tensors)
        if status != 0:
            raise Failed("loading: " + self.library.message())

    def go_on_from(self, other):
        """With what another run's first session saves."""
        tensors = ctypes.c_void_p()
        if self.library.call("session_save", other.sessions[0].session,
                             ctypes.byref(tensors)) != 0:
            raise Failed("saving: " + self.library.message())
        status = self.library.call("session_load", self.sessions[0].session, tensors)
        self.library.call("tensor_list_release", tensors)
        if status != 0:
            raise Failed("loading what was saved: " + self.library.message())
        self.sessions[0].told = other.sessions[0].told

    def feed(self, step):
        self.graph.fed = {"x": step.x.numpy(), "target": step.target.numpy()}
        return feeds_of(self.graph)

    def train(self, number, step):
        library = self.library
        session = self.sessions[step.frozen]
        session.tell(step.told)
        feeds, count = self.feed(step)
        loss = ctypes.c_double()
        fetch = library.types["tdm_fetch"](b"gradient", None)
        if library.call("train_step", session.session, feeds, count, ctypes.byref(fetch),
                        int(bool(self.case.asked)), ctypes.byref(loss)) != 0:
            raise Failed("step %d: %s" % (number, library.message()))
        gradient = read_tensor(library, fetch.tensor) if fetch.tensor else None
        library.call("tensor_release", fetch.tensor)
        return loss.value, gradient

    def submit(self, step):
        """Submits the step without waiting for it."""
        session = self.sessions[step.frozen]
        session.tell(step.told)
        feeds, count = self.feed(step)
        CALLBACKS.append(CALLBACK(self.note_end))
        if self.library.call("submit", session.session, True, feeds, count, None, 0,
                             ctypes.cast(CALLBACKS[-1], ctypes.c_void_p), None) != 0:
            raise Failed("submitting: " + self.library.message())

    def note_end(self, user, result):
        ended = self.library.types["tdm_run_result"].from_address(result)
        if ended.status != 0:
            self.failures.append(ended.message.decode())

    def evaluate(self, step, session=None):
        library = self.library
        feeds, _ = self.feed(step)
        tensor = library.call("run_output", session or self.sessions[0].session, feeds, 1, "y")
        if not tensor:
            raise Failed("evaluating: " + library.message())
        found = read_tensor(library, tensor)
        library.call("tensor_release", tensor)
        return found

    def read_averages(self, step):
        """Returns the results of the step's rows by a session that reads averages."""
        library = self.library
        options = self.graph.options("session_options", store=self.sessions[0].store,
                                     averages=True, micro_batches=self.case.micro_batches,
                                     batch_dimension=b"rows")
        session = library.call("session_create", self.graph.graph, options)
        if not session:
            raise Failed("reading averages: " + library.message())
        found = self.evaluate(step, session)
        library.call("session_release", session)
        return found

    def release(self):
        for session in self.sessions:
            self.library.call("session_release", session.session)
        self.library.call("graph_release", self.graph.graph)
