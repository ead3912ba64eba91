// What the run has, as JSON in the page; numbers are base64 of typed arrays, large ones deflated.

export const data = JSON.parse(document.getElementById("data").textContent);

const ARRAYS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array };

function bytesOf(base64) {
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let place = 0; place < binary.length; place++) bytes[place] = binary.charCodeAt(place);
  return bytes;
}

export function column(encoded) {
  return new ARRAYS[encoded.kind](bytesOf(encoded.data).buffer);
}

export async function inflate(base64) {
  const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

export function settingWords({ own, ownWords, extra, extraWords, noWords }, place) {
  return [ownWords[own[place]], extraWords[extra[place]]].filter(Boolean).join(", ") || noWords;
}

// Points of a chart as they come out of the page's data; null where there are none.
export function decodedCloud(encoded) {
  if (!encoded) return null;
  const cloud = { ...encoded, within: encoded.within?.map(column) ?? null };
  for (const name of ["series", "own", "extra", "x", "y", "best"]) cloud[name] = column(encoded[name]);
  cloud.told = Object.fromEntries(Object.entries(encoded.told).map(([name, each]) => [name, column(each)]));
  return cloud;
}

export const clouds = { recall: decodedCloud(data.recall), scores: decodedCloud(data.scores) };

// A score as it was measured, from one of which more is better; and back.
export const realScore = (value, score = data.score) => (score.lower ? -value : value);

export const headName = (place) => data.heads.names[place].name;
