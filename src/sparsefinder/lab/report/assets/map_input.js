// What pointer and keyboard do on a matrix: read a cell, move the view, zoom. `act` has what they can do, by name.

// Hover reads a cell, a drag moves the view, a double click zooms in.
export function pointing(canvas, state, act) {
  let from = null;
  const drawn = () => state.map && canvas.shape;
  canvas.addEventListener("pointerdown", (event) => {
    from = { x: event.clientX, y: event.clientY };
  });
  canvas.addEventListener("pointerup", () => {
    from = null;
    act.keep();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drawn()) return;
    if (from && event.buttons && state.view.zoom > 1) {
      const { cell } = canvas.shape;
      act.move((from.y - event.clientY) / cell, (from.x - event.clientX) / cell);
      from = { x: event.clientX, y: event.clientY };
    } else act.read(cellAt(event, canvas, state));
  });
  canvas.addEventListener("pointerleave", () => {
    from = null;
    if (drawn()) act.read(null);
  });
  canvas.addEventListener("dblclick", (event) => drawn() && act.double(cellAt(event, canvas, state) ?? undefined));
}

function cellAt(event, canvas, { map, view }) {
  const { margin, cell } = canvas.shape;
  const box = canvas.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left - margin.left, event.clientY - box.top - margin.top];
  const j = Math.floor(view.column + x / cell);
  const i = Math.floor(view.row + y / cell);
  return x >= 0 && y >= 0 && i >= 0 && j >= 0 && i < map.n && j < map.m ? { i, j } : null;
}

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export function pressing(canvas, state, act) {
  const keys = { "+": () => act.closer(), "=": () => act.closer(), "-": () => act.further(), Home: () => act.whole() };
  for (const [key, step] of Object.entries(STEPS)) keys[key] = () => stepTo(state, step, act);
  canvas.addEventListener("keydown", (event) => {
    if (!state.map || !keys[event.key]) return;
    keys[event.key]();
    event.preventDefault();
  });
}

// The cursor goes to the next cell, and the view follows it.
function stepTo(state, [down, right], act) {
  const { map, view } = state;
  const { i, j } = state.cursor ?? { i: -down, j: -right };
  const cursor = { i: Math.min(Math.max(i + down, 0), map.n - 1), j: Math.min(Math.max(j + right, 0), map.m - 1) };
  const [rows, columns] = [map.n / view.zoom, map.m / view.zoom];
  state.view = {
    zoom: view.zoom,
    row: Math.min(Math.max(view.row, cursor.i + 1 - rows), cursor.i),
    column: Math.min(Math.max(view.column, cursor.j + 1 - columns), cursor.j),
  };
  act.read(cursor);
}
