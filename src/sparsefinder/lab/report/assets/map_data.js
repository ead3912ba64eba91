// Attention maps as they come out of the page's data: sparse lists of weights, and predicted graphs as bitmaps, key by key.

import { data, inflate } from "report/data.js";

const openedMaps = new Map();

async function opened(base64) {
  if (!openedMaps.has(base64)) {
    // A layer of a long sentence is megabytes once it is opened: only a few stay.
    if (openedMaps.size > 24) openedMaps.delete(openedMaps.keys().next().value);
    openedMaps.set(base64, inflate(base64));
  }
  return openedMaps.get(base64);
}

// The weights of one head as lists: for query i, keys[starts[i]] to keys[starts[i + 1]].
function listsOf(buffer, heads, n, head) {
  const counts = new Uint16Array(buffer, 0, heads * n).map((count) => (count === data.maps.same ? 0 : count));
  const same = new Uint16Array(buffer, 2 * head * n, n).map((count) => (count === data.maps.same ? 1 : 0));
  let total = 0,
    first = 0;
  for (let row = 0; row < counts.length; row++) {
    if (row === head * n) first = total;
    total += counts[row];
  }
  const steps = new Uint16Array(buffer, 2 * heads * n, total);
  const weights = new Uint8Array(buffer, 2 * heads * n + 2 * total, total);
  const starts = new Uint32Array(n + 1);
  for (let i = 0; i < n; i++) starts[i + 1] = starts[i] + counts[head * n + i];
  const keys = new Uint16Array(starts[n]);
  for (let i = 0; i < n; i++)
    for (let place = starts[i], key = 0; place < starts[i + 1]; place++) keys[place] = key += steps[first + place];
  return { starts, keys, same, weights: weights.subarray(first, first + starts[n]), end: 2 * heads * n + 3 * total };
}

// n × m bytes of a list of weights: 0 is no weight, `weightSteps` all of it. Rows that are not listed are those of `gold`.
function denseOf({ starts, keys, weights, same }, n, m, gold = null) {
  const dense = new Uint8Array(n * m);
  for (let i = 0; i < n; i++) {
    if (same[i] && gold) dense.set(gold.subarray(i * m, i * m + m), i * m);
    for (let place = starts[i]; place < starts[i + 1]; place++) dense[i * m + keys[place]] = weights[place];
  }
  return dense;
}

// One head of one sentence as matrices: predicted, weight, gold (weights of full attention).
export async function mapOf(sentence, site, head, finder) {
  const { queries, keys } = sentence.tokens[data.maps.sites[site].kind];
  const [n, m, heads] = [queries.length, keys.length, sentence.heads[site]];
  const found = sentence.found[finder][site];
  const [full, predicted] = await Promise.all([opened(sentence.gold[site]), opened(found.data)]);
  const gold = denseOf(listsOf(full, heads, n, head), n, m);
  const lists = listsOf(predicted, heads, n, head);
  const bits = new Uint8Array(predicted, lists.end),
    graph = new Uint8Array(n * m);
  for (let j = 0, bit = head * n * m; j < m; j++)
    for (let i = 0; i < n; i++, bit++) graph[i * m + j] = (bits[bit >> 3] >> (bit & 7)) & 1;
  return {
    n,
    m,
    queries,
    keys,
    graph,
    weights: denseOf(lists, n, m, gold),
    gold,
    causal: sentence.causal[site],
    recall: found.recall[head],
    sparsity: found.sparsity[head],
  };
}
