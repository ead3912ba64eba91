"""A run that is stopped says where it was and what goes on; one that goes on says from where."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sparsefinder import SparsefinderError
from sparsefinder.lab.recipe import load_recipe
from sparsefinder.lab.run import run

from .test_run import KILLED, tiny_recipe


def _hears_ctrl_c() -> None:
    """What a shell started in the background does not, nor what it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_in_the_middle_of_a_training_and_the_words_that_follow(tmp_path: Path) -> None:
    """As a terminal sends it, to the process and those that it started."""
    recipe = tiny_recipe("translation", tmp_path)
    command = [sys.executable, "-m", "sparsefinder", "run", str(recipe), "--runs", str(tmp_path / "runs")]
    longer = ["--set", "task.training.steps=4000"]
    with subprocess.Popen(
        [*command, *longer], stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=_hears_ctrl_c
    ) as process:
        while not list(tmp_path.glob("runs/tiny/training/checkpoint-*/complete.json")):
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        assert process.stderr is not None
        said = process.stderr.read()
        assert process.wait() == 130
    assert "Traceback" not in said
    found = re.search(r"stopped in train: training was at step \d+ of 4,000; it goes on from checkpoint (\d+)\n", said)
    assert found is not None, said
    assert said.endswith(f"to go on: sparsefinder run {recipe} --runs {tmp_path / 'runs'} {' '.join(longer)}\n")
    again = subprocess.run([*command[:3], "train", *command[4:], "--set", f"task.training.steps={int(found[1]) + 2}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert again.returncode == 0, again.stderr


def test_a_training_goes_on_and_says_from_where_without_warnings(tmp_path: Path) -> None:
    """Of a translation, whose decoder's weights are tied to others and not in the checkpoint."""
    recipe = tiny_recipe("translation", tmp_path)
    command = ["run", str(recipe), "--runs", str(tmp_path / "runs")]
    killed = subprocess.run([sys.executable, "-c", KILLED, "checkpoint-2/", *command], capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = subprocess.run([sys.executable, "-m", "sparsefinder", "train", *command[1:]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "training: goes on after step 2 of 4\n" in done.stderr
    assert "missing keys" not in done.stderr
    assert all(line.isprintable() for line in done.stderr.splitlines()), "no escape codes in a log"
    assert "{" not in done.stderr, "no dictionaries"


def test_a_loss_that_is_no_number_ends_a_training(tmp_path: Path) -> None:
    changes = ["task.training.learning_rate=1e30", "task.training.clip=0", "task.training.steps=20"]
    with pytest.raises(SparsefinderError, match=r"training: .* NaN .* lower task.training.learning_rate"):
        run(
            load_recipe(tiny_recipe("masked-lm", tmp_path), changes),
            tmp_path / "runs",
            "train",
            say=lambda line: None,
        )
