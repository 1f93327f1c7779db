"""A benchmark in one or several forms, and how it is timed."""

import gc
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

SHORTEST_MS = 5.0  # shorter work is repeated within one measurement
MOST_REPEATS = 1000


@dataclass
class Work:
    """Named eager forms of the same mathematics, and a function that makes the one under `torch.compile`. `parameters`: the number of a model's parameters, for comparison."""

    forms: dict[str, Callable[[], object]]
    compiled: Callable[[], Callable[[], object]] | None = None
    parameters: int | None = None


def milliseconds(function: Callable[[], object], repetitions: int, warm_up: int) -> list[float]:
    """Wall time of `repetitions` calls after `warm_up` calls; a short function is called many times per measurement."""
    for _ in range(warm_up):
        function()
    start = time.perf_counter()
    function()
    once = 1e3 * (time.perf_counter() - start)
    repeats = min(MOST_REPEATS, max(1, math.ceil(SHORTEST_MS / max(once, 1e-6))))
    times = []
    gc.disable()
    for _ in range(repetitions):
        start = time.perf_counter()
        for _ in range(repeats):
            function()
        times.append(1e3 * (time.perf_counter() - start) / repeats)
    gc.enable()
    return times
