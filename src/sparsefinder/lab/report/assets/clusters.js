// Clusters of k-means finders and the parts of speech in them: queries and keys apart, given the cluster or given the tag.

import { clusterTable } from "report/cluster_table.js";
import { data, inflate } from "report/data.js";
import { choice, figure, make, nothing, refill, section } from "report/elements.js";
import { rowName } from "report/grid.js";
import { saveButtons } from "report/saving.js";
import { drawnTable } from "report/table_drawing.js";

export function showClusters() {
  const host = section("clusters");
  if (data.clusters.why) return nothing("clusters", data.clusters.why);
  const { found, sequences } = data.clusters;
  const state = { finder: found[0], ...found[0].start, given: "cluster" };
  const tables = make("div", { class: "pair", id: "cluster-tables" });
  const update = async () => {
    tables.replaceChildren(...(await tablesOf(state)));
    tables.dataset.shown = `${state.site}/${state.head}/${state.given}`;
  };
  host.append(
    make(
      "p",
      {},
      `Which parts of speech fall into the same cluster, and so attend to each other, over the validation text (${sequences} sequence${sequences === 1 ? "" : "s"}). `,
      "It starts with the head whose clusters say most about the tags.",
    ),
    controls(state, update),
    tables,
  );
  update();
}

// Each choice changes the state, and what can be chosen after it.
function controls(state, update) {
  const finder = choice(
    "Finder",
    data.clusters.found.map((one, place) => ({ value: place, text: one.finder })),
    (value) => {
      const chosen = data.clusters.found[value];
      Object.assign(state, { finder: chosen, ...chosen.start });
      refill(layer.select, layersOf(state), state.site);
      showHeads();
    },
    { key: "clusters-of" },
  );
  state.finder = data.clusters.found[finder.select.value];
  Object.assign(state, state.finder.start);
  const layer = choice(
    "Layer",
    layersOf(state),
    (value) => {
      state.site = Number(value);
      state.head = Math.min(state.head, state.finder.sites[state.site].heads - 1);
      showHeads();
    },
    { key: "clusters-layer", start: state.site },
  );
  state.site = Number(layer.select.value);
  const head = choice(
    "Head",
    headsOf(state),
    (value) => {
      state.head = Number(value);
      update();
    },
    { key: "clusters-head", start: state.head },
  );
  state.head = Number(head.select.value);
  const given = choice(
    "Shares",
    [
      { value: "cluster", text: "of tags in a cluster: P(tag | cluster)" },
      { value: "tag", text: "of clusters for a tag: P(cluster | tag)" },
    ],
    (value) => {
      state.given = value;
      update();
    },
    { key: "shares" },
  );
  state.given = given.select.value;
  function showHeads() {
    refill(head.select, headsOf(state), state.head);
    update();
  }
  return make("div", { class: "controls" }, finder.label, layer.label, head.label, given.label);
}

const layersOf = ({ finder }) => finder.sites.map((one, place) => ({ value: place, text: rowName(one) }));
const headsOf = ({ finder, site }) =>
  Array.from({ length: finder.sites[site].heads }, (_, place) => ({ value: place, text: String(place) }));

// Counts of a layer as they come out of the page: by head, side, cluster and tag.
const openedCounts = new Map();
async function countsOf({ data: encoded }) {
  if (!openedCounts.has(encoded)) openedCounts.set(encoded, new Uint32Array(await inflate(encoded)));
  return openedCounts.get(encoded);
}

async function tablesOf({ finder, site, head, given }) {
  const { clusters } = finder.sites[site];
  const size = clusters * finder.tags.length;
  const counts = await countsOf(finder.sites[site]);
  return data.clusters.sides.map((name, side) => {
    const start = (head * data.clusters.sides.length + side) * size;
    const mine = counts.subarray(start, start + size);
    const rows = () => [
      ["tag", "cluster", "count"],
      ...finder.tags.flatMap((tag, row) =>
        Array.from({ length: clusters }, (_, cluster) => [tag, cluster, mine[cluster * finder.tags.length + row]]),
      ),
    ];
    const body = clusterTable(mine, clusters, finder.tags, given, name);
    const svg = () => drawnTable(body.querySelector("table"), body.firstChild.textContent);
    const saves = saveButtons({ name: `${data.name} clusters of ${name}`, svg, rows });
    return figure(`${name[0].toUpperCase()}${name.slice(1)}`, body, { saves });
  });
}
