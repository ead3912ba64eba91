"""The kernels' property under Atheris, which mutates what hypothesis draws from: a crash or a wrong answer ends it.

python -m tests.fuzz.under_asan -max_total_time=300 -len_control=0

On a build with AddressSanitizer (`make fuzz`) a bad memory access is a crash, too.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["sparsefinder"]):
    import sparsefinder.attending.native  # noqa: F401

from .kernels import check


def main() -> None:
    tried = 0
    one_input = check.hypothesis.fuzz_one_input

    def one(data: bytes) -> None:
        nonlocal tried
        before = tried
        tried += one_input(data) is not None
        if tried > before and tried % 500 == 0:
            print(f"{tried:,} calls tried", flush=True)

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
