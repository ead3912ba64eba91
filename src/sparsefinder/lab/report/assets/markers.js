// Markers and dashes as paths have them, under matplotlib's names, so that page and print agree.

import { draw } from "report/elements.js";

const polygon = (corners, turn) => (x, y, r) => {
  const points = Array.from({ length: corners }, (_, place) => {
    const angle = turn + (2 * Math.PI * place) / corners;
    return `${(x + r * Math.cos(angle)).toFixed(1)} ${(y + r * Math.sin(angle)).toFixed(1)}`;
  });
  return `M${points.join("L")}Z`;
};

const spokes = (angles) => (x, y, r) =>
  angles
    .map(
      (angle) =>
        `M${x.toFixed(1)} ${y.toFixed(1)}l${(r * Math.cos(angle)).toFixed(1)} ${(r * Math.sin(angle)).toFixed(1)}`,
    )
    .join("");

// A cross of thick arms; `turn` makes it an X.
const thick = (turn) => (x, y, r) => {
  const a = r / 3;
  const outline = [
    [-a, -r],
    [a, -r],
    [a, -a],
    [r, -a],
    [r, a],
    [a, a],
    [a, r],
    [-a, r],
    [-a, a],
    [-r, a],
    [-r, -a],
    [-a, -a],
  ];
  const points = outline.map(([dx, dy]) => {
    const [u, v] = turn ? [(dx - dy) * Math.SQRT1_2, (dx + dy) * Math.SQRT1_2] : [dx, dy];
    return `${(x + u).toFixed(1)} ${(y + v).toFixed(1)}`;
  });
  return `M${points.join("L")}Z`;
};

export const star = (x, y, r) => {
  const points = Array.from({ length: 10 }, (_, place) => {
    const angle = -Math.PI / 2 + (Math.PI * place) / 5;
    const length = place % 2 ? 0.42 * r : r;
    return `${(x + length * Math.cos(angle)).toFixed(1)} ${(y + length * Math.sin(angle)).toFixed(1)}`;
  });
  return `M${points.join("L")}Z`;
};

const up = Math.PI / 2;
export const SHAPES = {
  o: (x, y, r) => `M${(x - r).toFixed(1)} ${y.toFixed(1)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`,
  s: (x, y, r) => polygon(4, Math.PI / 4)(x, y, 1.25 * r),
  D: polygon(4, 0),
  d: (x, y, r) => `M${x - 0.6 * r} ${y}L${x} ${y - 1.2 * r}L${x + 0.6 * r} ${y}L${x} ${y + 1.2 * r}Z`,
  "^": polygon(3, -up),
  v: polygon(3, up),
  "<": polygon(3, Math.PI),
  ">": polygon(3, 0),
  p: polygon(5, -up),
  h: polygon(6, -up),
  H: polygon(6, 0),
  8: polygon(8, Math.PI / 8),
  ".": (x, y, r) => polygon(12, 0)(x, y, 0.6 * r),
  P: thick(false),
  X: thick(true),
  "*": star,
  1: spokes([up, (7 / 6) * Math.PI, (11 / 6) * Math.PI]),
  2: spokes([-up, Math.PI / 6, (5 / 6) * Math.PI]),
  3: spokes([Math.PI, Math.PI / 3, -Math.PI / 3]),
  4: spokes([0, (2 / 3) * Math.PI, -(2 / 3) * Math.PI]),
  x: spokes([up / 2, (3 / 2) * up, (5 / 2) * up, (7 / 2) * up]),
  "+": spokes([0, up, Math.PI, -up]),
  "|": spokes([up, -up]),
  _: spokes([0, Math.PI]),
};

const DASHES = { "-": "none", "--": "6 3", ":": "2 3", "-.": "8 3 2 3" };
export const dashOf = (look) => DASHES[look.dash];
export const shapeOf = (look) => SHAPES[look.marker] ?? SHAPES.o;

// Text on a colour stronger than this, from 0 to 1, is light.
export const DARK = 0.55;

// The colour of a method follows the scheme by itself.
export const colour = (look) => `light-dark(${look.light}, ${look.dark})`;

// The ground of a cell from nothing to full strength, on light and on dark pages.
const HEAT = [
  { from: [246, 247, 249], to: [0, 98, 168] },
  { from: [28, 32, 38], to: [91, 176, 240] },
];

// The style of a cell of so much strength, from 0 to 1. Its text is black or white, whichever is easier to read: one of
// them always has a contrast of 4.5 to 1 at least.
export function heat(strength) {
  const grounds = HEAT.map(({ from, to }) =>
    from.map((value, place) => Math.round(value + (to[place] - value) * strength)),
  );
  const inks = grounds.map((ground) => (luminance(ground) > 0.179 ? "#000" : "#fff"));
  return `background:light-dark(${grounds.map((ground) => `rgb(${ground.join(" ")})`).join(", ")});color:light-dark(${inks.join(", ")})`;
}

// As the Web Content Accessibility Guidelines have it.
const luminance = (ground) =>
  ground
    .map((value) => (value <= 10 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4))
    .reduce((sum, value, place) => sum + value * [0.2126, 0.7152, 0.0722][place], 0);

export function swatch(look) {
  return draw(
    "svg",
    {
      class: "swatch",
      viewBox: "0 0 28 14",
      width: 28,
      height: 14,
      "aria-hidden": "true",
      style: `color:${colour(look)}`,
    },
    draw("path", { d: "M1 7H27", class: "line", "stroke-dasharray": dashOf(look) }),
    draw("path", { d: shapeOf(look)(14, 7, 4.5), class: look.rank ? "mark hollow" : "mark" }),
  );
}
