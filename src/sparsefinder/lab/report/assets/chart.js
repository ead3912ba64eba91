// A chart of lines and points that tells what it shows to the pointer and to the keyboard.
//
// options: label, x and y ({title, range, and maybe format and ticks}), lines ([{number, look, label, xs, ys, all, best}]),
// rules ([{axis, value, label}]), star ({x, y, label}), describe(line, place) -> words of a point,
// whether lines follow the legend (`legend`).
// `all` and `best` are places in xs and ys: every point, faint, and those on the line, strong.

const REACH = 26;
const SPACING = 15;

function chart(options) {
  const box = make("div", { class: "chart" });
  const tip = make("div", { class: "tip", role: "status", "aria-live": "polite", hidden: true });
  let view = null;
  const render = () => {
    view = drawn(options, box.clientWidth);
    box.replaceChildren(view.node, tip);
    listen(view);
  };
  const show = (spot) => {
    view.ring.setAttribute("d", spot ? SHAPES.o(spot.px, spot.py, 8) : "");
    tip.hidden = !spot;
    if (!spot) return;
    tip.replaceChildren(
      make("strong", { style: `color:${colour(spot.line.look)}` }, spot.line.label),
      ...options.describe(spot.line, spot.place).map((text) => make("span", {}, text)),
    );
    const left = Math.min(Math.max(spot.px - tip.offsetWidth / 2, 2), box.clientWidth - tip.offsetWidth - 2);
    const above = spot.py - tip.offsetHeight - 14;
    tip.style.transform = `translate(${left}px, ${above > 0 ? above : spot.py + 14}px)`;
  };
  const listen = ({ node, spots, lines }) => {
    let line = 0,
      step = -1;
    node.addEventListener("pointermove", (event) => {
      const { left, top } = node.getBoundingClientRect();
      show(nearestSpot(spots, event.clientX - left, event.clientY - top));
    });
    node.addEventListener("pointerleave", () => show(null));
    node.addEventListener("blur", () => show(null));
    node.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return show(null);
      const along = { ArrowRight: 1, ArrowLeft: -1 }[event.key] ?? 0;
      const across = { ArrowDown: 1, ArrowUp: -1 }[event.key] ?? 0;
      if ((!along && !across) || !lines.length) return;
      event.preventDefault();
      line = (line + across + lines.length) % lines.length;
      step = Math.min(Math.max(step + along, 0), lines[line].length - 1);
      show(lines[line][step]);
    });
  };
  onWidth(box, render);
  if (options.legend) {
    hiddenSeries.listen(() => view && render());
    pointedSeries.listen((number) => {
      if (!view) return;
      for (const group of view.groups) group.node.classList.toggle("faded", number !== null && group.number !== number);
    });
  }
  return {
    box,
    update(changes) {
      Object.assign(options, changes);
      if (view) render();
    },
  };
}

// The point under the pointer; one on a line is easier to hit than one of the cloud.
function nearestSpot(spots, x, y) {
  let best = null,
    least = REACH * REACH;
  for (const spot of spots) {
    const distance = ((spot.px - x) ** 2 + (spot.py - y) ** 2) * (spot.strong ? 0.5 : 1);
    if (distance < least) [best, least] = [spot, distance];
  }
  return best;
}

function drawn(options, width) {
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

function axes(options, inner, sx, sy, width) {
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
function roomy(values, room = 0.04) {
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
