// A chart as SVG, and where each of its points is.

import { axes } from "report/axes.js";
import { draw } from "report/elements.js";
import { colour, dashOf, shapeOf, star } from "report/markers.js";
import { hiddenSeries } from "report/signals.js";

const SPACING = 15;

// node: the drawing; spots: all points; lines: the points of each line; groups: what is drawn of each; ring: around a point.
export function drawn(options, width) {
  const frame = frameOf(options, width);
  const node = draw("svg", {
    width,
    height: frame.height,
    viewBox: `0 0 ${width} ${frame.height}`,
    tabindex: 0,
    role: "img",
    class: "plot",
    "aria-label": options.label,
    "aria-roledescription": "chart; arrow keys go from point to point",
  });
  const shown = options.lines
    .filter((line) => !(options.legend && hiddenSeries.get().has(line.number)))
    .map((line) => ({ line, ...spotsOf(line, options, frame) }));
  const groups = shown.map((one) => ({ node: lineGroup(one), number: one.line.number }));
  const ring = draw("path", { class: "ring", d: "" });
  node.append(
    axes(options, frame),
    ...groups.map((group) => group.node),
    ...(options.star ? [starMark(options.star, frame)] : []),
    ring,
  );
  return {
    node,
    groups,
    ring,
    spots: shown.flatMap(({ faint, strong }) => [...faint, ...strong]),
    lines: shown.map(({ strong }) => strong).filter((strong) => strong.length),
  };
}

// The chart's size, the rectangle within its axes, and from values to places: across and upwards.
function frameOf(options, width) {
  const height = options.height ?? Math.min(Math.max(0.7 * width, 250), 430);
  const margin = { left: 66, right: 16, top: options.rules?.some((rule) => rule.axis === "x") ? 26 : 12, bottom: 46 };
  const inner = { left: margin.left, right: width - margin.right, top: margin.top, bottom: height - margin.bottom };
  const scale =
    ([low, high], from, to) =>
    (value) =>
      from + ((value - low) / (high - low || 1)) * (to - from);
  return {
    width,
    height,
    inner,
    across: scale(options.x.range, inner.left, inner.right),
    upwards: scale(options.y.range, inner.bottom, inner.top),
  };
}

// Where the points of a line are, those within the chart.
function spotsOf(line, { x, y }, { across, upwards }) {
  const within = (value, [low, high]) => value >= low && value <= high;
  const spots = (places, strong) =>
    Array.from(places, (place) => ({
      line,
      place,
      strong,
      px: across(line.xs[place]),
      py: upwards(line.ys[place]),
    })).filter(({ place }) => within(line.xs[place], x.range) && within(line.ys[place], y.range));
  return { faint: spots(line.all ?? [], false), strong: spots(line.best, true) };
}

function lineGroup({ line, faint, strong }) {
  const { look, number } = line;
  const shape = shapeOf(look);
  const marks = (spots, size) => spots.map(({ px, py }) => shape(px, py, size)).join("");
  const group = draw("g", { style: `color:${colour(look)}`, "data-line": number });
  if (faint.length) group.append(draw("path", { class: "faint", d: marks(faint, 2.4) }));
  if (strong.length)
    group.append(
      draw("path", {
        class: "line",
        d: `M${strong.map(({ px, py }) => `${px.toFixed(1)} ${py.toFixed(1)}`).join("L")}`,
        "stroke-dasharray": dashOf(look),
      }),
      draw("path", { class: look.rank ? "mark hollow" : "mark", d: marks(spaced(strong), 4.6) }),
    );
  return group;
}

const starMark = ({ x, y, label }, { across, upwards }) =>
  draw("path", { class: "star", d: star(across(x), upwards(y), 10) }, draw("title", {}, label));

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
