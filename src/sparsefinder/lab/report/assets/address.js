// What is selected is kept in the address, so that a link shows the same: #section&name=value&name=value. Pages that are
// opened from a disk may change nothing of their address but what comes after the #.

const [first, ...pairs] = location.hash.slice(1).split("&");
const kept = new Map(pairs.map((pair) => pair.split("=").map(decodeURIComponent)));
let place = first;

export const remembered = (name) => kept.get(name) ?? null;

// Nothing (null) is kept of what is as it was at first.
export function remember(name, value) {
  if (value === null) kept.delete(name);
  else kept.set(name, String(value));
  write();
}

// Go to a section and keep what is selected.
export function goTo(section) {
  place = section;
  write();
  show(section);
}

// Where the address leads, once the sections are there.
export function followAddress() {
  if (place) {
    show(place);
    // Charts above it take their size a little later.
    const settling = new ResizeObserver(() => show(place));
    settling.observe(document.querySelector("main"));
    setTimeout(() => settling.disconnect(), 1000);
  }
  // A link that is opened where the page is open already.
  addEventListener("hashchange", () => location.reload());
}

function show(section) {
  const found = document.getElementById(section);
  found?.scrollIntoView({ behavior: "instant" });
  found?.focus({ preventScroll: true });
}

function write() {
  const said = [...kept].map((pair) => pair.map(encodeURIComponent).join("="));
  history.replaceState(null, "", `#${[place, ...said].join("&")}`);
}
