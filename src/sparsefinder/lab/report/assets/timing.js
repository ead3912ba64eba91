// Running time and quality by the number of attended blocks.

import { roomy } from "report/axes.js";
import { chart } from "report/chart.js";
import { data, realScore } from "report/data.js";
import { choice, figure, make, nothing, numbers, section, table } from "report/elements.js";
import { duration, percent } from "report/format.js";
import { swatch } from "report/markers.js";

// The block size that stands for the mean of all but 1.
const ALL = "all";
const RULE_DASHES = { "--": "6 4", ":": "2 3" };

export function showTiming() {
  const host = section("timing");
  const { timing, score } = data;
  if (!timing)
    return nothing("timing", "This run measured no running times: add `timing:` to its recipe, and run it again.");
  const time = panel(
    "time-chart",
    (spot) => spot.seconds,
    { title: "seconds for a pass over the data" },
    "running time",
  );
  const quality = panel(
    "quality-chart",
    (spot) => (spot.score === null ? null : realScore(spot.score)),
    { title: score.axis, flipped: score.lower },
    score.metric,
  );
  host.append(
    make(
      "p",
      {},
      `A pass over ${timing.sequences} sequences in batches of ${timing.batch} on ${timing.threads} thread${timing.threads === 1 ? "" : "s"}, the finder’s own time included. `,
      "Dashed: the full entmax model; dotted: the full softmax model.",
    ),
    make("div", { class: "controls" }, sizeChoice([time, quality])),
    make(
      "div",
      { class: "legend" },
      timing.methods.map((one) => make("span", { class: "key" }, swatch(one.style), make("span", {}, one.label))),
    ),
    make(
      "div",
      { class: "pair" },
      figure("Time", time.box, { saves: time.saves }),
      figure(score.metric[0].toUpperCase() + score.metric.slice(1), quality.box, { saves: quality.saves }),
    ),
    timingNumbers(),
  );
}

// A chart of what `value` says of a spot; `show(size)` changes the block size.
function panel(id, value, axis, what) {
  const counts = [...new Set(data.timing.methods.flatMap((one) => one.curves[ALL].map((spot) => spot.blocks)))].sort(
    (one, other) => one - other,
  );
  const view = chart({
    label: `${what} by number of attended blocks`,
    id,
    name: `${data.name} ${what} by blocks`,
    labels: true,
    x: { title: "attended blocks per query block", range: roomy(counts), ticks: counts, format: String },
    ...panelOptions(value, axis, ALL),
    columns: (line, place) => ({ ...line.spots[place] }),
  });
  return { ...view, show: (size) => view.update(panelOptions(value, axis, size)) };
}

function panelOptions(value, axis, size) {
  const lines = curves(value, size);
  const rules = data.timing.lines
    .filter((one) => value(one) !== null)
    .map((one) => ({
      axis: "y",
      value: value(one),
      label: one.label,
      dash: RULE_DASHES[one.dash],
    }));
  const range = roomy([...lines.flatMap((line) => line.ys), ...rules.map((rule) => rule.value)], 0.1);
  return { lines, rules, y: { ...axis, range }, describe: (line, place) => spotWords(line.spots[place], size) };
}

function curves(value, size) {
  return data.timing.methods
    .map((method, number) => {
      const spots = (method.curves[size] ?? []).filter((spot) => value(spot) !== null);
      return {
        number,
        method: method.method,
        look: method.style,
        label: method.label,
        spots,
        xs: spots.map((spot) => spot.blocks),
        ys: spots.map(value),
        best: spots.map((_, place) => place),
      };
    })
    .filter((line) => line.best.length);
}

const spotWords = (spot, size) => [
  `${spot.blocks} attended blocks, ${size === ALL ? `mean of ${spot.rows} settings` : `blocks of ${size} tokens`}`,
  `${duration(spot.seconds)} (quartiles ${duration(spot.low)} and ${duration(spot.high)}), attention ${duration(spot.attention_seconds)}`,
  `${data.score.metric} ${spot.score?.toFixed(2) ?? "–"}`,
];

const averaged = () => (data.timing.sizes.some((one) => one === 1) ? "all but 1, averaged" : "all, averaged");

function sizeChoice(panels) {
  const sizes = data.timing.sizes.map((one) => ({ value: one, text: `${one} tokens` }));
  const show = (size) => {
    for (const one of panels) one.show(size);
  };
  const { label, select } = choice("Block size", [{ value: ALL, text: averaged() }, ...sizes], show, { key: "block" });
  show(select.value);
  return label;
}

function timingNumbers() {
  const { timing, score } = data;
  const row = (label, spot) => [
    label,
    spot.blocks ? String(spot.blocks) : "all",
    duration(spot.seconds),
    duration(spot.attention_seconds),
    spot.score === null ? "–" : spot.score.toFixed(2),
    spot.sparsity === null ? "–" : percent(spot.sparsity),
  ];
  return numbers("Numbers of the timings", () =>
    table(
      "Means over block sizes and clusters",
      ["Method", "Blocks", "Time", "Attention alone", score.metric, "Sparsity"],
      [
        ...timing.methods.flatMap((one) => one.curves[ALL].map((spot) => row(one.label, spot))),
        ...timing.lines.map((one) => row(one.label, one)),
      ],
    ),
  );
}
