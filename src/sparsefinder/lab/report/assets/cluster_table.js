// One table of tags and clusters: rows are tags, columns clusters.

import { make } from "report/elements.js";
import { heat } from "report/markers.js";

const heading = (scope, text) => make("th", { scope }, text);
const total = (count) => make("td", { class: "total" }, String(count));
const sumOf = (values) => values.reduce((sum, one) => sum + one, 0);

// A cell is the share in % of what is given (the cluster or the tag), and empty below half a percent.
export function clusterTable(counts, clusters, tags, given, side) {
  const at = (cluster, tag) => counts[cluster * tags.length + tag];
  const places = [...Array(clusters).keys()];
  const ofCluster = places.map((cluster) => sumOf(tags.map((_, tag) => at(cluster, tag))));
  const ofTag = tags.map((_, tag) => sumOf(places.map((cluster) => at(cluster, tag))));
  const cell = (cluster, tag) => {
    const share = at(cluster, tag) / Math.max(1, given === "cluster" ? ofCluster[cluster] : ofTag[tag]);
    const text = share >= 0.005 ? (100 * share).toFixed(0) : "";
    return make("td", { class: "cell", style: heat(share) }, text);
  };
  const columns = places.map((one) => heading("col", String(one)));
  const head = make("tr", {}, heading("col", "tag"), columns, heading("col", "tokens"));
  const rows = tags.map((name, tag) =>
    make(
      "tr",
      {},
      heading("row", name),
      places.map((cluster) => cell(cluster, tag)),
      total(ofTag[tag]),
    ),
  );
  const foot = make("tr", {}, heading("row", "tokens"), ofCluster.map(total), total(sumOf(ofTag)));
  return framed(captionOf(given, side), head, rows, foot);
}

function captionOf(given, side) {
  const sums = given === "cluster" ? "columns add up to 100 %" : "rows add up to 100 %";
  return `Share of ${side} in %, by tag (rows) and cluster (columns); ${sums}`;
}

const framed = (caption, head, rows, foot) =>
  make(
    "div",
    {},
    make("p", { class: "caption" }, caption),
    make(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
      make(
        "table",
        { class: "grid", "aria-label": caption },
        make("thead", {}, head),
        make("tbody", {}, rows),
        make("tfoot", {}, foot),
      ),
    ),
  );
