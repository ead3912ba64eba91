// Several runs on one page: the answer of each, their charts beside each other on the same axes, and all methods in a table.

import { sentences } from "report/answer.js";
import { data, decodedCloud } from "report/data.js";
import { make, section, table } from "report/elements.js";
import { percent } from "report/format.js";
import { legend } from "report/legend.js";
import { swatch } from "report/markers.js";
import { recallFigure, scoreFigure } from "report/pareto.js";

export function showComparison() {
  const runs = data.runs.map((run) => ({ ...run, recall: decodedCloud(run.recall), scores: decodedCloud(run.scores) }));
  section("answer").append(
    ...runs.flatMap((run) => [
      make("h3", {}, make("a", { href: run.page }, run.name), " ", make("small", {}, run.description)),
      sentences(run.answer),
    ]),
    legend(),
    make(
      "div",
      { class: "pair" },
      runs.map((run, place) =>
        recallFigure(run.recall, { id: `recall-chart-${place}`, name: `${run.name}: recall`, limits: data.limits }),
      ),
    ),
    make(
      "div",
      { class: "pair" },
      runs
        .filter((run) => run.scores)
        .map((run, place) =>
          scoreFigure(run.scores, run.score, {
            id: `score-chart-${place}`,
            name: `${run.name}: ${run.score.metric}`,
            limits: run.limits,
          }),
        ),
    ),
    leaderboard(runs.length),
    comparison(runs),
  );
}

// Means over all runs, the best first; what was not measured in all of them has no place.
function leaderboard(runs) {
  const headings = [
    "Hypervolume",
    ...["80", "90", "95"].map((level) => `Found at ${level} % sparsity`),
    ...["95", "99"].map((level) => `Skipped at ${level} % recall`),
    "Finding, of all scores",
    "Bytes it reads, of all keys",
    "Times as fast as softmax, shortest",
    "longest",
  ];
  const share = (value) => (value === null ? "not reached" : percent(value));
  const times = (value) => (value === null ? "not timed" : value.toFixed(2));
  const rows = data.leaderboard.map(({ series, place, teachers, means }) => {
    const look = data.series[series];
    const measured = place === null ? `measured in ${teachers} of ${runs}` : look.whose;
    return [
      make("span", { class: "method" }, swatch(look), make("span", {}, look.label, make("small", {}, measured))),
      place === null ? "–" : String(place),
      means.hypervolume.toFixed(3),
      ...["recall_at_80", "recall_at_90", "recall_at_95"].map((name) => share(means[name])),
      ...["sparsity_at_95", "sparsity_at_99", "cost_at_95"].map((name) => share(means[name])),
      means.cost_at_95 !== null && means.bytes_at_95 === null ? "not counted" : share(means.bytes_at_95),
      ...["shortest_to_softmax", "longest_to_softmax"].map((name) => times(means[name])),
    ];
  });
  return table("Leaderboard: means over all runs", ["Method", "Place", ...headings], rows, "stack");
}

// The sparsity of each method at a high recall, and its hypervolume, in every run.
function comparison(runs) {
  const headings = runs.flatMap(({ name }) => [
    `${name}: skipped at recall ≥ ${percent(data.wanted, 0)}`,
    `${name}: hypervolume`,
  ]);
  const rows = data.series.map((look, number) => [
    make("span", { class: "method" }, swatch(look), make("span", {}, look.label, make("small", {}, look.whose))),
    ...runs.flatMap(({ methods }) => cells(methods.find((line) => line.series === number))),
  ]);
  return table("Every method in every run", ["Method", ...headings], rows, "stack");
}

function cells(line) {
  if (!line) return ["not measured", "not measured"];
  const { reached } = line;
  return [
    reached ? [make("span", {}, percent(reached.sparsity)), make("small", {}, reached.words)] : "not reached",
    line.hypervolume.toFixed(3),
  ];
}
