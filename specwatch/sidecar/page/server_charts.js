// A server over time: its figures with their limits, and the moments at which something changed.

import { chart, series, timeAxis } from "./charts.js";
import { h } from "./dom.js";
import * as format from "./format.js";
import { changed } from "./links.js";
import { RANGES, rangeOf } from "./ranges.js";
import { section } from "./sections.js";
import { hasDrifted, speedupOf } from "./verdict.js";

const share = (value) => format.percent(value, 0);
const plain = (value) => String(Number(value.toFixed(1)));

/** How a figure stands to an alert's limit, as people say it. */
const RELATIONS = { "<": "below", ">": "above", "<=": "at or below", ">=": "at or above", "==": "at" };

/**
 * The charts. `figure` is a point's; `signal` what the alerts' limits are of; `least` how far the scale goes at least;
 * `note` the kind, where the title does not say it.
 */
const CHARTS = [
  {
    figure: "acceptance_rate",
    title: "Acceptance rate",
    isLarge: true,
    top: 1,
    write: share,
    exact: format.percent,
    marks: normal,
  },
  {
    figure: "speedup",
    title: "Speedup",
    isLarge: true,
    least: 1.8,
    write: (value) => `${plain(value)}×`,
    exact: format.times,
    note: (target) => speedupOf(target).kind,
    marks: () => [{ value: 1, text: "break-even 1×" }],
  },
  { figure: "drift_score", title: "Drift score", least: 1.8, write: plain, exact: format.decimal, isMoment: true },
  { figure: "running_requests", title: "Load", note: () => "requests running, mean", least: 4, write: plain },
  {
    figure: "waiting_requests",
    title: "Queue",
    note: () => "requests waiting, mean",
    least: 4,
    write: plain,
    isLeftOutAtZero: true,
  },
  { figure: "draft_length", title: "K", note: () => "draft tokens, mean", least: 4, write: plain },
  { figure: "draft_coverage", title: "Coverage", note: () => "of decode steps", top: 1, write: share },
];

/** Where along the charts the pointer is, 0 to 1: one moment for all of them, so that they can be compared. */
let pointed = null;

/** Take in where the pointer is; tells whether that changes anything. */
export function pointAt(event) {
  const drawn = event.target.closest?.(".chart");
  const box = drawn?.getBoundingClientRect();
  const before = pointed;
  pointed = box ? (event.clientX - box.left) / box.width : null;
  return pointed !== before;
}

/** How far from the pointer a point may be to be told, in shares of the chart. */
const NEAR = 0.02;

/** Changes of acceptance that are drawn: the latest ones, more would hide the line. */
const MOST_CHANGES = 12;

/** Room above the highest value, so that its line does not lie on the edge. */
const HEADROOM = 1.1;

/** The charts that there are figures for, and the choice of a range; `context` holds now, thresholds, what is open. */
export function chartsSection(target, params, context) {
  const { now, open } = context;
  const [range, { seconds, words }] = rangeOf(params.range);
  const points = open.history.points;
  const span = [now - seconds, now];
  const drawn = CHARTS.filter((each) => isDrawn(each, points)).map((each, index) =>
    drawing(each, target, { ...context, span, words, isFirst: index === 0 }),
  );
  return section(
    "Over time",
    "over-time",
    h(
      "ul",
      { class: "ranges", "aria-label": "Range of time" },
      Object.entries(RANGES).map(([name, each]) =>
        h(
          "li",
          {},
          h(
            "a",
            {
              href: changed({ view: "server", name: target.target.name, params }, { range: name }),
              "aria-current": name === range ? "true" : null,
            },
            each.words,
          ),
        ),
      ),
    ),
    drawn.length
      ? h("div", { class: "charts" }, drawn)
      : h("p", { class: "quiet" }, `Nothing was counted in the last ${words}.`),
  );
}

function isDrawn({ figure, isLeftOutAtZero }, points) {
  return points.some((point) => format.isNumber(point[figure]) && (point[figure] > 0 || !isLeftOutAtZero));
}

function drawing(kind, target, { open, thresholds, span, words, isFirst }) {
  const points = series(open.history.points, kind.figure, span[0]);
  const known = points.map(({ value }) => value).filter(format.isNumber);
  const window = format.duration(open.history.window ?? 0);
  const note = [kind.note?.(target), kind.isMoment ? "at each moment" : `${window} windows`].filter(Boolean).join(", ");
  const top = kind.top ?? niceTop(HEADROOM * Math.max(kind.least, ...known));
  const marks = [...(kind.marks?.(target) ?? []), ...limits(kind, thresholds)];
  return h(
    "figure",
    { "data-key": kind.figure, "data-figure": kind.figure, class: kind.isLarge ? "large" : "small" },
    h("figcaption", {}, h("span", {}, kind.title, " ", h("small", {}, note)), readout(kind, points, span)),
    chart(points, {
      label: inWords(kind, known, words),
      span,
      top,
      format: kind.write,
      marks: apart(marks, top),
      moments: [...moments(target, open.history.changes ?? [], span[1], isFirst), ...pointer(span)],
    }),
    timeAxis(span),
  );
}

function pointer(span) {
  return pointed === null ? [] : [{ at: atShare(pointed, span), text: "", kind: "pointer" }];
}

function atShare(share, [from, to]) {
  return from + share * (to - from);
}

/** The value where the pointer is, with its time. */
function readout({ write, exact = write }, points, span) {
  if (pointed === null) {
    return null;
  }
  const at = atShare(pointed, span);
  const known = points.filter(({ value }) => format.isNumber(value));
  const nearest = known.sort((one, other) => Math.abs(one.at - at) - Math.abs(other.at - at))[0];
  const isNear = nearest && Math.abs(nearest.at - at) < NEAR * (span[1] - span[0]);
  const [when, what] = isNear ? [nearest.at, exact(nearest.value)] : [at, format.NONE];
  return h("span", { class: "readout" }, format.clock(when, span[1]), " ", h("b", {}, what));
}

/** What a chart says, for those who do not see it. */
function inWords({ title, write }, known, words) {
  if (!known.length) {
    return `${title} over the last ${words}: no value`;
  }
  const [least, most, last] = [Math.min(...known), Math.max(...known), known.at(-1)].map(write);
  return `${title} over the last ${words}: now ${last}, between ${least} and ${most}`;
}

/** The end of a scale: 1, 2 or 5 times a power of ten, or the next even number below ten. */
function niceTop(most) {
  if (most <= 10) {
    return 2 * Math.ceil(most / 2);
  }
  const power = 10 ** Math.floor(Math.log10(most));
  return power * [1, 2, 5, 10].find((factor) => power * factor >= most);
}

function normal(target) {
  const { reference } = target.drift ?? {};
  return format.isNumber(reference) ? [{ value: reference, text: `normal ${format.percent(reference)}` }] : [];
}

/** What the alerts hold a figure against. */
function limits({ figure, write }, thresholds) {
  const own = (thresholds ?? []).filter(({ signal }) => signal === figure);
  return own.map(({ threshold, comparison, severity }) => ({
    value: threshold,
    text: `${severity} ${RELATIONS[comparison] ?? comparison} ${write(threshold)}`,
    kind: "limit",
  }));
}

/** Marks whose words would cover each other's: those of the later one go below its line. */
function apart(marks, top) {
  const sorted = [...marks].sort((one, other) => other.value - one.value);
  return sorted.map((mark, index) => ({
    ...mark,
    isBelow: index > 0 && (sorted[index - 1].value - mark.value) / top < 0.2,
  }));
}

/**
 * When acceptance left its normal and came back: noted changes, and the one under way where it is not noted yet. The
 * latest are told in words in the first chart, and drawn in all.
 */
function moments(target, noted, now, isTold) {
  const { since, direction } = target.drift ?? {};
  const isNoted = noted.some((change) => change.ended_at === null);
  const current =
    since && !isNoted && (direction === "rose" || hasDrifted(target)) ? [{ began: since, direction }] : [];
  const told = [...noted, ...current].slice(-MOST_CHANGES);
  return told.flatMap(({ began, ended_at: ended, direction: way }, index) => {
    const isWorded = isTold && index === told.length - 1;
    const kind = way === "rose" ? "quiet" : "";
    const word = way === "rose" ? "rise" : "fall";
    return [
      { at: began, kind, text: isWorded ? `${word} began ${format.clock(began, now)}` : "" },
      ended && { at: ended, kind: "quiet", text: isWorded ? `over ${format.clock(ended, now)}` : "" },
    ].filter(Boolean);
  });
}
