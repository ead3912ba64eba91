// What the run has, as JSON in the page; numbers are base64 of typed arrays, large ones deflated.

export const data = JSON.parse(document.getElementById("data").textContent);

const ARRAYS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array };

function bytesOf(base64) {
  const letters = atob(base64);
  const bytes = new Uint8Array(letters.length);
  for (let place = 0; place < letters.length; place++) bytes[place] = letters.charCodeAt(place);
  return bytes;
}

export function column(encoded) {
  return new ARRAYS[encoded.kind](bytesOf(encoded.data).buffer);
}

export async function inflate(base64) {
  const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

export function settingWords(cloud, place) {
  const { words, own, window, globals } = cloud;
  return (
    [
      words[own[place]],
      window[place] ? `window ${window[place]}` : "",
      globals[place] ? `${globals[place]} global` : "",
    ]
      .filter(Boolean)
      .join(", ") || "no parameters"
  );
}

function decodedCloud(encoded) {
  if (!encoded) return null;
  const cloud = { words: encoded.words };
  for (const name of ["series", "own", "window", "globals", "x", "y", "best"]) cloud[name] = column(encoded[name]);
  return cloud;
}

export const clouds = { recall: decodedCloud(data.recall), scores: decodedCloud(data.scores) };

// A score as it was measured, from one of which more is better; and back.
export const realScore = (value) => (data.score.lower ? -value : value);

export function headName(place) {
  const { kind, layer, head } = data.heads.names[place];
  const kinds = new Set(data.heads.names.map((one) => one.kind)).size;
  return `${kinds > 1 ? `${kind}, ` : ""}layer ${layer}, head ${head}`;
}
