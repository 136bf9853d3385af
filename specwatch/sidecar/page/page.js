// The page: shows what the sidecar says, or that it says nothing.

import { alertsView, firing, firingSection } from "./alerts.js";
import { banner, connectionWords } from "./connection.js";
import { asked, follow } from "./controls.js";
import { h, show } from "./dom.js";
import { fleetTable } from "./fleet.js";
import { headline, title } from "./headline.js";
import { unkept } from "./kept.js";
import { finish } from "./lazy.js";
import { FLEET, link, parse, serverLink } from "./links.js";
import { Live, POLL } from "./live.js";
import { noServer, serverView } from "./server.js";
import { pointAt } from "./server_charts.js";
import { endSilence, makeSilence } from "./silences.js";
import { connection, read, state } from "./state.js";
import { targetsView } from "./targets.js";
import { ranked } from "./verdict.js";

const at = (id) => document.getElementById(id);

function render() {
  renderConnection();
  if (state.servers) {
    renderFigures(parse(location.hash));
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
  show(at("connection"), connectionWords(how, state));
  show(at("banner"), banner(how, state) ?? unkept(state.store));
}

function renderFigures(address) {
  list = address.view === "fleet" ? location.hash || FLEET : list;
  const { at: now, targets, version } = state.servers;
  const rows = ranked(targets);
  document.body.dataset.view = address.view;
  document.title = `${rows.length ? title(rows) : "no servers"} · specwatch`;
  show(at("views"), views(address));
  show(at("footer"), footer(version));
  show(at("headline"), rows.length ? headline(rows, now) : "No server is watched");
  show(
    at("view"),
    h("div", { "data-key": `${address.view} ${address.name}` }, VIEWS[address.view](address, rows, now)),
  );
  const form = document.querySelector(".controls");
  if (form) {
    follow(form, address);
  }
}

/** The list of servers as it was last shown, with what was found and sorted: where a server's view leads back to. */
let list = FLEET;

const VIEWS = {
  fleet: (address, rows, now) =>
    rows.length ? [firingSection(state.alerts, now), fleetTable(rows, address)] : empty(),
  server: ({ name, params }, rows, now) => {
    const line = rows.find(({ target }) => target.target.name === name);
    const open = state.open?.name === name ? state.open : null;
    return line ? serverView(line, params, { ...state, now, open, back: list }) : noServer(name, list);
  },
  alerts: ({ params }, _, now) => alertsView(state, params, now),
  targets: (address, _, now) => targetsView(state.targets, now),
};

function empty() {
  return h(
    "p",
    { class: "quiet" },
    "Start the sidecar with at least one: ",
    h("code", {}, "specwatch sidecar --target http://HOST:PORT"),
  );
}

function views({ view }) {
  const entry = (name, word, count) =>
    h(
      "a",
      { href: link({ view: name }), "aria-current": view === name ? "page" : null },
      word,
      count > 0 && h("span", { class: "count" }, String(count), h("span", { class: "hidden" }, " firing")),
    );
  return [entry("fleet", "Servers"), entry("alerts", "Alerts", firing(state.alerts)), entry("targets", "Targets")];
}

function footer(version) {
  return [
    h("span", {}, `specwatch ${version}`),
    h("a", { href: "metrics" }, "/metrics"),
    h("a", { href: "api/v1/openapi.json" }, "/api/v1"),
  ];
}

/** A click anywhere on a server's rows opens it, unless it was meant for a link or ended a selection of text. */
function openClicked(event) {
  const ended = event.target.closest("[data-ends]");
  if (ended) {
    act(endSilence(ended.dataset.ends));
    return;
  }
  const rows = event.target.closest("[data-server]");
  if (rows && !event.target.closest("a, summary, button") && getSelection().isCollapsed) {
    location.hash = serverLink(rows.dataset.server);
  }
}

/** Filters follow every key and leave one entry in the browser's history. */
function takeControls(event) {
  const form = event.target.closest(".controls");
  if (form) {
    history.replaceState(null, "", asked(form, parse(location.hash)));
    render();
  }
}

function submit(event) {
  event.preventDefault();
  if (event.target.matches(".silence")) {
    act(makeSilence(event.target, state.servers.at));
  }
}

/** Wait for a change that was asked for, and show what came of it. */
async function act(change) {
  await change;
  render();
  live.ask();
}

let shown = location.hash;

/** Show what the address says, and put the focus where reading goes on. */
function followAddress() {
  const [before, now] = [parse(shown), parse(location.hash)];
  shown = location.hash;
  render();
  live.ask();
  if (now.params.alert || now.params.target) {
    document.querySelector(".silence [name=by]")?.focus();
  } else if (before.view !== now.view || before.name !== now.name) {
    land(rowOf(before.name));
  }
}

/** Focus where reading goes on: on the row that was left, else at the top. */
function land(row) {
  if (row) {
    row.focus();
  } else {
    at("view-title")?.focus();
    scrollTo(0, 0);
  }
}

/** The link to a server in the table, built by now; undefined where there is none. */
function rowOf(name) {
  if (name === null) {
    return undefined;
  }
  finish();
  return [...document.querySelectorAll("th.name a")].find((each) => parse(each.hash).name === name);
}

addEventListener("hashchange", followAddress);
document.addEventListener("pointermove", (event) => pointAt(event) && requestAnimationFrame(render));
document.addEventListener("click", openClicked);
document.addEventListener("input", takeControls);
document.addEventListener("submit", submit);

const live = new Live(() => read(parse(location.hash), render));
setInterval(renderConnection, POLL);
render();
