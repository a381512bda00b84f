"""Queues with one server, simulated in whole microseconds, and the results of queueing theory."""

from __future__ import annotations

import random
from itertools import pairwise


def simulate(arrivals_us, services_us):
    """Return (arrived, started, ended) of every customer in microseconds; first come, first served."""
    free_us = 0
    customers = []
    for arrived, service in zip(arrivals_us, services_us, strict=True):
        started = max(arrived, free_us)
        free_us = started + service
        customers.append((arrived, started, free_us))
    return customers


def poisson_arrivals(drawn: random.Random, count: int, gap_us: float):
    at = 0.0
    for _ in range(count):
        at += drawn.expovariate(1 / gap_us)
        yield int(at)


def mm1(seed: int, count: int, gap_us: float, service_us: float):
    drawn = random.Random(seed)
    arrivals = list(poisson_arrivals(drawn, count, gap_us))
    return simulate(arrivals, [int(drawn.expovariate(1 / service_us)) for _ in range(count)])


def md1(seed: int, count: int, gap_us: float, service_us: int):
    drawn = random.Random(seed)
    return simulate(list(poisson_arrivals(drawn, count, gap_us)), [service_us] * count)


def mm1_wait_us(gap_us: float, service_us: float) -> float:
    """Return the mean wait before service: rho / (mu - lambda)."""
    load = service_us / gap_us
    return load * service_us / (1 - load)


def md1_wait_us(gap_us: float, service_us: float) -> float:
    """Return half of the M/M/1 wait: Pollaczek and Khinchine, for services without variance."""
    return mm1_wait_us(gap_us, service_us) / 2


def interpolated(values, quantile):
    """Return the exact percentile with linear interpolation between neighbours."""
    ordered = sorted(values)
    place = quantile * (len(ordered) - 1)
    low = int(place)
    return ordered[low] + (place - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


def mean_inside(spans_ns, from_ns, to_ns):
    """Return the average number of open spans over a time, by walking over every start and end."""
    events = sorted([(began, 1) for began, _ in spans_ns] + [(ended, -1) for _, ended in spans_ns])
    inside, area = 0, 0
    for (at, change), (after, _) in pairwise([*events, (to_ns + 1, 0)]):
        inside += change
        area += inside * max(0, min(after, to_ns) - max(at, from_ns))
    return area / (to_ns - from_ns)


def gini(values):
    """Compute the Gini coefficient by its definition: the mean difference of all pairs over twice the mean."""
    differences = sum(abs(a - b) for a in values for b in values)
    return differences / (2 * len(values) * sum(values))
