"""Steps of optimizers and schedules of learning rates with settings that are drawn, beside
torch.optim, whose forms are those that update one tensor after the other."""

import ctypes
import itertools

import numpy
import torch

from cases import Failed, Graph, Refused, compare, feeds_of, make_list, read_tensor

optim = torch.optim


# ---- Optimizers: (PyTorch's class, its settings), and the same for the library ----

def decay(r):
    return r.one_of([0, 0, 0.1, 1e-3])


def betas(r):
    return (r.one_of([0.9, 0.5, 0.99]), r.one_of([0.999, 0.9, 0.5]))


def sgd(r):
    momentum = r.one_of([0, 0.9, 0.3])
    nesterov = momentum > 0 and r.chance(0.4)
    return optim.SGD, {"momentum": momentum, "nesterov": nesterov, "weight_decay": decay(r),
                       "dampening": 0 if nesterov else r.one_of([0, 0.3, 1.0])}


def adam(kind):
    return lambda r: (kind, {"betas": betas(r), "eps": r.one_of([1e-8, 1e-3]),
                             "weight_decay": decay(r), "amsgrad": r.chance()})


def nadam(r):
    return optim.NAdam, {"betas": betas(r), "eps": r.one_of([1e-8, 1e-3]),
                         "weight_decay": decay(r), "momentum_decay": r.one_of([4e-3, 0.1]),
                         "decoupled_weight_decay": r.chance()}


def radam(r):
    return optim.RAdam, {"betas": betas(r), "eps": r.one_of([1e-8, 1e-3]),
                         "weight_decay": decay(r), "decoupled_weight_decay": r.chance()}


def adamax(r):
    return optim.Adamax, {"betas": betas(r), "eps": r.one_of([1e-8, 1e-3]),
                          "weight_decay": decay(r)}


def adagrad(r):
    return optim.Adagrad, {"lr_decay": r.one_of([0, 0.1]), "weight_decay": decay(r),
                           "initial_accumulator_value": r.one_of([0, 0.5]),
                           "eps": r.one_of([1e-10, 1e-3])}


def rmsprop(r):
    return optim.RMSprop, {"alpha": r.one_of([0.99, 0.5]), "eps": r.one_of([1e-8, 1e-3]),
                           "weight_decay": decay(r), "momentum": r.one_of([0, 0.9]),
                           "centered": r.chance()}


def adadelta(r):
    return optim.Adadelta, {"rho": r.one_of([0.9, 0.5]), "eps": r.one_of([1e-6, 1e-3]),
                            "weight_decay": decay(r)}


def adafactor(r):
    return optim.Adafactor, {"beta2_decay": r.one_of([-0.8, -0.5]), "d": r.one_of([1.0, 2.0]),
                             "eps": (r.one_of([None, 1e-8]), r.one_of([1e-3, 0.1])),
                             "weight_decay": decay(r)}


OPTIMIZERS = {"sgd": sgd, "adam": adam(optim.Adam), "adamw": adam(optim.AdamW), "nadam": nadam,
              "radam": radam, "adamax": adamax, "adagrad": adagrad, "rmsprop": rmsprop,
              "adadelta": adadelta, "adafactor": adafactor}
OPTIONS = {"adamw": "adam"}
MEMBERS = {"eps": "epsilon", "lr_decay": "rate_decay",
           "initial_accumulator_value": "initial_accumulator"}


def members_of(settings):
    members = {}
    for name, value in settings.items():
        if name == "betas":
            members.update(beta1=value[0], beta2=value[1])
        elif isinstance(value, tuple):
            members.update(epsilon1=value[0] or 0, epsilon2=value[1])
        else:
            members[MEMBERS.get(name, name)] = value
    return members


class Steps:
    """Parameters that some steps of an optimizer update by gradients that are fed."""

    def __init__(self, name, r):
        self.name, self.dtype = name, str(r.dtype)[6:]
        kind, self.settings = OPTIMIZERS[name](r)
        self.rate = r.one_of([0.1, 1e-3, 1.0])
        self.clip, self.maximize = r.one_of([0, 0, 0.5, 5.0]), r.chance(0.3)
        shapes = [r.shape(0, 3, empty=name != "adafactor") for _ in range(r.number(1, 4))]
        self.before = [r.values(shape, grad=False).numpy().copy() for shape in shapes]
        self.rates, self.gradients, self.after = [], [], []
        leaves = [torch.from_numpy(one.copy()).requires_grad_() for one in self.before]
        optimizer = kind(leaves, lr=self.rate, maximize=self.maximize, foreach=False,
                         **self.settings)
        for _ in range(r.number(1, 7)):
            self.rates.append(self.rate if r.chance(0.7) else r.one_of([0.0, 0.01, 0.5]))
            self.gradients.append([r.values(shape, kinds=("plain", "few", "zeros"),
                                            grad=False).numpy() for shape in shapes])
            for leaf, gradient in zip(leaves, self.gradients[-1]):
                leaf.grad = torch.from_numpy(gradient.copy())
            if self.clip:
                torch.nn.utils.clip_grad_norm_(leaves, self.clip, foreach=False)
            optimizer.param_groups[0]["lr"] = self.rates[-1]
            optimizer.step()
            self.after.append([leaf.detach().numpy().copy() for leaf in leaves])

    def run(self, library, context):
        graph = Graph(library, context)
        library.call("scope_dtype", graph.graph, graph.constant("TDM_" + self.dtype.upper()))
        fed = [numpy.array(one) for one in self.gradients[0]]
        terms = [graph.sum(graph.mul(graph.parameter("w%d" % i, one), graph.input(
            "g%d" % i, fed[i])), None, 0, False) for i, one in enumerate(self.before)]
        loss = terms[0]
        for term in terms[1:]:
            loss = graph.add(loss, term)
        graph.check()
        made = graph.options(OPTIONS.get(self.name, self.name) + "_options",
                             learning_rate=self.rate, **members_of(self.settings))
        optimizer = library.call(self.name + "_with", made)
        optimizer.clip_norm, optimizer.maximize = self.clip or float("inf"), self.maximize
        options = graph.options("session_options", loss=loss,
                                optimizer=ctypes.addressof(optimizer))
        session = library.call("session_create", graph.graph, options)
        if not session:
            raise Refused(library.message())
        try:
            self.step(graph, session)
        finally:
            library.call("session_release", session)
            library.call("graph_release", graph.graph)

    def step(self, graph, session):
        library = graph.library
        store = library.call("session_store", session)
        tensors = make_list(graph, graph.leaves)
        if library.call("store_load", store, tensors) != 0:
            raise Failed(library.message())
        library.call("tensor_list_release", tensors)
        for number, (rate, gradients) in enumerate(zip(self.rates, self.gradients)):
            graph.fed = {"g%d" % i: one for i, one in enumerate(gradients)}
            feeds, count = feeds_of(graph)
            if library.call("session_set_learning_rate", session, rate) != 0 or \
                    library.call("train_step", session, feeds, count, None, 0, None) != 0:
                raise Failed("step %d: %s" % (number, library.message()))
            tensors = library.call("store_save", store, False)
            for i, wanted in enumerate(self.after[number]):
                found = read_tensor(library, library.call("tensor_list_find", tensors, "w%d" % i))
                compare("w%d after step %d of %s" % (i, number, self.told()), found, wanted, 0, 1)
            library.call("tensor_list_release", tensors)

    def told(self):
        return "%s, clip %g, maximize %d, rates %s" % (self.settings, self.clip, self.maximize,
                                                       self.rates)


# ---- Schedules ----

def schedule(r, rate):
    """Returns (name here, arguments after the rate, PyTorch's scheduler of an optimizer)."""
    scheduler = optim.lr_scheduler
    steps, gamma = r.number(1, 12), r.one_of([0.1, 0.5, 0.97])
    milestones = sorted(r.number(1, 30) for _ in range(r.number(1, 4)))
    least, power, ends = r.one_of([0.0, 0.01]), r.one_of([1.0, 0.5, 2.0]), \
        [r.one_of([0.1, 0.5, 1.0]), r.one_of([0.0, 0.3, 1.0])]
    return r.one_of([
        ("step", [steps, gamma], lambda o: scheduler.StepLR(o, steps, gamma)),
        ("multi_step", [milestones, len(milestones), gamma],
         lambda o: scheduler.MultiStepLR(o, milestones, gamma)),
        ("exponential", [gamma], lambda o: scheduler.ExponentialLR(o, gamma)),
        ("cosine", [steps, least], lambda o: scheduler.CosineAnnealingLR(o, steps, least)),
        ("linear", [*ends, steps], lambda o: scheduler.LinearLR(o, *ends, steps)),
        ("constant", [ends[0], steps], lambda o: scheduler.ConstantLR(o, ends[0], steps)),
        ("polynomial", [steps, power], lambda o: scheduler.PolynomialLR(o, steps, power))])


class Rates:
    """One schedule, or a sequence of several, over some steps."""

    def __init__(self, r):
        self.rate = r.one_of([0.1, 1.0, 3e-4])
        self.parts = [schedule(r, self.rate) for _ in range(r.one_of([1, 1, 2, 3]))]
        self.milestones = list(itertools.accumulate(r.number(1, 15) for _ in self.parts[1:]))
        optimizer = optim.SGD([torch.zeros(1, requires_grad=True)], lr=self.rate)
        made = [part[2](optimizer) for part in self.parts]
        if len(made) > 1:
            made = [optim.lr_scheduler.SequentialLR(optimizer, made, self.milestones)]
        self.wanted = []
        for _ in range(r.number(1, 60)):
            self.wanted.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            made[0].step()

    def run(self, library, context):
        kind = library.types["tdm_rate_schedule"]
        parts = (kind * len(self.parts))()
        for made, (name, arguments, _) in zip(parts, self.parts):
            if library.call("rate_schedule_" + name, self.rate, *arguments,
                            ctypes.byref(made)) != 0:
                raise Refused(library.message())
        whole = parts[0]
        if len(parts) > 1:
            whole = kind()
            if library.call("rate_schedule_sequential", ctypes.byref(parts), len(parts),
                            self.milestones, ctypes.byref(whole)) != 0:
                raise Refused(library.message())
        found = [library.call("rate_schedule_at", ctypes.byref(whole), step)
                 for step in range(len(self.wanted))]
        compare("%s of %s" % ([part[:2] for part in self.parts], self.milestones),
                numpy.array(found), numpy.array(self.wanted))


class Cycle:
    """One cycle of rates and momenta."""

    def __init__(self, r):
        self.rate, steps = r.one_of([0.1, 1.0]), r.number(2, 40)
        three = r.chance(0.3)
        self.options = {"rising": r.one_of([0.3, 0.13, 0.49]), "linear": r.chance(),
                        "first_divisor": r.one_of([25.0, 4.0]),
                        "last_divisor": r.one_of([1e4, 10.0]), "three_phases": three,
                        "base_momentum": 0.8, "max_momentum": r.one_of([0.95, 0.85])}
        optimizer = optim.SGD([torch.zeros(1, requires_grad=True)], lr=1, momentum=0.9)
        made = optim.lr_scheduler.OneCycleLR(
            optimizer, self.rate, steps, pct_start=self.options["rising"],
            anneal_strategy="linear" if self.options["linear"] else "cos", base_momentum=0.8,
            max_momentum=self.options["max_momentum"], div_factor=self.options["first_divisor"],
            final_div_factor=self.options["last_divisor"], three_phase=three)
        self.wanted = []
        for step in range(steps):
            group = optimizer.param_groups[0]
            self.wanted.append((group["lr"], group["momentum"]))
            optimizer.step()
            if step + 1 < steps:
                made.step()

    def run(self, library, context):
        made = library.types["tdm_rate_schedule"]()
        options = library.options("tdm_one_cycle_options", **self.options)
        if library.call("rate_schedule_one_cycle", self.rate, len(self.wanted), options,
                        ctypes.byref(made)) != 0:
            raise Refused(library.message())
        found = [(library.call("rate_schedule_at", ctypes.byref(made), step),
                  library.call("rate_schedule_momentum_at", ctypes.byref(made), step))
                 for step in range(len(self.wanted))]
        compare("%s of %d steps" % (self.options, len(found)), numpy.array(found),
                numpy.array(self.wanted))


class Plateau:
    """Rates that fall if a metric does not improve."""

    def __init__(self, r):
        self.rate, patience = r.one_of([0.1, 1e-6]), r.number(0, 4)
        rising, absolute = r.chance(), r.chance()
        given = {"factor": r.one_of([0.1, 0.5]), "threshold": r.one_of([1e-4, 0.1]),
                 "cooldown": r.number(0, 3)}
        self.options = {**given, "rising": rising, "patience": patience,
                        "absolute": absolute, "least": r.one_of([0.0, 0.01])}
        optimizer = optim.SGD([torch.zeros(1, requires_grad=True)], lr=self.rate)
        made = optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, "max" if rising else "min", patience=patience,
            threshold_mode="abs" if absolute else "rel", min_lr=self.options["least"], **given)
        self.metrics = [r.one_of([r.real(-1, 1), 1.0, float("nan"), 0.0]) for _ in range(40)]
        self.wanted = []
        for metric in self.metrics:
            made.step(metric)
            self.wanted.append(optimizer.param_groups[0]["lr"])

    def run(self, library, context):
        made = library.types["tdm_plateau"]()
        options = library.options("tdm_plateau_options", **self.options)
        if library.call("rate_plateau_begin", self.rate, options, ctypes.byref(made)) != 0:
            raise Refused(library.message())
        found = [library.call("rate_plateau_next", ctypes.byref(made), metric)
                 for metric in self.metrics]
        compare(str(self.options), numpy.array(found), numpy.array(self.wanted))


TRAINING = {**{"optimizer " + name: (lambda r, name=name: Steps(name, r)) for name in OPTIMIZERS},
            "schedule": Rates, "schedule one_cycle": Cycle, "schedule plateau": Plateau}
