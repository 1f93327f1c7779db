"""The peer of `mnemora bench`: times the benchmarks of these files on request.

Messages are JSON objects, one per line. The first one describes the peer: `{"torch", "python", "works"}`. Then each request on standard input

    {"work": "lstm-step/512", "repetitions": 5, "warm_up": 1, "threads": 2, "compiled": false}

is answered by `{"times_ms": {form: [..]}, "compiled_ms": [..], "parameters": n}` or `{"error": "one line"}`. It answers once its threads are asleep,
so that the other side has the cores to itself.
"""

import json
import os
import platform
import sys
import time


def describe(error: BaseException) -> str:
    """Formats an exception in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def settle() -> None:
    """Waits until no thread of this process is running: OpenMP's threads spin for a while before they sleep."""
    for _ in range(100):
        before = time.process_time()
        time.sleep(0.01)
        if time.process_time() - before < 0.001:
            return


class Peer:
    """The benchmark requested last, with its inputs."""

    def __init__(self, works: dict):
        self.works = works
        self.name = None
        self.work = None
        self.compiled = None

    def answer(self, request: dict) -> dict[str, object]:
        import torch

        from work import milliseconds

        if self.name != request["work"]:
            self.work = self.compiled = None  # freed before the next one is made
            torch.set_num_threads(request["threads"])
            torch.manual_seed(0)
            self.work = self.works[request["work"]]()
            self.name = request["work"]
        repetitions, warm_up = request["repetitions"], request["warm_up"]
        answer = {
            "times_ms": {name: milliseconds(form, repetitions, warm_up) for name, form in self.work.forms.items()},
            "compiled_ms": [],
            "parameters": self.work.parameters,
        }
        if request["compiled"] and self.work.compiled is not None:
            self.compiled = self.compiled or self.work.compiled()
            answer["compiled_ms"] = milliseconds(self.compiled, repetitions, warm_up)
        return answer


def main() -> int:
    # Output of libraries goes to standard error, so that only answers go to the pipe.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(answer: dict[str, object]) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    try:
        import torch

        import pytorch_agents
        import pytorch_gtmm
        import pytorch_kernels
        import pytorch_language
        import pytorch_limits
        import pytorch_lstm
        import pytorch_navigation
        import pytorch_relational
        import pytorch_scenes
        import pytorch_sequences
        import pytorch_sv2p
        import pytorch_video
    except Exception as error:
        say({"error": describe(error)})
        return 1
    modules = [pytorch_limits, pytorch_gtmm, pytorch_lstm, pytorch_sequences, pytorch_video, pytorch_relational, pytorch_language]
    modules += [pytorch_navigation, pytorch_scenes, pytorch_sv2p, pytorch_agents, pytorch_kernels]
    works = {name: work for module in modules for name, work in module.WORKS.items()}
    say({"torch": torch.__version__, "python": platform.python_version(), "works": list(works)})
    peer = Peer(works)
    for line in sys.stdin:
        try:
            answer = peer.answer(json.loads(line))
        except Exception as error:
            answer = {"error": describe(error)}
        settle()
        say(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
