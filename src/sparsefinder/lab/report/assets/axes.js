// The axes of a chart: ranges, ticks, titles, and lines across it.

import { draw } from "report/elements.js";

export const SPARSITY_TITLE = "sparsity (% of pairs left out)";

export function axes(options, inner, sx, sy, width) {
  const group = draw("g", { class: "axes" });
  const { x, y } = options;
  const across = x.ticks ?? ticks(x.range, Math.max(3, Math.floor((inner.right - inner.left) / 70)));
  for (const value of across) {
    const px = sx(value);
    group.append(
      draw("path", { class: "gridline", d: `M${px} ${inner.top}V${inner.bottom}` }),
      draw("text", { x: px, y: inner.bottom + 17, "text-anchor": "middle" }, (x.format ?? plain(across))(value)),
    );
  }
  const upwards = ticks(y.range, 6);
  for (const value of upwards) {
    const py = sy(value);
    group.append(
      draw("path", { class: "gridline", d: `M${inner.left} ${py}H${inner.right}` }),
      draw("text", { x: inner.left - 8, y: py + 4, "text-anchor": "end" }, (y.format ?? plain(upwards))(value)),
    );
  }
  group.append(
    draw(
      "text",
      { class: "title", x: (inner.left + inner.right) / 2, y: inner.bottom + 38, "text-anchor": "middle" },
      x.title,
    ),
    draw(
      "text",
      {
        class: "title",
        transform: `translate(13 ${(inner.top + inner.bottom) / 2}) rotate(-90)`,
        "text-anchor": "middle",
      },
      y.title,
    ),
  );
  for (const rule of options.rules ?? []) {
    const vertical = rule.axis === "x",
      at = vertical ? sx(rule.value) : sy(rule.value);
    const [low, high] = vertical ? [inner.left, inner.right] : [inner.top, inner.bottom];
    if (at < low - 1 || at > high + 1) continue;
    group.append(
      draw("path", {
        class: "rule",
        "stroke-dasharray": rule.dash ?? "5 4",
        d: vertical ? `M${at} ${inner.top}V${inner.bottom}` : `M${inner.left} ${at}H${inner.right}`,
      }),
    );
    // Labels stay within the chart: towards the middle where a line is near an edge, below the line where another is near.
    const end = vertical && at > width / 2;
    const crowded = options.rules.some(
      (other) => other.axis === "y" && sy(other.value) < at && sy(other.value) > at - 16,
    );
    group.append(
      vertical
        ? draw(
            "text",
            { class: "rule-label", x: at + (end ? 4 : -4), y: inner.top - 9, "text-anchor": end ? "end" : "start" },
            rule.label,
          )
        : draw("text", { class: "rule-label", x: inner.left + 5, y: at + (crowded ? 15 : -6) }, rule.label),
    );
  }
  return group;
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
  return (value) => value.toFixed(digits).replace("-", "−");
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
