// The fleet: every server in one table, the worst first.

import { series, shape, sparkline } from "./charts.js";
import { h } from "./dom.js";
import * as format from "./format.js";
import { serverLink } from "./links.js";
import { VERDICTS, findings, hasDrifted, speedupOf, values } from "./verdict.js";

/**
 * Columns of figures. `note` names the window and the kind of what stands below: no number goes without. `cell` gives
 * a text, or {text, note, tone}.
 */
const COLUMNS = [
  { label: "Speedup", note: (window) => `estimated, ${window}`, cell: speedup },
  { label: "Acceptance", note: (window) => `rate, ${window}`, cell: acceptance },
  { label: "Trend", note: (_, span) => `acceptance, ${span}`, cell: trend, kind: "trend" },
  { label: "Length", note: (window) => `tokens, ${window}`, cell: length },
  {
    label: "Coverage",
    note: (window) => `of steps, ${window}`,
    cell: ({ now }) => format.percent(now.draft_coverage, 0),
  },
  { label: "K", note: () => "at most", cell: ({ target }) => (target.k ? String(target.k) : format.NONE) },
  {
    label: "Batch size",
    note: (window) => `mean, ${window}`,
    cell: ({ now }) => format.decimal(now.running_requests, 1),
  },
  {
    label: "Tokens/s",
    note: (window) => `output, ${window}`,
    cell: ({ now }) => format.tokensPerSecond(now.generation_throughput),
  },
  { label: "Drift", note: () => "alarm at 1", cell: drift },
];

function speedup({ target }) {
  const { value, kind } = speedupOf(target);
  const tone = format.isNumber(value) && value < 1 ? "bad" : null;
  return kind === "estimated" ? { text: format.atMost(value), tone } : { text: format.times(value), tone, note: kind };
}

function acceptance({ target, now }) {
  return sinceStart(target, "acceptance_rate", now.acceptance_rate, format.percent);
}

function length({ target, now }) {
  return sinceStart(target, "acceptance_length", now.acceptance_length, format.decimal);
}

/** The V0 engine tells averages since its start only: they are shown where there is nothing newer, and say so. */
function sinceStart(target, name, recent, write) {
  const old = target.since_start?.[name];
  return format.isNumber(recent) || !format.isNumber(old) ? write(recent) : { text: write(old), note: "since start" };
}

function trend({ target, history, span }) {
  const drawn = sparkline(series(history, "acceptance_rate", span[0]), span, target.drift?.reference);
  return { text: drawn ?? format.NONE };
}

function drift({ target }) {
  const reading = target.drift ?? {};
  if (format.isNumber(reading.score)) {
    return { text: format.decimal(reading.score), tone: hasDrifted(target) ? "warn" : null };
  }
  return reading.learned > 0 ? { text: format.percent(reading.learned, 0), note: "learning" } : format.NONE;
}

/** Everything below the headline; `rows` as verdict.ranked gives them, `span` as `commonSpan` does. */
export function fleetTable(rows, { historyOf, span }) {
  const window = rows[0].target.headline_window;
  const words = format.windowWords(window);
  const spanWords = span ? format.duration(span[1] - span[0]) : "none yet";
  const table = h(
    "table",
    { class: "fleet", role: "table", "aria-labelledby": "servers-title" },
    h("thead", { role: "rowgroup" }, heads(words, spanWords)),
    rows.map((row) => serverRows(row, { window, words, spanWords, history: historyOf(row.target.target.name), span })),
  );
  return h(
    "section",
    { "aria-labelledby": "servers-title" },
    h("h2", { id: "servers-title" }, "Servers ", rows.length > 1 && h("small", {}, "the worst first")),
    h("div", { class: "scroller" }, table),
  );
}

function heads(words, spanWords) {
  const head = (label, note, kind) =>
    h("th", { role: "columnheader", scope: "col", class: kind }, label, note && h("small", {}, note));
  return h(
    "tr",
    { role: "row" },
    head("Server"),
    head("Speculation"),
    COLUMNS.map(({ label, note, kind }) => head(label, note(words, spanWords), kind ?? "figure")),
  );
}

function serverRows({ target, verdict }, context) {
  const { name } = target.target;
  const { tone, word, shape: drawn } = VERDICTS[verdict];
  const row = { target, now: values(target), history: context.history, span: context.span ?? [0, 1] };
  const remark = findings(target).find((finding) => finding.level !== "ok");
  return h(
    "tbody",
    { "data-key": name, "data-server": name, "data-tone": tone, role: "rowgroup" },
    h(
      "tr",
      { role: "row" },
      h(
        "th",
        { scope: "row", role: "rowheader", class: "name" },
        h("a", { href: serverLink(name), title: name }, format.outsider(name)),
        h(
          "small",
          { title: target.model_name },
          target.model_name ? format.outsider(target.model_name) : "model not known yet",
        ),
        ownWindow(target, context.window),
      ),
      h("td", { role: "cell", class: "verdict" }, h("span", { class: `word ${tone}` }, shape(drawn), word)),
      COLUMNS.map((column) => cell(column, row, context)),
    ),
    remark &&
      h("tr", { role: "row", class: "remark" }, h("td", { role: "cell", colspan: COLUMNS.length + 2 }, remark.text)),
  );
}

function cell({ label, note, kind, cell: content }, row, { words, spanWords }) {
  const made = content(row);
  const { text, note: own, tone } = typeof made === "string" ? { text: made } : made;
  const isNone = text === format.NONE;
  const where = own ?? note(words, spanWords);
  return h(
    "td",
    {
      role: "cell",
      class: [kind ?? "figure", tone, isNone && "none"].filter(Boolean).join(" "),
      "data-label": label,
      "data-note": where,
    },
    isNone ? h("span", { title: "No value: too little to say" }, text) : h("span", { class: "value" }, text),
    own && h("small", {}, own),
  );
}

/** Which window a server's figures are of, where that is not what the heads of the columns say. */
function ownWindow(target, window) {
  const own = target.headline_window;
  if (own !== window) {
    return h("small", {}, `figures of ${format.windowWords(own)}`);
  }
  const part = format.partCovered(own, target.windows?.[own]?.seconds);
  return part && h("small", {}, `figures of ${part} so far`);
}

/** The time that all trends show, so that they can be compared: from the oldest point of any server, an hour at most. */
export function commonSpan(histories, now) {
  const begins = histories.filter((points) => points.length > 1).map((points) => points[0].at);
  return begins.length ? [Math.max(now - 3600, Math.min(...begins)), now] : null;
}
