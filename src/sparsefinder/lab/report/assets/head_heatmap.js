// The recall of every head at a sparsity that readers choose.

import { remember, remembered } from "report/address.js";
import { data, headName } from "report/data.js";
import { choice, figure, make } from "report/elements.js";
import { percent } from "report/format.js";
import { headGrid } from "report/grid.js";
import { recallAt } from "report/head_frontiers.js";
import { saveButtons } from "report/saving.js";
import { chosenHead } from "report/signals.js";
import { drawnTable } from "report/table_drawing.js";

export function heatmap(set) {
  const grid = headGrid(
    "Recall in %: a row for each layer, a column for each head; stronger is higher",
    data.heads.names,
    (place) => chosenHead.set(place),
  );
  const mean = make("p", { class: "result" });
  const method = methodChoice(update);
  const sparsity = sparsitySlider(update);
  function update() {
    const values = data.heads.names.map((_, place) => recallAt(set, place, method.series(), sparsity.value()));
    grid.update((place) => values[place]);
    mean.textContent = meanWords(values, method.series(), sparsity.value());
  }
  update();
  grid.choose(chosenHead.get());
  chosenHead.listen((place) => grid.choose(place));
  const controls = make("div", { class: "controls" }, method.node, sparsity.node);
  const rows = () => [
    ["head", "method", "sparsity at least", "recall"],
    ...data.heads.names.map((_, place) => [
      headName(place),
      data.series[method.series()].label,
      sparsity.value(),
      recallAt(set, place, method.series(), sparsity.value()),
    ]),
  ];
  const svg = () => drawnTable(grid.table, atWhat(method.series(), sparsity.value()));
  const saves = saveButtons({ name: `${data.name} recall of heads`, svg, rows });
  const node = figure("Recall of every head at a chosen sparsity", make("div", {}, controls, grid.node, mean), {
    saves,
  });
  node.id = "heatmap";
  return node;
}

// It starts with the method that the answer leads with.
function methodChoice(update) {
  const { label, select } = choice(
    "Method",
    data.methods.map((line) => ({ value: line.series, text: data.series[line.series].label })),
    update,
    { key: "heat", start: data.heads.leading },
  );
  return { node: label, series: () => Number(select.value) };
}

// It starts a little below the gold sparsity, as in print.
function sparsitySlider(update) {
  const step = 1 / data.heads.sliderSteps;
  const shown = make("output", { for: "sparsity" });
  const slider = make("input", {
    type: "range",
    min: 0,
    max: 1 - step,
    step,
    value: remembered("sparsity") ?? data.heads.compared,
    id: "sparsity",
    oninput() {
      remember("sparsity", slider.value);
      say();
      update();
    },
  });
  const value = () => Number(slider.value);
  function say() {
    shown.textContent = percent(value(), 0);
    slider.setAttribute("aria-valuetext", `${percent(value(), 0)} of pairs left out`);
  }
  say();
  const node = make(
    "label",
    { class: "control" },
    make("span", {}, "Sparsity at least"),
    make("span", { class: "slide" }, slider, shown),
  );
  return { node, value };
}

const atWhat = (series, sparsity) =>
  `${data.series[series].label}: recall in % at a sparsity of at least ${percent(sparsity, 0)}, by layer and head`;

function meanWords(values, series, sparsity) {
  const real = values.filter((value) => value !== null);
  if (!real.length) return `No setting of ${data.series[series].label} is that sparse.`;
  const mean = real.reduce((sum, value) => sum + value, 0) / real.length;
  return `Mean recall of ${data.series[series].label} ${percent(mean)} over ${real.length} of ${values.length} heads at a sparsity of at least ${percent(sparsity, 0)}.`;
}
