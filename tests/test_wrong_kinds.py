"""Lists, arrays, strings, classes in place of something else: errors name the argument, what it is and should be."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .wrong_kinds import CASES


@pytest.fixture(scope="module")
def endings() -> list[str]:
    command = [sys.executable, "-m", "tests.wrong_kinds"]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize(("number", "said"), list(enumerate(CASES.values())), ids=list(CASES.values()))
def test_a_wrong_kind_is_named_with_what_would_be_right(endings: list[str], number: int, said: str) -> None:
    assert endings[number] == f"InputError: {said}"
