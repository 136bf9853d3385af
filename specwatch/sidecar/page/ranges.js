// How far back the charts of a server go.

/**
 * Ranges by their name in the address, in seconds, with the seconds from one point to the next: some hundred points,
 * which is as many as a chart has pixels to tell apart.
 */
export const RANGES = {
  "1h": { seconds: 3600, step: 10, words: "1 h" },
  "6h": { seconds: 6 * 3600, step: 60, words: "6 h" },
  "24h": { seconds: 24 * 3600, step: 240, words: "24 h" },
  "7d": { seconds: 7 * 86400, step: 1800, words: "7 d" },
};

const USUAL = "1h";

/** The range that an address names, or the usual one: [name, { seconds, step, words }]. */
export function rangeOf(name) {
  const known = Object.hasOwn(RANGES, name ?? "") ? name : USUAL;
  return [known, RANGES[known]];
}

/** Where a range's points are, and how often there is a new one. */
export function historyPath(query, name, now) {
  const [, { seconds, step }] = rangeOf(name);
  const end = Math.ceil(now / step) * step;
  return { path: `api/v1/history?${query}&start=${end - seconds}&end=${end}&step=${step}`, step };
}
