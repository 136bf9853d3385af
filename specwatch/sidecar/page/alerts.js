// Alerts as they stand, and what was delivered where.

import { shape } from "./charts.js";
import { h, scroller } from "./dom.js";
import * as format from "./format.js";
import { serverLink } from "./links.js";

const STATES = {
  firing: { word: "Firing", tone: "bad", shape: "bell", rank: 0 },
  pending: { word: "Pending", tone: "warn", shape: "clock", rank: 1 },
  resolved: { word: "Resolved", tone: "quiet", shape: "tick", rank: 2 },
};

const SEVERITIES = { page: 0, ticket: 1 };

function byUrgency(one, other) {
  return (
    STATES[one.state].rank - STATES[other.state].rank ||
    (SEVERITIES[one.severity] ?? 2) - (SEVERITIES[other.severity] ?? 2) ||
    one.since - other.since
  );
}

/**
 * Alerts of one `server`, or all; `alerts` is null where they could not be read. They speak of the headline `window`,
 * as the page's first figures do.
 */
export function alertsSection(alerts, now, { window, server = null }) {
  const note = window && `over ${format.windowWords(window)}`;
  if (alerts === null) {
    return section(note, h("p", { class: "bad" }, "The sidecar did not answer what is firing."));
  }
  const all = alerts
    .filter((alert) => alert.state in STATES && (server === null || alert.target === server))
    .sort(byUrgency);
  const open = all.filter((alert) => alert.state !== "resolved");
  const resolved = all.filter((alert) => alert.state === "resolved").sort((one, other) => other.at - one.at);
  return section(
    note,
    open.length ? list(open, now, server) : h("p", { class: "quiet" }, "None is firing or pending."),
    resolved.length > 0 &&
      h(
        "details",
        { class: "resolved", "data-key": "resolved" },
        h("summary", {}, `${resolved.length} resolved lately`),
        list(resolved, now, server),
      ),
  );
}

function section(note, ...content) {
  return h(
    "section",
    { "aria-labelledby": "alerts-title" },
    h("h2", { id: "alerts-title" }, "Alerts ", h("small", {}, note)),
    content,
  );
}

function list(alerts, now, server) {
  return h(
    "ul",
    { class: "alerts" },
    alerts.map((alert) => item(alert, now, server)),
  );
}

function item(alert, now, server) {
  const { word, tone, shape: drawn } = STATES[alert.state];
  return h(
    "li",
    { "data-key": `${alert.name} ${alert.since} ${alert.target}` },
    h(
      "details",
      {},
      h(
        "summary",
        {},
        h("span", { class: `word ${tone}` }, shape(drawn), word),
        h("span", { class: "severity" }, alert.severity),
        h("span", { class: "said" }, alert.summary, " ", h("small", {}, `${alert.value_text}, alarm ${alert.condition}`)),
        h("span", { class: "since" }, alert.state === "resolved" ? lasted(alert, now) : since(alert, now)),
      ),
      h(
        "div",
        { class: "more" },
        h("p", {}, alert.description),
        h(
          "p",
          { class: "quiet" },
          alert.name,
          server === null && [
            ", ",
            h("a", { href: serverLink(alert.target) }, format.outsider(format.shortened(alert.target))),
          ],
          alert.runbook && [", runbook ", runbook(alert.runbook)],
        ),
      ),
    ),
  );
}

function since(alert, now) {
  return ["since ", format.when(alert.since, now), ` (${format.duration(now - alert.since)})`];
}

function lasted(alert, now) {
  return [format.when(alert.at, now), `, after ${format.duration(alert.at - alert.since)}`];
}

/** A link where it is an address of the web; else the name of a file. */
function runbook(text) {
  return /^https?:\/\//.test(text) ? h("a", { href: text, rel: "noreferrer" }, text) : h("code", {}, text);
}

const HEALTHS = {
  working: { word: "Working", tone: "good", shape: "dot" },
  retrying: { word: "Retrying", tone: "warn", shape: "clock" },
  losing: { word: "Losing messages", tone: "bad", shape: "cross" },
};

/** What was sent where. */
export function deliveriesSection(deliveries, now) {
  return h(
    "section",
    { "aria-labelledby": "deliveries-title" },
    h("h2", { id: "deliveries-title" }, "Deliveries ", h("small", {}, "messages since the sidecar started")),
    deliveries.length
      ? scroller(deliveriesTable(deliveries, now))
      : h("p", { class: "quiet" }, "No receiver is configured: alerts are shown here, and nobody is told."),
  );
}

const COUNTS = [
  ["sent", "Sent"],
  ["failed", "Failed"],
  ["dropped", "Dropped"],
  ["waiting", "Waiting"],
];

function deliveriesTable(deliveries, now) {
  return h(
    "table",
    { class: "plain deliveries", "aria-labelledby": "deliveries-title" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        h("th", { scope: "col" }, "Receiver"),
        h("th", { scope: "col" }, "Health"),
        COUNTS.map(([, head]) => h("th", { scope: "col", class: "figure" }, head)),
        h("th", { scope: "col", class: "figure" }, "Last success"),
      ),
    ),
    h(
      "tbody",
      {},
      deliveries.map((delivery) => deliveryRow(delivery, now)),
    ),
  );
}

function deliveryRow(delivery, now) {
  const health = HEALTHS[delivery.health] ?? { word: delivery.health ?? format.NONE, tone: "quiet", shape: "ring" };
  const success = delivery.last_success;
  return h(
    "tr",
    { "data-key": delivery.receiver },
    h("th", { scope: "row" }, delivery.receiver),
    h("td", {}, h("span", { class: `word ${health.tone}` }, shape(health.shape), health.word), " ", h("small", {}, delivery.last_problem)),
    COUNTS.map(([count]) => h("td", { class: "figure" }, format.decimal(delivery[count], 0))),
    h(
      "td",
      { class: "figure" },
      success ? [format.when(success, now), ` (${format.duration(now - success)} ago)`] : format.NONE,
    ),
  );
}
