"""What is timed: one piece of work in one or several forms, and the clock."""

import gc
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

SHORTEST_MS = 5.0  # what is shorter is repeated within one measurement
MOST_REPEATS = 1000


@dataclass
class Work:
    """The same mathematics in eager forms by name, and what makes the one under `torch.compile`; `parameters` of a model, to be compared."""

    forms: dict[str, Callable[[], object]]
    compiled: Callable[[], Callable[[], object]] | None = None
    parameters: int | None = None


def milliseconds(function: Callable[[], object], repetitions: int, warm_up: int) -> list[float]:
    """Wall time of `repetitions` calls after `warm_up` calls; a short function is called many times for one number."""
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
