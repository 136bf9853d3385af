// One server: its findings, its figures by window, its profile by position, its drift, and what the scrape saw.

import { shape } from "./charts.js";
import { h } from "./dom.js";
import * as format from "./format.js";
import { heading } from "./sections.js";
import { alertsSection } from "./alerts.js";
import { chartsSection } from "./server_charts.js";
import { driftSection, factsSection, findingsList, worthSection } from "./server_facts.js";
import { countersSection, positionsSection, windowsSection } from "./server_tables.js";
import { VERDICTS } from "./verdict.js";

/** Everything about one server: `line` is its row of the fleet, `context` what the sidecar said. */
export function serverView({ target: line, verdict }, params, context) {
  const { tone, word, shape: drawn } = VERDICTS[verdict];
  const { open } = context;
  return [
    back(context.back),
    h(
      "div",
      { class: "server-head" },
      heading(format.outsider(line.target.name), { class: "server-name" }),
      h("span", { class: `word ${tone}` }, shape(drawn), word),
    ),
    open ? parts(open.target, params, context) : h("p", { class: "quiet" }, "Asking the sidecar for its figures."),
  ];
}

function parts(target, params, context) {
  return [
    findingsList(target),
    alertsSection(context.alerts, context.now, { window: target.headline_window, server: target.target.name }),
    h(
      "div",
      { class: "columns" },
      h("div", {}, chartsSection(target, params, context), windowsSection(target, context)),
      h(
        "div",
        {},
        worthSection(target),
        positionsSection(target, context.now),
        driftSection(target, context),
        factsSection(target, context),
        countersSection(context.open, context.now),
      ),
    ),
  ];
}

/** What stands in place of a server that is not watched. */
export function noServer(name, list) {
  return [
    back(list),
    heading("No such server", { class: "server-name" }),
    h(
      "p",
      { class: "quiet" },
      "The sidecar watches no server called ",
      format.outsider(format.shortened(name, 80)),
      ".",
    ),
  ];
}

function back(list) {
  return h("p", { class: "back" }, h("a", { href: list }, "← All servers"));
}
