// Clusters of k-means finders and the parts of speech in them: queries and keys apart, given the cluster or given the tag.

import { data, inflate } from "report/data.js";
import { choice, figure, make, section, withCode } from "report/elements.js";
import { rowName } from "report/grid.js";

const SIDES = ["queries", "keys"];

export function showClusters() {
  const host = section("clusters");
  if (data.clusters.why) return host.append(make("p", { class: "note" }, withCode(data.clusters.why)));
  const { found, sentences } = data.clusters;
  let finder = found[0],
    site = finder.start.site,
    head = finder.start.head,
    given = "cluster";
  const tables = make("div", { class: "pair", id: "cluster-tables" });
  const counts = new Map();

  async function countsOf() {
    const { data: encoded } = finder.sites[site];
    if (!counts.has(encoded)) counts.set(encoded, new Uint32Array(await inflate(encoded)));
    return counts.get(encoded);
  }
  async function update() {
    const { clusters } = finder.sites[site],
      tags = finder.tags.length;
    const all = await countsOf();
    tables.replaceChildren(
      ...SIDES.map((name, side) => {
        const start = (head * 2 + side) * clusters * tags;
        return figure(
          `${name[0].toUpperCase()}${name.slice(1)}`,
          clusterTable(all.subarray(start, start + clusters * tags), clusters, finder.tags, given, name),
        );
      }),
    );
    tables.dataset.shown = `${site}/${head}/${given}`;
  }
  const sites = () => finder.sites.map((one, place) => ({ value: place, text: rowName(one) }));
  const heads = () =>
    Array.from({ length: finder.sites[site].heads }, (_, place) => ({ value: place, text: String(place) }));
  const which = choice(
    "Finder",
    found.map((one, place) => ({ value: place, text: one.finder })),
    (value) => {
      finder = found[value];
      [site, head] = [finder.start.site, finder.start.head];
      layers.select.replaceChildren(...sites().map(({ value: one, text }) => make("option", { value: one }, text)));
      layers.select.value = site;
      refill();
    },
  );
  const layers = choice("Layer", sites(), (value) => {
    site = Number(value);
    head = Math.min(head, finder.sites[site].heads - 1);
    refill();
  });
  const number = choice("Head", heads(), (value) => {
    head = Number(value);
    update();
  });
  const way = choice(
    "Shares",
    [
      { value: "cluster", text: "of tags in a cluster: P(tag | cluster)" },
      { value: "tag", text: "of clusters for a tag: P(cluster | tag)" },
    ],
    (value) => {
      given = value;
      update();
    },
  );
  function refill() {
    number.select.replaceChildren(...heads().map(({ value, text }) => make("option", { value }, text)));
    number.select.value = head;
    update();
  }
  layers.select.value = site;
  number.select.value = head;
  host.append(
    make(
      "p",
      {},
      `Which parts of speech fall into the same cluster, and so attend to each other, in ${sentences} sentence${sentences === 1 ? "" : "s"}. `,
      "It starts with the head whose clusters say most about the tags.",
    ),
    make("div", { class: "controls" }, which.label, layers.label, number.label, way.label),
    tables,
  );
  update();
}

// Rows are tags, columns clusters; a cell is the share in % of what is given, and empty below half a percent.
function clusterTable(counts, clusters, tags, given, side) {
  const at = (cluster, tag) => counts[cluster * tags.length + tag];
  const places = [...Array(clusters).keys()];
  const ofCluster = places.map((cluster) => tags.reduce((sum, _, tag) => sum + at(cluster, tag), 0));
  const ofTag = tags.map((_, tag) => places.reduce((sum, cluster) => sum + at(cluster, tag), 0));
  const cell = (cluster, tag) => {
    const share = at(cluster, tag) / Math.max(1, given === "cluster" ? ofCluster[cluster] : ofTag[tag]);
    const text = share >= 0.005 ? (100 * share).toFixed(0) : "";
    return make("td", { class: `cell${share > 0.55 ? " strong" : ""}`, style: `--share:${share}` }, text);
  };
  const head = make(
    "tr",
    {},
    make("th", { scope: "col" }, "tag"),
    places.map((one) => make("th", { scope: "col" }, String(one))),
    make("th", { scope: "col" }, "tokens"),
  );
  const rows = tags.map((tag, number) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, tag),
      places.map((cluster) => cell(cluster, number)),
      make("td", { class: "total" }, String(ofTag[number])),
    ),
  );
  const foot = make(
    "tr",
    {},
    make("th", { scope: "row" }, "tokens"),
    ofCluster.map((sum) => make("td", { class: "total" }, String(sum))),
    make("td", { class: "total" }, String(ofTag.reduce((sum, one) => sum + one, 0))),
  );
  const sums = given === "cluster" ? "columns add up to 100 %" : "rows add up to 100 %";
  const caption = `Share of ${side} in %, by tag (rows) and cluster (columns); ${sums}`;
  return make(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    make(
      "table",
      { class: "grid" },
      make("caption", {}, caption),
      make("thead", {}, head),
      make("tbody", {}, rows),
      make("tfoot", {}, foot),
    ),
  );
}
