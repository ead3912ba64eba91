// Sparsity against recall and against the model's score, over all heads and layers.

import { roomy, SPARSITY_TITLE } from "report/axes.js";
import { chart } from "report/chart.js";
import { clouds, data, realScore, settingWords } from "report/data.js";
import { figure, make, note, numbers, section, table } from "report/elements.js";
import { percent } from "report/format.js";
import { legend } from "report/legend.js";

export function showPareto() {
  const host = section("pareto");
  if (!clouds.recall && !clouds.scores)
    return host.append(note("This run has no points yet: its sweep has not been run."));
  host.append(
    make(
      "p",
      {},
      "Each small mark is one setting of a method; lines join the settings that no other one of the same method beats. ",
      "Further right and higher up is better. The dashed line is the sparsity of the full model’s own graphs on the sequences of the chart, the star the full entmax model. ",
      "Lines only guide the eye: nothing between two marks was measured.",
    ),
    legend(),
  );
  const charts = make("div", { class: "pair" });
  host.append(charts);
  if (clouds.recall) charts.append(recallFigure());
  if (clouds.scores) charts.append(scoreFigure());
}

function linesOf(cloud) {
  const lines = data.series.map((look, number) => ({
    number,
    look,
    label: look.label,
    xs: cloud.x,
    ys: cloud.y,
    all: [],
    best: [],
  }));
  for (let place = 0; place < cloud.x.length; place++) {
    if (!Number.isFinite(cloud.x[place]) || !Number.isFinite(cloud.y[place])) continue;
    const line = lines[cloud.series[place]];
    (cloud.best[place] ? line.best : line.all).push(place);
  }
  for (const line of lines) line.best.sort((one, other) => cloud.x[one] - cloud.x[other]);
  return lines.filter((line) => line.best.length);
}

const goldRule = ({ gold }) => (gold === null ? [] : [{ axis: "x", value: gold, label: `gold ${percent(gold)}` }]);
const goldStar = ({ gold }, y) => (gold === null ? null : { x: gold, y, label: "full entmax model" });
const sparsityAxis = ({ x, gold }) => {
  const [low, high] = roomy(gold === null ? x : [...x, gold]);
  return {
    title: SPARSITY_TITLE,
    range: [Math.max(0, low), Math.min(1.01, high)],
    format: (value) => (100 * value).toFixed(0),
  };
};

function recallFigure() {
  const cloud = clouds.recall,
    lines = linesOf(cloud);
  const [low] = roomy(cloud.y);
  const view = chart({
    label: "Sparsity and recall of every method",
    legend: true,
    lines,
    x: sparsityAxis(cloud),
    y: {
      title: "recall (% of gold pairs found)",
      range: [Math.max(0, low), 1.02],
      format: (value) => (100 * value).toFixed(0),
    },
    rules: goldRule(cloud),
    star: goldStar(cloud, 1),
    describe: (line, place) => [
      settingWords(cloud, place),
      `sparsity ${percent(cloud.x[place])} · recall ${percent(cloud.y[place])}`,
      rowsTold(cloud, place),
    ],
  });
  view.box.id = "recall-chart";
  return figure(
    "Sparsity and recall",
    view.box,
    null,
    frontierNumbers(cloud, lines, "Recall", (value) => percent(value)),
  );
}

function scoreFigure() {
  const cloud = clouds.scores,
    lines = linesOf(cloud),
    { score } = data;
  const floor = score.floor ?? -Infinity;
  const full = realScore(score.value);
  const [low, high] = roomy([...cloud.y, full].filter((value) => value >= floor));
  const below = cloud.y.reduce((count, value) => count + (value < floor), 0);
  const view = chart({
    label: `Sparsity and ${score.axis} of every method`,
    legend: true,
    lines,
    x: sparsityAxis(cloud),
    y: { title: score.axis, range: [low, high] },
    rules: [...goldRule(cloud), { axis: "y", value: full, label: `full model ${score.value.toFixed(2)}`, dash: "2 3" }],
    star: goldStar(cloud, full),
    describe: (line, place) => [
      settingWords(cloud, place),
      `sparsity ${percent(cloud.x[place])} · ${score.metric} ${realScore(cloud.y[place]).toFixed(2)}`,
      rowsTold(cloud, place),
    ],
  });
  view.box.id = "score-chart";
  const caption = below
    ? `${below} points lie below the chart, at a ${score.metric} above ${(-floor).toFixed(1)}.`
    : null;
  return figure(
    `Sparsity and ${score.metric}`,
    view.box,
    caption,
    frontierNumbers(cloud, lines, score.metric, (value) => realScore(value).toFixed(2)),
  );
}

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
};

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
          ...told.map((name) => percent(cloud.told[name][place])),
        ]),
      ),
    ),
  );
}
