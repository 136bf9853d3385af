// How a server stands, in one word; which comes first; and the one sentence about all of them.

import { isNumber } from "./format.js";

/**
 * Verdicts, the worst first. `shape` and `word` say what `tone` colours; `count` is how the sentence tells one and
 * several; servers of a named verdict are named in it; `isVerb` are what servers do ("pays"), not what they are.
 */
export const VERDICTS = {
  costs: { word: "Costs", tone: "bad", shape: "down", count: ["costs", "cost"], named: true, isVerb: true },
  unreachable: { word: "Unreachable", tone: "bad", shape: "cross", count: ["unreachable", "unreachable"], named: true },
  unreadable: { word: "Unreadable", tone: "bad", shape: "cross", count: ["unreadable", "unreadable"], named: true },
  silent: { word: "No news", tone: "warn", shape: "ring", count: ["without news", "without news"], named: true },
  idleDraft: {
    word: "Not drafting",
    tone: "warn",
    shape: "ring",
    count: ["not drafting", "not drafting"],
    named: true,
  },
  drifted: {
    word: "Pays, drifted",
    tone: "warn",
    shape: "diamond",
    count: ["pays but drifted", "pay but drifted"],
    named: true,
    isVerb: true,
  },
  plain: {
    word: "No speculation",
    tone: "warn",
    shape: "ring",
    count: ["without speculation", "without speculation"],
    named: true,
  },
  pays: { word: "Pays", tone: "good", shape: "dot", count: ["pays", "pay"], isVerb: true },
  twin: { word: "Plain twin", tone: "quiet", shape: "ring", count: ["plain twin", "plain twins"] },
  unknown: { word: "No estimate", tone: "quiet", shape: "ring", count: ["without an estimate", "without an estimate"] },
  idle: { word: "No traffic", tone: "quiet", shape: "ring", count: ["without traffic", "without traffic"] },
  waiting: { word: "Waiting", tone: "quiet", shape: "ring", count: ["not scraped yet", "not scraped yet"] },
};

const RANK = Object.fromEntries(Object.keys(VERDICTS).map((name, rank) => [name, rank]));

/** Findings that settle the verdict whatever the figures are. */
const BY_FINDING = {
  "no-news": "silent",
  "not-drafting": "idleDraft",
  "no-speculation": "plain",
  "plain-twin": "twin",
  "no-traffic": "idle",
};

/** The server's signals over a window, its headline window by default; an empty object where there are none. */
export function values(target, window = target.headline_window) {
  return target.windows?.[window]?.values ?? {};
}

/** The findings, the most important first; an empty list where there are none. */
export function findings(target) {
  return target.findings ?? [];
}

export function hasDrifted(target) {
  return isNumber(target.drift?.score) && target.drift.score >= 1;
}

/** The speedup as well as it is known over the headline window: { value, kind, low, high, source }. */
export function speedupOf(target) {
  const best = target.speedups?.[0];
  return best && best.kind !== "estimated" ? best : { value: values(target).estimated_speedup, kind: "estimated" };
}

/** Name of the server's verdict over the headline window: a key of VERDICTS. */
function verdictOf(target) {
  if (target.up === false) {
    return "unreachable";
  }
  const settled = findings(target).find((finding) => finding.code in BY_FINDING);
  if (settled) {
    return BY_FINDING[settled.code];
  }
  if (target.up !== true) {
    return "waiting";
  }
  const speedup = speedupOf(target).value;
  if (isNumber(speedup)) {
    return speedup < 1 ? "costs" : hasDrifted(target) ? "drifted" : "pays";
  }
  return findings(target).some((finding) => finding.level === "problem") ? "unreadable" : "unknown";
}

/** Servers with their verdicts, the worst first. */
export function ranked(targets) {
  return targets
    .map((target) => ({ target, verdict: verdictOf(target) }))
    .sort((one, other) => compare(weight(one), weight(other)));
}

/**
 * What decides the order. Speedups are compared in steps of a tenth, and only where something is wrong: rows that
 * trade places at every scrape cannot be read, let alone clicked.
 */
function weight({ target, verdict }) {
  const hasProblem = findings(target).some((finding) => finding.level === "problem");
  const speedup = speedupOf(target).value;
  const step = hasProblem && isNumber(speedup) ? Math.round(speedup * 10) : 0;
  return [RANK[verdict], hasProblem ? 0 : 1, step, target.target.name];
}

const byName = new Intl.Collator("en", { numeric: true });

function compare(one, other) {
  for (const [index, value] of one.entries()) {
    const order = typeof value === "string" ? byName.compare(value, other[index]) : value - other[index];
    if (order) {
      return order;
    }
  }
  return 0;
}

/** Servers by verdict, as [verdict, targets], in the order of VERDICTS; `rows` as `ranked` gives them. */
export function groups(rows) {
  const byVerdict = new Map();
  for (const { target, verdict } of rows) {
    byVerdict.set(verdict, [...(byVerdict.get(verdict) ?? []), target]);
  }
  return [...byVerdict];
}

/** Servers of one verdict in words: "2 pay". */
export function count(verdict, members) {
  return `${members.length} ${VERDICTS[verdict].count[members.length === 1 ? 0 : 1]}`;
}
