// A table of coloured cells as a drawing, as large and as coloured as it is on the page: what is saved of it.

import { draw } from "report/elements.js";

const [LETTER, LINE] = [6.6, 22];

export function drawnTable(table, caption) {
  const whole = table.getBoundingClientRect();
  const cells = [...table.querySelectorAll("th, td")].map((one) =>
    drawnCell(one.querySelector("button") ?? one, whole),
  );
  const width = Math.ceil(Math.max(whole.width, LETTER * caption.length));
  const title = draw("text", { x: 2, y: 14 }, caption);
  return draw("svg", { class: "plot", viewBox: `0 0 ${width} ${Math.ceil(whole.height) + LINE}` }, title, cells);
}

function drawnCell(cell, whole) {
  const box = cell.getBoundingClientRect();
  const { backgroundColor, color, paddingRight } = getComputedStyle(cell);
  const [x, y] = [box.left - whole.left, box.top - whole.top + LINE];
  const { width, height } = box;
  const middle = { x: x + (width - parseFloat(paddingRight)) / 2, y: y + height / 2 + 4, "text-anchor": "middle" };
  return [
    draw("rect", { x, y, width, height, rx: 3, style: `fill:${backgroundColor}` }),
    draw("text", { ...middle, style: `fill:${color}` }, cell.textContent),
  ];
}
