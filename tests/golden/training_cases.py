"""Cases of several training steps: optimizers on small models, and the main model.

Recorded: parameter.NAME before, input.NAME.STEP, losses (steps), trained.NAME after."""

import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F


def clip_by_norm(parameters, max_norm):
    """torch.nn.utils.clip_grad_norm_, also for sparse gradients, whose rows are summed first."""
    values = []
    for parameter in parameters:
        if parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
            values.append(parameter.grad._values())
        else:
            values.append(parameter.grad)
    total = torch.sqrt(sum((value * value).sum() for value in values))
    factor = torch.clamp(max_norm / (total + 1e-6), max=1.0)
    for value in values:
        value.mul_(factor)


def clip_by_value(parameters, most):
    """torch.nn.utils.clip_grad_value_, also for sparse gradients, whose rows are summed first."""
    for parameter in parameters:
        if parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
            parameter.grad._values().clamp_(-most, most)
        else:
            torch.nn.utils.clip_grad_value_([parameter], most)


def averaged_model(modules, average):
    """average: a decay, or "mean"; None: none is kept."""
    if average is None:
        return None
    options = {}
    if average != "mean":
        options["multi_avg_fn"] = torch.optim.swa_utils.get_ema_multi_avg_fn(average)
    return torch.optim.swa_utils.AveragedModel(nn.ModuleDict(modules), **options)


def train(case, modules, optimizer, forward, steps, clip, average=None, highest=None, value=None):
    """highest: rate and momentum follow one cycle up to it. None: they are constant."""
    parameters = [value for module in modules.values() for value in module.parameters()]
    averaged = averaged_model(modules, average)
    cycle = highest and torch.optim.lr_scheduler.OneCycleLR(optimizer, highest, total_steps=steps)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = forward(step)
        loss.backward()
        if value:
            clip_by_value(parameters, value)
        if clip:
            clip_by_norm(parameters, clip)
        optimizer.step()
        if cycle and step + 1 < steps:
            cycle.step()
        if averaged:
            averaged.update_parameters(nn.ModuleDict(modules))
        losses.append(loss.detach())
    case.record("losses", torch.stack(losses))
    for name, module in modules.items():
        for key, value in module.named_parameters():
            case.record("trained.%s.%s" % (name, key), value)
            for state, tensor in optimizer.state[value].items():
                if torch.is_tensor(tensor) and tensor.dim() > 0:
                    case.record("trained.optimizer/%s.%s/%s" % (name, key, state), tensor)
    for name, value in averaged.module.named_parameters() if averaged else ():
        case.record("trained.optimizer/%s/average" % name, value)


def dense_model(case, make, clip=None, steps=6, options=None, average=None, highest=None,
                value=None):
    if options:
        numbers = torch.tensor([float(n) for n in options[1:]], dtype=torch.float64)
        case.record("option." + options[0], numbers)
    modules = {
        "first": case.module("first", nn.Linear(6, 5)),
        "second": case.module("second", nn.Linear(5, 3)),
    }
    optimizer = make([value for module in modules.values() for value in module.parameters()])

    def forward(step):
        x = case.fed("x.%d" % step, 8, 6)
        target = case.fed("target.%d" % step, 8, 3)
        return F.mse_loss(modules["second"](torch.tanh(modules["first"](x))), target)

    train(case, modules, optimizer, forward, steps, clip, average, highest, value)


def table_model(case, make, clip=None, steps=6, average=None, highest=None, value=None):
    modules = {"table": case.module("table", nn.Embedding(9, 4, padding_idx=0, sparse=True))}
    optimizer = make(list(modules["table"].parameters()))

    def forward(step):
        ids = case.ids("ids.%d" % step, 0, 9, 5)
        target = case.fed("target.%d" % step, 5, 4)
        return F.mse_loss(modules["table"](ids), target, reduction="sum")

    train(case, modules, optimizer, forward, steps, clip, average, highest, value)


def main_model(case, make, clip=None, steps=20):
    """Classifies a word: embedding, RNN over its characters, linear layer of the last step."""
    characters, dim, hidden, classes, batch = 40, 8, 16, 8, 12
    modules = {
        "embedding": case.module("embedding", nn.Embedding(characters, dim)),
        "rnn": case.module("rnn", nn.RNN(dim, hidden)),
        "scores": case.module("scores", nn.Linear(hidden, classes)),
    }
    optimizer = make([value for module in modules.values() for value in module.parameters()])

    def forward(step):
        words = case.ids("characters.%d" % step, 0, characters, 3 + step % 5, batch)
        targets = case.ids("class.%d" % step, 0, classes, batch)
        y, _ = modules["rnn"](modules["embedding"](words))
        return F.cross_entropy(modules["scores"](y[-1]), targets)

    train(case, modules, optimizer, forward, steps, clip)


# name -> (optimizer, steps, its arguments in the order of the options' fields, with their values)
GRIDS = {
    "adadelta": (torch.optim.Adadelta, 4, {
        "lr": (1.0, 0.3), "rho": (0.9, 0.6), "eps": (1e-6, 1e-2), "weight_decay": (0, 0.1)
    }),
    "adagrad": (torch.optim.Adagrad, 3, {
        "lr": (0.05,), "lr_decay": (0, 0.1), "weight_decay": (0, 0.05),
        "initial_accumulator_value": (0, 0.5), "eps": (1e-10, 1e-3)
    }),
    "rmsprop": (torch.optim.RMSprop, 3, {
        "lr": (0.01,), "alpha": (0.99, 0.8), "eps": (1e-8, 1e-3), "weight_decay": (0, 0.05),
        "momentum": (0, 0.7), "centered": (False, True)
    }),
}


def grid_cases(with_options):
    """Their settings are in the file, as option.adagrad and so on."""
    cases = {}
    for name, (optimizer, steps, grid) in GRIDS.items():
        for number, values in enumerate(itertools.product(*grid.values())):
            cases["%s_%d" % (name, number)] = dict(
                with_options(optimizer, **dict(zip(grid, values))),
                options=(name, *values), steps=steps
            )
    return cases


MOMENTS = {
    "nadam": (torch.optim.NAdam, 0.02, "momentum_decay", 0.05),
    "radam": (torch.optim.RAdam, 0.02, None, None),
    "adamax": (torch.optim.Adamax, 0.02, None, None),
}


def moments_cases(with_options):
    """Adam's kin; 8 steps, so that radam's variance becomes known at the sixth."""
    cases = {}
    for name, (optimizer, rate, decay_name, momentum_decay) in MOMENTS.items():
        for number, options in enumerate((
            {}, {"lr": rate, "betas": (0.8, 0.95), "eps": 1e-3}, {"lr": rate, "weight_decay": 0.1},
            {"lr": rate, "weight_decay": 0.1, "decoupled_weight_decay": True}
        )):
            if number == 3 and name == "adamax":
                continue
            if number > 0 and decay_name:
                options = dict(options, **{decay_name: momentum_decay})
            cases["%s_%d" % (name, number)] = dict(with_options(optimizer, **options), steps=8)
        cases["%s_maximize" % name] = dict(
            with_options(optimizer, lr=rate, maximize=True), clip=0.05
        )
    return cases


def adafactor_cases(with_options):
    """PyTorch has it since 2.5. An epsilon1 of 0 stands for None."""
    cases = {}
    grid = ((0.01, -0.8, 0, 1e-3, 1.0, 0), (0.05, -0.8, 0, 1e-3, 1.0, 0.1),
            (0.05, -0.5, 0, 1.5, 1.0, 0), (0.05, -0.8, 0.3, 1e-3, 1.0, 0.05),
            (0.05, -0.9, 1e-4, 1e-3, 1.5, 0), (2.0, -0.8, 0, 1e-3, 1.0, 0))
    for number, (rate, beta2_decay, epsilon1, epsilon2, d, decay) in enumerate(grid):
        cases["adafactor_%d" % number] = dict(
            with_options(
                torch.optim.Adafactor, lr=rate, beta2_decay=beta2_decay, d=d, weight_decay=decay,
                eps=(epsilon1 if epsilon1 > 0 else None, epsilon2)
            ),
            options=("adafactor", rate, beta2_decay, epsilon1, epsilon2, d, decay), steps=4
        )
    return cases


def training_cases():
    """name -> (function, its arguments)"""
    sgd, adam, adamw = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
    sparse_adam = torch.optim.SparseAdam
    adagrad, rmsprop = torch.optim.Adagrad, torch.optim.RMSprop

    def with_options(optimizer, **options):
        return {"make": lambda parameters: optimizer(parameters, **options)}

    cases = {
        "sgd": with_options(sgd, lr=0.1),
        "sgd_momentum": with_options(sgd, lr=0.1, momentum=0.9),
        "sgd_dampening": with_options(sgd, lr=0.1, momentum=0.9, dampening=0.3),
        "sgd_nesterov": with_options(sgd, lr=0.1, momentum=0.8, nesterov=True),
        "sgd_decay": with_options(sgd, lr=0.1, weight_decay=0.05),
        "sgd_everything": with_options(sgd, lr=0.1, momentum=0.8, weight_decay=0.05, nesterov=True),
        "sgd_clip": dict(with_options(sgd, lr=0.1), clip=0.05),
        "sgd_clip_loose": dict(with_options(sgd, lr=0.1), clip=100.0),
        "adam": with_options(adam, lr=0.01),
        "adam_options": with_options(adam, lr=0.02, betas=(0.8, 0.95), eps=1e-3),
        "adam_decay": with_options(adam, lr=0.01, weight_decay=0.1),
        "adam_clip": dict(with_options(adam, lr=0.01), clip=0.05),
        "adamw": with_options(adamw, lr=0.01),
        "adamw_decay": with_options(adamw, lr=0.01, weight_decay=0.2),
        "adam_amsgrad": dict(with_options(adam, lr=0.03, amsgrad=True), steps=8),
        "adamw_amsgrad": with_options(adamw, lr=0.01, weight_decay=0.2, amsgrad=True),
        "adam_maximize": with_options(adam, lr=0.01, weight_decay=0.1, maximize=True),
        "adam_maximize_clip": dict(with_options(adam, lr=0.01, maximize=True), clip=0.05),
        "sgd_average": dict(with_options(sgd, lr=0.1, momentum=0.9), average=0.9),
        "sgd_average_quick": dict(with_options(sgd, lr=0.1), average=0.3, clip=0.05),
        "adam_average_mean": dict(with_options(adam, lr=0.01), average="mean"),
        "sgd_maximize": with_options(sgd, lr=0.02, momentum=0.9, maximize=True),
    }
    cases.update(grid_cases(with_options))
    cases.update(moments_cases(with_options))
    if hasattr(torch.optim, "Adafactor"):
        cases.update(adafactor_cases(with_options))
    cases["adagrad_clip"] = dict(with_options(adagrad, lr=0.05), clip=0.05)
    cases["rmsprop_clip"] = dict(with_options(rmsprop, lr=0.01), clip=0.05)
    cases["sgd_value"] = dict(with_options(sgd, lr=0.1), value=0.003)
    cases["adam_value_norm"] = dict(with_options(adam, lr=0.01), value=0.003, clip=0.01)
    cases["sgd_maximize_value"] = dict(with_options(sgd, lr=0.1, maximize=True), value=0.003)
    cycled = {
        "sgd": with_options(sgd, lr=0.1, momentum=0.9),
        "sgd_nesterov": with_options(sgd, lr=0.1, momentum=0.9, nesterov=True),
        "rmsprop": with_options(rmsprop, lr=0.01, momentum=0.9),
        "adam": with_options(adam, lr=0.1),
        "adamw_amsgrad": with_options(adamw, lr=0.1, amsgrad=True),
        "nadam": with_options(torch.optim.NAdam, lr=0.1),
        "radam": with_options(torch.optim.RAdam, lr=0.1),
        "adamax": with_options(torch.optim.Adamax, lr=0.1),
    }
    rates = {"rmsprop": 0.01}  # at 0.1 rounding grows from step to step
    cases.update({"cycle_" + name: dict(options, highest=rates.get(name, 0.1), steps=8)
                  for name, options in cycled.items()})
    cases = {name: (dense_model, options) for name, options in cases.items()}
    tables = {
        "table_sgd": with_options(sgd, lr=0.1),
        "table_sgd_clip": dict(with_options(sgd, lr=0.1), clip=0.5),
        "table_sgd_value": dict(with_options(sgd, lr=0.1), value=0.01),
        "table_adagrad_value": dict(with_options(adagrad, lr=0.1), value=0.01, clip=0.05),
        "table_sgd_average": dict(with_options(sgd, lr=0.1), average=0.75),
        "table_sgd_maximize": with_options(sgd, lr=0.1, maximize=True),
        "table_sparse_adam": with_options(sparse_adam, lr=0.01),
        "table_sparse_adam_options": with_options(
            sparse_adam, lr=0.02, betas=(0.8, 0.95), eps=1e-3
        ),
        "table_cycle": dict(with_options(sparse_adam, lr=0.1), highest=0.1),
        "table_adagrad": with_options(adagrad, lr=0.1),
        "table_adagrad_options": with_options(
            adagrad, lr=0.1, lr_decay=0.2, eps=1e-3, initial_accumulator_value=0.3
        ),
        "table_adagrad_clip": dict(with_options(adagrad, lr=0.1), clip=0.5),
    }
    cases.update({name: (table_model, options) for name, options in tables.items()})
    cases["main_adam"] = (main_model, dict(with_options(adam, lr=0.005), clip=1.0))
    cases["main_sgd"] = (main_model, with_options(sgd, lr=0.1))
    return cases
