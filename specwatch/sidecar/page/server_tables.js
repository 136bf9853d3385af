// A server in tables: its figures by window, its profile by position, its raw counters.

import { bar } from "./charts.js";
import { h, scroller } from "./dom.js";
import * as format from "./format.js";
import { section } from "./sections.js";
import { values } from "./verdict.js";

/** Acceptance by position now, and as it was before the change under way; without one, over the longest window. */
export function positionsSection(target, now) {
  const recent = values(target).position_acceptance ?? [];
  if (!recent.length) {
    return null;
  }
  const window = format.windowWords(target.headline_window);
  const normal = beforeChange(target, now) ?? longest(target);
  return section(
    "Acceptance by position",
    "positions",
    recent.some(format.isNumber)
      ? h(
          "table",
          { class: "plain positions" },
          h(
            "caption",
            {},
            `Share of drafts accepted at each position, not conditional. Bar: ${window}; tick: ${normal.head}.`,
          ),
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              h("th", { scope: "col" }, "Position"),
              h("td", {}),
              h("th", { scope: "col", class: "figure" }, window),
              h("th", { scope: "col", class: "figure" }, normal.head, normal.note && h("small", {}, normal.note)),
            ),
          ),
          h(
            "tbody",
            {},
            recent.map((value, position) => positionRow(position, value, normal.rates[position])),
          ),
        )
      : h("p", { class: "quiet" }, `Too few drafts over ${window} to tell.`),
  );
}

function beforeChange({ before_change: before, drift }, now) {
  return (
    before && {
      head: `before ${format.clock(drift.since, now)}`,
      note: format.duration(before.seconds),
      rates: before.values.position_acceptance ?? [],
    }
  );
}

function longest(target) {
  const [label, { seconds, values: told }] = Object.entries(target.windows).at(-1);
  return { head: format.windowWords(label), note: covered(label, seconds), rates: told.position_acceptance ?? [] };
}

function positionRow(position, value, normal) {
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, String(position)),
    h("td", { class: "bar-cell" }, bar(value, normal)),
    h("td", { class: "figure" }, format.percent(value)),
    h("td", { class: "figure quiet" }, format.percent(normal)),
  );
}

/** Signals that are shown with the one whose 95 % interval they bound. */
const END_OF_INTERVAL = /_(low|high)$/;

export function windowsSection(target, { catalogue }) {
  const windows = Object.entries(target.windows ?? {});
  const columns = windows.map(([label, { seconds, values: told }]) => ({
    head: format.windowWords(label),
    note: covered(label, seconds),
    told,
  }));
  if (Object.keys(target.since_start ?? {}).length) {
    columns.push({ head: "Since start", note: null, told: target.since_start });
  }
  const rows = (catalogue ?? []).filter(
    ({ name }) => !END_OF_INTERVAL.test(name) && columns.some(({ told }) => format.isNumber(told[name])),
  );
  if (!rows.length) {
    return null;
  }
  const heads = columns.map(({ head, note }) =>
    h("th", { scope: "col", class: "figure" }, head, note && h("small", {}, note)),
  );
  const table = h(
    "table",
    { class: "plain windows", "aria-labelledby": "windows" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Signal"), heads)),
    h(
      "tbody",
      {},
      rows.map((signal) => signalRow(signal, columns)),
    ),
  );
  return section("Figures by window", "windows", scroller(table));
}

function signalRow(signal, columns) {
  return h(
    "tr",
    { "data-key": signal.name },
    h("th", { scope: "row", title: signal.help }, signal.title),
    columns.map(({ told }) => figure(signal, told)),
  );
}

function figure(signal, told) {
  const text = format.bySignal(signal, told[signal.name]);
  const [low, high] = [told[`${signal.name}_low`], told[`${signal.name}_high`]];
  const interval =
    format.isNumber(low) && h("small", {}, `${format.bySignal(signal, low)} to ${format.bySignal(signal, high)}`);
  return h("td", { class: text === format.NONE ? "figure none" : "figure" }, text, interval);
}

/** What a window covers, where that is not what its label says. */
function covered(label, seconds) {
  if (!format.isNumber(seconds)) {
    return "no data";
  }
  const part = format.partCovered(label, seconds);
  return part && `${part} so far`;
}

/** Engines that have a column of their own; more are added up. */
const MOST_ENGINES = 8;

/** What the page last said, before anything is worked out from it: to check a figure by hand. */
export function countersSection({ counters }, now) {
  const { engines, at } = counters;
  if (!engines.length) {
    return null;
  }
  const columns = engines.length > MOST_ENGINES ? [total(engines)] : engines;
  const heads = columns.map(({ engine }) => h("th", { scope: "col", class: "figure" }, engine));
  return section(
    "Raw counters",
    "counters",
    h(
      "details",
      { "data-key": "counters" },
      h("summary", {}, "As scraped at ", format.when(at, now), ", since the engine's start"),
      scroller(
        h(
          "table",
          { class: "plain", "aria-labelledby": "counters" },
          h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Counter"), heads)),
          h(
            "tbody",
            {},
            columns[0].counters.map(({ name, series }) =>
              counterRow(
                words(name),
                series[0],
                columns,
                (each) => each.counters.find((other) => other.name === name)?.value,
              ),
            ),
            columns[0].accepted_per_position.map((_, position) =>
              counterRow(
                `accepted at position ${position}`,
                null,
                columns,
                (each) => each.accepted_per_position[position],
              ),
            ),
            Object.keys(columns[0].gauges).map((name) =>
              counterRow(`${words(name)} now`, null, columns, (each) => each.gauges[name]),
            ),
          ),
        ),
      ),
    ),
  );
}

function words(name) {
  return name.replaceAll("_", " ");
}

function counterRow(title, series, columns, read) {
  return h(
    "tr",
    { "data-key": title },
    h("th", { scope: "row" }, title, series && h("small", {}, h("code", {}, series))),
    columns.map((each) => h("td", { class: "figure" }, format.whole(read(each)))),
  );
}

function total(engines) {
  const sum = (read) => engines.reduce((so, each) => so + (read(each) ?? 0), 0);
  const [first] = engines;
  return {
    engine: `all ${engines.length}`,
    counters: first.counters.map(({ name, series }) => ({
      name,
      series,
      value: sum((each) => each.counters.find((other) => other.name === name)?.value),
    })),
    accepted_per_position: first.accepted_per_position.map((_, at) => sum((each) => each.accepted_per_position[at])),
    gauges: Object.fromEntries(Object.keys(first.gauges).map((name) => [name, sum((each) => each.gauges[name])])),
  };
}
