// Attention maps: choose a sentence, a head and a finder; see what it predicts, what weights come of it, and what is gold.
//
// The section is made of parts, each with a node and a `show(state, head)` that brings it up to date.
// state: {sentence, head, finder: what is chosen, map: the matrices of these, view: what is seen of them, cursor: a cell}.

import { remember, remembered } from "report/address.js";
import { data } from "report/data.js";
import { choice, make, note, nothing, section, spelled, visible } from "report/elements.js";
import { percent } from "report/format.js";
import { headGrid } from "report/grid.js";
import { keepView, keptView, wholeView } from "report/map_canvas.js";
import { mapOf } from "report/map_data.js";
import { mapPanels } from "report/map_panels.js";
import { chosenHead } from "report/signals.js";

export function showMaps() {
  const host = section("maps");
  const { maps } = data;
  if (!maps?.sentences.length)
    return nothing(
      "maps",
      "This run kept no sentences to show: `trace.examples` and `report.sentences` in its recipe say how many.",
    );
  const heads = maps.sites.flatMap((one, site) =>
    Array.from({ length: maps.sentences[0].heads[site] ?? 0 }, (_, head) => ({ ...one, site, head })),
  );
  const within = (value, count) => (value !== null && value < count ? Number(value) : null);
  const state = {
    sentence: 0,
    head: within(remembered("map"), heads.length) ?? heads.findIndex(isStart),
    finder: null,
    map: null,
    view: keptView(),
    cursor: null,
  };
  const readout = cellReadout(state);
  const parts = {
    sentence: sentenceChoice(state, go),
    finder: finderChoice(state, go),
    telling: tellingHeads(heads, go),
    grid: recallGrid(heads, go),
    ranking: sentenceRanking(go),
    result: resultLine(),
    readout,
    panels: mapPanels(state, readout.read),
  };
  let asked = 0;
  async function go(changes) {
    const turn = ++asked;
    Object.assign(state, changes);
    if (changes.head !== undefined) remember("map", state.head);
    if (changes.sentence !== undefined) remember("sentence", state.sentence);
    if (changes.view) keepView(state.view);
    const head = heads[state.head];
    const sentence = maps.sentences[state.sentence];
    if (!sentence.found[state.finder]?.[head.site]) state.finder = firstFinder(sentence);
    const map = await mapOf(sentence, head.site, head.head, state.finder);
    // Whoever was asked for last is shown, whoever comes last.
    if (turn !== asked) return;
    Object.assign(state, { map, cursor: null });
    for (const part of Object.values(parts)) part.show(state, head);
  }
  followChosenHead(heads, go);
  host.append(...arranged(parts));
  go({});
}

// A head that is chosen elsewhere on the page is shown here.
function followChosenHead(heads, go) {
  chosenHead.listen((place) => {
    const one = data.heads.names[place];
    const found = heads.findIndex(
      (other) => other.kind === one.kind && other.layer === one.layer && other.head === one.head,
    );
    if (found >= 0) go({ head: found, view: wholeView() });
  });
}

// It opens on the head where the leading method finds most of what a window would miss.
const isStart = ({ site, head }) => site === data.maps.start.site && head === data.maps.start.head;

function arranged({ sentence, finder, telling, grid, ranking, result, panels, readout }) {
  const { leftOut } = data.maps;
  return [
    make(
      "p",
      {},
      "Rows are queries, columns keys. A finder may predict more pairs than the teacher uses: entmax gives the others no weight, so what counts is that no gold pair is missed.",
    ),
    make("div", { class: "controls" }, sentence.node, finder.node),
    make("div", { class: "map-side" }, make("div", {}, grid.node, telling.node), ranking.node),
    make("div", { class: "map-bar" }, result.node, panels.zooms),
    panels.node,
    readout.node,
    mapKey(),
    ...(leftOut.length ? [note(`Left out to keep this page small: ${leftOut.join("; ")}.`)] : []),
  ];
}

const firstFinder = (sentence) => Object.keys(sentence.found)[0];
const excerpt = (text) => {
  const short = visible(text.trim());
  return short.length > 60 ? `${short.slice(0, 59)}…` : short;
};

function sentenceChoice(state, go) {
  const { label, select } = choice(
    "Sentence",
    data.maps.sentences.map((one, place) => ({ value: place, text: `${place + 1}: ${excerpt(one.text)}` })),
    (value) => go({ sentence: Number(value), view: wholeView() }),
    { key: "sentence" },
  );
  state.sentence = Number(select.value);
  label.classList.add("wide");
  return {
    node: label,
    show({ sentence }) {
      select.value = sentence;
    },
  };
}

function finderChoice(state, go) {
  const { label, select } = choice(
    "Finder",
    data.maps.finders.map((text, value) => ({ value, text })),
    (finder) => go({ finder }),
    { key: "finder", start: firstFinder(data.maps.sentences[state.sentence]) },
  );
  state.finder = select.value;
  label.classList.add("wide");
  return {
    node: label,
    show({ finder, sentence }, { site }) {
      select.value = finder;
      const { found } = data.maps.sentences[sentence];
      for (const option of select.options) option.disabled = !found[option.value]?.[site];
    },
  };
}

// Buttons for heads that show something: near tokens, far ones, the same word, delimiters.
function tellingHeads(heads, go) {
  const node = make("p", { class: "telling" });
  return {
    node,
    show({ sentence, head }) {
      const found = Object.entries(data.maps.sentences[sentence].telling);
      const button = ([name, { site, head: number }]) => {
        const place = heads.findIndex((one) => one.site === site && one.head === number);
        const pressed = String(place === head);
        const press = () => go({ head: place, view: wholeView() });
        return make("button", { type: "button", class: "plain", "aria-pressed": pressed, onclick: press }, name);
      };
      node.replaceChildren("A head that looks at ", ...found.flatMap((one) => [button(one), " "]));
      node.hidden = !found.length;
    },
  };
}

function recallGrid(heads, go) {
  const grid = headGrid("Recall in % of this sentence; press a cell to choose the head", heads, (head) =>
    go({ head, view: wholeView() }),
  );
  return {
    node: grid.node,
    show({ sentence, finder, head }) {
      const found = data.maps.sentences[sentence].found[finder];
      grid.update((place) => found?.[heads[place].site]?.recall[heads[place].head] ?? null);
      grid.choose(head);
    },
  };
}

function sentenceRanking(go) {
  const title = make("h4", {});
  const list = make("ol", { class: "ranking" });
  const item = ({ place, text, recall }, chosen) =>
    make(
      "button",
      {
        type: "button",
        class: "plain",
        "aria-current": place === chosen ? "true" : null,
        onclick: () => go({ sentence: place, view: wholeView() }),
      },
      make("strong", {}, percent(recall)),
      " ",
      make("bdi", {}, excerpt(text)),
    );
  return {
    node: make("div", {}, title, list),
    show({ sentence, finder }, { site, head, layer }) {
      title.textContent = `Sentences by recall in layer ${layer}, head ${head}`;
      const order = data.maps.sentences
        .map((one, place) => ({ place, text: one.text, recall: one.found[finder]?.[site]?.recall[head] }))
        .filter((one) => Number.isFinite(one.recall))
        .sort((one, other) => other.recall - one.recall);
      list.replaceChildren(...order.map((one) => make("li", {}, item(one, sentence))));
    },
  };
}

function resultLine() {
  const node = make("p", { class: "result" });
  return {
    node,
    show({ map }, { layer, head }) {
      node.textContent = `Layer ${layer}, head ${head}: predicted pairs hold ${percent(map.recall)} of the gold pairs (recall) and leave out ${percent(map.sparsity)} of all (sparsity).`;
    },
  };
}

function cellReadout(state) {
  const node = make("p", { id: "map-readout", class: "readout", role: "status", "aria-live": "polite" });
  return {
    node,
    show() {
      node.textContent = "Point at a cell, or move with the arrow keys, to read it.";
    },
    read({ i, j }) {
      const { map } = state;
      const at = i * map.m + j;
      const share = (value) => (value ? (value / data.maps.weightSteps).toFixed(2) : "0");
      node.replaceChildren(
        "query ",
        make("bdi", { class: "token" }, spelled(map.queries[i])),
        ` (${i + 1}) → key `,
        make("bdi", { class: "token" }, spelled(map.keys[j])),
        ` (${j + 1}): `,
        map.graph[at] ? "predicted" : "not predicted",
        map.gold[at] ? (map.graph[at] ? ", gold ★" : ", gold ☆ missed") : ", not gold",
        `; weight ${share(map.weights[at])}, ${share(map.gold[at])} in full attention`,
      );
    },
  };
}

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
