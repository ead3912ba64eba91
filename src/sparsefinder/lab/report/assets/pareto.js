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
      "Further right and higher up is better. The dashed line is the sparsity of the teacher itself, the star the full entmax model. ",
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
    const line = lines[cloud.series[place]];
    (cloud.best[place] ? line.best : line.all).push(place);
  }
  for (const line of lines) line.best.sort((one, other) => cloud.x[one] - cloud.x[other]);
  return lines.filter((line) => line.best.length);
}

const goldRule = () =>
  data.gold === null ? [] : [{ axis: "x", value: data.gold, label: `gold ${percent(data.gold)}` }];
const sparsityAxis = (xs) => {
  const [low, high] = roomy(data.gold === null ? xs : [...xs, data.gold]);
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
    x: sparsityAxis(cloud.x),
    y: {
      title: "recall (% of gold pairs found)",
      range: [Math.max(0, low), 1.02],
      format: (value) => (100 * value).toFixed(0),
    },
    rules: goldRule(),
    star: data.gold === null ? null : { x: data.gold, y: 1, label: "full entmax model" },
    describe: (line, place) => [
      settingWords(cloud, place),
      `sparsity ${percent(cloud.x[place])} · recall ${percent(cloud.y[place])}`,
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
    x: sparsityAxis(cloud.x),
    y: { title: score.axis, range: [low, high] },
    rules: [...goldRule(), { axis: "y", value: full, label: `full model ${score.value.toFixed(2)}`, dash: "2 3" }],
    star: data.gold === null ? null : { x: data.gold, y: full, label: "full entmax model" },
    describe: (line, place) => [
      settingWords(cloud, place),
      `sparsity ${percent(cloud.x[place])} · ${score.metric} ${realScore(cloud.y[place]).toFixed(2)}`,
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

function frontierNumbers(cloud, lines, quality, format) {
  return numbers("Numbers of the frontiers", () =>
    table(
      `Points on the frontier of each method`,
      ["Method", "Setting", "Sparsity", quality],
      lines.flatMap((line) =>
        line.best.map((place) => [
          line.label,
          settingWords(cloud, place),
          percent(cloud.x[place]),
          format(cloud.y[place]),
        ]),
      ),
    ),
  );
}
