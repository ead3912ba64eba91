"""How long Ctrl-C takes to end a call of the kernel, and what listening for it costs.

python benchmarks/interrupt.py
"""

from __future__ import annotations

import signal
import statistics
import threading
import time

import torch

from sparsefinder import attention


def seconds_to_stop(delay: float) -> float:
    """From the signal to the exception, in a call that would take minutes."""
    q, k, v = (torch.randn(4, 16, 16_384, 64) for _ in range(3))
    pressed = [0.0]

    def press() -> None:
        pressed[0] = time.perf_counter()
        signal.raise_signal(signal.SIGINT)

    timer = threading.Timer(delay, press)
    timer.start()
    try:
        attention(q, k, v, alpha=1.1, backend="native")
    except KeyboardInterrupt:
        return time.perf_counter() - pressed[0]
    raise AssertionError("the call came to its end")


def milliseconds(n: int, repeats: int = 60) -> float:
    """A call without a signal, the median of many."""
    q, k, v = (torch.randn(1, 8, n, 64) for _ in range(3))
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        attention(q, k, v, backend="native")
        times.append(time.perf_counter() - started)
    return 1000 * statistics.median(times[5:])


if __name__ == "__main__":
    print("seconds from Ctrl-C to its exception:", [round(seconds_to_stop(0.5 + 0.3 * turn), 3) for turn in range(5)])
    for n in (64, 256, 1024):
        print(f"{n} tokens, 8 heads: {milliseconds(n):.3f} ms a call")
