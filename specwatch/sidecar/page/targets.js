// Targets: where each server was found, and how reading its page goes.

import { shape } from "./charts.js";
import { h, scroller } from "./dom.js";
import * as format from "./format.js";
import { lazy } from "./lazy.js";
import { serverLink } from "./links.js";
import { heading } from "./sections.js";
import { DIALECTS } from "./server_facts.js";

const STATES = {
  up: { word: "Up", tone: "good", shape: "dot" },
  down: { word: "Down", tone: "bad", shape: "cross" },
  waiting: { word: "Waiting", tone: "quiet", shape: "ring" },
};

function stateOf({ up }) {
  return up === null ? "waiting" : up ? "up" : "down";
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
      ? h("section", {}, scroller(table([...down, ...others], now)))
      : h("p", { class: "quiet" }, "None is watched."),
    sources.length > 0 && sourcesSection(told, now),
  ];
}

function head(text, note, place) {
  return h("th", { scope: "col", class: place }, text, note && h("small", {}, note));
}

function table(targets, now) {
  return h(
    "table",
    { class: "plain targets", "aria-labelledby": "view-title" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        head("Server"),
        head("State"),
        head("vLLM"),
        head("Last page", "ago", "figure"),
        head("Took", "last scrape", "figure"),
        head("Lag", "behind its turn", "figure"),
        head("Missed", "turns, all in all", "figure"),
        head("Found in"),
      ),
    ),
    targets.map((target) => body(target, now)),
  );
}

function body(target, now) {
  const said = {
    ...target,
    ago: format.isNumber(target.last_scrape) ? format.duration(now - target.last_scrape) : format.NONE,
    took: stateOf(target) === "waiting" ? format.NONE : format.milliseconds(target.seconds),
    behind: stateOf(target) === "waiting" ? format.NONE : format.milliseconds(target.lag),
  };
  return lazy("tbody", target.name, JSON.stringify(said), () => row(said));
}

function row(target) {
  const { word, tone, shape: drawn } = STATES[stateOf(target)];
  const labels = Object.entries(target.labels).map(([name, value]) => `${name}="${value}"`);
  return h(
    "tbody",
    {},
    h(
      "tr",
      {},
      h(
        "th",
        { scope: "row", class: "name" },
        h("a", { href: serverLink(target.name) }, format.outsider(target.name)),
        h("small", { class: "break" }, target.url),
        labels.length > 0 && h("small", { class: "break" }, format.outsider(format.shortened(labels.join(", "), 200))),
        target.error && h("small", { class: "bad break" }, target.error),
      ),
      h("td", {}, h("span", { class: `word ${tone}` }, shape(drawn), word)),
      h(
        "td",
        {},
        target.release ?? format.NONE,
        target.dialect && h("small", { class: "break" }, DIALECTS[target.dialect] ?? target.dialect),
      ),
      h("td", { class: "figure" }, target.ago),
      h("td", { class: "figure" }, target.took),
      h("td", { class: "figure" }, target.behind),
      h("td", { class: "figure" }, format.whole(target.missed)),
      h(
        "td",
        { class: "break" },
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
    scroller(
      h(
        "table",
        { class: "plain", "aria-labelledby": "sources-title" },
        h(
          "thead",
          {},
          h("tr", {}, head("Job"), head("Kind"), head("Found", "addresses", "figure"), head("Last told", "ago", "figure"), head("Problem")),
        ),
        h(
          "tbody",
          {},
          sources.map(({ job, kind, found, error, last_success: told }, index) =>
            h(
              "tr",
              { "data-key": `${index} ${job}` },
              h("th", { scope: "row", class: "break" }, format.outsider(job)),
              h("td", {}, kind),
              h("td", { class: "figure" }, format.whole(found)),
              h("td", { class: "figure" }, format.isNumber(told) ? format.duration(now - told) : format.NONE),
              h("td", { class: error ? "bad break" : "quiet" }, error ?? "none"),
            ),
          ),
        ),
      ),
    ),
    (left.length > 0 || invalid) &&
      h("p", { class: "quiet" }, "Not watched: ", left.join(", ") || "none", invalid && [". ", h("span", { class: "break" }, invalid)]),
  );
}
