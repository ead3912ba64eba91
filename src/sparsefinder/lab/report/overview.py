"""What was run: the facts at the top of the page, and the recipe, versions and command at its end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..folder import STAGES_FOLDER, RunFolder, versions
from ..recipe import HubSource, PairFiles, Recipe, dump_recipe
from ..sweep.measured import Measured
from .charts import FullScore
from .points import RecallPoints

__all__ = ["command", "facts", "provenance", "read_score", "stamps"]


def read_score(folder: RunFolder) -> dict[str, Any]:
    """teacher/score.json; empty if there is none."""
    file = folder / "teacher/score.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


# What tasks measure besides a score, for readers; see `far` in docs/recipes.md.
DETAILS = {
    "accuracy": "Full model's accuracy",
    "far tokens": "Tokens that only far attention can fetch",
    "far perplexity": "Full model's perplexity on these",
    "late perplexity": "Full model's perplexity in second halves",
}
# Of these, what is a share of all.
SHARES = ("accuracy", "exact sentences")


def stamps(folder: RunFolder) -> dict[str, dict[str, Any]]:
    """What each finished stage said of itself, in the order they were finished."""
    found = {
        file.stem: json.loads(file.read_text(encoding="utf-8")) for file in (folder / STAGES_FOLDER).glob("*.json")
    }
    return dict(sorted(found.items(), key=lambda one: str(one[1].get("finished", ""))))


def facts(
    folder: RunFolder,
    recipe: Recipe,
    score: FullScore | None,
    points: RecallPoints | None,
    recall: Measured | None,
    scores: Measured | None,
) -> list[dict[str, str]]:
    """The run in numbers with their units, each with a name."""
    task, alpha = recipe.task, read_score(folder).get("alpha", recipe.task.alpha)
    found = [
        ("Teacher", _teacher(recipe)),
        ("Task", task.kind.replace("-", " ").replace("lm", "language model")),
        ("Data", f"{_source(task.data.train)}, measured on {_source(_measured(task.data))}"),
        ("α of entmax", f"{alpha}"),
    ]
    if points is not None and recall is not None:
        kinds = sorted({kind for kind, _, _ in points.heads})
        layers = {(kind, layer) for kind, layer, _ in points.heads}
        found.append(("Attention", f"{len(points.heads)} heads in {len(layers)} layers ({', '.join(kinds)})"))
        found.append(("Gold sparsity", f"{100 * recall.gold:.1f} % of pairs have no weight"))
        found.append(("Measured", f"{len(recall.settings):,} settings on {recall.sequences:,} sequences"))
    if scores is not None:
        found.append((f"Gold sparsity where {scores.measure} is measured", f"{100 * scores.gold:.1f} %"))
    if score is not None:
        way = "lower is better" if score.lower_is_better else "higher is better"
        found.append((f"Full model's {score.metric}", f"{score.value:.2f} on {score.sequences:,} sequences ({way})"))
        names = [name for name in DETAILS if name in score.details]
        # Full attention misses nothing.
        names += [name for name in score.details if name not in DETAILS and name != "mass missed"]
        found += [(DETAILS.get(name, f"Full model's {name}"), _detail(name, score.details[name])) for name in names]
    seconds = sum(float(one.get("seconds", 0)) for one in stamps(folder).values())
    if seconds:
        found.append(("Time of all stages", _duration(seconds)))
    machines = dict.fromkeys(one["machine"] for one in stamps(folder).values() if "machine" in one)
    if machines:
        found.append(("Machine", "; ".join(machines)))
    return [{"name": name, "value": value} for name, value in found]


def provenance(folder: RunFolder, recipe: Recipe) -> dict[str, Any]:
    """How the run can be made again."""
    done = stamps(folder)
    of_run: Mapping[str, str] = next((one["versions"] for one in reversed(done.values()) if "versions" in one), {})
    return {
        "recipe": dump_recipe(recipe),
        "command": command(recipe),
        "short": f"sparsefinder run {recipe.name}.yaml",
        "versions": dict(of_run) or versions(),
        "stages": [
            {
                "stage": name, "finished": one.get("finished", ""), "duration": _duration(float(one.get("seconds", 0))),
                "memory": _memory(one.get("peak_memory")),
            }
            for name, one in done.items()
        ],
    }  # fmt: skip


def command(recipe: Recipe) -> str:
    """One thing to paste into a shell, with the recipe in it."""
    file = f"{recipe.name}.yaml"
    return f"cat > {file} <<'END-OF-RECIPE'\n{dump_recipe(recipe)}END-OF-RECIPE\nsparsefinder run {file}\n"


def _memory(peak: int | None) -> str:
    return "–" if peak is None else f"{peak / 1e9:.1f} GB"


def _teacher(recipe: Recipe) -> str:
    task = recipe.task
    if task.checkpoint is not None:
        return task.checkpoint
    model = task.model or {}
    name = str(model.get("architecture", task.architecture))
    size = model.get("hidden_size", model.get("d_model"))
    return name + (f", {size} wide" if size else "") + ", from scratch"


def _measured(data: Any) -> Any:
    return getattr(data, "test", data.valid)


def _source(source: Any) -> str:
    if isinstance(source, HubSource):
        return " ".join([source.hub, *filter(None, (source.config, source.folder, source.split))])
    if isinstance(source, PairFiles):
        source = source.source + source.target
    if isinstance(source, tuple):
        return " and ".join(source)
    return source if isinstance(source, str) else f"builtin {source.builtin} ({source.part})"


def _detail(name: str, value: float) -> str:
    return f"{100 * value:.1f} %" if name in SHARES else f"{value:.4g}"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
