// The two matrices of a map, side by side: what is predicted, and what weights come of it. Both show the same part of it.

import { data } from "report/data.js";
import { figure, make, onWidth, schemes, widthFor } from "report/elements.js";
import { clampedView, drawMatrix, keepView, wholeView } from "report/map_canvas.js";
import { pointing, pressing } from "report/map_input.js";
import { saveButtons } from "report/saving.js";

// Rows or columns that are still seen at the strongest zoom.
const FEWEST_CELLS = 6;
const ZOOM_STEP = 1.6;

const markOf = ({ gold, graph }, at) => (gold[at] ? (graph[at] ? "hit" : "miss") : null);
const PANELS = [
  {
    id: "map-graph",
    title: "Predicted graph",
    paint: (map, at) => ({ fill: map.graph[at] ? 0.32 : 0, star: markOf(map, at) }),
  },
  {
    id: "map-weights",
    title: "Resulting weights",
    // The square root: small weights are weights too.
    paint: (map, at) => ({ fill: Math.sqrt(map.weights[at] / data.maps.weightSteps), star: markOf(map, at) }),
  },
];

// read(cursor) is told of every cell that is pointed at or moved to.
export function mapPanels(state, read) {
  const panels = PANELS.map(panelOf);
  const act = actions(state, read, () => panels.forEach((panel) => renderPanel(panel, state)));
  for (const { canvas, box } of panels) {
    onWidth(box, act.render);
    pointing(canvas, state, act);
    pressing(canvas, state, act);
  }
  for (const scheme of schemes) scheme.addEventListener("change", act.render);
  return {
    node: make(
      "div",
      { class: "pair" },
      panels.map(({ title, box, canvas }) =>
        figure(title, box, {
          saves: saveButtons({ name: `${data.name} ${title}`, canvas: () => canvas, rows: () => rowsOf(state.map) }),
        }),
      ),
    ),
    zooms: zoomButtons(act),
    show({ sentence, finder }, { kind, layer, head }) {
      act.render();
      for (const { canvas } of panels) canvas.dataset.shown = [sentence, kind, layer, head, finder].join("/");
    },
  };
}

// Every pair that is predicted or gold.
function rowsOf({ n, m, queries, keys, graph, weights, gold }) {
  const share = (value) => value / data.maps.weightSteps;
  const rows = [["query", "key", "query token", "key token", "predicted", "weight", "weight in full attention"]];
  for (let i = 0, at = 0; i < n; i++)
    for (let j = 0; j < m; j++, at++)
      if (graph[at] || gold[at]) rows.push([i, j, queries[i], keys[j], graph[at], share(weights[at]), share(gold[at])]);
  return rows;
}

function panelOf({ id, title, paint }) {
  const canvas = make("canvas", {
    id,
    tabindex: 0,
    role: "img",
    "aria-label": title,
    "aria-describedby": "map-readout",
    "aria-roledescription": "matrix; arrow keys move, plus and minus zoom",
  });
  return { title, paint, canvas, box: make("div", { class: "matrix" }, canvas) };
}

function renderPanel({ canvas, box, paint }, { map, view, cursor }) {
  if (!box.clientWidth) return;
  canvas.shape = drawMatrix(canvas, map, view, (i, j) => paint(map, i * map.m + j), cursor, widthFor(box));
}

// What pointer, keyboard and buttons can do.
function actions(state, read, draw) {
  const render = () => {
    if (!state.map) return;
    state.view = clampedView(state.map, state.view);
    draw();
  };
  const look = (view) => {
    state.view = view;
    render();
  };
  const keep = () => keepView(state.view);
  const zoom = (factor, center) => {
    if (!state.map) return;
    look(zoomed(state, factor, center));
    keep();
  };
  return {
    render,
    read(cursor) {
      state.cursor = cursor;
      render();
      if (cursor) read(cursor);
    },
    move: (rows, columns) => look({ ...state.view, row: state.view.row + rows, column: state.view.column + columns }),
    keep,
    closer: () => zoom(ZOOM_STEP),
    further: () => zoom(1 / ZOOM_STEP),
    double: (center) => zoom(2, center),
    whole: () => (look(wholeView()), keep()),
  };
}

// The view with a zoom so many times as strong; the cell that is looked at stays where it is.
function zoomed({ map, view, cursor }, factor, center) {
  const most = Math.max(1, Math.max(map.n, map.m) / FEWEST_CELLS);
  const zoom = Math.min(Math.max(view.zoom * factor, 1), most);
  const middle = center ?? cursor ?? { i: view.row + map.n / view.zoom / 2, j: view.column + map.m / view.zoom / 2 };
  return {
    zoom,
    row: middle.i - ((middle.i - view.row) * view.zoom) / zoom,
    column: middle.j - ((middle.j - view.column) * view.zoom) / zoom,
  };
}

function zoomButtons(act) {
  const button = (text, label, press) =>
    make("button", { type: "button", class: "plain", "aria-label": label, onclick: press }, text);
  return make(
    "div",
    { class: "zooms", role: "group", "aria-label": "Zoom" },
    button("−", "Zoom out", () => act.further()),
    button("+", "Zoom in", () => act.closer()),
    button("Whole", "Show the whole matrix", () => act.whole()),
  );
}
