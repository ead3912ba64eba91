// What pointer and keyboard do on a chart: read a point, mark what to zoom into, show one method alone.

const REACH = 26;
// A drag shorter than this marks nothing.
const LEAST = 6;
const ZOOM_STEP = 1.6;

// act: {show(spot), zoom(ranges), whole(), alone(line)}; what is said of a point goes where the pointer is.
export function followPointer({ node, spots, groups, brush, inside, valueAt }, act) {
  let from = null;
  const at = (event) => {
    const { left, top } = node.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  };
  const marked = ({ x, y }) => {
    const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
    const [left, right] = [from.x, clamp(x, inside.left, inside.right)].sort((one, other) => one - other);
    const [top, bottom] = [from.y, clamp(y, inside.top, inside.bottom)].sort((one, other) => one - other);
    return { left, right, top, bottom, large: right - left > LEAST && bottom - top > LEAST };
  };
  node.addEventListener("pointerdown", (event) => {
    const start = at(event);
    const within = start.x > inside.left && start.x < inside.right && start.y > inside.top && start.y < inside.bottom;
    // A finger scrolls the page.
    if (event.pointerType !== "touch" && event.button === 0 && within) from = start;
  });
  node.addEventListener("pointermove", (event) => {
    if (!from || !event.buttons) return act.show(nearestSpot(spots, at(event)) ?? labelOf(groups, event));
    const { left, right, top, bottom, large } = marked(at(event));
    brush.setAttribute("d", large ? `M${left} ${top}H${right}V${bottom}H${left}Z` : "");
    if (large) {
      node.setPointerCapture(event.pointerId);
      act.show(null);
    }
  });
  node.addEventListener("pointerup", (event) => {
    const box = from && marked(at(event));
    from = null;
    brush.setAttribute("d", "");
    if (!box?.large) return;
    const [low, high] = [valueAt(box.left, box.bottom), valueAt(box.right, box.top)];
    act.zoom({ x: [low[0], high[0]], y: [low[1], high[1]] });
  });
  node.addEventListener("pointerleave", () => act.show(null));
  node.addEventListener("blur", () => act.show(null));
  node.addEventListener("dblclick", (event) => {
    const line = (nearestSpot(spots, at(event)) ?? labelOf(groups, event))?.line;
    if (line) act.alone(line);
    else act.whole();
  });
}

// Left and right go along a line, up and down from line to line.
export function followKeys({ node, lines, inside, valueAt }, act) {
  let [line, step] = [0, -1];
  const spot = () => lines[line]?.[Math.max(step, 0)];
  const zoom = (factor) => {
    const { px, py } = spot() ?? { px: (inside.left + inside.right) / 2, py: (inside.top + inside.bottom) / 2 };
    const side = (value, middle) => middle + (value - middle) * factor;
    const [low, high] = [
      valueAt(side(inside.left, px), side(inside.bottom, py)),
      valueAt(side(inside.right, px), side(inside.top, py)),
    ];
    act.zoom({ x: [low[0], high[0]], y: [low[1], high[1]] });
  };
  const others = {
    Escape: () => (act.show(null), act.whole()),
    "+": () => zoom(1 / ZOOM_STEP),
    "=": () => zoom(1 / ZOOM_STEP),
    "-": () => zoom(ZOOM_STEP),
    Home: () => act.whole(),
    Enter: () => spot() && act.alone(spot().line),
  };
  node.addEventListener("keydown", (event) => {
    const along = { ArrowRight: 1, ArrowLeft: -1 }[event.key] ?? 0;
    const across = { ArrowDown: 1, ArrowUp: -1 }[event.key] ?? 0;
    const other = others[event.key];
    if (!other && ((!along && !across) || !lines.length)) return;
    event.preventDefault();
    if (other) return other();
    line = (line + across + lines.length) % lines.length;
    step = Math.min(Math.max(step + along, 0), lines[line].length - 1);
    act.show(lines[line][step]);
  });
}

// The point under the pointer; one on a line is easier to hit than one of the cloud.
function nearestSpot(spots, { x, y }) {
  let best = null,
    least = REACH * REACH;
  for (const spot of spots) {
    const distance = ((spot.px - x) ** 2 + (spot.py - y) ** 2) * (spot.strong ? 0.5 : 1);
    if (distance < least) [best, least] = [spot, distance];
  }
  return best;
}

// A line whose name is pointed at: no point of it is meant.
function labelOf(groups, { target }) {
  const group = target.classList.contains("end") && groups.find(({ node }) => node === target.parentNode);
  return group ? { line: group.line, place: null } : null;
}
