// Single heads: recall at a chosen sparsity for all of them, the frontiers of the chosen one, and small multiples.

import { SPARSITY_TITLE } from "report/axes.js";
import { chart } from "report/chart.js";
import { clouds, column, data, headName, settingWords } from "report/data.js";
import { choice, draw, figure, make, note, roving, section } from "report/elements.js";
import { percent } from "report/format.js";
import { headGrid, rowName } from "report/grid.js";
import { colour, DASHES } from "report/markers.js";
import { chosenHead, hiddenSeries } from "report/signals.js";

const STEPS = 65535;

function decodedFrontiers(encoded) {
  const found = { window: encoded.window };
  for (const name of ["head", "series", "setting", "x", "y"]) found[name] = column(encoded[name]);
  found.xs = Float32Array.from(found.x, (value) => value / STEPS);
  found.ys = Float32Array.from(found.y, (value) => value / STEPS);
  // Where the points of each head and series begin: they are sorted.
  found.starts = new Map();
  const key = (place) => found.head[place] * data.series.length + found.series[place];
  for (let place = 0; place < found.head.length; place++)
    if (!place || key(place) !== key(place - 1)) found.starts.set(key(place), place);
  found.curve = (head, series) => {
    const places = [],
      wanted = head * data.series.length + series;
    for (let place = found.starts.get(wanted) ?? Infinity; place < found.head.length && key(place) === wanted; place++)
      places.push(place);
    return places;
  };
  return found;
}

export function showHeads() {
  const host = section("heads");
  if (!data.heads) return host.append(note("This run has no points yet: its sweep has not been run."));
  const sets = data.heads.frontiers.map(decodedFrontiers);
  // All windows hold the fixed one as well: what is drawn of one set is drawn of the other.
  sets.forEach((set) => {
    set.range = thumbnailRange(sets[0]);
  });
  host.append(
    make(
      "p",
      {},
      "Heads differ. Here every head has the setting that suits it best: the numbers are the highest recall among a method’s settings that are at least as sparse as asked for.",
    ),
  );
  host.append(make("div", { class: "pair" }, heatmap(sets[0]), chosenFigure(sets)));
  host.append(smallMultiples(sets));
}

function recallAt(set, head, series, sparsity) {
  let best = null;
  for (const place of set.curve(head, series))
    if (set.xs[place] >= sparsity - 1e-6 && (best === null || set.ys[place] > best)) best = set.ys[place];
  return best;
}

function heatmap(set) {
  const { names } = data.heads;
  const grid = headGrid(
    "Recall in %: a row for each layer, a column for each head; stronger is higher",
    names,
    (place) => chosenHead.set(place),
  );
  const competing = data.methods.find((line) => data.series[line.series].competes) ?? data.methods[0];
  let series = competing.series;
  const method = choice(
    "Method",
    data.methods.map((line) => ({ value: line.series, text: data.series[line.series].label })),
    (value) => {
      series = Number(value);
      update();
    },
  );
  const start = Math.min(0.95, Math.max(0.5, Math.round(data.gold * 20 - 1) / 20));
  const slider = make("input", {
    type: "range",
    min: 0,
    max: 0.99,
    step: 0.01,
    value: start,
    id: "sparsity",
    oninput: () => update(),
  });
  const shown = make("output", { for: "sparsity" });
  const mean = make("p", { class: "result" });
  function update() {
    const sparsity = Number(slider.value);
    shown.textContent = percent(sparsity, 0);
    slider.setAttribute("aria-valuetext", `${percent(sparsity, 0)} of pairs left out`);
    const values = names.map((_, place) => recallAt(set, place, series, sparsity));
    grid.update((place) => values[place]);
    const real = values.filter((value) => value !== null);
    mean.textContent = real.length
      ? `Mean recall ${percent(real.reduce((sum, value) => sum + value, 0) / real.length)} over ${real.length} of ${names.length} heads at a sparsity of at least ${percent(sparsity, 0)}.`
      : `No setting of ${data.series[series].label} is that sparse.`;
  }
  method.select.value = series;
  update();
  grid.choose(chosenHead.get());
  chosenHead.listen((place) => grid.choose(place));
  const controls = make(
    "div",
    { class: "controls" },
    method.label,
    make(
      "label",
      { class: "control" },
      make("span", {}, "Sparsity at least"),
      make("span", { class: "slide" }, slider, shown),
    ),
  );
  const node = figure("Recall of every head at a chosen sparsity", make("div", {}, controls, grid.node, mean));
  node.id = "heatmap";
  return node;
}

function headLines(set, head) {
  return data.series
    .map((look, number) => ({ number, look, label: look.label, xs: set.xs, ys: set.ys, best: set.curve(head, number) }))
    .filter((line) => line.best.length);
}

function chosenFigure(sets) {
  const set = sets[0];
  const title = make("h3", {});
  const options = (head) => ({
    label: `Sparsity and recall of ${headName(head)}`,
    lines: headLines(set, head),
    rules: [{ axis: "x", value: data.heads.gold[head], label: `gold ${percent(data.heads.gold[head])}` }],
    star: { x: data.heads.gold[head], y: 1, label: "the head itself" },
  });
  const view = chart({
    ...options(chosenHead.get()),
    legend: true,
    x: { title: SPARSITY_TITLE, range: [set.range[0], 1.01], format: (value) => (100 * value).toFixed(0) },
    y: {
      title: "recall (% of gold pairs found)",
      range: [set.range[1], 1.03],
      format: (value) => (100 * value).toFixed(0),
    },
    describe: (line, place) => [
      settingWords(clouds.recall, set.setting[place]),
      `sparsity ${percent(set.xs[place])} · recall ${percent(set.ys[place])}`,
    ],
  });
  view.box.id = "head-chart";
  const name = (head) => {
    title.textContent = `Frontiers of ${headName(head)}`;
    view.box.dataset.head = head;
  };
  name(chosenHead.get());
  chosenHead.listen((head) => {
    name(head);
    view.update(options(head));
  });
  return make("figure", {}, title, view.box);
}

function smallMultiples(sets) {
  let set = sets.at(-1);
  const { names } = data.heads;
  const rows = [...new Set(names.map(rowName))];
  const cards = names.map((one, place) =>
    make(
      "button",
      {
        type: "button",
        class: "card",
        "aria-label": `Frontiers of ${headName(place)}`,
        onclick: () => chosenHead.set(place),
      },
      make("span", {}, `head ${one.head}`),
    ),
  );
  const body = make(
    "div",
    { class: "multiples" },
    rows.map((row) =>
      make(
        "div",
        { class: "row" },
        make("span", { class: "layer" }, `layer ${row}`),
        make(
          "div",
          { class: "cards" },
          cards.filter((_, place) => rowName(names[place]) === row),
        ),
      ),
    ),
  );
  roving(body, cards, () => Math.max(1, Math.floor(body.clientWidth / (cards[0].offsetWidth || 1))));
  const render = () => cards.forEach((card, place) => card.replaceChildren(card.firstChild, thumbnail(set, place)));
  const mark = (place) => cards.forEach((card, other) => card.setAttribute("aria-pressed", String(other === place)));
  let seen = false;
  // Drawn when they come into sight: a large model has hundreds.
  new IntersectionObserver(
    (entries, observer) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      seen = true;
      render();
    },
    { rootMargin: "300px" },
  ).observe(body);
  hiddenSeries.listen(() => seen && render());
  chosenHead.listen(mark);
  mark(chosenHead.get());
  const windows = sets.map((one, place) => ({
    value: place,
    text: one.window === null ? "any" : `${one.window}, as the paper fixes one`,
  }));
  const control = choice("Window", windows, (value) => {
    set = sets[value];
    if (seen) render();
  });
  control.select.value = sets.length - 1;
  const [low, floor] = thumbnailRange(set);
  const caption = `Sparsity from ${percent(low, 0)} to 100 % to the right, recall from ${percent(floor, 0)} to 100 % upwards; the dashed line is the gold sparsity of the head. Press one to see it large.`;
  return figure("All heads", make("div", {}, make("div", { class: "controls" }, control.label), body), caption);
}

// From where sparsity and recall are drawn, to 1: the same in all, or they could not be compared.
function thumbnailRange(set) {
  set.range ??= [set.xs, set.ys].map((values) =>
    Math.min(0.9, Math.floor(10 * values.reduce((least, value) => Math.min(least, value), 1)) / 10),
  );
  return set.range;
}

function thumbnail(set, head) {
  const width = 96,
    height = 72,
    [low, floor] = thumbnailRange(set);
  const across = (x) => 2 + ((x - low) / (1 - low)) * (width - 4),
    upwards = (y) => height - 2 - ((y - floor) / (1 - floor)) * (height - 4);
  const gold = across(data.heads.gold[head]);
  const node = draw(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
    draw("path", { class: "frame", d: `M.5 .5H${width - 0.5}V${height - 0.5}H.5Z` }),
    draw("path", { class: "rule", "stroke-dasharray": "3 2", d: `M${gold} 1V${height - 1}` }),
  );
  for (const line of headLines(set, head)) {
    if (hiddenSeries.get().has(line.number)) continue;
    const d = line.best.map((place) => `${across(line.xs[place]).toFixed(1)} ${upwards(line.ys[place]).toFixed(1)}`);
    node.append(
      draw("path", {
        class: "line thin",
        style: `color:${colour(line.look)}`,
        d: `M${d.join("L")}`,
        "stroke-dasharray": DASHES[line.look.rank] ?? "none",
      }),
    );
  }
  return node;
}
