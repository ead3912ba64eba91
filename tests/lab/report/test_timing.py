"""Running times on the page: means over block sizes, without blocks of one token."""

from typing import Any

import pytest

from sparsefinder.lab.report.charts import FullScore
from sparsefinder.lab.report.timing import running_times

SCORE = FullScore("perplexity", 3.0, lower_is_better=True)


def _row(method: str, block: int, seconds: float) -> dict[str, Any]:
    same = {"blocks": 2, "score": seconds, "sparsity": 0.5, "sequences": 7, "batch": 1, "threads": 1}
    times = dict.fromkeys(("seconds", "seconds_low", "seconds_high", "attention_seconds"), seconds)
    return {"method": method, "block": block, **same, **times}


ROWS = [_row(method, *one) for method in ("bigbird", "full") for one in ((1, 90.0), (2, 1.0), (4, 3.0))]


def test_blocks_of_one_token_are_left_out_of_means() -> None:
    timing = running_times(ROWS, SCORE)
    assert timing is not None
    assert timing.sizes == [1, 2, 4]
    (mean,) = timing.curve("bigbird")
    assert (mean.seconds, mean.score, mean.rows) == (2.0, 2.0, 2)
    # The full model was timed along with every size, and is compared with means over the same.
    line = timing.line("full")
    assert line is not None
    assert line.seconds == 2.0
    assert timing.curve("bigbird", 1)[0].seconds == 90.0


def test_where_there_is_nothing_else_they_are_all_there_is() -> None:
    timing = running_times([row for row in ROWS if row["block"] == 1], SCORE)
    assert timing is not None
    assert timing.curve("bigbird")[0].seconds == pytest.approx(90.0)
