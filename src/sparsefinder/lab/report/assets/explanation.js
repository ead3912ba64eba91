// Gold, predicted and missed pairs in a small drawing and a few words, and what the dashed line is.

import { draw, make } from "report/elements.js";
import { percent } from "report/format.js";
import { star } from "report/markers.js";

// Six queries and six keys: pairs that a finder predicts, and those that have weight, of which it misses one.
const PREDICTED = ["110000", "111000", "011110", "000110", "100011", "000011"];
const GOLD = ["100000", "010000", "001010", "100100", "000010", "000011"];
const [SIDE, LEFT, TOP] = [19, 22, 22];

export function explanation(gold) {
  return make(
    "aside",
    { class: "explanation", "aria-label": "How to read the chart" },
    make("h3", {}, "How to read it"),
    make("div", { class: "explained" }, matrix(), key()),
    make(
      "p",
      {},
      "With entmax a query gives weight to few keys and exactly none to the others. Those few pairs are ",
      make("em", {}, "gold"),
      ". A finder ",
      make("em", {}, "predicts"),
      " pairs before any score is known, and only they are computed. ",
      make("b", {}, "Recall"),
      " is the share of gold pairs among them: a ",
      make("em", {}, "missed"),
      " one changes the output, one too many only takes time. ",
      make("b", {}, "Sparsity"),
      " is the share of pairs that are skipped. Further right and higher up is better.",
    ),
    make(
      "p",
      {},
      gold === null
        ? "Each small mark is one setting; lines join those that no other setting of the method beats."
        : `The dashed line is the sparsity of the gold pairs themselves, ${percent(gold)}: further right something has to be missed. The star is the full model. Each small mark is one setting; lines join those that no other setting of the method beats, in a band that holds them in 95 of 100 bootstrap draws.`,
    ),
    make(
      "p",
      { class: "hint" },
      "Point at a method to see it in every chart; double-click to see it alone; drag to zoom.",
    ),
  );
}

function matrix() {
  const size = GOLD.length;
  const cells = GOLD.flatMap((row, i) => [...row].map((gold, j) => cell(i, j, gold === "1", PREDICTED[i][j] === "1")));
  const label = (x, y, text, turn) =>
    draw("text", { x, y, "text-anchor": "middle", transform: turn ? `rotate(-90 ${x} ${y})` : null }, text);
  const middle = (size * SIDE) / 2;
  const whole = `0 0 ${LEFT + size * SIDE + 2} ${TOP + size * SIDE + 2}`;
  return draw(
    "svg",
    {
      class: "matrix-drawing",
      viewBox: whole,
      role: "img",
      "aria-label": "Pairs of queries and keys: predicted, gold, missed",
    },
    label(LEFT + middle, 14, "keys"),
    label(13, TOP + middle, "queries", true),
    cells,
  );
}

function cell(i, j, gold, predicted) {
  const [x, y] = [LEFT + j * SIDE, TOP + i * SIDE];
  const shape = star(x + SIDE / 2, y + SIDE / 2, 7);
  return [
    draw("rect", { x, y, width: SIDE, height: SIDE, class: predicted ? "predicted-cell" : "skipped-cell" }),
    gold ? draw("path", { d: shape, class: predicted ? "found-star" : "missed-star" }) : null,
  ];
}

function key() {
  const item = (look, mark, text) =>
    make("li", {}, make("span", { class: `patch ${look}`, "aria-hidden": "true" }, mark), text);
  return make(
    "ul",
    { class: "map-key" },
    item("hit", "★", "gold and predicted"),
    item("miss", "☆", "gold and missed"),
    item("predicted", "", "predicted, not gold"),
    item("", "", "skipped"),
  );
}
