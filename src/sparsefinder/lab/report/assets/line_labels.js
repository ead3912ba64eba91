// Names of methods at the ends of their lines, one below the other where they would meet.

import { draw } from "report/elements.js";

const APART = 13;
const LETTER = 6.3;
const LONGEST = { narrow: 13, wide: 20 };

// How much room names take to the right of a chart.
export function labelRoom(lines, width) {
  const longest = Math.max(0, ...lines.map(({ label }) => shortened(label, width).length));
  return lines.length ? LETTER * longest + 22 : 16;
}

// ends: [{label, px, py, group}]: where each line ends, and what it is drawn in.
export function labelEnds(ends, { inner, width }) {
  const placed = spread(
    ends.map(({ py }) => py),
    inner,
  );
  ends.forEach(({ label, px, py, group }, place) => {
    const at = placed[place];
    group.append(
      draw("path", { class: "leader", d: `M${px + 5} ${py}L${inner.right + 6} ${at}` }),
      draw("text", { class: "end", x: inner.right + 9, y: at + 4 }, shortened(label, width)),
    );
  });
}

// The same heights, moved apart as little as it takes, from the top down and then back up from the bottom.
function spread(heights, { top, bottom }) {
  const order = [...heights.keys()].sort((one, other) => heights[one] - heights[other]);
  const placed = [...heights];
  let least = top;
  for (const place of order) least = (placed[place] = Math.max(heights[place], least)) + APART;
  // The last stays above the numbers of the axis.
  let most = bottom - 2;
  for (const place of order.toReversed()) most = (placed[place] = Math.min(placed[place], most)) - APART;
  return placed;
}

function shortened(label, width) {
  const longest = width < 480 ? LONGEST.narrow : LONGEST.wide;
  return label.length > longest ? `${label.slice(0, longest - 1)}…` : label;
}
