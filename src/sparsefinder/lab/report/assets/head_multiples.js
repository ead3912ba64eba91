// A small chart of the frontiers of each head, all on one scale; pressing one chooses the head.

import { data, headName } from "report/data.js";
import { choice, draw, figure, make, onceSeen, roving } from "report/elements.js";
import { percent } from "report/format.js";
import { rowName } from "report/grid.js";
import { headLines } from "report/head_frontiers.js";
import { colour, dashOf } from "report/markers.js";
import { saveButtons } from "report/saving.js";
import { chosenHead, hiddenSeries, isPointed, pointedMethod } from "report/signals.js";

// In the files, so many heads beside each other and so much room for each.
const [ACROSS, WIDE, HIGH] = [6, 104, 92];
const [WIDTH, HEIGHT] = [96, 72];
const VIEW = `0 0 ${WIDTH} ${HEIGHT}`;

export function smallMultiples(sets, lowest) {
  const windows = sets.map((one, place) => ({
    value: place,
    text: one.window === null ? "any" : `${one.window}, as the paper fixes one`,
  }));
  const { label: control, select } = choice("Window", windows, () => drawAgain(), {
    key: "fixed",
    start: sets.length - 1,
  });
  const cards = data.heads.names.map(cardOf);
  const body = rowsOf(cards);
  roving(body, cards, () => Math.max(1, Math.floor(body.clientWidth / (cards[0].offsetWidth || 1))));
  const render = () =>
    cards.forEach((card, place) => card.replaceChildren(card.firstChild, thumbnail(sets[select.value], place, lowest)));
  const drawAgain = onceSeen(body, render);
  hiddenSeries.listen(drawAgain);
  const mark = (place) => cards.forEach((card, other) => card.setAttribute("aria-pressed", String(other === place)));
  chosenHead.listen(mark);
  mark(chosenHead.get());
  pointedMethod.listen((pointed) => fade(body, pointed));
  const [low, floor] = lowest;
  const caption = `Sparsity from ${percent(low, 0)} to 100 % to the right, recall from ${percent(floor, 0)} to 100 % upwards; the dashed line is the gold sparsity of the head. Press one to see it large.`;
  return figure("All heads", make("div", {}, make("div", { class: "controls" }, control), body), {
    caption,
    saves: saveButtons({
      name: `${data.name} heads`,
      svg() {
        render();
        return together(cards);
      },
      rows: () => tableOf(sets[select.value]),
    }),
  });
}

const cardOf = (one, place) =>
  make(
    "button",
    {
      type: "button",
      class: "card",
      "aria-label": `Frontiers of ${headName(place)}`,
      onclick: () => chosenHead.set(place),
    },
    make("span", {}, `head ${one.head}`),
    // Its room from the beginning: what is below stays where it is when the chart comes.
    draw("svg", { viewBox: VIEW }),
  );

function rowsOf(cards) {
  const names = data.heads.names.map(rowName);
  const row = (name) =>
    make(
      "div",
      { class: "row" },
      make("span", { class: "layer" }, `layer ${name}`),
      make(
        "div",
        { class: "cards" },
        cards.filter((_, place) => names[place] === name),
      ),
    );
  return make("div", { class: "multiples" }, [...new Set(names)].map(row));
}

// The small charts in one drawing, each with its name.
function together(cards) {
  const height = HIGH * Math.ceil(cards.length / ACROSS);
  const sheet = draw("svg", { class: "plot", viewBox: `0 0 ${ACROSS * WIDE} ${height}` });
  cards.forEach((card, place) => {
    const [x, y] = [(place % ACROSS) * WIDE + 4, Math.floor(place / ACROSS) * HIGH];
    const chart = card.querySelector("svg").cloneNode(true);
    for (const [name, value] of Object.entries({ x, y: y + 16, width: WIDTH, height: HEIGHT }))
      chart.setAttribute(name, value);
    sheet.append(draw("text", { x, y: y + 12 }, headName(place)), chart);
  });
  return sheet;
}

const tableOf = (set) => [
  ["head", "method", "sparsity", "recall"],
  ...data.heads.names.flatMap((_, head) =>
    headLines(set, head).flatMap(({ label, best, xs, ys }) =>
      best.map((place) => [headName(head), label, xs[place], ys[place]]),
    ),
  ),
];

function fade(body, pointed) {
  for (const path of body.querySelectorAll("path[data-line]"))
    path.classList.toggle("faded", pointed !== null && !isPointed(data.series[path.dataset.line], pointed));
}

function thumbnail(set, head, [low, floor]) {
  const across = (x) => 2 + ((x - low) / (1 - low)) * (WIDTH - 4),
    upwards = (y) => HEIGHT - 2 - ((y - floor) / (1 - floor)) * (HEIGHT - 4);
  const gold = across(data.heads.gold[head]);
  const node = draw(
    "svg",
    { viewBox: VIEW, "aria-hidden": "true" },
    draw("path", { class: "frame", d: `M.5 .5H${WIDTH - 0.5}V${HEIGHT - 0.5}H.5Z` }),
    draw("path", { class: "rule", "stroke-dasharray": "3 2", d: `M${gold} 1V${HEIGHT - 1}` }),
  );
  for (const line of headLines(set, head)) {
    if (hiddenSeries.get().has(line.number)) continue;
    const d = line.best.map((place) => `${across(line.xs[place]).toFixed(1)} ${upwards(line.ys[place]).toFixed(1)}`);
    node.append(
      draw("path", {
        class: "line thin",
        "data-line": line.number,
        style: `color:${colour(line.look)}`,
        d: `M${d.join("L")}`,
        "stroke-dasharray": dashOf(line.look),
      }),
    );
  }
  return node;
}
