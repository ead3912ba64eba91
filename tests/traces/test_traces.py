"""Traces: what comes back is what went in, whole or not at all, and little of it in memory."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from sparsefinder import InputError, Layout, record, use_entmax
from sparsefinder.files import DiskError
from sparsefinder.hf.recording import record_traces, teacher_hash
from sparsefinder.learning.sample import Sample
from sparsefinder.traces import TraceWriter, join
from sparsefinder.traces import writer as trace_writer
from sparsefinder.traces.store import Traces

from ..tiny_models import make, padded, words


def _write(path: Path, sequences: int = 6, dtype: str = "float32") -> list[Sample]:
    samples = []
    with TraceWriter(path, dtype=dtype, teacher="abc") as writer:
        for start in range(0, sequences, 2):
            lengths = torch.tensor([start + 3, 9])
            layout = Layout(True, lengths, query_lengths=lengths)
            q, k = torch.randn(2, 2, 9, 4), torch.randn(2, 2, 9, 4)
            samples.append(Sample(q, k, layout, 0.5))
            writer.add("decoder", 1, q, k, layout, 0.5)
            writer.add("cross", 0, q[:, :, :5], k, scale=0.25)
    return samples


@pytest.mark.parametrize("shard", [1, 1 << 26])
def test_what_comes_back_is_what_went_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shard: int) -> None:
    monkeypatch.setattr(trace_writer, "SHARD_BYTES", shard)
    samples = _write(tmp_path / "traces")
    found = Traces.open(tmp_path / "traces")
    assert found.sites == [("cross", 0), ("decoder", 1)]
    assert found.teacher == "abc"
    assert len(found.index["sites"][0]["shards"]) == (3 if shard == 1 else 1)
    back = list(found.samples("decoder", 1, batch=2))
    assert len(back) == len(found.samples("decoder", 1, batch=2)) == 3
    for one, two in zip(samples, back, strict=True):
        assert two.layout.causal
        assert two.scale == 0.5
        assert two.layout.key_lengths is None or torch.equal(two.layout.key_lengths, one.layout.key_lengths)
        real = one.real_queries()
        assert torch.equal(two.q.transpose(1, 2)[real], one.q.transpose(1, 2)[real])
        assert torch.equal(two.k.transpose(1, 2)[real], one.k.transpose(1, 2)[real])
        assert torch.equal(two.gold.dense(), one.gold.dense())
    whole = next(iter(found.samples("cross", 0, batch=6)))
    assert whole.q.shape == (6, 2, 5, 4)
    assert whole.layout.key_lengths is None
    found.verify()


def test_samples_are_cut_and_shuffled_by_sequence(tmp_path: Path) -> None:
    _write(tmp_path / "traces", 10)
    found = Traces.open(tmp_path / "traces")
    plain = torch.cat([sample.q for sample in found.samples("cross", 0, 3)])
    mixed = found.samples("cross", 0, 3, seed=1)
    shuffled = torch.cat([sample.q for sample in mixed])
    assert torch.equal(torch.cat([sample.q for sample in mixed]), shuffled)
    assert not torch.equal(plain, shuffled)
    assert torch.equal(plain.flatten(1).sum(1).sort().values, shuffled.flatten(1).sum(1).sort().values)
    part = found.samples("cross", 0, 2, start=3, stop=8)
    assert len(part) == 3
    assert torch.equal(torch.cat([sample.q for sample in part]), plain[3:8])


def test_half_precision_halves_the_files(tmp_path: Path) -> None:
    torch.manual_seed(0)
    _write(tmp_path / "whole")
    torch.manual_seed(0)
    _write(tmp_path / "half", dtype="float16")
    whole, half = (Traces.open(tmp_path / name) for name in ("whole", "half"))
    for one, two in zip(whole.samples("cross", 0), half.samples("cross", 0), strict=True):
        assert torch.equal(one.q.half().float(), two.q)
    sizes = [(traces.path / traces.index["sites"][0]["shards"][0]["file"]).stat().st_size for traces in (whole, half)]
    assert sizes[1] < 0.7 * sizes[0]
    assert whole.hash != half.hash


def test_nothing_is_left_of_what_was_not_finished(tmp_path: Path) -> None:
    def cut_off() -> None:
        with TraceWriter(tmp_path / "traces") as writer:
            writer.add("encoder", 0, torch.zeros(1, 1, 3, 2), torch.zeros(1, 1, 3, 2))
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        cut_off()
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_of_what_could_not_be_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(trace_writer, "_write_index", full)
    with pytest.raises(DiskError, match=r"traces could not be written: No space left on device"):
        _write(tmp_path / "traces")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_others_may_read_traces_as_any_folder_and_file(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        _write(tmp_path / "traces")
    finally:
        os.umask(before)
    modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "traces").iterdir()}
    assert (tmp_path / "traces").stat().st_mode & 0o777 == 0o777 & ~mask
    assert set(modes.values()) == {0o666 & ~mask}, modes


def test_the_hash_is_that_of_the_content(tmp_path: Path) -> None:
    hashes = []
    for name, seed in (("one", 0), ("two", 0), ("three", 1)):
        torch.manual_seed(seed)
        _write(tmp_path / name)
        hashes.append(Traces.open(tmp_path / name).hash)
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    _write(tmp_path / "traces")
    found = Traces.open(tmp_path / "traces")
    file = tmp_path / "traces" / found.index["sites"][0]["shards"][0]["file"]
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(InputError, match="as it was recorded"):
        found.verify()


@pytest.mark.parametrize("family", ["bert", "gpt2", "marian"])
def test_recording_a_model_gives_its_own_gold_graphs(tmp_path: Path, family: str) -> None:
    model = use_entmax(make(family))
    ids = words(4, 9)
    inputs = [dict(padded(part, [9, 5], "right")) for part in ids.split(2)]
    if family == "marian":
        inputs = [{**each, "decoder_input_ids": words(2, 6)} for each in inputs]
    found = record_traces(model, inputs, tmp_path / "traces", dtype="float32")
    with record(model) as records, torch.no_grad():
        for each in inputs:
            model(**each)
    for kind, layer in found.sites:
        seen = [one for one in records if (one.kind, one.layer) == (kind, layer)]
        for sample, one in zip(found.samples(kind, layer, batch=2), seen, strict=True):
            n, m = sample.q.shape[2], sample.k.shape[2]
            assert torch.equal(sample.gold.dense(), one.gold.dense()[:, :, :n, :m])
    assert found.teacher == teacher_hash(model)
    before = found.teacher
    with torch.no_grad():
        next(model.parameters()).add_(1)
    assert teacher_hash(model) != before


def test_what_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    q = torch.zeros(1, 1, 3, 2)
    with pytest.raises(InputError, match="not open"):
        TraceWriter(tmp_path / "traces").add("encoder", 0, q, q)
    with pytest.raises(InputError, match="query_offset"), TraceWriter(tmp_path / "traces") as writer:
        writer.add("decoder", 0, q, q, Layout(True, query_offset=1))
    with TraceWriter(tmp_path / "other") as writer:
        writer.add("encoder", 0, q, q)
        with pytest.raises(InputError, match="encoder layer 0"):
            writer.add("encoder", 0, q, q, scale=3.0)
    with pytest.raises(InputError, match="bias"):
        record_traces(use_entmax(make("t5")), [{"input_ids": words(1, 4), "decoder_input_ids": words(1, 4)}],
                      tmp_path / "traces")  # fmt: skip
    with pytest.raises(InputError, match="dtype"):
        TraceWriter(tmp_path / "traces", dtype="int8")
    _write(tmp_path / "traces")
    with pytest.raises(InputError, match="exists"):
        TraceWriter(tmp_path / "traces")
    with pytest.raises(InputError, match="kind, layer"):
        Traces.open(tmp_path / "traces").samples("encoder", 7)
    with pytest.raises(InputError, match=r"which has no index.json, want a folder of traces"):
        Traces.open(tmp_path)
    index = tmp_path / "traces" / "index.json"
    index.write_text(json.dumps({"format": 99}))
    with pytest.raises(InputError, match="format 99"):
        Traces.open(tmp_path / "traces")


def test_traces_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"path: got .*nowhere, which is not there, want a folder of traces"):
        Traces.open(tmp_path / "nowhere")
    _write(tmp_path / "traces")
    with pytest.raises(InputError, match=r"path: got .*index.json, which is a file, want a folder of traces"):
        Traces.open(tmp_path / "traces/index.json")
    with pytest.raises(InputError, match=r"index: got none, want Traces.open\('.*traces'\)"):
        Traces(tmp_path / "traces")
    found = Traces.open(tmp_path / "traces")
    next((tmp_path / "traces").glob("cross-0-*")).unlink()
    with pytest.raises(InputError, match=r"path: got traces without their cross-0-00000.safetensors, want the whole"):
        list(found.samples("cross", 0))
    (tmp_path / "traces/index.json").write_text('{"format": 1')
    with pytest.raises(InputError, match=r"index.json: got what is not JSON.* want the file as it was written"):
        Traces.open(tmp_path / "traces")


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ({"batch": 2.5}, "batch: got 2.5, want a number of sequences"),
        ({"batch": "4"}, "batch: got '4', want a number of sequences"),
        ({"batch": 0}, "batch: got 0, want a number of sequences"),
        ({"start": 0.5}, "start: got 0.5, want a whole number"),
        ({"seed": "x"}, "seed: got 'x', want a whole number"),
    ],
)
def test_batches_that_cannot_be(tmp_path: Path, given: Any, want: str) -> None:
    _write(tmp_path / "traces")
    with pytest.raises(InputError, match=want):
        Traces.open(tmp_path / "traces").samples("cross", 0, **given)


def test_a_stretch_with_nothing_in_it_has_no_batch(tmp_path: Path) -> None:
    _write(tmp_path / "traces")
    nothing = Traces.open(tmp_path / "traces").samples("cross", 0, start=99)
    assert list(nothing) == []
    assert len(nothing) == 0


Q = torch.randn(1, 2, 5, 4)


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ({"q": Q.tolist()}, "q: got a list, want a tensor of floating-point numbers of shape"),
        ({"k": Q.numpy()}, "k: got a ndarray, want a tensor of floating-point numbers"),
        ({"q": Q[0]}, r"q: got torch.float32 of shape \(2, 5, 4\), want a tensor"),
        ({"q": Q.long(), "k": Q.long()}, "q: got torch.int64 of shape"),
        ({"k": Q[:, :1]}, r"k: got shape \(1, 1, 5, 4\), want \(1, 2, keys, 4\) to go with q"),
        ({"kind": 0, "layer": "encoder"}, "kind: got an int, want the kind of attention"),
        ({"layer": "0"}, "layer: got a str, want the number of the layer"),
        ({"layout": "causal"}, "layout: got a str, want a Layout"),
        ({"scale": "1"}, "scale: got a str, want what scores are multiplied by"),
        ({"alpha": "1.5"}, "alpha: got '1.5', want one number, or a tensor"),
        ({"alpha": [1.5, 1.2]}, r"alpha: got \[1.5, 1.2\], want one number, or a tensor with one for each of 2 heads"),
        ({"alpha": torch.full((3,), 1.5)}, "alpha: got tensor.*, want one number, or a tensor with one for each of 2"),
    ],
)
def test_what_is_no_layer_is_refused(tmp_path: Path, given: Any, want: str) -> None:
    with TraceWriter(tmp_path / "traces") as writer, pytest.raises(InputError, match=want):
        writer.add(**{"kind": "encoder", "layer": 0, "q": Q, "k": Q, **given})


def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="path: got None, want the name of a new folder"):
        TraceWriter(None)  # type: ignore[arg-type]
    with (
        TraceWriter(tmp_path / "traces") as writer,
        pytest.raises(InputError, match="record: got a Tensor, want a rec"),
    ):
        writer.take(Q)  # type: ignore[arg-type]
    model = use_entmax(make("bert"))
    with record(model) as records:
        model(words(1, 4))
    with pytest.raises(InputError, match="finder: got a str, want a finder, such as Window"):
        records[0].predict("window")  # type: ignore[arg-type]


def test_parts_joined_are_the_whole(tmp_path: Path) -> None:
    torch.manual_seed(0)
    _write(tmp_path / "whole", 6)
    torch.manual_seed(0)
    whole, starts = Traces.open(tmp_path / "whole"), (0, 2, 4)
    for start in starts:
        with TraceWriter(tmp_path / "joined" / f"part-{start}", dtype="float32", teacher="abc") as writer:
            for site in whole.sites:
                for sample in whole.samples(*site, batch=2, start=start, stop=start + 2):
                    writer.add(*site, sample.q, sample.k, sample.layout, sample.scale)
    joined = join(tmp_path / "joined", [f"part-{start}" for start in starts])
    assert joined.sites == whole.sites
    assert joined.teacher == whole.teacher
    for site in whole.sites:
        for one, two in zip(whole.samples(*site, batch=4), joined.samples(*site, batch=4), strict=True):
            assert torch.equal(one.q, two.q)
            assert torch.equal(one.k, two.k)
    joined.verify()
    again = join(tmp_path / "joined", [f"part-{start}" for start in starts])
    assert again.hash == joined.hash
    with pytest.raises(InputError, match="parts"):
        join(tmp_path / "joined", [])
    with pytest.raises(InputError, match=r"parts: got 'part-0', want a list, such as \['part-0'\]"):
        join(tmp_path / "joined", "part-0")
    with TraceWriter(tmp_path / "joined" / "other", dtype="float32", teacher="xyz") as writer:
        writer.add("cross", 0, torch.randn(1, 2, 3, 4), torch.randn(1, 2, 3, 4))
    with pytest.raises(InputError, match="teacher of other"):
        join(tmp_path / "joined", ["part-0", "other"])
