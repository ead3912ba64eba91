"""Training by several processes under torchrun: the losses of one process with the same batches, killed or not."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sparsefinder.lab.tasks.training import last_checkpoint

from ..lab.tasks.tiny import BERT, write_text

# Dropout draws other numbers in every process.
QUIET = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def _recipe(folder: Path, **training: Any) -> Path:
    """The same text and the same model, wherever its run goes."""
    data = {"train": write_text(folder, "train.txt", 0, 60), "valid": write_text(folder, "valid.txt", 500, 20)}
    given = {"steps": 8, "every": 2, "learning_rate": 0.002, **training}
    task = {
        "kind": "masked-lm", "data": data, "model": {**BERT, **QUIET}, "vocabulary": 400, "length": 32,
        "training": given,
    }  # fmt: skip
    file = folder / "recipe.yaml"
    file.write_text(json.dumps({"name": "small", "device": "cpu", "task": task, "trace": {"train": 4, "valid": 4}}))
    return file


def _command(recipe: Path, processes: int) -> list[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    together = ["-m", "torch.distributed.run", f"--nproc-per-node={processes}", f"--master-port={port}"]
    command = ["-m", "sparsefinder", "train", str(recipe), "--runs", str(recipe.parent / "runs")]
    return [sys.executable, *(together if processes > 1 else []), *command]


def _environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def _losses(recipe: Path) -> dict[str, list[float]]:
    last = last_checkpoint(recipe.parent / "runs/small/training")
    assert last is not None
    history = json.loads((last / "trainer_state.json").read_text())["log_history"]
    return {name: [entry[name] for entry in history if name in entry] for name in ("loss", "eval_loss")}


def _train(recipe: Path, processes: int) -> dict[str, list[float]]:
    done = subprocess.run(
        _command(recipe, processes), capture_output=True, text=True, check=False, env=_environment(), timeout=100
    )
    assert done.returncode == 0, done.stderr
    return _losses(recipe)


def test_two_processes_have_the_losses_of_one_and_a_killed_one_goes_on(tmp_path: Path) -> None:
    alone = _train(_recipe(tmp_path / "alone", batch=4, accumulate=2), 1)
    recipe = _recipe(tmp_path / "together", batch=4)
    with subprocess.Popen(
        _command(recipe, 2), stderr=subprocess.PIPE, text=True, env=_environment(), start_new_session=True
    ) as process:
        try:
            checkpoints = recipe.parent / "runs/small/training"
            while not list(checkpoints.glob("checkpoint-*/complete.json")):
                assert process.poll() is None, process.stderr and process.stderr.read()
                time.sleep(0.02)
            _kill_a_rank(process.pid)
            assert process.stderr is not None
            said = process.stderr.read()
            assert process.wait(60) != 0
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert "SIGKILL" in said or "exitcode: -9" in said.replace(" ", "") or "Signal 9" in said, said
    together = _train(recipe, 2)
    assert len(together["loss"]) == len(alone["loss"]) > 3
    for name in ("loss", "eval_loss"):
        assert together[name] == pytest.approx(alone[name], rel=2e-3)


def _kill_a_rank(launcher: int) -> None:
    """The last of the processes that the launcher started."""
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(launcher)], capture_output=True, text=True, check=True)
    os.kill(max(map(int, children.stdout.split())), signal.SIGKILL)


def test_other_stages_are_for_one_process(tmp_path: Path) -> None:
    recipe = _recipe(tmp_path)
    command = [sys.executable, "-m", "sparsefinder", "sweep", str(recipe), "--runs", str(tmp_path / "runs")]
    environment = _environment() | {"RANK": "0", "WORLD_SIZE": "2"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 1
    assert "'sweep' of 2 processes under torchrun" in done.stderr


LEARNED = """
import sys, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from transformers import BertConfig, BertForMaskedLM
from sparsefinder import use_entmax
torch.manual_seed(0)
config = BertConfig(vocab_size=60, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
                    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=1.0)
model = use_entmax(BertForMaskedLM(config), alpha=1.5, learn=True)
ids = torch.randint(5, 60, (4, 12))
if len(sys.argv) > 1:
    dist.init_process_group("gloo")
    mine = DistributedDataParallel(model, find_unused_parameters=True)
    part = ids.chunk(2)[dist.get_rank()]
else:
    mine, part = model, ids
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    optimizer.zero_grad()
    mine(input_ids=part, labels=part).loss.backward()
    optimizer.step()
if len(sys.argv) == 1 or dist.get_rank() == 0:
    print([round(float(each), 5) for name, one in model.named_parameters() if "entmax" in name for each in one])
"""


def test_learned_alphas_and_the_kernel_under_ddp(tmp_path: Path) -> None:
    """Two processes with half of a batch each learn the α of one process with all of it."""
    script = tmp_path / "learned.py"
    script.write_text(LEARNED)
    together = [*_command(script, 2)[:5], str(script), "together"]
    found = []
    for command in ([sys.executable, str(script)], together):
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout.splitlines()[-1]))
    assert len(found[0]) == 4
    assert any(abs(one) > 1e-4 for one in found[0]), "they were learned"
    assert found[0] == pytest.approx(found[1], abs=1e-4)
