// What `sparsefinder bench` measured: time by length for each method, and all of it in tables.

import { roomy } from "report/axes.js";
import { chart } from "report/chart.js";
import { data } from "report/data.js";
import { choice, figure, make, nothing, numbers, section, table } from "report/elements.js";
import { duration, percent } from "report/format.js";
import { swatch } from "report/markers.js";

const MEASURES = [
  { value: "alone", text: "attention alone", title: "ms, finding and attending in all layers" },
  { value: "forward", text: "the whole model", title: "ms, a forward of the whole model" },
];
const TICKS = [1, 2, 5];

export function showBench() {
  const host = section("bench");
  const { bench } = data;
  if (!bench)
    return nothing("bench", "How fast every finder is on this model was not measured: `sparsefinder bench RUN` does.");
  host.append(
    make(
      "p",
      {},
      `Medians for a sequence in ${bench.layers} layers of ${bench.heads} heads on ${bench.threads} thread${bench.threads === 1 ? "" : "s"}, all in turn; `,
      "recall and sparsity on text that nothing was fitted to.",
    ),
    ...(bench.lengths.length > 1 ? crossover() : []),
    ...byLength(),
    bench.blocks.length ? blockNumbers() : "",
  );
}

// Both axes are logarithms, so that growth is a slope.
function crossover() {
  const view = chart({
    label: "Time by number of tokens",
    id: "bench-chart",
    name: `${data.name} bench`,
    labels: true,
    x: {
      title: "tokens in a sequence",
      range: roomy(data.bench.lengths.map(Math.log2)),
      ticks: data.bench.lengths.map(Math.log2),
      format: (value) => Math.round(2 ** value).toLocaleString("en"),
    },
    ...chartOptions(MEASURES[0].value),
    columns: (line, place) => ({ ...line.spots[place] }),
  });
  const measure = choice("Time of", MEASURES, (value) => view.update(chartOptions(value)), { key: "time" });
  view.update(chartOptions(measure.select.value));
  const keys = data.bench.lines.map((line) =>
    make("span", { class: "key" }, swatch(line.style), make("span", {}, line.label)),
  );
  return [
    make("div", { class: "controls" }, measure.label),
    make("div", { class: "legend" }, keys),
    figure("Time by length", view.box, { saves: view.saves }),
  ];
}

function chartOptions(measure) {
  const lines = data.bench.lines
    .map((line, number) => {
      const spots = line.spots.filter((spot) => spot[measure] !== null);
      return {
        number,
        method: line.method,
        look: line.style,
        label: line.label,
        spots,
        xs: spots.map((spot) => Math.log2(spot.length)),
        ys: spots.map((spot) => Math.log10(spot[measure])),
        best: spots.map((_, place) => place),
      };
    })
    .filter((line) => line.best.length);
  const range = roomy(
    lines.flatMap((line) => line.ys),
    0.06,
  );
  const { title } = MEASURES.find((one) => one.value === measure);
  const y = { title, range, ticks: decades(range), format: milliseconds };
  return { lines, y, describe: (line, place) => spotWords(line.spots[place], measure) };
}

const milliseconds = (value) => String(Number((1000 * 10 ** value).toPrecision(2)));

// 1, 2, 5, 10, 20, … within a range of logarithms.
function decades([low, high]) {
  const found = [];
  for (let power = Math.floor(low); power <= high; power++)
    found.push(...TICKS.map((step) => power + Math.log10(step)).filter((value) => value >= low && value <= high));
  return found;
}

const spotWords = (spot, measure) => [
  `${spot.length.toLocaleString("en")} tokens: ${duration(spot[measure])} (middle half ${duration(spot[`${measure}_low`])} to ${duration(spot[`${measure}_high`])})`,
  ...(measure === "alone" && spot.find ? [`finding ${duration(spot.find)}, attending ${duration(spot.attend)}`] : []),
  ...(spot.recall === null ? [] : [`recall ${percent(spot.recall)}, sparsity ${percent(spot.sparsity)}`]),
  `${times(spot, measure === "alone" ? "to_softmax" : "forward_to_softmax")} as fast as softmax`,
];

const times = (spot, name) =>
  spot[name] === null || spot[name] === undefined ? "–" : `${spot[name].toFixed(2)}\u00a0×`;
const spread = (spot, name) =>
  spot[name] === null
    ? "–"
    : `${times(spot, name)} (${spot[`${name}_low`].toFixed(2)}–${spot[`${name}_high`].toFixed(2)})`;
const share = (value) => (value === null ? "–" : percent(value));

const HEADINGS = ["Recall", "Sparsity", "Find", "Attend", "× all pairs", "× softmax", "× softmax model"];
const cells = (spot, ratio) => [
  share(spot.recall),
  share(spot.sparsity),
  spot.find ? duration(spot.find) : "–",
  duration(spot.attend),
  ratio(spot, "to_full"),
  ratio(spot, "to_softmax"),
  ratio(spot, "forward_to_softmax"),
];

// The table of one length, the longest first.
function byLength() {
  const { lengths, lines } = data.bench;
  const held = make("div", { id: "bench-table" });
  const show = (length) => held.replaceChildren(lengthTable(Number(length), lines));
  const options = lengths.map((length) => ({ value: length, text: `${length.toLocaleString("en")} tokens` }));
  const chosen = choice("Length", options, show, { key: "length", start: lengths.at(-1) });
  show(chosen.select.value);
  if (lengths.length === 1) return [held];
  return [make("div", { class: "controls" }, chosen.label), held];
}

function lengthTable(length, lines) {
  const rows = lines.flatMap((line) =>
    line.spots
      .filter((spot) => spot.length === length)
      .map((spot) => [line.label, ...cells(spot, spread), line.pays?.toLocaleString("en") ?? "–"]),
  );
  const caption = `${length.toLocaleString("en")} tokens: times as fast, alone and in the model (middle half of the turns)`;
  return table(caption, ["Method", ...HEADINGS, "Pays from"], rows, "stack");
}

function blockNumbers() {
  const { blocks } = data.bench;
  return numbers(`Block variants by number of attended blocks, ${blocks[0].length} tokens`, () =>
    table(
      "Means over block sizes and numbers of clusters, with a window of 3 and the first token",
      ["Method", "Blocks", ...HEADINGS],
      blocks.map((spot) => [spot.label, String(spot.blocks), ...cells(spot, times)]),
    ),
  );
}
