// Values that several sections share and listen to.

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
export const hiddenSeries = signal(new Set());
export const pointedSeries = signal(null);
export const chosenHead = signal(0);
