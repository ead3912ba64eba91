"""Decoding measured from end to end: every way at every length, kept and gone on with, all with the same words."""

from io import StringIO
from pathlib import Path

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from sparsefinder import InputError
from sparsefinder.lab import cli
from sparsefinder.lab.bench.asked import Asked
from sparsefinder.lab.bench.decode_table import print_decoding
from sparsefinder.lab.bench.decoding import DECODE, decode, read_decode
from sparsefinder.lab.bench.subject import Subject, of_model, of_run
from sparsefinder.lab.bench.ways import WAYS, Filled, Kept
from sparsefinder.lab.report.figures_decode import write_decoding

from .teachers import REACH, run_folder, saved_model


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    path = tmp_path_factory.mktemp("decoding")
    return of_model(*saved_model(path), path / "runs")


def test_every_way_is_measured_at_every_length_and_kept(subject: Subject, tmp_path: Path) -> None:
    said: list[str] = []
    rows = decode(subject, Asked(lengths=(40, REACH), recall=0.9, repeats=2), said.append)
    assert [(row["length"], row["way"]) for row in rows] == [(n, way.name) for n in (40, REACH) for way in WAYS]
    assert set(rows[0]) == set(DECODE.names)
    assert not said
    for row in rows:
        assert row["step_low"] <= row["step"] <= row["step_high"]
        assert row["step"] > 0
        # Two layers of two heads of keys and values, each of 8 numbers of 4 bytes.
        assert row["cache_bytes"] == 2 * 2 * 2 * 8 * 4 * row["length"]
        indexed = row["way"] in ("share", "slack", "certified")
        assert indexed or row["index_bytes"] == 0
        assert (row["recall"] is not None) is indexed
    by_way = {row["way"]: row for row in rows if row["length"] == REACH}
    assert by_way["certified"]["recall"] == 1.0
    assert by_way["certified"]["bytes_per_key"] == 6 + 2 + 2
    assert 0 < by_way["slack"]["looked_at"] <= 1
    again = decode(subject, Asked(lengths=(40, REACH), recall=0.9, repeats=2), said.append)
    assert again == rows == read_decode(subject.folder)
    assert said == ["2 of 2 lengths were measured before; --again measures them anew"]
    out = StringIO()
    print_decoding(rows, Console(file=out, width=80))
    assert "64 tokens cached, 2 turns" in out.getvalue()
    assert "index, certified" in out.getvalue()
    write_decoding(subject.folder, tmp_path / "chart.svg")
    drawn = (tmp_path / "chart.svg").read_text()
    assert all(way.label in drawn for way in WAYS)


def test_perplexity_is_that_of_the_whole_pass(subject: Subject) -> None:
    """Token by token, at full recall and with a certified index, as all at once."""
    from sparsefinder.finders.sketch import Sketch
    from sparsefinder.hf.models import record
    from sparsefinder.learning.sample import Sample

    ids = subject.rows("valid", REACH)["input_ids"][:1]
    with torch.no_grad(), record(subject.model) as records:
        logits = subject.model(ids).logits[0].double()
    from transformers import DynamicCache

    cache = DynamicCache(config=subject.model.config)
    with torch.no_grad():
        subject.model(ids, past_key_values=cache, use_cache=True)
    queries = {REACH: [one.q for one in records]}
    scale = records[0].scale
    assert scale is not None
    kept = Kept(
        [layer.keys for layer in cache.layers], [layer.values for layer in cache.layers], queries, ids, scale, [1.5] * 2
    )
    finders = {
        (one.kind, one.layer): Sketch(slack=1e6, bounded=True).fit([Sample(one.q, one.k, one.layout, scale)])
        for one in records
    }
    words = ids[0, REACH - 19 :]
    losses = -logits.log_softmax(-1)[REACH - 20 : REACH - 1].gather(1, words[:, None])
    for way in WAYS[2:]:
        filled = Filled(way, subject.model, kept, REACH, None if way.setting is None else finders)
        with torch.no_grad():
            assert filled.perplexity(20) == pytest.approx(float(losses.mean().exp()), rel=1e-3)
            assert filled.recall() is None or filled.recall() == (1.0, 1.0)


def test_what_cannot_be_measured_is_said(subject: Subject, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lengths: got 128"):
        decode(subject, Asked(lengths=(128,)))
    said: list[str] = []
    with pytest.raises(InputError, match="shorter ones"):
        decode(subject, Asked(), said.append)
    assert "no more positions" in said[0]
    with pytest.raises(InputError, match="two lengths at least"):
        write_decoding(type(subject.folder)(tmp_path), tmp_path / "chart.svg")
    with pytest.raises(InputError, match="causal model"):
        decode(of_run(run_folder(tmp_path).path), Asked())


def test_the_command(tmp_path: Path) -> None:
    model, text = saved_model(tmp_path)
    options = ["--text", str(text), "--decode", "--lengths", "40,48", "--repeats", "1", "--recall", "0.9"]
    more = ["--runs", str(tmp_path / "runs"), "--chart", str(tmp_path / "decoding.svg")]
    result = CliRunner().invoke(cli.app, ["bench", str(model), *options, *more], catch_exceptions=False)
    assert result.exit_code == 0
    assert "48 tokens cached" in result.output
    assert (tmp_path / "decoding.svg").is_file()
