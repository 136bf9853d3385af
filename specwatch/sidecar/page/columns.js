// The columns of the table of servers: what they show, and what they sort by.

import * as format from "./format.js";
import { hasDrifted, speedupOf } from "./verdict.js";

/**
 * Columns of figures. `note` names the window and the kind of what stands below: no number goes without. `cell` gives
 * a text, or {text, note, tone}; `by` what the column sorts by, `first` the order that it is first sorted in, such that
 * what needs a look comes first.
 */
export const COLUMNS = [
  {
    key: "speedup",
    label: "Speedup",
    note: (window) => `estimated, ${window}`,
    cell: speedup,
    by: ({ target }) => speedupOf(target).value,
    first: "up",
  },
  {
    key: "acceptance",
    label: "Acceptance",
    note: (window) => `rate, ${window}`,
    cell: ({ target, now }) => sinceStart(target, "acceptance_rate", now.acceptance_rate, format.percent),
    by: ({ target, now }) => now.acceptance_rate ?? target.since_start?.acceptance_rate,
    first: "up",
  },
  { key: "trend", label: "Trend", note: (_, span) => `acceptance, ${span}`, kind: "trend" },
  {
    key: "length",
    label: "Length",
    note: (window) => `tokens, ${window}`,
    cell: ({ target, now }) => sinceStart(target, "acceptance_length", now.acceptance_length, format.decimal),
    by: ({ target, now }) => now.acceptance_length ?? target.since_start?.acceptance_length,
    first: "up",
  },
  {
    key: "coverage",
    label: "Coverage",
    note: (window) => `of steps, ${window}`,
    cell: ({ now }) => format.percent(now.draft_coverage, 0),
    by: ({ now }) => now.draft_coverage,
    first: "up",
  },
  {
    key: "k",
    label: "K",
    note: () => "at most",
    cell: ({ target }) => (target.k ? String(target.k) : format.NONE),
    by: ({ target }) => target.k,
    first: "down",
  },
  {
    key: "batch",
    label: "Batch size",
    note: (window) => `mean, ${window}`,
    cell: ({ now }) => format.decimal(now.running_requests, 1),
    by: ({ now }) => now.running_requests,
    first: "down",
  },
  {
    key: "tokens",
    label: "Tokens/s",
    note: (window) => `output, ${window}`,
    cell: ({ now }) => format.tokensPerSecond(now.generation_throughput),
    by: ({ now }) => now.generation_throughput,
    first: "down",
  },
  {
    key: "drift",
    label: "Drift",
    note: () => "alarm at 1",
    cell: drift,
    by: ({ target }) => target.drift?.score,
    first: "down",
  },
];

/** What the table can be sorted by: its columns, and the servers' names. Without one of them the worst come first. */
export const SORTS = [
  { key: "name", label: "Server", by: ({ target }) => target.target.name, first: "up" },
  ...COLUMNS.filter(({ by }) => by),
];

function speedup({ target }) {
  const { value, kind } = speedupOf(target);
  const tone = format.isNumber(value) && value < 1 ? "bad" : null;
  return kind === "estimated" ? { text: format.atMost(value), tone } : { text: format.times(value), tone, note: kind };
}

/** The V0 engine tells averages since its start only: they are shown where there is nothing newer, and say so. */
function sinceStart(target, name, recent, write) {
  const old = target.since_start?.[name];
  return format.isNumber(recent) || !format.isNumber(old) ? write(recent) : { text: write(old), note: "since start" };
}

function drift({ target }) {
  const reading = target.drift ?? {};
  if (format.isNumber(reading.score)) {
    return { text: format.decimal(reading.score), tone: hasDrifted(target) ? "warn" : null };
  }
  return reading.learned > 0 ? { text: format.percent(reading.learned, 0), note: "learning" } : format.NONE;
}
