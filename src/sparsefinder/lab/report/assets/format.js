// Numbers as readers see them.

// A number and its unit stay on one line.
export const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)}\u00a0%`;

// Three digits of a time, whatever its size.
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const [value, unit] = seconds < 1 ? [1000 * seconds, "ms"] : [seconds, "s"];
  return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)}\u00a0${unit}`;
}
