// A chart as SVG, and where each of its points is.

import { axes } from "report/axes.js";
import { draw } from "report/elements.js";
import { colour, DASHES, shapeOf, star } from "report/markers.js";
import { hiddenSeries } from "report/signals.js";

const SPACING = 15;

export function drawn(options, width) {
  const height = options.height ?? Math.min(Math.max(0.7 * width, 250), 430);
  const margin = { left: 66, right: 16, top: options.rules?.some((rule) => rule.axis === "x") ? 26 : 12, bottom: 46 };
  const inner = { left: margin.left, right: width - margin.right, top: margin.top, bottom: height - margin.bottom };
  const scale =
    ([low, high], from, to) =>
    (value) =>
      from + ((value - low) / (high - low || 1)) * (to - from);
  const sx = scale(options.x.range, inner.left, inner.right),
    sy = scale(options.y.range, inner.bottom, inner.top);
  const node = draw("svg", {
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    tabindex: 0,
    role: "img",
    class: "plot",
    "aria-label": options.label,
    "aria-roledescription": "chart; arrow keys go from point to point",
  });
  node.append(axes(options, inner, sx, sy, width));
  const within = (x, y) =>
    y >= options.y.range[0] && y <= options.y.range[1] && x >= options.x.range[0] && x <= options.x.range[1];
  const spots = [],
    groups = [],
    lines = [];
  for (const line of options.lines) {
    if (options.legend && hiddenSeries.get().has(line.number)) continue;
    const shape = shapeOf(line.look),
      group = draw("g", { style: `color:${colour(line.look)}`, "data-line": line.number });
    const spot = (place, strong) => ({ line, place, strong, px: sx(line.xs[place]), py: sy(line.ys[place]) });
    const faint = Array.from(line.all ?? [], (place) => spot(place, false)).filter(({ place }) =>
      within(line.xs[place], line.ys[place]),
    );
    const strong = Array.from(line.best, (place) => spot(place, true)).filter(({ place }) =>
      within(line.xs[place], line.ys[place]),
    );
    if (faint.length)
      group.append(draw("path", { class: "faint", d: faint.map(({ px, py }) => shape(px, py, 2.4)).join("") }));
    if (strong.length) {
      group.append(
        draw("path", {
          class: "line",
          d: `M${strong.map(({ px, py }) => `${px.toFixed(1)} ${py.toFixed(1)}`).join("L")}`,
          "stroke-dasharray": DASHES[line.look.rank] ?? "none",
        }),
      );
      group.append(
        draw("path", {
          class: line.look.rank ? "mark hollow" : "mark",
          d: spaced(strong)
            .map(({ px, py }) => shape(px, py, 4.6))
            .join(""),
        }),
      );
      lines.push(strong);
    }
    groups.push({ node: group, number: line.number });
    for (const one of [...faint, ...strong]) spots.push(one);
    node.append(group);
  }
  if (options.star)
    node.append(
      draw(
        "path",
        { class: "star", d: star(sx(options.star.x), sy(options.star.y), 10) },
        draw("title", {}, options.star.label),
      ),
    );
  const ring = draw("path", { class: "ring", d: "" });
  node.append(ring);
  return { node, spots, groups, lines, ring };
}

// Markers that do not run into each other: the first, the last, and some of those between.
function spaced(spots) {
  const kept = [];
  for (const [place, spot] of spots.entries()) {
    const before = kept.at(-1);
    if (!before || Math.hypot(spot.px - before.px, spot.py - before.py) >= SPACING) kept.push(spot);
    else if (place === spots.length - 1 && kept.length > 1) kept.splice(-1, 1, spot);
  }
  return kept;
}
