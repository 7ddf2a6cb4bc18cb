"""Trains a drawn model (drawn_models.py) with PyTorch: groups of parameters with an optimizer each,
clipping, moving averages. Returns the whole state after a step."""

import torch

from random_training import OPTIMIZERS, OPTIONS, members_of

RATES = {"sgd": 0.05, "adam": 0.01, "adamw": 0.01, "nadam": 0.01, "radam": 0.02, "adamax": 0.01,
         "adagrad": 0.05, "rmsprop": 0.005, "adadelta": 0.5, "adafactor": 0.02,
         "sparse_adam": 0.02}


class Group:
    """Parameters whose names go by a pattern, and what updates them; settings None: nothing."""

    def __init__(self, r, pattern, name):
        self.pattern, self.name, self.settings = pattern, name, None
        if name is None:
            return
        self.clip, self.maximize = r.one_of([0, 0, 0.5, 2.0]), r.chance(0.1)
        self.average = r.one_of([0, 0, 0.9, -1.0])
        self.rate = RATES[name] * r.one_of([1, 0.1])
        if name == "sparse_adam":
            self.kind = torch.optim.SparseAdam
            self.settings = {"betas": (r.one_of([0.9, 0.5]), 0.99), "eps": 1e-3}
        else:
            self.kind, self.settings = OPTIMIZERS[name](r)
        if isinstance(self.settings.get("eps"), float):
            self.settings["eps"] = 0.01  # with less, rounding errors make steps

    def takes(self, name):
        """Returns True for a PyTorch name; patterns are "", "l2" and "*.bias"."""
        if self.pattern == "*.bias":
            return name.endswith(".bias")
        return not self.pattern or name.startswith(self.pattern + ".")

    def has_momentum(self):
        if self.settings is None:
            return False
        return "betas" in self.settings or self.settings.get("momentum", 0) != 0

    def of_torch(self, parameters):
        forms = {} if self.name == "sparse_adam" else {"foreach": False}
        return self.kind(parameters, lr=self.rate, maximize=self.maximize, **forms,
                         **self.settings)

    def of_library(self, library):
        if self.settings is None:
            return None
        name = "adam" if self.name == "sparse_adam" else OPTIONS.get(self.name, self.name)
        made = library.options("tdm_%s_options" % name, learning_rate=self.rate,
                               **members_of(self.settings))
        optimizer = library.call(self.name + "_with", made)
        optimizer.clip_norm, optimizer.maximize = self.clip or float("inf"), self.maximize
        optimizer.average_decay = self.average or -2.0  # TDM_AVERAGE_NONE
        return optimizer


def draw_group(r, pattern, double, sharp):
    name = r.one_of([None, *OPTIMIZERS] if pattern else list(OPTIMIZERS))
    if name == "adafactor" and not sharp:
        name = "adamw"  # it would make whole steps from rounding errors
    group = Group(r, pattern, name)
    if name == "rmsprop" and not double:
        group.settings["centered"] = False
    return group


def draw_sparse_group(r):
    group = Group(r, "l0", r.one_of(["sgd", "adagrad", "sparse_adam", None]))
    if group.name == "sgd":
        group.settings = {"momentum": 0, "nesterov": False, "weight_decay": 0, "dampening": 0}
    if group.name == "adagrad":
        group.settings["weight_decay"] = 0
    return group


def draw_groups(r, model, shards):
    """The last takes what no other does."""
    double = r.dtype == torch.float64
    sharp = double and all(type(layer.m).__name__ in ("NoneType", "Linear", "Embedding", "LSTM",
                                                      "GRU", "RNN", "Conv2d", "EmbeddingBag")
                           for layer in model.layers) and not shards
    groups = [draw_sparse_group(r)] if model.sparse_table() else []
    for pattern in r.one_of([[], [], ["*.bias"], [r.one_of(model.names())],
                             [r.one_of(model.names()), "*.bias"]]):
        if any(Group(r, pattern, None).takes(name) for name, _ in model.named_parameters()):
            groups.append(draw_group(r, pattern, double, sharp))
    return [*groups, draw_group(r, "", double, sharp)]


def group_of(groups, name):
    return next(group for group in groups if group.takes(name))


def clip(gradients, most):
    """clip_grad_norm_, also of sparse ones."""
    gradients = [one.coalesce().values() if one.is_sparse else one for one in gradients]
    norm = torch.sqrt(sum((one * one).sum() for one in gradients))
    for one in gradients:
        one.mul_(torch.clamp(most / (norm + 1e-6), max=1.0))


class Torch:
    """The model with its optimizers."""

    def __init__(self, case):
        self.case, self.model = case, case.model
        self.optimizers, self.averages, self.counts, self.updated = {}, {}, {}, set()
        named = list(self.model.named_parameters())
        for group in case.groups:
            mine = [value for name, value in named if group_of(case.groups, name) is group]
            if group.settings is not None and mine:
                self.optimizers[group] = group.of_torch(mine)

    def step(self, x, target, frozen):
        case, model = self.case, self.model
        model.train()
        model.zero_grad(set_to_none=True)
        x.requires_grad_(case.asked == "x")
        loss = model.loss(self.outputs(x), target)
        if case.penalized:
            loss = loss + 0.01 * (model.get_parameter(case.penalized) ** 2).sum()
        loss.backward()
        gradient = None
        if case.asked:
            gradient = (x if case.asked == "x" else model.get_parameter(case.asked)).grad
            gradient = gradient.to_dense().numpy().copy()
        x.requires_grad_(False)
        for group, optimizer in self.optimizers.items():
            self.update(group, optimizer, frozen)
        return loss, gradient

    def outputs(self, x):
        case = self.case
        return self.model(x, case.micro_batches,
                          [(span, len(devices)) for span, devices in case.regions])

    def update(self, group, optimizer, frozen):
        for name, value in self.model.named_parameters():
            if value.grad is not None and value.grad.is_sparse:
                value.grad = value.grad.coalesce()
            if frozen and frozen.takes(name):
                value.grad = None
        mine = [value for value in optimizer.param_groups[0]["params"] if value.grad is not None]
        if group.clip and mine:
            clip([value.grad for value in mine], group.clip)
        optimizer.step()
        self.updated.update(mine)
        for value in mine if group.average else []:
            self.average(value, group.average)

    def average(self, value, decay):
        count = self.counts.get(value, 0)
        self.counts[value] = count + 1
        share = 1.0 if count == 0 else 1.0 / (count + 1) if decay < 0 else 1.0 - decay
        before = self.averages.get(value, value.detach())
        self.averages[value] = torch.lerp(before, value.detach(), share)

    def snapshot(self):
        """Returns arrays by the library's names, with '.' for '/'."""
        taken = {name: value.detach().numpy().copy()
                 for name, value in self.model.state_dict().items()}
        for name, value in self.model.named_parameters():
            optimizer = self.optimizers.get(group_of(self.case.groups, name))
            states = dict(optimizer.state[value]) if optimizer and value in optimizer.state else {}
            if value not in self.updated:
                states = {}
            states["average"] = self.averages.get(value)
            if type(optimizer).__name__ in ("RMSprop", "Adadelta"):
                states.pop("step", None)  # which nothing depends on
            for key, state in states.items():
                if isinstance(state, torch.Tensor):
                    state = state.detach().to_dense() if state.is_sparse else state.detach()
                    taken["optimizer.%s.%s" % (name, key)] = state.numpy().copy()
        return taken
