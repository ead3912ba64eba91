// The axes of a chart: ranges, ticks, titles, and lines across it.

import { draw } from "report/elements.js";

export const SPARSITY_TITLE = "sparsity (% of pairs skipped)";

// frame: {width, inner, across, upwards}, as a chart is laid out.
export function axes(options, frame) {
  return draw(
    "g",
    { class: "axes" },
    columns(options.x, frame),
    rows(options.y, frame),
    titles(options, frame),
    (options.rules ?? []).map((rule) => ruleAcross(rule, options.rules, frame)),
  );
}

function columns(axis, { inner, across }) {
  const values = axis.ticks ?? ticks(axis.range, Math.max(3, Math.floor((inner.right - inner.left) / 70)));
  const format = axis.format ?? plain(values);
  return values.flatMap((value) => [
    draw("path", { class: "gridline", d: `M${across(value)} ${inner.top}V${inner.bottom}` }),
    draw("text", { x: across(value), y: inner.bottom + 17, "text-anchor": "middle" }, format(value)),
  ]);
}

function rows(axis, { inner, upwards }) {
  const values = axis.ticks ?? ticks(axis.range, 6);
  // Where less is better, the axis is upside down, and has the numbers that were measured.
  const shown = (value) => (axis.flipped ? -value : value);
  const plainly = plain(values);
  const format = axis.format ?? ((value) => plainly(shown(value)));
  return values.flatMap((value) => [
    draw("path", { class: "gridline", d: `M${inner.left} ${upwards(value)}H${inner.right}` }),
    draw("text", { x: inner.left - 8, y: upwards(value) + 4, "text-anchor": "end" }, format(value)),
  ]);
}

function titles({ x, y }, { inner }) {
  const middle = (inner.left + inner.right) / 2;
  const turned = `translate(13 ${(inner.top + inner.bottom) / 2}) rotate(-90)`;
  return [
    draw("text", { class: "title", x: middle, y: inner.bottom + 38, "text-anchor": "middle" }, x.title),
    draw("text", { class: "title", transform: turned, "text-anchor": "middle" }, y.title),
  ];
}

// A line across the chart at a value, and its label; nothing where the value is outside.
function ruleAcross(rule, rules, frame) {
  const { inner, across, upwards } = frame;
  const vertical = rule.axis === "x";
  const at = vertical ? across(rule.value) : upwards(rule.value);
  const [low, high] = vertical ? [inner.left, inner.right] : [inner.top, inner.bottom];
  if (at < low - 1 || at > high + 1) return [];
  const d = vertical ? `M${at} ${inner.top}V${inner.bottom}` : `M${inner.left} ${at}H${inner.right}`;
  return [
    draw("path", { class: "rule", "stroke-dasharray": rule.dash ?? "5 4", d }),
    draw("text", { class: "rule-label", ...labelPlace(at, vertical, rules, frame) }, rule.label),
  ];
}

// Labels stay within the chart: towards the middle where a line is near an edge, below the line where another is near.
function labelPlace(at, vertical, rules, { inner, upwards, width }) {
  if (vertical) {
    const end = at > width / 2;
    return { x: at + (end ? 4 : -4), y: inner.top - 9, "text-anchor": end ? "end" : "start" };
  }
  const others = rules.filter((rule) => rule.axis === "y").map((rule) => upwards(rule.value));
  const crowded = others.some((other) => other < at && other > at - 16);
  return { x: inner.left + 5, y: at + (crowded ? 15 : -6) };
}

// Round numbers within a range, about so many.
function ticks([low, high], count) {
  const rough = (high - low) / Math.max(1, count),
    power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? power * 10;
  const found = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + 1e-9 * step; value += step)
    found.push(Math.abs(value) < step / 1e6 ? 0 : value);
  return found;
}

// Numbers with as many decimals as it takes to tell them apart.
function plain(values) {
  const step = Math.min(...values.slice(1).map((value, place) => value - values[place]));
  let digits = 0;
  while (digits < 6 && Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits)) > 1e-6) digits++;
  return (value) =>
    value
      .toFixed(digits)
      .replace(/^-(0\.?0*)$/, "$1")
      .replace("-", "−");
}

// A range with a little room around the values.
export function roomy(values, room = 0.04) {
  let low = Infinity,
    high = -Infinity;
  for (const value of values)
    if (Number.isFinite(value)) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  if (low > high) return [0, 1];
  const more = (high - low || Math.abs(high) || 1) * room;
  return [low - more, high + more];
}
