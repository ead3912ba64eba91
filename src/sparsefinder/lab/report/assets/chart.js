// A chart of lines and points that tells what it shows to the pointer and to the keyboard.
//
// options: label, x and y ({title, range, and maybe format and ticks}), lines ([{number, look, label, xs, ys, all, best}]),
// rules ([{axis, value, label}]), star ({x, y, label}), describe(line, place) -> words of a point,
// whether lines follow the legend (`legend`).
// `all` and `best` are places in xs and ys: every point, faint, and those on the line, strong.

import { drawn } from "report/chart_drawing.js";
import { make, onWidth } from "report/elements.js";
import { colour, SHAPES } from "report/markers.js";
import { hiddenSeries, pointedSeries } from "report/signals.js";

const REACH = 26;

export function chart(options) {
  const box = make("div", { class: "chart" });
  const tip = make("div", { class: "tip", role: "status", "aria-live": "polite", hidden: true });
  let view = null;
  const show = (spot) => {
    view.ring.setAttribute("d", spot ? SHAPES.o(spot.px, spot.py, 8) : "");
    tip.hidden = !spot;
    if (spot) tell(tip, spot, options.describe(spot.line, spot.place), box.clientWidth);
  };
  const render = () => {
    view = drawn(options, box.clientWidth);
    box.replaceChildren(view.node, tip);
    followPointer(view, show);
    followKeys(view, show);
  };
  onWidth(box, render);
  if (options.legend) {
    hiddenSeries.listen(() => view && render());
    pointedSeries.listen((number) => view && fade(view, number));
  }
  return {
    box,
    update(changes) {
      Object.assign(options, changes);
      if (view) render();
    },
  };
}

// Words about a point above it, or below where there is no room.
function tell(tip, { line, px, py }, words, width) {
  tip.replaceChildren(
    make("strong", { style: `color:${colour(line.look)}` }, line.label),
    ...words.map((text) => make("span", {}, text)),
  );
  const left = Math.min(Math.max(px - tip.offsetWidth / 2, 2), width - tip.offsetWidth - 2);
  const above = py - tip.offsetHeight - 14;
  tip.style.transform = `translate(${left}px, ${above > 0 ? above : py + 14}px)`;
}

function followPointer({ node, spots }, show) {
  node.addEventListener("pointermove", (event) => {
    const { left, top } = node.getBoundingClientRect();
    show(nearestSpot(spots, event.clientX - left, event.clientY - top));
  });
  node.addEventListener("pointerleave", () => show(null));
  node.addEventListener("blur", () => show(null));
}

// Left and right go along a line, up and down from line to line.
function followKeys({ node, lines }, show) {
  let [line, step] = [0, -1];
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
}

// All lines but the one of a series stand back; none does where no series is pointed at.
function fade({ groups }, number) {
  for (const group of groups) group.node.classList.toggle("faded", number !== null && group.number !== number);
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
