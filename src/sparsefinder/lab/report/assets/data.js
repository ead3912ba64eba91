// What the run has, as JSON in the page; numbers are base64 of typed arrays, large ones deflated.

const data = JSON.parse(document.getElementById("data").textContent);

const ARRAYS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array };

function bytesOf(base64) {
  const letters = atob(base64);
  const bytes = new Uint8Array(letters.length);
  for (let place = 0; place < letters.length; place++) bytes[place] = letters.charCodeAt(place);
  return bytes;
}

function column(encoded) {
  return new ARRAYS[encoded.kind](bytesOf(encoded.data).buffer);
}

async function inflate(base64) {
  const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

// A value that others listen to: signal(3).set(4) calls every listener with 4.
function signal(value) {
  const listeners = [];
  return {
    get: () => value,
    set(next) {
      if (next === value) return;
      value = next;
      for (const listener of listeners) listener(value);
    },
    listen(listener) {
      listeners.push(listener);
    },
  };
}

// What several sections share: the methods that are hidden, the one that is pointed at, and the head that was chosen.
const hiddenSeries = signal(new Set());
const pointedSeries = signal(null);
const chosenHead = signal(0);

// A number and its unit stay on one line.
const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)}\u00a0%`;

// Three digits of a time, whatever its size.
function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const [value, unit] = seconds < 1 ? [1000 * seconds, "ms"] : [seconds, "s"];
  return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)}\u00a0${unit}`;
}

function settingWords(cloud, place) {
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

const clouds = { recall: decodedCloud(data.recall), scores: decodedCloud(data.scores) };

function headName(place) {
  const { kind, layer, head } = data.heads.names[place];
  const kinds = new Set(data.heads.names.map((one) => one.kind)).size;
  return `${kinds > 1 ? `${kind}, ` : ""}layer ${layer}, head ${head}`;
}
