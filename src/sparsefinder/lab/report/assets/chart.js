// A chart of lines and points that tells what it shows to the pointer and to the keyboard, zooms, and can be saved.
//
// options: label, id, name (of its files), x and y ({title, range, and maybe format and ticks}), lines ([{number, method,
// inputs, look, label, xs, ys, all, best, and maybe low and high: the band of `best`}]), rules ([{axis, value, label}]),
// star ({x, y, label}), describe(line, place) -> words of a point, columns(line, place) -> its numbers by name for a
// table, whether lines follow the legend (`legend`) and have their names at their ends (`labels`).
// `all` and `best` are places in xs and ys: every point, faint, and those on the line, strong.

import { remember, remembered } from "report/address.js";
import { drawn } from "report/chart_drawing.js";
import { followKeys, followPointer } from "report/chart_input.js";
import { make, onWidth, widthFor } from "report/elements.js";
import { toggleAlone } from "report/legend.js";
import { colour, SHAPES } from "report/markers.js";
import { saveButtons } from "report/saving.js";
import { hiddenSeries, isPointed, keyOf, pointedMethod } from "report/signals.js";

const GAP = 16;

export function chart(options) {
  const box = make("div", { class: "chart", id: options.id });
  const tip = make("div", { class: "tip", role: "status", "aria-live": "polite", hidden: true });
  const whole = make("button", { type: "button", class: "plain whole", onclick: () => act.whole() }, "Whole chart");
  let view = null,
    zoomed = rangesOf(remembered(options.id));
  const act = {
    show(spot) {
      const told = spot && spot.place !== null;
      view.ring.setAttribute("d", told ? SHAPES.o(spot.px, spot.py, 8) : "");
      tip.hidden = !told;
      if (told) tell(tip, spot, options.describe(spot.line, spot.place), box.clientWidth);
      pointedMethod.set(spot ? keyOf(spot.line) : null);
    },
    zoom(ranges) {
      zoomed = ranges;
      remember(options.id, ranges && [...ranges.x, ...ranges.y].map((end) => Number(end.toPrecision(6))).join("~"));
      render();
    },
    whole: () => zoomed && act.zoom(null),
    alone: (line) => options.legend && toggleAlone(line.number),
  };
  const render = (width = widthFor(box)) => {
    const focused = view && document.activeElement === view.node;
    const now = zoomed ? within(options, zoomed) : options;
    view = drawn(now, width);
    tip.hidden = true;
    box.replaceChildren(view.node, ...(zoomed ? [whole] : []), tip);
    box.dataset.zoomed = zoomed ? "yes" : "no";
    followPointer(view, act);
    followKeys(view, act);
    fade(view, pointedMethod.get());
    if (focused) view.node.focus();
  };
  onWidth(box, render);
  if (options.legend) hiddenSeries.listen(() => view && render());
  pointedMethod.listen((pointed) => view && fade(view, pointed));
  return {
    box,
    saves: saveButtons({ name: options.name, svg: () => view.node, rows: () => rowsOf(options) }),
    update(changes) {
      Object.assign(options, changes);
      // On other axes, what was zoomed into is elsewhere.
      if (view) zoomed && changes.y ? act.zoom(null) : render();
    },
  };
}

// The part of a chart that the address asks for, if it is one.
function rangesOf(said) {
  const [left, right, bottom, top] = (said ?? "").split("~").map(Number);
  return left < right && bottom < top ? { x: [left, right], y: [bottom, top] } : null;
}

// The same chart, a part of it.
function within(options, { x, y }) {
  const part = (axis, range) => ({
    ...axis,
    range,
    ticks: axis.ticks?.filter((tick) => tick >= range[0] && tick <= range[1]),
  });
  return { ...options, x: part(options.x, x), y: part(options.y, y) };
}

// Words about a point beside it, or above or below where there is no room: it stays in sight.
function tell(tip, { line, px, py }, words, width) {
  tip.replaceChildren(
    make("strong", { style: `color:${colour(line.look)}` }, line.label),
    ...words.map((text) => make("span", {}, text)),
  );
  tip.style.transform = "";
  const [wide, high] = [tip.offsetWidth, tip.offsetHeight];
  const beside = px + GAP + wide <= width ? px + GAP : px - GAP - wide >= 0 ? px - GAP - wide : null;
  if (beside !== null) tip.style.transform = `translate(${beside}px, ${Math.max(2, py - high / 2)}px)`;
  else {
    const left = Math.min(Math.max(px - wide / 2, 2), width - wide - 2);
    const above = py - high - GAP;
    tip.style.transform = `translate(${left}px, ${above > -high / 2 ? above : py + GAP}px)`;
  }
}

// All lines but those of a method stand back; none does where no method is pointed at.
function fade({ groups }, pointed) {
  const here = pointed !== null && groups.some(({ line }) => isPointed(line, pointed));
  for (const { node, line } of groups) node.classList.toggle("faded", here && !isPointed(line, pointed));
}

// Every point as a row, whether it is drawn or not.
function rowsOf({ lines, columns }) {
  const rows = lines.flatMap((line) =>
    [...(line.all ?? []), ...line.best].map((place) => ({ method: line.label, ...columns(line, place) })),
  );
  const names = Object.keys(rows[0] ?? {});
  return [names, ...rows.map((row) => names.map((name) => row[name]))];
}
