// Small drawings in SVG: shapes, sparklines, charts over time, bars.

import { h, s } from "./dom.js";
import { clock, duration, isNumber, percent } from "./format.js";

/** Drawings of a verdict or a level, so that no meaning hangs on colour alone. */
const SHAPES = {
  dot: () => s("circle", { cx: 8, cy: 8, r: 5 }),
  ring: () => s("circle", { cx: 8, cy: 8, r: 4, class: "hollow" }),
  down: () => s("path", { d: "M2 3.5h12L8 13.5z" }),
  diamond: () => s("path", { d: "M8 1.8 14.2 8 8 14.2 1.8 8z" }),
  cross: () => s("path", { d: "m3.5 3.5 9 9m0-9-9 9", class: "hollow" }),
  rising: () => s("path", { d: "M8 4 13 11H3z" }),
  falling: () => s("path", { d: "M3 5h10l-5 7z" }),
  mute: () => s("path", { d: "M3 8h10", class: "hollow" }),
  tick: () => s("path", { d: "m3 8.5 3.5 3.5L13 4.5", class: "hollow" }),
  bell: () =>
    s("path", {
      d: "M8 1.5a4.3 4.3 0 0 1 4.3 4.3c0 3.2 1.2 4.4 1.7 5.2H2c.5-.8 1.7-2 1.7-5.2A4.3 4.3 0 0 1 8 1.5zM6.3 12.3h3.4a1.7 1.7 0 0 1-3.4 0z",
    }),
  clock: () => [
    s("circle", { cx: 8, cy: 8, r: 5.6, class: "hollow" }),
    s("path", { d: "M8 4.6V8l2.4 1.6", class: "hollow" }),
  ],
};

export function shape(name) {
  return s("svg", { class: "shape", viewBox: "0 0 16 16", "aria-hidden": "true" }, SHAPES[name]());
}

/** Pauses that a line does not bridge, in usual distances between points: a missed scrape or two are no hole. */
const LONGEST_BRIDGE = 3.5;

function usualDistance(points) {
  const distances = points.slice(1).map((point, index) => point.at - points[index].at);
  return distances.sort((one, other) => one - other)[Math.floor(distances.length / 2)] ?? 0;
}

/** Runs of points that belong together: broken where a value is missing or time jumps. */
function runs(points) {
  const longest = LONGEST_BRIDGE * usualDistance(points);
  const found = [];
  let before = null;
  for (const point of points) {
    if (!isNumber(point.value)) {
      before = null;
      continue;
    }
    if (before === null || point.at - before > longest) {
      found.push([]);
    }
    found.at(-1).push(point);
    before = point.at;
  }
  return found;
}

/** The line through points, and the area between it and the height `floor`. */
function linePaths(points, x, y, floor) {
  const pieces = runs(points).map((run) => ({
    line: run.map(({ at, value }) => `${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("L"),
    first: x(run[0].at).toFixed(1),
    last: x(run.at(-1).at).toFixed(1),
  }));
  return [
    s("path", {
      class: "area",
      d: pieces.map(({ line, first, last }) => `M${first} ${floor}L${line}L${last} ${floor}Z`).join(""),
    }),
    s("path", { class: "line", d: pieces.map(({ line }) => `M${line}`).join("") }),
  ];
}

/** At most about `count` points: every n-th, and the last. */
function thinned(points, count) {
  const step = Math.ceil(points.length / count);
  return points.filter((_, index) => (points.length - 1 - index) % step === 0);
}

/** Points of one figure between two moments, as [{at, value}]. */
export function series(history, figure, from) {
  return history.filter((point) => point.at >= from).map((point) => ({ at: point.at, value: point[figure] ?? null }));
}

/** A ratio over time on a scale of 0 to 1, its normal dashed; `span` is [from, to]. */
export function sparkline(points, [from, to], reference) {
  const known = points.filter((point) => isNumber(point.value));
  if (known.length < 2) {
    return null;
  }
  const x = (at) => 1 + (124 * (at - from)) / (to - from || 1);
  const y = (value) => 34 - 32 * Math.min(1, Math.max(0, value));
  const last = known.at(-1);
  const label = `Acceptance rate over ${duration(last.at - known[0].at)}: from ${percent(known[0].value)} to ${percent(last.value)}`;
  return s(
    "svg",
    { class: "sparkline", viewBox: "0 0 128 36", role: "img", "aria-label": label },
    s("title", {}, label),
    isNumber(reference) && s("path", { class: "reference", d: `M1 ${y(reference)}H125` }),
    linePaths(thinned(points, 124), x, y, 34),
    s("circle", { class: "end", cx: x(last.at).toFixed(1), cy: y(last.value).toFixed(1), r: 2 }),
  );
}

/**
 * A figure over time. `options`: `label` (for those who cannot see it), `span` [from, to], `top` of the scale (it begins
 * at 0), `format`, `marks` [{value, text, kind, isBelow}] across, `moments` [{at, text, kind}] along.
 */
export function chart(points, options) {
  const [from, to] = options.span;
  const share = (at) => (to > from ? (at - from) / (to - from) : 1);
  const height = (value) => 1 - Math.min(1, Math.max(0, value / options.top));
  const paths = linePaths(
    thinned(points, 700),
    (at) => 1000 * share(at),
    (value) => 1000 * height(value),
    1000,
  );
  return s(
    "svg",
    { class: "chart", role: "img", "aria-label": options.label },
    [0, 0.5, 1].map((ratio) => [
      s("line", { class: "grid", x1: "0", x2: "100%", y1: along(ratio), y2: along(ratio) }),
      ratio < 1 &&
        s("text", { class: "scale", x: 4, y: along(ratio), dy: 13 }, options.format(options.top * (1 - ratio))),
    ]),
    s(
      "svg",
      { viewBox: "0 0 1000 1000", preserveAspectRatio: "none", width: "100%", height: "100%", overflow: "visible" },
      paths,
    ),
    options.marks.map((mark) => acrossMark(mark, height(mark.value))),
    options.moments.filter(({ at }) => at >= from && at <= to).map((moment) => alongMark(moment, share(moment.at))),
  );
}

function along(ratio) {
  return `${(100 * ratio).toFixed(2)}%`;
}

function acrossMark({ text, kind = "", isBelow = false }, height) {
  const y = along(height);
  return [
    s("line", { class: `mark ${kind}`, x1: "0", x2: "100%", y1: y, y2: y }),
    s("text", { class: "mark-text", x: "100%", y, dx: -4, dy: isBelow || height < 0.15 ? 13 : -5 }, text),
  ];
}

function alongMark({ text, kind = "" }, share) {
  const x = along(share);
  const isLate = share > 0.3;
  return [
    s("line", { class: `moment ${kind}`, x1: x, x2: x, y1: "0", y2: "100%" }),
    s(
      "text",
      { class: `moment-text ${isLate ? "before" : ""} ${kind}`, x, y: "100%", dx: isLate ? -5 : 5, dy: -6 },
      text,
    ),
  ];
}

/** The chart's ends in time. */
export function timeAxis([from, to]) {
  return h(
    "p",
    { class: "axis" },
    h("span", {}, clock(from, to)),
    h("span", {}, duration(to - from)),
    h("span", {}, clock(to, to)),
  );
}

/** A share of 1 as a bar, with a tick where another value stands. */
export function bar(value, tick) {
  const width = (share) => (100 * Math.min(1, Math.max(0, share))).toFixed(2);
  return s(
    "svg",
    { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "track", width: 100, height: 10 }),
    isNumber(value) && s("rect", { class: "filled", width: width(value), height: 10 }),
    isNumber(tick) && s("line", { class: "tick", x1: width(tick), x2: width(tick), y1: 0, y2: 10 }),
  );
}
