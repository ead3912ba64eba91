// Numbers as readers see them.

// A number and its unit stay on one line; where there was nothing to divide by, there is none.
export const percent = (share, digits = 1) =>
  share === null || Number.isNaN(share) ? "–" : `${(100 * share).toFixed(digits)}\u00a0%`;

// The interval of a number.
export const brackets = (within) => `[${within.map((end) => end.toFixed(3)).join(", ")}]`;

// Three digits of a time, whatever its size.
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const [value, unit] = seconds < 1 ? [1000 * seconds, "ms"] : [seconds, "s"];
  return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)}\u00a0${unit}`;
}
