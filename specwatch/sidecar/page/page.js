// The page: asks the sidecar every two seconds, and shows what it says, or that it says nothing.

import { alertsSection, deliveriesSection } from "./alerts.js";
import { h, show } from "./dom.js";
import { commonSpan, fleetTable } from "./fleet.js";
import * as format from "./format.js";
import { headline, title } from "./headline.js";
import { Histories } from "./history.js";
import { serverLink, serverOf } from "./links.js";
import { noServer, serverView } from "./server.js";
import { ranked } from "./verdict.js";

/** Milliseconds from one answer to the next question. */
const POLL = 2000;

/** Milliseconds after which a question counts as not answered. */
const PATIENCE = 5000;

/** Milliseconds after which figures are called stale: three questions without news. */
const STALE_AFTER = 6000;

const state = {
  signals: null,
  catalogue: null,
  alerts: null,
  deliveries: [],
  /** When the sidecar's time last advanced, by this machine's own steady clock; null before the first answer. */
  heard: null,
  /** Why the last question failed; null when it did not. */
  failure: null,
};

const histories = new Histories(readHistory, render);

async function readHistory(name) {
  const answer = await ask(`api/v1/history?target=${encodeURIComponent(name)}`);
  return answer.points;
}

async function ask(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(PATIENCE), cache: "no-store" });
  if (!answer.ok) {
    throw new Error(`HTTP ${answer.status}`);
  }
  return answer.json();
}

async function askAll() {
  const [signals, alerts] = await Promise.all([ask("api/v1/signals"), ask("api/v1/alerts").catch(() => null)]);
  state.catalogue ??= await ask("api/v1/catalogue");
  return [signals, alerts];
}

async function poll() {
  let answers = null;
  try {
    answers = await askAll();
    state.failure = null;
  } catch (problem) {
    state.failure = reasonOf(problem);
  }
  setTimeout(poll, POLL); // planned before anything is drawn: a defect there must not end the asking
  if (answers) {
    takeIn(...answers);
  }
  render();
}

function reasonOf(problem) {
  if (problem.name === "TimeoutError") {
    return `no answer within ${PATIENCE / 1000} s`;
  }
  if (problem instanceof SyntaxError) {
    return "its answer is no JSON";
  }
  return problem.message.startsWith("HTTP") ? problem.message : "no connection";
}

function takeIn(signals, alerts) {
  const isNews = signals.at !== state.signals?.at;
  const isLate = age() > 2 * STALE_AFTER;
  const isOther = state.signals && signals.at < state.signals.at;
  if (isLate || isOther) {
    histories.forget();
  }
  state.heard = isNews ? performance.now() : state.heard;
  state.signals = signals;
  state.alerts = alerts && (alerts.alerts ?? []);
  state.deliveries = alerts?.deliveries ?? [];
  histories.update(signals.targets);
}

/** Milliseconds since there was news. */
function age() {
  return state.heard === null ? 0 : performance.now() - state.heard;
}

function connection() {
  if (state.signals === null) {
    return state.failure ? "disconnected" : "loading";
  }
  if (age() < STALE_AFTER) {
    return "live";
  }
  return state.failure ? "disconnected" : "stale";
}

const at = (id) => document.getElementById(id);

function render() {
  renderConnection();
  if (state.signals) {
    renderFigures();
  } else if (state.failure) {
    show(at("headline"), "Nothing is known");
    show(at("view"), h("p", { class: "quiet" }, "As soon as the sidecar answers, its servers appear here."));
  } else {
    show(at("headline"), "Loading");
    show(at("view"), h("p", { class: "quiet" }, "Asking the sidecar."));
  }
}

/** Only how the sidecar is heard: silence must show although nothing arrives. */
function renderConnection() {
  const how = connection();
  document.body.dataset.connection = how;
  show(at("connection"), connectionWords(how));
  show(at("banner"), banner(how));
}

const CONNECTIONS = { loading: "Loading", live: "Live", stale: "Stale", disconnected: "Disconnected" };

function connectionWords(how) {
  const time = state.signals && `${format.clock(state.signals.at, state.signals.at, true)} ${format.zone()}`;
  return [h("span", { class: `connection ${how}` }, CONNECTIONS[how]), time && h("span", { class: "time" }, time)];
}

function banner(how) {
  const from = state.signals && [
    " The figures below are from ",
    format.clock(state.signals.at, state.signals.at, true),
    ".",
  ];
  if (how === "disconnected") {
    return h(
      "p",
      { class: "bad" },
      h("b", {}, "Disconnected."),
      ` The sidecar at ${location.host} does not answer (${state.failure}).`,
      from,
    );
  }
  if (how === "stale") {
    return h("p", { class: "warn" }, h("b", {}, "Stale."), " The sidecar has sent nothing new for a while.", from);
  }
  return null;
}

function renderFigures() {
  const { at: now, targets, version } = state.signals;
  const rows = ranked(targets);
  const name = serverOf(location.hash);
  document.body.classList.toggle("one-server", name !== null);
  document.title = `${rows.length ? title(rows) : "no servers"} · specwatch`;
  show(at("footer"), footer(version));
  if (!rows.length) {
    show(at("headline"), "No server is watched");
    show(
      at("view"),
      h(
        "p",
        { class: "quiet" },
        "Start the sidecar with at least one: ",
        h("code", {}, "specwatch sidecar --target http://HOST:PORT"),
      ),
    );
    return;
  }
  show(at("headline"), headline(rows, now));
  show(at("view"), name === null ? fleetView(rows, now) : oneServer(name, targets, now));
}

function fleetView(rows, now) {
  const historyOf = (name) => histories.of(name);
  const span = commonSpan(
    rows.map(({ target }) => histories.of(target.target.name)),
    now,
  );
  return h(
    "div",
    { "data-key": "fleet" },
    alertsSection(state.alerts, now, { window: rows[0].target.headline_window }),
    fleetTable(rows, { historyOf, span }),
    deliveriesSection(state.deliveries, now),
  );
}

function oneServer(name, targets, now) {
  const target = targets.find((entry) => entry.target.name === name);
  const context = { now, catalogue: state.catalogue, alerts: state.alerts, history: histories.of(name) };
  return h("div", { "data-key": `server ${name}` }, target ? serverView(target, context) : noServer(name));
}

function footer(version) {
  return [
    h("span", {}, `specwatch ${version}`),
    h("a", { href: "metrics" }, "/metrics"),
    h("a", { href: "api/v1/signals" }, "/api/v1/signals"),
  ];
}

/** A click anywhere on a server's rows opens it, unless it was meant for a link or ended a selection of text. */
function openClicked(event) {
  const rows = event.target.closest("[data-server]");
  if (rows && !event.target.closest("a, summary") && getSelection().isCollapsed) {
    location.hash = serverLink(rows.dataset.server);
  }
}

/** Show what the address says, and put the focus where reading goes on. */
function followAddress(event) {
  render();
  const before = serverOf(new URL(event.oldURL).hash);
  const opened = at("server-title");
  const left = before && [...document.querySelectorAll("th.name a")].find((link) => serverOf(link.hash) === before);
  if (opened) {
    opened.focus();
    scrollTo(0, 0);
  } else {
    left?.focus();
  }
}

addEventListener("hashchange", followAddress);
document.addEventListener("click", openClicked);
poll();
setInterval(renderConnection, POLL);
