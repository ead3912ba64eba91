"""What the command shows of a benchmark: its tables, where its points are, and a chart of them."""

from __future__ import annotations

from pathlib import Path

from .bench.asked import Asked
from .bench.bench import bench
from .bench.decode_table import print_decoding
from .bench.decoding import decode
from .bench.subject import Subject
from .bench.table import print_tables
from .progress import say
from .report.figures_bench import write_chart
from .report.figures_decode import write_decoding

__all__ = ["show_decoding", "show_tables"]


def show_tables(subject: Subject, asked: Asked, chart: Path | None) -> None:
    """Every finder by length, on whole sequences."""
    print_tables(bench(subject, asked, say=say))
    print(f"points: {subject.folder / 'points/bench'}")
    if chart is not None:
        write_chart(subject.folder, chart)
        print(f"chart: {chart}")


def show_decoding(subject: Subject, asked: Asked, chart: Path | None) -> None:
    """Tokens per second by cached length."""
    print_decoding(decode(subject, asked, say=say))
    print(f"points: {subject.folder / 'points/decode'}")
    if chart is not None:
        write_decoding(subject.folder, chart)
        print(f"chart: {chart}")
