// Sparsity against recall and against the model's score, over all heads and layers: figures of one run's points.

import { SPARSITY_TITLE } from "report/axes.js";
import { chart } from "report/chart.js";
import { data, realScore, settingWords } from "report/data.js";
import { figure, numbers, table } from "report/elements.js";
import { percent } from "report/format.js";

const whole = (value) => (100 * value).toFixed(0);

function linesOf(cloud) {
  const lines = data.series.map(({ method, inputs, label, ...look }, number) => ({
    number,
    method,
    inputs,
    look,
    label,
    xs: cloud.x,
    ys: cloud.y,
    all: [],
    best: [],
  }));
  // Intervals are those of the points on frontiers, one after the other.
  const rank = new Map();
  for (let place = 0; place < cloud.x.length; place++) {
    if (cloud.best[place]) rank.set(place, rank.size);
    if (!Number.isFinite(cloud.x[place]) || !Number.isFinite(cloud.y[place])) continue;
    const line = lines[cloud.series[place]];
    (cloud.best[place] ? line.best : line.all).push(place);
  }
  for (const line of lines) {
    line.best.sort((one, other) => cloud.x[one] - cloud.x[other]);
    if (cloud.within)
      [line.low, line.high] = cloud.within.map((ends) => line.best.map((place) => ends[rank.get(place)]));
    line.within = (place) => cloud.within && rank.has(place) && cloud.within.map((ends) => ends[rank.get(place)]);
  }
  return lines.filter((line) => line.best.length);
}

const goldRule = ({ gold }) => (gold === null ? [] : [{ axis: "x", value: gold, label: `gold ${percent(gold)}` }]);
const goldStar = ({ gold, full }) => (gold === null ? null : { x: gold, y: full, label: "full entmax model" });
const sparsityAxis = ({ limits }, range = limits[0]) => ({ title: SPARSITY_TITLE, range, format: whole });

// limits: other axes than the points' own, to compare with other charts.
export function recallFigure(cloud, { id, name = "", limits = cloud.limits } = {}) {
  const lines = linesOf(cloud);
  const view = chart({
    label: `Sparsity and recall of every method${name && `, ${name}`}`,
    id,
    name: `${name || data.name} recall`,
    legend: true,
    labels: true,
    lines,
    x: sparsityAxis(cloud, limits[0]),
    y: { title: "recall (% of gold pairs found)", range: limits[1], format: whole },
    rules: goldRule(cloud),
    star: goldStar(cloud),
    describe: (line, place) => [
      settingWords(cloud, place),
      `sparsity ${percent(cloud.x[place])} · recall ${percent(cloud.y[place])}${brackets(line.within(place), (end) => (100 * end).toFixed(1))}`,
      rowsTold(cloud, place),
    ],
    columns: columnsOf(cloud, "recall", (value) => value),
  });
  return figure(name || "Sparsity and recall", view.box, {
    saves: view.saves,
    more: frontierNumbers(cloud, lines, "Recall", (value) => percent(value)),
  });
}

export function scoreFigure(cloud, score, { id, name = "", limits = cloud.limits } = {}) {
  const lines = linesOf(cloud);
  const real = (value) => realScore(value, score);
  const below = cloud.y.reduce((count, value) => count + (value < limits[1][0]), 0);
  const view = chart({
    label: `Sparsity and ${score.metric} of every method${name && `, ${name}`}`,
    id,
    name: `${name || data.name} ${score.metric}`,
    legend: true,
    labels: true,
    lines,
    x: sparsityAxis(cloud, limits[0]),
    y: { title: score.axis, range: limits[1], flipped: score.lower },
    rules: [
      ...goldRule(cloud),
      { axis: "y", value: cloud.full, label: `full model ${score.value.toFixed(2)}`, dash: "2 3" },
    ],
    star: goldStar(cloud),
    describe: (line, place) => [
      settingWords(cloud, place),
      `sparsity ${percent(cloud.x[place])} · ${score.metric} ${real(cloud.y[place]).toFixed(2)}${brackets(sorted(line.within(place), real), (end) => end.toFixed(2))}`,
      rowsTold(cloud, place),
    ],
    columns: columnsOf(cloud, score.metric, real),
  });
  const caption = below
    ? `${below} points lie below the chart, at a ${score.metric} ${score.lower ? "above" : "below"} ${real(limits[1][0]).toFixed(1)}.`
    : null;
  return figure(name || `Sparsity and ${score.metric}`, view.box, {
    caption,
    saves: view.saves,
    more: frontierNumbers(cloud, lines, score.metric, (value) => real(value).toFixed(2)),
  });
}

const sorted = (within, real) => within && within.map(real).sort((one, other) => one - other);
const brackets = (within, format) => (within ? ` [${within.map(format).join(", ")}]` : "");

// The numbers of a point for a table, as points.csv has them.
const columnsOf = (cloud, quality, real) => (line, place) => {
  const within = sorted(line.within(place), real) || [null, null];
  return {
    setting: settingWords(cloud, place),
    sparsity: cloud.x[place],
    [quality]: real(cloud.y[place]),
    [`${quality}_low`]: within[0],
    [`${quality}_high`]: within[1],
    frontier: cloud.best[place],
  };
};

// Queries whose output is exact, since all of their gold pairs were found, and those for which nothing was predicted.
const rowsTold = ({ told }, place) =>
  `exact rows ${percent(told.full_recall[place])} · empty rows ${percent(told.empty_rows[place])}`;

// What is told of a point besides its place; in the model, recall is against the graphs that it had there itself.
const HEADINGS = {
  recall: "Own recall",
  precision: "Precision",
  full_recall: "Exact rows",
  empty_rows: "Empty rows",
  pooled_sparsity: "Pooled sparsity",
  pooled_recall: "Pooled recall",
  pooled_precision: "Pooled precision",
  decoding_sparsity: "Sparsity while decoding",
  mass_missed: "Weight missed",
  far_perplexity: "Far perplexity",
};
const toldWords = (name, value) => (name === "far_perplexity" ? value.toFixed(2) : percent(value));

function frontierNumbers(cloud, lines, quality, format) {
  const told = Object.keys(HEADINGS).filter((name) => cloud.told[name] && !(name === "recall" && quality === "Recall"));
  return numbers("Numbers of the frontiers", () =>
    table(
      `Points on the frontier of each method: means over sequences, layers and heads; pooled ones are of all pairs together`,
      ["Method", "Setting", "Sparsity", quality, ...told.map((name) => HEADINGS[name])],
      lines.flatMap((line) =>
        line.best.map((place) => [
          line.label,
          settingWords(cloud, place),
          percent(cloud.x[place]),
          format(cloud.y[place]),
          ...told.map((name) => toldWords(name, cloud.told[name][place])),
        ]),
      ),
    ),
  );
}
