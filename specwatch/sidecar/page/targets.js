// Targets: where each server was found, and how reading its page goes.

import { shape } from "./charts.js";
import { h } from "./dom.js";
import * as format from "./format.js";
import { lazy } from "./lazy.js";
import { serverLink } from "./links.js";
import { cardTable, cell, head, heading, rowHead } from "./sections.js";
import { DIALECTS } from "./server_facts.js";

const STATES = {
  up: { word: "Up", tone: "good", shape: "dot" },
  down: { word: "Down", tone: "bad", shape: "cross" },
  silent: { word: "No news", tone: "warn", shape: "ring" },
  waiting: { word: "Waiting", tone: "quiet", shape: "ring" },
};

function stateOf({ up, error }) {
  if (up === null) {
    return error ? "silent" : "waiting";
  }
  return up ? "up" : "down";
}

/** Every target, those that cannot be read first, and where they come from; `told` is null where that is not known. */
export function targetsView(told, now) {
  if (told === null) {
    return [heading("Targets"), h("p", { class: "quiet" }, "Asking the sidecar.")];
  }
  const { targets, sources } = told;
  const down = targets.filter((target) => stateOf(target) === "down");
  const others = targets.filter((target) => stateOf(target) !== "down");
  const counts = [`${targets.length} watched`, down.length > 0 && `${down.length} down`].filter(Boolean).join(", ");
  return [
    heading(["Targets ", h("small", {}, counts)]),
    targets.length
      ? h("section", {}, table([...down, ...others], now))
      : h("p", { class: "quiet" }, "None is watched."),
    sources.length > 0 && sourcesSection(told, now),
  ];
}

function table(targets, now) {
  return cardTable(
    { class: "targets", "aria-labelledby": "view-title" },
    [
      head("Server"),
      head("State"),
      head("vLLM"),
      head("Last page", "ago", "figure"),
      head("Took", "last scrape", "figure"),
      head("Lag", "behind its turn", "figure"),
      head("Missed", "turns in all", "figure"),
      head("Found in"),
    ],
    targets.map((target) => body(target, now)),
  );
}

function body(target, now) {
  const said = {
    ...target,
    ago: format.isNumber(target.last_scrape) ? format.duration(now - target.last_scrape) : format.NONE,
    took: target.up === null ? format.NONE : format.milliseconds(target.seconds),
    behind: target.up === null ? format.NONE : format.milliseconds(target.lag),
  };
  return lazy("tbody", target.name, JSON.stringify(said), () => row(said));
}

function row(target) {
  const { word, tone, shape: drawn } = STATES[stateOf(target)];
  const labels = Object.entries(target.labels).map(([name, value]) => `${name}="${value}"`);
  return h(
    "tbody",
    { role: "rowgroup" },
    h(
      "tr",
      { role: "row" },
      rowHead(
        { class: "name" },
        h("a", { href: serverLink(target.name) }, format.outsider(target.name)),
        h("small", { class: "break" }, target.url),
        labels.length > 0 && h("small", { class: "break" }, format.outsider(format.shortened(labels.join(", "), 200))),
        target.error && h("small", { class: "bad break" }, target.error),
      ),
      cell("State", null, h("span", { class: `word ${tone}` }, shape(drawn), word)),
      cell(
        "vLLM",
        null,
        target.release ?? format.NONE,
        target.dialect && h("small", { class: "break" }, DIALECTS[target.dialect] ?? target.dialect),
      ),
      cell("Last page, ago", "figure", target.ago),
      cell("Last scrape took", "figure", target.took),
      cell("Lag", "figure", target.behind),
      cell("Turns missed", "figure", format.whole(target.missed)),
      cell(
        "Found in",
        "break",
        target.found_in || "given by hand",
        target.job && h("small", { class: "break" }, format.outsider(target.job)),
      ),
    ),
  );
}

/** Where targets are looked for, and what was found and is not watched. */
function sourcesSection({ sources, dropped, invalid }, now) {
  const left = Object.entries(dropped)
    .filter(([, count]) => count > 0)
    .map(([why, count]) => `${count} ${why.replaceAll("_", " ")}`);
  return h(
    "section",
    { "aria-labelledby": "sources-title" },
    h("h3", { id: "sources-title" }, "Where they are found"),
    cardTable(
      { class: "sources", "aria-labelledby": "sources-title" },
      [
        head("Job"),
        head("Kind"),
        head("Found", "addresses", "figure"),
        head("Last told", "ago", "figure"),
        head("Problem"),
      ],
      h(
        "tbody",
        { role: "rowgroup" },
        sources.map(({ job, kind, found, error, last_success: told }, index) =>
          h(
            "tr",
            { role: "row", "data-key": `${index} ${job}` },
            rowHead({ class: "break" }, format.outsider(job)),
            cell("Kind", null, kind),
            cell("Found", "figure", format.whole(found)),
            cell("Last told, ago", "figure", format.isNumber(told) ? format.duration(now - told) : format.NONE),
            cell("Problem", error ? "bad break" : "quiet", error ?? "none"),
          ),
        ),
      ),
    ),
    (left.length > 0 || invalid) &&
      h(
        "p",
        { class: "quiet" },
        "Not watched: ",
        left.join(", ") || "none",
        invalid && [". ", h("span", { class: "break" }, invalid)],
      ),
  );
}
