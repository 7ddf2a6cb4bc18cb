"""Trains drawn models (drawn_models.py) for some steps, and compares them with PyTorch. Models are
placed anywhere, in parallel regions and micro-batches. Parameter groups have drawn optimizers, with
changing rates and momenta. Models are saved and loaded, and some parameters are frozen in some
steps. After each step the loss, all parameters, running statistics and optimizer states are
compared."""

import os
import warnings

import numpy
import torch

from cases import Failed, compare
from drawn_models import Model
from random_draws import Draw
from trained_here import Run
from trained_peer import Group, Torch, draw_groups, group_of

# Read when a context is created.
os.environ.setdefault("TANDEM_CPU_DEVICES", "3")
os.environ.setdefault("TANDEM_DEVICES", "sim=2")
DEVICES = ["cpu:0", "cpu:1", "cpu:2", "sim:0", "sim:1"]
AT_ONCE = 50  # models that one process makes
LARGEST = 1e4  # parameters beyond it are not compared


class Step:
    """The inputs of one step, and PyTorch's state after it."""

    def __init__(self, x, target, frozen, told):
        self.x, self.target, self.frozen, self.told = x, target, frozen, told
        self.begins_with = None  # parameters and statistics, in place of those that there are
        self.loss = self.after = self.gradient = self.evaluated = None
        self.reloads = self.moves = self.is_submitted = False


class Training:
    """A case: what is drawn, and what PyTorch makes of it."""

    def __init__(self, r):
        self.dtype = r.dtype
        self.model = model = Model(r).to(r.dtype)
        self.shards = []
        if model.integer and not model.tied and r.chance(0.2):
            self.shards = r.random.permutation(DEVICES)[:r.number(2, 3)].tolist()
        self.groups = draw_groups(r, model, bool(self.shards))
        self.places, self.elsewhere = self.draw_places(r), self.draw_places(r)
        self.draw_regions(r)
        self.micro_batches = r.one_of([1, 1, 1, 2, 3, 4])
        deterministic = r.chance(0.3)
        self.options = {"deterministic": deterministic, "unfused": r.chance(0.2),
                        "unmerged": r.chance(0.2), "depth": r.one_of([1, 2]),
                        "collective": r.number(0, 2 if deterministic else 4)}
        linear = [name + ".m.weight" for name, layer in zip(model.names(), model.layers)
                  if isinstance(layer.m, torch.nn.Linear)]
        self.penalized = r.one_of(linear) if r.chance(0.2) else None
        if self.is_tied(self.penalized):
            self.penalized = None
        self.asked = None  # whose gradient steps deliver
        if r.chance(0.3):
            self.asked = r.one_of([name for name, _ in model.named_parameters() if not (
                self.shards and name == "l0.m.weight")] + ([] if model.integer else ["x"]))
        self.frozen = None
        if r.chance(0.2):
            self.frozen = Group(r, r.one_of([name for name in model.names() if list(
                getattr(model, name).parameters()) and name != model.tied]), None)
        self.check_trained()
        self.begun = {name: value.numpy().copy() for name, value in model.state_dict().items()}
        if model.class_weights is not None:
            self.begun["class_weights"] = model.class_weights.to(r.dtype).numpy()
        self.draw_steps(r)

    @staticmethod
    def draw_place(r):
        return r.one_of([None, *DEVICES])

    def draw_places(self, r):
        if r.chance(0.3):
            return [None] * len(self.model.layers)
        return [self.draw_place(r) for _ in self.model.layers]

    def draw_regions(self, r):
        """The layers of each, and the devices of its replicas; a second lies in the first."""
        self.regions, self.weights, self.homes, self.judges_inside = [], None, {}, False
        if not r.chance(0.5):
            return
        count = len(self.model.layers)
        begin = r.number(0, count - 1)
        span = range(begin, r.number(begin + 1, count))
        self.regions.append((span, self.draw_replicas(r)))
        if r.chance(0.2):
            inner = r.number(span[0], span[-1])
            inner = range(inner, r.number(inner, span[-1]) + 1)
            replicas = self.draw_replicas(r)[:2]
            if inner != span:  # if two regions are equal, the later one encloses the other
                self.regions.append((inner, replicas))
        self.judges_inside = span[-1] == count - 1 and r.chance()
        if not self.model.normalizes() and r.chance(0.3):
            self.weights = [r.one_of([1.0, 2.0, 0.5]) for _ in self.regions[0][1]]
        if r.chance(0.4):
            self.homes = {"sharding": r.one_of([1, 2])}

    @staticmethod
    def draw_replicas(r):
        if r.chance(0.5):
            return r.random.permutation(DEVICES[:3]).tolist()
        return [r.one_of(DEVICES) for _ in range(r.number(2, 4))]

    def check_trained(self):
        """In every step something is."""
        for frozen in (None, self.frozen):
            names = [name for name, _ in self.model.named_parameters()
                     if not (frozen and frozen.takes(name))]
            if not any(group_of(self.groups, name).settings for name in names):
                raise ValueError("nothing is trained")

    def draw_steps(self, r):
        peer = Torch(self)
        rows, told = r.number(1, 12), (1.0, {}, None)
        self.steps, self.averaged = [], None
        count = r.number(3, 20 if self.dtype == torch.float64 else 6)
        while len(self.steps) < count:
            rows = r.number(1, 12) if r.chance(0.3) or rows == 0 else rows
            rows = 0 if self.model.judge_options["reduction"] == "sum" and r.chance(0.03) else rows
            told = self.draw_told(r, told)
            step = self.draw_step(r, rows, told, peer)
            if any(not numpy.isfinite(one).all() or numpy.abs(one).max(initial=0) > LARGEST
                   for one in step.after.values()):
                break
            self.steps.append(step)
        if not self.steps:
            raise ValueError("nothing is left to compare")
        if len(self.steps) == count and peer.averages:
            with torch.no_grad():
                for value, average in peer.averages.items():
                    value.copy_(average)
            self.averaged = self.evaluate(peer, step.x)

    def draw_step(self, r, rows, told, peer):
        drawn = self.model.draw_input(rows), self.model.draw_target(rows, *self.model.steps)
        x, target = (torch.from_numpy(one) for one in drawn)
        x, target = (one.to(self.dtype) if one.is_floating_point() else one for one in (x, target))
        step = Step(x, target, int(self.frozen is not None and r.chance()), told)
        self.tell(peer, told)
        if self.steps and r.chance(0.05):
            step.begins_with = self.draw_weights(r)
        loss, step.gradient = peer.step(x, target, self.frozen if step.frozen else None)
        step.loss, step.after = float(loss.detach()), peer.snapshot()
        if r.chance(0.2):
            step.evaluated = self.evaluate(peer, x)
        step.reloads, step.moves = r.chance(0.1), r.chance()
        step.is_submitted = r.chance(0.2) and step.evaluated is None and not step.reloads
        return step

    def draw_weights(self, r):
        """Loads drawn values with load_state_dict, while the optimizers continue."""
        drawn = {name: value + 0.1 * torch.from_numpy(numpy.asarray(r.random.standard_normal(
            value.shape))).to(value.dtype) if value.is_floating_point() else value
            for name, value in self.model.state_dict().items() if not self.is_tied(name)}
        drawn.update({name: value.abs() for name, value in drawn.items() if "running_var" in name})
        self.model.load_state_dict(drawn, strict=False)
        return {name: value.numpy().copy() for name, value in drawn.items()}

    def evaluate(self, peer, x):
        self.model.eval()
        with torch.no_grad():
            return peer.outputs(x).numpy().copy()

    def draw_told(self, r, told):
        factor, rates, momentum = told
        if r.chance(0.3):
            factor, rates = r.one_of([0.1, 0.5, 1.0, 0.0, 2.0]), {}
        given = [group for group in self.groups[:-1] if group.settings]
        if given and r.chance(0.1):
            rates = {**rates, r.one_of(given): r.one_of([0.001, 0.01, 0.0])}
        if any(group.has_momentum() for group in self.groups) and r.chance(0.1):
            momentum = r.one_of([0.0, 0.5, 0.9])
        return factor, rates, momentum

    @staticmethod
    def tell(peer, told):
        factor, rates, momentum = told
        for group, optimizer in peer.optimizers.items():
            mine = optimizer.param_groups[0]
            mine["lr"] = rates.get(group, group.rate * factor)
            if momentum is not None and group.has_momentum():
                if "betas" in mine:
                    mine["betas"] = (momentum, mine["betas"][1])
                else:
                    mine["momentum"] = momentum

    def run(self, library, context):
        try:
            self.run_steps(library, context)
        except Failed as failed:
            raise Failed("%s; %s" % (failed, self.told())) from failed

    def run_steps(self, library, context):
        run = Run(library, context, self, self.places)
        shadow = None
        try:
            run.load(self.begun)
            for number, step in enumerate(self.steps):
                for one in (run, shadow) if step.begins_with and shadow else (run,):
                    one.load(step.begins_with)
                if step.is_submitted and step is not self.steps[-1]:
                    for one in (run, shadow) if shadow else (run,):
                        one.submit(step)
                    continue
                loss, gradient = run.train(number, step)
                if shadow:
                    shadow.train(number, step)
                self.compare(number, step, run, loss)
                if gradient is not None:
                    compare("the gradient of %s in step %d" % (self.asked, number), gradient,
                            step.gradient, *self.tolerance())
                if shadow:
                    self.compare_bits(number, run, shadow)
                if step.reloads:
                    run, shadow = self.reload(library, context, step, run, shadow)
            if self.averaged is not None:
                compare("what averages make", run.read_averages(step), self.averaged,
                        *self.tolerance(10))
        finally:
            run.release()
            if shadow:
                shadow.release()

    def reload(self, library, context, step, run, shadow):
        """Returns a run that continues from the saved state. If the placement stays the same, also
        returns the saved run, which must have the same bits."""
        if shadow:
            shadow.release()
        places = self.elsewhere if step.moves else self.places
        other = Run(library, context, self, places)
        other.go_on_from(run)
        if places is run.places:
            return other, run
        run.release()
        return other, None

    def compare(self, number, step, run, loss):
        single = self.dtype == torch.float32
        slack, least = self.tolerance()
        where = "after step %d" % number
        compare("the loss " + where, numpy.array(loss), numpy.array(step.loss),
                1e-3 * abs(step.loss) if single else 0, least)
        if run.failures:
            raise Failed("a submitted step: " + run.failures[0])
        found = run.sessions[0].tensors()
        for name, wanted in step.after.items():
            if self.is_tied(name):
                continue
            if name not in found:
                raise Failed("%s is not there %s" % (name, where))
            if name.endswith(".step"):
                wanted = wanted.astype(found[name].dtype)
            compare("%s %s" % (name, where), found[name], wanted, slack, least)
        if step.evaluated is not None:
            compare("what it evaluates " + where, run.evaluate(step), step.evaluated,
                    *self.tolerance(10))

    def tolerance(self, times=1):
        """Returns (relative tolerance, lower bound of the largest number)."""
        return (3e-4 * times, 1.0) if self.dtype == torch.float32 else (1e-8 * times, 1e-2)

    def is_tied(self, name):
        return self.model.tied is not None and name == self.model.tied + ".m.weight"

    @staticmethod
    def compare_bits(number, run, shadow):
        found, wanted = (one.sessions[0].tensors() for one in (run, shadow))
        if found.keys() != wanted.keys():
            raise Failed("loaded: other states: %s" % (found.keys() ^ wanted.keys()))
        for name, value in wanted.items():
            if found[name].tobytes() != value.tobytes():
                raise Failed("%s has other bits after step %d, loaded" % (name, number))

    def told(self):
        layers = [type(layer.m).__name__ for layer in self.model.layers]
        groups = [(group.pattern, group.name, group.settings and {
            **group.settings, "clip": group.clip, "maximize": group.maximize,
            "average": group.average}) for group in self.groups]
        return "%s, %s, on %s, %s%s, %s, %d parts, %s, frozen %s, shards %s, %s, rows %s" % (
            layers, groups, self.places, self.regions, " and the loss" if self.judges_inside else
            "", self.homes, self.micro_batches, self.options, self.frozen and self.frozen.pattern,
            self.shards, self.asked, [len(step.x) for step in self.steps])


def cases_of(seed, numbers):
    for number in numbers:
        r = Draw(seed, "training", number)
        r.dtype = torch.float32 if r.chance(0.2) else torch.float64
        torch.set_default_dtype(r.dtype)  # dtype of states that are one number
        try:
            yield "seed %d number %d %s" % (seed, number, str(r.dtype)[6:]), Training(r)
        except (RuntimeError, ValueError, IndexError, KeyError):
            continue  # PyTorch does not take it


def groups(seed, numbers):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for begin in range(0, len(numbers), AT_ONCE):
        some = numbers[begin:begin + AT_ONCE]
        yield "models %d to %d" % (some[0], some[-1]), lambda some=some: cases_of(seed, some)
