"""The tutorials run, as they are, and draw something; `make docs` runs them again for what they show."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIALS = sorted((Path(__file__).parents[1] / "docs/tutorials").glob("*.py"))
# As if somebody looked at every figure.
SAVED = """
import runpy, sys
import matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt
runpy.run_path(sys.argv[1], run_name="__main__")
assert plt.get_fignums(), "nothing was drawn"
"""


@pytest.mark.parametrize("script", TUTORIALS, ids=lambda script: script.stem)
def test_a_tutorial_runs(script: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SAVED, script], capture_output=True, text=True, check=False, cwd=tmp_path,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_there_are_three_of_them_and_the_site_has_them() -> None:
    site = (TUTORIALS[0].parents[2] / "mkdocs.yml").read_text()
    assert [script.stem for script in TUTORIALS] == ["compare", "faster", "method"]
    assert all(f"tutorials/{script.stem}.md" in site for script in TUTORIALS)
