// A small chart of the frontiers of each head, all on one scale; pressing one chooses the head.

import { data, headName } from "report/data.js";
import { choice, draw, figure, make, roving } from "report/elements.js";
import { percent } from "report/format.js";
import { rowName } from "report/grid.js";
import { headLines } from "report/head_frontiers.js";
import { colour, dashOf } from "report/markers.js";
import { chosenHead, hiddenSeries } from "report/signals.js";

export function smallMultiples(sets, lowest) {
  let set = sets.at(-1);
  const cards = data.heads.names.map(cardOf);
  const body = rowsOf(cards);
  roving(body, cards, () => Math.max(1, Math.floor(body.clientWidth / (cards[0].offsetWidth || 1))));
  const render = () =>
    cards.forEach((card, place) => card.replaceChildren(card.firstChild, thumbnail(set, place, lowest)));
  const drawAgain = onceSeen(body, render);
  hiddenSeries.listen(drawAgain);
  const mark = (place) => cards.forEach((card, other) => card.setAttribute("aria-pressed", String(other === place)));
  chosenHead.listen(mark);
  mark(chosenHead.get());
  const control = windowChoice(sets, (chosen) => {
    set = chosen;
    drawAgain();
  });
  const [low, floor] = lowest;
  const caption = `Sparsity from ${percent(low, 0)} to 100 % to the right, recall from ${percent(floor, 0)} to 100 % upwards; the dashed line is the gold sparsity of the head. Press one to see it large.`;
  return figure("All heads", make("div", {}, make("div", { class: "controls" }, control), body), caption);
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

function windowChoice(sets, pick) {
  const windows = sets.map((one, place) => ({
    value: place,
    text: one.window === null ? "any" : `${one.window}, as the paper fixes one`,
  }));
  const { label, select } = choice("Window", windows, (value) => pick(sets[value]));
  select.value = sets.length - 1;
  return label;
}

// Calls `render` when the element comes into sight: a large model has hundreds of heads. What is returned calls it again
// if that has happened.
function onceSeen(body, render) {
  let seen = false;
  new IntersectionObserver(
    (entries, observer) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      seen = true;
      render();
    },
    { rootMargin: "300px" },
  ).observe(body);
  return () => seen && render();
}

function thumbnail(set, head, [low, floor]) {
  const [width, height] = [96, 72];
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
        "stroke-dasharray": dashOf(line.look),
      }),
    );
  }
  return node;
}
