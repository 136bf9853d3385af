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

/** Every target, those that cannot be read first; `targets` is null where they could not be asked for. */
export function targetsView(targets, now) {
  if (targets === null) {
    return [heading("Targets"), h("p", { class: "quiet" }, "Not read yet.")];
  }
  const down = targets.filter((target) => stateOf(target) === "down");
  const others = targets.filter((target) => stateOf(target) !== "down");
  const said = [`${targets.length} watched`, down.length > 0 && `${down.length} down`].filter(Boolean).join(", ");
  return [
    heading(["Targets ", h("small", {}, said)]),
    targets.length
      ? scroller(table([...down, ...others], now))
      : h("p", { class: "quiet" }, "None is watched."),
  ];
}

function table(targets, now) {
  const head = (text, note, place) => h("th", { scope: "col", class: place }, text, note && h("small", {}, note));
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
        head("Last scrape", "ago", "figure"),
        head("Took", "the last one", "figure"),
        head("Lag", "behind its turn", "figure"),
        head("Found by"),
      ),
    ),
    targets.map((target) => body(target, now)),
  );
}

function body(target, now) {
  const said = {
    ...target,
    ago: format.isNumber(target.last_scrape) ? format.duration(now - target.last_scrape) : format.NONE,
  };
  return lazy("tbody", target.name, JSON.stringify(said), () => row(said));
}

function row(target) {
  const { word, tone, shape: drawn } = STATES[stateOf(target)];
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
        target.error && h("small", { class: "bad break" }, target.error),
      ),
      h("td", {}, h("span", { class: `word ${tone}` }, shape(drawn), word)),
      h("td", {}, target.release ?? format.NONE, target.dialect && h("small", {}, DIALECTS[target.dialect] ?? target.dialect)),
      h("td", { class: "figure" }, target.ago),
      h("td", { class: "figure" }, format.milliseconds(target.seconds)),
      h("td", { class: "figure" }, format.milliseconds(target.lag)),
      h("td", { class: "break" }, target.source ?? format.NONE),
    ),
  );
}
