// The fleet: every server in one table, the worst first unless asked otherwise.

import { shape, sparkline } from "./charts.js";
import { COLUMNS, SORTS } from "./columns.js";
import { controls } from "./controls.js";
import { h } from "./dom.js";
import * as format from "./format.js";
import { lazy } from "./lazy.js";
import { changed, serverLink } from "./links.js";
import { byModel, selected } from "./selection.js";
import { VERDICTS, count, findings, groups, values } from "./verdict.js";

/** The table with its controls; `rows` as verdict.ranked gives them, `address` says what to show of them how. */
export function fleetTable(rows, address) {
  const shown = selected(rows, address.params);
  const window = rows[0].target.headline_window;
  const span = commonSpan(rows);
  const context = { window, words: format.windowWords(window), span, spanWords: format.duration(span[1] - span[0]) };
  return h(
    "section",
    { "aria-labelledby": "servers-title" },
    h("h2", { id: "servers-title" }, "Servers ", h("small", {}, summary(rows, shown, address.params))),
    (rows.length > 1 || Object.keys(address.params).length > 0) && controls(rows, address),
    shown.length ? table(shown, context, address) : nothingFound(address),
  );
}

function summary(rows, shown, { sort, order }) {
  const which = shown.length < rows.length && `${shown.length} of ${rows.length}`;
  const column = SORTS.find(({ key }) => key === sort);
  const descends = column && (order ?? column.first) === "down";
  const how = column ? `by ${column.label.toLowerCase()}, ${descends ? "descending" : "ascending"}` : "the worst first";
  return [which, rows.length > 1 && how].filter(Boolean).join(", ");
}

function nothingFound(address) {
  return h(
    "p",
    { class: "quiet", role: "status" },
    "No server is like that. ",
    h("a", { href: changed(address, { find: null, state: null }) }, "Show all servers"),
  );
}

function table(shown, context, address) {
  const bodies =
    address.params.group === "model"
      ? byModel(shown).flatMap(([model, rows]) => [groupHead(model, rows), rows.map((row) => body(row, context))])
      : shown.map((row) => body(row, context));
  return h(
    "div",
    { class: "scroller", "data-key": address.params.group ?? "flat" },
    h(
      "table",
      { class: "fleet", role: "table", "aria-labelledby": "servers-title" },
      h("thead", { role: "rowgroup" }, heads(context, address)),
      bodies,
    ),
  );
}

function groupHead(model, rows) {
  const counts = groups(rows).map(([verdict, members]) => count(verdict, members));
  return h(
    "tbody",
    { class: "group", role: "rowgroup", "data-key": `model ${model}` },
    h(
      "tr",
      { role: "row" },
      h(
        "th",
        { role: "rowheader", scope: "rowgroup", colspan: COLUMNS.length + 2 },
        model ? format.outsider(model) : "Model not known yet",
        " ",
        h("small", {}, `${rows.length} ${rows.length === 1 ? "server" : "servers"}: ${counts.join(", ")}`),
      ),
    ),
  );
}

function heads({ words, spanWords }, address) {
  return h(
    "tr",
    { role: "row" },
    head("Server", { key: "name", first: "up" }, address),
    head("Speculation", { key: null, first: "up" }, address),
    COLUMNS.map((column) =>
      head(column.label, column, address, column.note(words, spanWords), column.kind ?? "figure"),
    ),
  );
}

/** A head that sorts by its column; at another click the other way round. */
function head(label, { key, by, first, kind }, address, note, place) {
  const { sort = null, order = first } = address.params;
  const isSorted = sort === key;
  const next = isSorted && order === first ? (first === "up" ? "down" : "up") : null;
  const link = (kind !== "trend" || by) && {
    href: changed(address, key === null ? { sort: null, order: null } : { sort: key, order: isSorted ? next : null }),
    title: key === null ? "The worst first" : `Sort by ${label.toLowerCase()}`,
  };
  return h(
    "th",
    {
      role: "columnheader",
      scope: "col",
      class: place,
      "aria-sort": isSorted && link ? (order === "down" ? "descending" : "ascending") : null,
    },
    link ? h("a", link, label, isSorted && shape(order === "down" ? "falling" : "rising")) : label,
    note && h("small", {}, note),
  );
}

/** A server's rows, built anew only where what they say has changed. */
function body(row, context) {
  const said = sayings(row, context);
  return lazy("tbody", row.target.target.name, JSON.stringify(said), () => serverRows(said, context));
}

/** Everything that a server's rows say, as data. */
function sayings({ target, verdict }, context) {
  const told = { target, now: values(target) };
  return {
    name: target.target.name,
    model: target.model_name,
    own: ownWindow(target, context.window),
    verdict,
    remark: findings(target).find((finding) => finding.level !== "ok")?.text,
    cells: COLUMNS.map((column) => (column.cell ? cellOf(column, told, context) : null)),
    trend: target.trend,
    reference: target.drift?.reference,
    span: context.span,
  };
}

function cellOf({ note, cell }, told, { words, spanWords }) {
  const made = cell(told);
  const { text, note: own, tone } = typeof made === "string" ? { text: made } : made;
  return { text, own, tone, where: own ?? note(words, spanWords) };
}

function serverRows(said, context) {
  const { tone, word, shape: drawn } = VERDICTS[said.verdict];
  return h(
    "tbody",
    { "data-server": said.name, "data-tone": tone, role: "rowgroup" },
    h(
      "tr",
      { role: "row" },
      h(
        "th",
        { scope: "row", role: "rowheader", class: "name" },
        h("a", { href: serverLink(said.name), title: said.name }, format.outsider(said.name)),
        h("small", { title: said.model }, said.model ? format.outsider(said.model) : "model not known yet"),
        said.own && h("small", {}, said.own),
      ),
      h("td", { role: "cell", class: "verdict" }, h("span", { class: `word ${tone}` }, shape(drawn), word)),
      COLUMNS.map((column, index) =>
        column.cell ? cell(column, said.cells[index]) : trendCell(column, said, context),
      ),
    ),
    said.remark &&
      h("tr", { role: "row", class: "remark" }, h("td", { role: "cell", colspan: COLUMNS.length + 2 }, said.remark)),
  );
}

function cell({ label }, { text, own, tone, where }) {
  const isNone = text === format.NONE;
  return h(
    "td",
    {
      role: "cell",
      class: ["figure", tone, isNone && "none"].filter(Boolean).join(" "),
      "data-label": label,
      "data-note": where,
    },
    isNone ? h("span", { title: "No value: too little to say" }, text) : h("span", { class: "value" }, text),
    own && h("small", {}, own),
  );
}

function trendCell({ label, note }, { trend, reference, span }, { words, spanWords }) {
  const drawn = sparkline(pointsOf(trend), span, reference);
  return h(
    "td",
    { role: "cell", class: drawn ? "trend" : "trend none", "data-label": label, "data-note": note(words, spanWords) },
    drawn ?? h("span", { title: "No value: too little to say" }, format.NONE),
  );
}

/** A trend's values with their times. */
function pointsOf({ end, step, values: all }) {
  return all.map((value, index) => ({ at: end - (all.length - 1 - index) * step, value }));
}

/** Which window a server's figures are of, where that is not what the heads of the columns say. */
function ownWindow(target, window) {
  const own = target.headline_window;
  if (own !== window) {
    return `figures of ${format.windowWords(own)}`;
  }
  const part = format.partCovered(own, target.windows?.[own]?.seconds);
  return part && `figures of ${part} so far`;
}

/** The time that all trends show, so that they can be compared. */
function commonSpan(rows) {
  const trends = rows.map(({ target }) => target.trend);
  const begins = trends.map(({ end, step, values: all }) => end - (all.length - 1) * step);
  return [Math.min(...begins), Math.max(...trends.map(({ end }) => end))];
}
