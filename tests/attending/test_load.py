"""The kernel under load: many threads, processes and calls give right answers in flat memory, and Ctrl-C is heard."""

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest
import torch

from sparsefinder import Graph, Layout, Window, attention


def _answer(seed: int) -> bool:
    """Whether a call and its backward, on numbers of its own, are what the reference says."""
    generator = torch.Generator().manual_seed(seed)
    n = 16 + seed % 7 * 8
    found = []
    for backend in ("native", "reference"):
        generator.manual_seed(seed)
        q, k, v = (torch.randn(1, 2, n, 16, generator=generator).requires_grad_() for _ in range(3))
        layout = Layout(causal=bool(seed % 2))
        out = attention(q, k, v, Window(9)(q, k, layout), alpha=1.5, layout=layout, backend=backend)
        out.square().sum().backward()
        found.append((out.detach(), *(one.grad for one in (q, k, v))))
    return all(torch.allclose(one, other, atol=1e-4) for one, other in zip(*found, strict=True))


def test_sixteen_threads_of_one_process() -> None:
    with ThreadPoolExecutor(16) as threads:
        assert all(threads.map(_answer, range(160)))


def test_eight_processes_at_once() -> None:
    with ProcessPoolExecutor(8, multiprocessing.get_context("spawn")) as processes:
        assert all(processes.map(_answer, range(64)))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_after_use() -> None:
    assert _answer(0)
    child = os.fork()
    if child == 0:
        os._exit(0 if _answer(1) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_ten_thousand_calls_take_no_more_memory_than_one_thousand() -> None:
    q, k, v = (torch.randn(1, 2, 64, 16) for _ in range(3))
    graph = Graph.band(-4, 4, Window(9)(q, k).grid)

    def call(times: int) -> int:
        for _ in range(times):
            attention(q, k, v, graph, backend="native")
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = call(1_000)
    assert call(9_000) - before < 4_000, "kilobytes"


LONG = """
import signal, torch
signal.signal(signal.SIGINT, signal.default_int_handler)
from sparsefinder import attention
torch.set_num_threads({threads})
q, k, v = (torch.randn(4, 16, 16384, 64) for _ in range(3))
print("begins", flush=True)
attention(q, k, v, alpha=1.1, backend="native")
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_long_call(threads: int) -> None:
    """Which takes minutes otherwise. A loose limit here: benchmarks/interrupt.py says how long it takes."""
    code = LONG.format(threads=threads)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "begins\n"
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        assert process.wait(30) != 0
    assert said.rstrip().endswith("KeyboardInterrupt"), said
