// What pointer and keyboard do on a matrix: read a cell, move the view, zoom.

import { wholeView } from "report/map_canvas.js";

// Hover reads a cell, a drag moves the view, a double click zooms in.
export function pointing(canvas, now, act) {
  let from = null;
  const cellAt = (event) => {
    const { map, view, shape } = now(),
      box = canvas.getBoundingClientRect();
    const j = Math.floor(view.column + (event.clientX - box.left - shape.margin.left) / shape.cell);
    const i = Math.floor(view.row + (event.clientY - box.top - shape.margin.top) / shape.cell);
    return i >= 0 &&
      j >= 0 &&
      i < map.n &&
      j < map.m &&
      event.clientX - box.left >= shape.margin.left &&
      event.clientY - box.top >= shape.margin.top
      ? { i, j }
      : null;
  };
  canvas.addEventListener("pointerdown", (event) => {
    from = { x: event.clientX, y: event.clientY };
  });
  canvas.addEventListener("pointerup", () => {
    from = null;
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!now()) return;
    if (from && event.buttons && now().view.zoom > 1) {
      const { cell } = now().shape;
      act.move((from.y - event.clientY) / cell, (from.x - event.clientX) / cell);
      from = { x: event.clientX, y: event.clientY };
    } else act.read(cellAt(event));
  });
  canvas.addEventListener("pointerleave", () => {
    from = null;
    if (now()) act.read(null);
  });
  canvas.addEventListener("dblclick", (event) => now() && act.zoom(2, cellAt(event) ?? undefined));
}

export function keys(event, map, state, read, zoom, render) {
  if (!map) return;
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  if (event.key === "+" || event.key === "=") zoom(1.6);
  else if (event.key === "-") zoom(1 / 1.6);
  else if (event.key === "Home") {
    state.view = wholeView();
    render();
  } else if (steps[event.key]) {
    const [down, right] = steps[event.key],
      { i, j } = state.cursor ?? { i: -down, j: -right };
    const cursor = { i: Math.min(Math.max(i + down, 0), map.n - 1), j: Math.min(Math.max(j + right, 0), map.m - 1) };
    const { zoom: factor, row, column } = state.view,
      rows = map.n / factor,
      columns = map.m / factor;
    // The view follows the cursor.
    state.view = {
      zoom: factor,
      row: Math.min(Math.max(row, cursor.i + 1 - rows), cursor.i),
      column: Math.min(Math.max(column, cursor.j + 1 - columns), cursor.j),
    };
    read(cursor);
  } else return;
  event.preventDefault();
}
