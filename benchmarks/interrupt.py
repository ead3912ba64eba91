"""How long Ctrl-C takes to end a call of the kernel, and what listening for it costs.

python benchmarks/interrupt.py
"""

from __future__ import annotations

import signal
import threading
from contextlib import suppress

import torch

from sparsefinder import attention
from sparsefinder.lab.bench.clock import Spread, interleaved, seconds_of


def seconds_to_stop(delay: float) -> float:
    """From the signal to the exception, in a call that would take minutes."""
    q, k, v = (torch.randn(4, 16, 16_384, 64) for _ in range(3))

    def call() -> None:
        with suppress(KeyboardInterrupt):
            attention(q, k, v, alpha=1.1, backend="native")
            raise AssertionError("the call came to its end")

    threading.Timer(delay, signal.raise_signal, [signal.SIGINT]).start()
    return seconds_of(call) - delay


def milliseconds(n: int, repeats: int = 60) -> float:
    """A call without a signal, the median of many."""
    q, k, v = (torch.randn(1, 8, n, 64) for _ in range(3))
    (times,) = interleaved(lambda: attention(q, k, v, backend="native"), repeats=repeats)
    return 1000 * Spread.of(times).middle


if __name__ == "__main__":
    print("seconds from Ctrl-C to its exception:", [round(seconds_to_stop(0.5 + 0.3 * turn), 3) for turn in range(5)])
    for n in (64, 256, 1024):
        print(f"{n} tokens, 8 heads: {milliseconds(n):.3f} ms a call")
