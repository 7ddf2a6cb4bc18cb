"""Learning rates of torch.optim.lr_scheduler, one for each step: CASE/rates. CASE/option.NAME has
the numbers of the schedule."""

import itertools

import torch
import torch.optim.lr_scheduler as schedulers

RATE = 0.3


def rates_of(make, count, setting="lr"):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=RATE, momentum=0.9)
    scheduler = make(optimizer)
    rates = [optimizer.param_groups[0][setting]]
    while len(rates) < count:
        optimizer.step()
        scheduler.step()
        rates.append(optimizer.param_groups[0][setting])
    return torch.tensor(rates, dtype=torch.float64)


class Plateau:
    """Steps with a metric that falls and rises, the same as in tests/layers/schedules_test.c."""

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.epoch = 0

    def step(self):
        self.scheduler.step((self.epoch * 7 % 11) / 11 + 1 / (1 + self.epoch // 4))
        self.epoch += 1


def schedule_cases():
    """name -> tensor"""
    recorded = {}

    def add(name, numbers, make, count=25, setting="lr"):
        case = "%s_%d" % (name, len(recorded) // 2)
        numbers = torch.tensor([float(n) for n in (RATE, *numbers)], dtype=torch.float64)
        recorded["%s/option.%s" % (case, name)] = numbers
        recorded[case + "/rates"] = rates_of(make, count, setting)

    for size, gamma in itertools.product((1, 4), (0.1, 0.7)):
        add("step", (size, gamma), lambda o: schedulers.StepLR(o, size, gamma))
    for milestones in ([], [3], [2, 5, 5, 20]):
        add(
            "multi_step", (0.5, *milestones),
            lambda o: schedulers.MultiStepLR(o, milestones, gamma=0.5)
        )
    add("exponential", (0.9,), lambda o: schedulers.ExponentialLR(o, 0.9))
    for half_period, least in ((5, 0.0), (10, 0.02), (24, 0.1)):
        add(
            "cosine", (half_period, least),
            lambda o: schedulers.CosineAnnealingLR(o, half_period, eta_min=least)
        )
    for first, last, steps in ((1 / 3, 1.0, 5), (1.0, 0.0, 24), (0.5, 0.25, 1)):
        add("linear", (first, last, steps), lambda o: schedulers.LinearLR(o, first, last, steps))
    grid = itertools.product((0.3, 0.45), (False, True), (False, True), ((25.0, 1e4), (10.0, 50.0)))
    for rising, linear, three, (first, last) in grid:
        add(
            "one_cycle", (25, rising, first, last, linear, three),
            lambda o: schedulers.OneCycleLR(
                o, RATE, total_steps=25, pct_start=rising, cycle_momentum=False, div_factor=first,
                final_div_factor=last, anneal_strategy="linear" if linear else "cos",
                three_phase=three
            )
        )
    for factor, steps in ((1 / 3, 5), (0.5, 1)):
        add("constant", (factor, steps), lambda o: schedulers.ConstantLR(o, factor, steps))
    for steps, power in ((5, 1.0), (24, 2.0), (30, 0.5)):
        add("polynomial", (steps, power), lambda o: schedulers.PolynomialLR(o, steps, power))
    add("chained", (), lambda o: schedulers.ChainedScheduler(
        [schedulers.ConstantLR(o, 0.1, 4), schedulers.ExponentialLR(o, 0.9)]))
    add("sequential", (), lambda o: schedulers.SequentialLR(
        o, [schedulers.LinearLR(o, 0.25, 1.0, 4), schedulers.CosineAnnealingLR(o, 8),
            schedulers.ExponentialLR(o, 0.8)], [5, 13]))
    for rising, factor, patience, threshold, absolute, cooldown, least in (
            (False, 0.1, 4, 1e-4, False, 0, 0.0), (False, 0.5, 2, 0.05, True, 3, 0.05),
            (True, 0.5, 1, 0.1, False, 1, 0.0), (True, 0.3, 0, 0.02, True, 0, 0.01)):
        add(
            "plateau", (rising, factor, patience, threshold, absolute, cooldown, least),
            lambda o: Plateau(schedulers.ReduceLROnPlateau(
                o, "max" if rising else "min", factor, patience, threshold,
                "abs" if absolute else "rel", cooldown, least
            )), 40
        )
    add("lambda", (), lambda o: schedulers.LambdaLR(o, lambda step: 1 / (1 + step)))
    for linear, three, (least, most) in itertools.product(
            (False, True), (False, True), ((0.85, 0.95), (0.1, 0.7))):
        add(
            "cycled_momentum", (25, 0.3, linear, three, least, most),
            lambda o: schedulers.OneCycleLR(
                o, RATE, total_steps=25, base_momentum=least, max_momentum=most,
                anneal_strategy="linear" if linear else "cos", three_phase=three
            ), setting="momentum"
        )
    return recorded
