// Attention maps: choose a sentence, a head and a finder; see what it predicts, what weights come of it, and what is gold.

import { data } from "report/data.js";
import {
  choice,
  darkScheme,
  figure,
  make,
  note,
  onWidth,
  section,
  spelled,
  visible,
  withCode,
} from "report/elements.js";
import { percent } from "report/format.js";
import { headGrid } from "report/grid.js";
import { clampedView, drawMatrix, wholeView } from "report/map_canvas.js";
import { mapOf } from "report/map_data.js";
import { keys, pointing } from "report/map_input.js";
import { chosenHead } from "report/signals.js";

export function showMaps() {
  const host = section("maps");
  const { maps } = data;
  if (!maps?.sentences.length)
    return host.append(
      make(
        "p",
        { class: "note" },
        withCode(
          "This run kept no sentences to show: `trace.examples` and `report.sentences` in its recipe say how many.",
        ),
      ),
    );
  const heads = maps.sites.flatMap((one, site) =>
    Array.from({ length: maps.sentences[0].heads[site] ?? 0 }, (_, head) => ({ ...one, site, head })),
  );
  const state = { sentence: 0, head: 0, finder: firstFinder(maps.sentences[0]), view: wholeView(), cursor: null };
  let map = null;

  const panels = ["Predicted graph", "Resulting weights"].map((title) => {
    const canvas = make("canvas", {
      tabindex: 0,
      role: "img",
      "aria-label": title,
      "aria-describedby": "map-readout",
      "aria-roledescription": "matrix; arrow keys move, plus and minus zoom",
    });
    return { title, canvas, box: make("div", { class: "matrix" }, canvas) };
  });
  panels[0].canvas.id = "map-graph";
  panels[1].canvas.id = "map-weights";
  const readout = make("p", { id: "map-readout", class: "readout", role: "status", "aria-live": "polite" });
  const numbersLine = make("p", { class: "result" });
  const ranking = make("ol", { class: "ranking" });
  const rankingTitle = make("h4", {});
  const grid = headGrid("Recall in % of this sentence; press a cell to choose the head", heads, (place) => {
    state.head = place;
    state.view = wholeView();
    load();
  });

  const mark = (i, j) => (map.gold[i * map.m + j] ? (map.graph[i * map.m + j] ? "hit" : "miss") : null);
  const paints = [
    (i, j) => ({ fill: map.graph[i * map.m + j] ? 0.32 : 0, star: mark(i, j) }),
    // The square root: small weights are weights too.
    (i, j) => ({ fill: Math.sqrt(map.weights[i * map.m + j] / 255), star: mark(i, j) }),
  ];
  function render() {
    if (!map) return;
    state.view = clampedView(map, state.view);
    panels.forEach(({ canvas, box }, which) => {
      if (box.clientWidth)
        canvas.shape = drawMatrix(canvas, map, state.view, paints[which], state.cursor, box.clientWidth);
    });
  }
  let asked = 0;
  async function load() {
    const turn = ++asked;
    const { site, head, layer, kind } = heads[state.head];
    const sentence = maps.sentences[state.sentence];
    if (!sentence.found[state.finder]?.[site]) state.finder = firstFinder(sentence);
    const next = await mapOf(sentence, site, head, state.finder);
    // Whoever was asked for last is shown, whoever comes last.
    if (turn !== asked) return;
    map = next;
    state.cursor = null;
    finder.select.value = state.finder;
    for (const option of finder.select.options) option.disabled = !sentence.found[option.value]?.[site];
    pickSentence.select.value = state.sentence;
    grid.update((place) => sentence.found[state.finder]?.[heads[place].site]?.recall[heads[place].head] ?? null);
    grid.choose(state.head);
    numbersLine.textContent = `Layer ${layer}, head ${head}: predicted pairs hold ${percent(map.recall)} of the gold pairs (recall) and leave out ${percent(map.sparsity)} of all (sparsity).`;
    readout.textContent = "Point at a cell, or move with the arrow keys, to read it.";
    rank(site, head, layer);
    render();
    for (const { canvas } of panels) canvas.dataset.shown = [state.sentence, kind, layer, head, state.finder].join("/");
  }
  function rank(site, head, layer) {
    rankingTitle.textContent = `Sentences by recall in layer ${layer}, head ${head}`;
    const order = maps.sentences
      .map((one, place) => ({ place, text: one.text, recall: one.found[state.finder]?.[site]?.recall[head] }))
      .filter((one) => one.recall !== undefined)
      .sort((one, other) => other.recall - one.recall);
    ranking.replaceChildren(
      ...order.map(({ place, text, recall }) =>
        make(
          "li",
          {},
          make(
            "button",
            {
              type: "button",
              class: "plain",
              "aria-current": place === state.sentence ? "true" : null,
              onclick: () => {
                state.sentence = place;
                state.view = wholeView();
                load();
              },
            },
            make("strong", {}, percent(recall)),
            " ",
            make("bdi", {}, excerpt(text)),
          ),
        ),
      ),
    );
  }
  function read(cursor) {
    state.cursor = cursor;
    render();
    if (!cursor) return;
    const { i, j } = cursor,
      at = i * map.m + j;
    const share = (value) => (value ? (value / 255).toFixed(2) : "0");
    readout.replaceChildren(
      "query ",
      make("bdi", { class: "token" }, spelled(map.queries[i])),
      ` (${i + 1}) → key `,
      make("bdi", { class: "token" }, spelled(map.keys[j])),
      ` (${j + 1}): `,
      map.graph[at] ? "predicted" : "not predicted",
      map.gold[at] ? (map.graph[at] ? ", gold ★" : ", gold ☆ missed") : ", not gold",
      `; weight ${share(map.weights[at])}, ${share(map.gold[at])} in full attention`,
    );
  }
  const zoom = (factor, center) => {
    if (!map) return;
    const most = Math.max(1, Math.max(map.n, map.m) / 6);
    const old = state.view,
      next = Math.min(Math.max(old.zoom * factor, 1), most);
    const middle = center ??
      state.cursor ?? { i: old.row + map.n / old.zoom / 2, j: old.column + map.m / old.zoom / 2 };
    // The cell that is looked at stays where it is.
    state.view = {
      zoom: next,
      row: middle.i - ((middle.i - old.row) * old.zoom) / next,
      column: middle.j - ((middle.j - old.column) * old.zoom) / next,
    };
    render();
  };
  for (const { canvas, box } of panels) {
    onWidth(box, render);
    pointing(canvas, () => map && canvas.shape && { map, view: state.view, shape: canvas.shape }, {
      read,
      zoom,
      move: (rows, columns) => {
        state.view = { ...state.view, row: state.view.row + rows, column: state.view.column + columns };
        render();
      },
    });
    canvas.addEventListener("keydown", (event) => keys(event, map, state, read, zoom, render));
  }
  darkScheme.addEventListener("change", render);

  const pickSentence = choice(
    "Sentence",
    maps.sentences.map((one, place) => ({ value: place, text: `${place + 1}: ${excerpt(one.text)}` })),
    (value) => {
      state.sentence = Number(value);
      state.view = wholeView();
      load();
    },
  );
  pickSentence.label.classList.add("wide");
  const finder = choice(
    "Finder",
    maps.finders.map((text, value) => ({ value, text })),
    (value) => {
      state.finder = value;
      load();
    },
  );
  finder.label.classList.add("wide");
  const button = (text, label, act) =>
    make("button", { type: "button", class: "plain", "aria-label": label, onclick: act }, text);
  const zooms = make(
    "div",
    { class: "zooms", role: "group", "aria-label": "Zoom" },
    button("−", "Zoom out", () => zoom(1 / 1.6)),
    button("+", "Zoom in", () => zoom(1.6)),
    button("Whole", "Show the whole matrix", () => {
      state.view = wholeView();
      render();
    }),
  );
  chosenHead.listen((place) => {
    const one = data.heads.names[place];
    const found = heads.findIndex(
      (other) => other.kind === one.kind && other.layer === one.layer && other.head === one.head,
    );
    if (found >= 0) {
      state.head = found;
      state.view = wholeView();
      load();
    }
  });
  host.append(
    make(
      "p",
      {},
      "Rows are queries, columns keys. A finder may predict more pairs than the teacher uses: entmax gives the others no weight, so what counts is that no gold pair is missed.",
    ),
    make("div", { class: "controls" }, pickSentence.label, finder.label),
    make("div", { class: "map-side" }, make("div", {}, grid.node), make("div", {}, rankingTitle, ranking)),
    make("div", { class: "map-bar" }, numbersLine, zooms),
    make(
      "div",
      { class: "pair" },
      panels.map(({ title, box }) => figure(title, box)),
    ),
    readout,
    mapKey(),
    ...(maps.leftOut.length ? [note(`Left out to keep this page small: ${maps.leftOut.join("; ")}.`)] : []),
  );
  load();
}

const firstFinder = (sentence) => Object.keys(sentence.found)[0];
const excerpt = (text) => {
  const short = visible(text.trim());
  return short.length > 60 ? `${short.slice(0, 59)}…` : short;
};

function mapKey() {
  const item = (look, text) =>
    make(
      "li",
      {},
      make(
        "span",
        { class: `patch ${look}`, "aria-hidden": "true" },
        look === "hit" ? "★" : look === "miss" ? "☆" : "",
      ),
      text,
    );
  return make(
    "ul",
    { class: "map-key" },
    item("predicted", "predicted; with weight, the stronger the more"),
    item("hit", "gold pair, predicted"),
    item("miss", "gold pair, missed"),
    make(
      "li",
      {},
      "Where cells are too small for stars, gold pairs are the strongest cells, and missed ones have the star’s colour.",
    ),
  );
}
