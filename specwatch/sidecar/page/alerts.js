// Alerts as they stand, and what was delivered where.

import { shape } from "./charts.js";
import { h, scroller } from "./dom.js";
import * as format from "./format.js";
import { link, serverLink } from "./links.js";
import { heading } from "./sections.js";
import { silenceForm, silencesSection } from "./silences.js";

/** States, the most urgent first. Alerts of which nothing is sent are told apart, whether they fire or are pending. */
const STATES = {
  firing: { word: "Firing", tone: "bad", shape: "bell" },
  pending: { word: "Pending", tone: "warn", shape: "clock" },
  inhibited: { word: "Inhibited", tone: "quiet", shape: "mute" },
  silenced: { word: "Silenced", tone: "quiet", shape: "mute" },
  resolved: { word: "Resolved", tone: "quiet", shape: "tick" },
};

const RANK = Object.fromEntries(Object.keys(STATES).map((name, rank) => [name, rank]));

const SEVERITIES = { page: 0, ticket: 1 };

/** Alerts that the list of servers shows above it. */
const MOST_ABOVE = 3;

/** Alerts of one state that are listed: a screen is no place for a thousand, and the first say what happens. */
const MOST_LISTED = 50;

function unread() {
  return h("p", { class: "bad" }, "The sidecar did not answer what is firing.");
}

function stateOf(alert) {
  if (alert.state === "resolved") {
    return "resolved";
  }
  return alert.silenced_by ? "silenced" : alert.inhibited_by ? "inhibited" : alert.state;
}

/** How many alerts fire and are told. */
export function firing(told) {
  return (told?.alerts ?? []).filter((alert) => stateOf(alert) === "firing").length;
}

function byUrgency(one, other) {
  return (
    RANK[stateOf(one)] - RANK[stateOf(other)] ||
    (SEVERITIES[one.severity] ?? 2) - (SEVERITIES[other.severity] ?? 2) ||
    one.since - other.since
  );
}

/** Alerts by state, as [state, alerts], the most urgent first. */
function byState(alerts) {
  const known = alerts.filter((alert) => stateOf(alert) in STATES).sort(byUrgency);
  const found = Object.keys(STATES).map((state) => [state, known.filter((alert) => stateOf(alert) === state)]);
  return found.filter(([, members]) => members.length);
}

/** What fires, in short, above the list of servers; null where nothing does. */
export function firingSection(told, now) {
  if (told === null) {
    return h("section", {}, unread());
  }
  const open = told.alerts.filter((alert) => ["firing", "pending"].includes(stateOf(alert))).sort(byUrgency);
  if (!open.length) {
    return null;
  }
  const rest = open.length - MOST_ABOVE;
  return h(
    "section",
    { "aria-labelledby": "alerts-title" },
    h("h2", { id: "alerts-title" }, "Alerts ", h("small", {}, "firing and pending")),
    list(open.slice(0, MOST_ABOVE), now),
    rest > 0 && h("p", { class: "rest" }, h("a", { href: link({ view: "alerts" }) }, `${rest} more`)),
  );
}

/** Alerts of one `server`; `told` is null where they could not be read. They speak of the headline `window`. */
export function alertsSection(told, now, { window, server }) {
  const note = `over ${format.windowWords(window)}`;
  const own = (told?.alerts ?? []).filter((alert) => alert.target === server);
  const states = byState(own);
  const open = states.filter(([state]) => state !== "resolved").flatMap(([, members]) => members);
  const resolved = states.filter(([state]) => state === "resolved").flatMap(([, members]) => members);
  return h(
    "section",
    { "aria-labelledby": "alerts-title" },
    h("h2", { id: "alerts-title" }, "Alerts ", h("small", {}, note)),
    told === null
      ? unread()
      : open.length
        ? list(open, now, server)
        : h("p", { class: "quiet" }, "None is firing or pending."),
    resolved.length > 0 &&
      h(
        "details",
        { class: "resolved", "data-key": "resolved" },
        h("summary", {}, `${resolved.length} resolved lately`),
        list(resolved, now, server),
      ),
  );
}

/** All alerts, what is silenced, and what was delivered; `params` fill in the form for a silence. */
export function alertsView({ alerts: told, silences }, params, now) {
  return [
    heading("Alerts"),
    told === null
      ? unread()
      : told.alerts.length
        ? byState(told.alerts).map(([state, members]) => stateSection(state, members, now))
        : h("p", { class: "quiet" }, "None is firing or pending, and none was lately."),
    silencesSection(silences, now),
    silenceForm(params),
    told && deliveriesSection(told.deliveries, now),
  ];
}

function stateSection(state, members, now) {
  const id = `${state}-title`;
  const rest = members.length - MOST_LISTED;
  return h(
    "section",
    { "aria-labelledby": id, "data-key": state },
    h("h3", { id }, `${STATES[state].word} `, h("small", {}, String(members.length))),
    list(members.slice(0, MOST_LISTED), now),
    rest > 0 && h("p", { class: "rest quiet" }, `${rest} more are at /api/v1/alerts.`),
  );
}

function list(alerts, now, server = null) {
  return h(
    "ul",
    { class: "alerts" },
    alerts.map((alert) => item(alert, now, server)),
  );
}

function item(alert, now, server) {
  const { word, tone, shape: drawn } = STATES[stateOf(alert)];
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
        h(
          "span",
          { class: "said" },
          alert.summary,
          " ",
          h("small", {}, `${alert.value_text}, alarm ${alert.condition}`),
        ),
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
        alert.inhibited_by &&
          h("p", {}, "Nothing is sent of it while ", h("b", {}, alert.inhibited_by), " fires, which says why."),
        alert.state !== "resolved" &&
          !alert.silenced_by &&
          h(
            "p",
            {},
            h("a", { href: link({ view: "alerts" }, { alert: alert.name, target: alert.target }) }, "Silence it"),
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
function deliveriesSection(deliveries, now) {
  return h(
    "section",
    { "aria-labelledby": "deliveries-title" },
    h("h3", { id: "deliveries-title" }, "Deliveries ", h("small", {}, "messages since the sidecar started")),
    deliveries.length
      ? [scroller(deliveriesTable(deliveries, now)), deadLetters(deliveries, now)]
      : h("p", { class: "quiet" }, "No receiver is configured: alerts are shown here, and nobody is told."),
  );
}

/** Messages that were given up, the latest first. */
function deadLetters(deliveries, now) {
  const letters = deliveries.flatMap((delivery) => delivery.dead_letters).sort((one, other) => other.at - one.at);
  if (!letters.length) {
    return null;
  }
  return h(
    "details",
    { class: "dead-letters", "data-key": "dead-letters" },
    h("summary", {}, `${letters.length} ${letters.length === 1 ? "message was" : "messages were"} given up`),
    h(
      "ul",
      {},
      letters
        .slice(0, MOST_LISTED)
        .map(({ receiver, title, at, reason }) =>
          h(
            "li",
            { class: "break" },
            format.when(at, now),
            ` to ${receiver}: `,
            h("b", {}, title),
            h("small", {}, reason),
          ),
        ),
    ),
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
    { class: "plain from-edge deliveries", "aria-labelledby": "deliveries-title" },
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
    h(
      "td",
      {},
      h("span", { class: `word ${health.tone}` }, shape(health.shape), health.word),
      " ",
      h("small", {}, delivery.last_problem),
    ),
    COUNTS.map(([count]) => h("td", { class: "figure" }, format.decimal(delivery[count], 0))),
    h(
      "td",
      { class: "figure" },
      success ? [format.when(success, now), ` (${format.duration(now - success)} ago)`] : format.NONE,
    ),
  );
}
