// A chart as SVG, and where each of its points is.

import { axes } from "report/axes.js";
import { draw } from "report/elements.js";
import { labelEnds, labelRoom } from "report/line_labels.js";
import { colour, dashOf, shapeOf, star } from "report/markers.js";
import { hiddenSeries } from "report/signals.js";

const SPACING = 15;
// What lies further outside than this is drawn no further: a perplexity may be astronomic.
const OUTSIDE = 4000;
let clips = 0;

// node: the drawing; spots: all points; lines: the points of each line; groups: what is drawn of each; ring: around a
// point; brush: what is marked to zoom into; inside: the rectangle within the axes; valueAt(x, y): from places to values.
export function drawn(options, width) {
  const shown = options.lines.filter((line) => !(options.legend && hiddenSeries.get().has(line.number)));
  const frame = frameOf(options, shown, width);
  const node = draw("svg", {
    width,
    height: frame.height,
    viewBox: `0 0 ${width} ${frame.height}`,
    tabindex: 0,
    role: "img",
    class: "plot",
    "aria-label": options.label,
    "aria-roledescription": "chart; arrow keys go from point to point, + and − zoom, Enter shows one method alone",
  });
  const clip = `within-${clips++}`;
  const { left, right, top, bottom } = frame.inner;
  const each = shown.map((line) => ({ line, ...spotsOf(line, options, frame) }));
  const groups = each.map((one) => ({ node: lineGroup(one, clip, frame), line: one.line }));
  if (options.labels) nameEnds(each, groups, frame);
  const ring = draw("path", { class: "ring", d: "" });
  const brush = draw("path", { class: "brush", d: "" });
  node.append(
    draw("clipPath", { id: clip }, draw("path", { d: `M${left} ${top}H${right}V${bottom}H${left}Z` })),
    axes(options, frame),
    ...groups.map((group) => group.node),
    ...(options.star ? starMark(options.star, frame) : []),
    brush,
    ring,
  );
  return {
    node,
    groups,
    ring,
    brush,
    inside: frame.inner,
    valueAt: frame.valueAt,
    spots: each.flatMap(({ faint, strong }) => [...faint, ...strong]),
    lines: each.map(({ strong }) => strong).filter((strong) => strong.length),
  };
}

// The chart's size, the rectangle within its axes, and from values to places and back.
function frameOf(options, shown, width) {
  const height = options.height ?? Math.min(Math.max(0.66 * width, 250), 430);
  const tall = { top: options.rules?.some((rule) => rule.axis === "x") ? 26 : 12, bottom: height - 46 };
  const room = options.labels ? labelRoom(shown, { width, inner: tall }) : 16;
  const inner = { left: 62, right: width - room, ...tall };
  const scale =
    ([low, high], from, to) =>
    (value) =>
      from + ((value - low) / (high - low || 1)) * (to - from);
  const { x, y } = options;
  const back = [
    ([low, high]) =>
      (at) =>
        low + ((at - inner.left) / (inner.right - inner.left)) * (high - low),
    ([low, high]) =>
      (at) =>
        low + ((inner.bottom - at) / (inner.bottom - inner.top)) * (high - low),
  ];
  return {
    width,
    height,
    inner,
    across: scale(x.range, inner.left, inner.right),
    upwards: scale(y.range, inner.bottom, inner.top),
    valueAt: (px, py) => [back[0](x.range)(px), back[1](y.range)(py)],
  };
}

// Where the points of a line are: those within the chart, and all that its line goes through.
function spotsOf(line, { x, y }, { across, upwards }) {
  const within = (value, [low, high]) => value >= low && value <= high;
  const spots = (places, strong) =>
    Array.from(places, (place) => ({
      line,
      place,
      strong,
      px: kept(across(line.xs[place])),
      py: kept(upwards(line.ys[place])),
    }));
  const seen = ({ place }) => within(line.xs[place], x.range) && within(line.ys[place], y.range);
  const path = spots(line.best, true);
  return { faint: spots(line.all ?? [], false).filter(seen), strong: path.filter(seen), path };
}

const kept = (at) => Math.min(Math.max(at, -OUTSIDE), OUTSIDE);
const point = (x, y) => `${x.toFixed(1)} ${y.toFixed(1)}`;

function lineGroup({ line, faint, strong, path }, clip, { upwards }) {
  const { look } = line;
  const shape = shapeOf(look);
  const marks = (spots, size) => spots.map(({ px, py }) => shape(px, py, size)).join("");
  const group = draw("g", { style: `color:${colour(look)}`, "data-line": line.number });
  const clipped = { "clip-path": `url(#${clip})` };
  if (line.low && path.length > 1) {
    const side = (values) => path.map(({ px }, place) => point(px, kept(upwards(values[place]))));
    group.append(
      draw("path", {
        class: "band",
        d: `M${[...side(line.low), ...side(line.high).reverse()].join("L")}Z`,
        ...clipped,
      }),
    );
  }
  if (faint.length) group.append(draw("path", { class: "faint", d: marks(faint, 2.4) }));
  if (path.length)
    group.append(
      draw("path", {
        class: "line",
        d: `M${path.map(({ px, py }) => point(px, py)).join("L")}`,
        "stroke-dasharray": dashOf(look),
        ...clipped,
      }),
      draw("path", { class: look.rank ? "mark hollow" : "mark", d: marks(spaced(strong), 4.6) }),
    );
  return group;
}

// The name of each line where it ends within the chart.
function nameEnds(each, groups, frame) {
  const ends = each.flatMap(({ line, strong }, place) =>
    strong.length ? [{ ...strong.at(-1), label: line.label, group: groups[place].node }] : [],
  );
  labelEnds(ends, frame);
}

function starMark({ x, y, label }, { across, upwards, inner }) {
  const [px, py] = [across(x), upwards(y)];
  if (px < inner.left || px > inner.right || py < inner.top || py > inner.bottom) return [];
  return [draw("path", { class: "star", d: star(px, py, 10) }, draw("title", {}, label))];
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
