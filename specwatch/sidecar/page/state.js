// What the sidecar said, and how it is heard.

import { Refused, ask, reasonOf } from "./live.js";
import { historyPath } from "./ranges.js";

/** Milliseconds after which figures are called stale, where scrapes are so frequent that three of them are less. */
const STALE_AFTER = 6000;

/** Scrapes of every server that may be missed before that. */
const MISSED_SCRAPES = 3;

/** Questions in a row without an answer after which the sidecar counts as gone: one may be lost. */
const LOST = 2;

export const state = {
  /** All servers in short: { at, version, interval, targets }; null before the first answer. */
  servers: null,
  catalogue: null,
  thresholds: null,
  /** Alerts and deliveries: { alerts, deliveries }; null where they could not be read. */
  alerts: null,
  /** How the database does: { path, up, problem, set_aside }; null where that could not be read. */
  store: null,
  silences: null,
  targets: null,
  /** All of the server that is open: { name, target, counters, history, range }. */
  open: null,
  /** When the sidecar's figures last changed, by this machine's own steady clock; null before the first answer. */
  heard: null,
  /** Why the last question failed; null when it did not. */
  failure: null,
  failures: 0,
};

/**
 * Ask everything that a view needs, and `tell` when the servers are known for the first time, and when all is. Never
 * fails: what went wrong is in the state.
 */
export async function read(address, tell) {
  try {
    const [servers, alerts, store] = await Promise.all([
      ask("api/v1/servers"),
      orNull(ask("api/v1/alerts")),
      orNull(ask("api/v1/store")),
    ]);
    state.heard = servers === state.servers ? state.heard : performance.now();
    const isFirst = state.servers === null;
    Object.assign(state, { servers, alerts, store });
    if (isFirst) {
      tell();
    }
    await VIEWS[address.view]?.(address);
    Object.assign(state, { failure: null, failures: 0 });
  } catch (problem) {
    state.failure = reasonOf(problem);
    state.failures += 1;
  }
  tell();
}

const VIEWS = {
  server: readOpen,
  alerts: async () => {
    state.silences = await orNull(ask("api/v1/silences"));
  },
  targets: async () => {
    state.targets = await orNull(ask("api/v1/targets"));
  },
};

async function readOpen({ name, params }) {
  const query = `target=${encodeURIComponent(name)}`;
  const before = state.open?.name === name ? state.open : {};
  try {
    const [signals, counters, history, catalogue, thresholds] = await Promise.all([
      ask(`api/v1/signals?${query}`),
      ask(`api/v1/counters?${query}`),
      readHistory(query, params.range, before),
      state.catalogue ?? ask("api/v1/catalogue"),
      state.thresholds ?? orNull(ask("api/v1/thresholds")),
    ]);
    Object.assign(state, { catalogue, thresholds });
    state.open = { name, target: signals.targets[0], counters, ...history };
  } catch (problem) {
    if (problem instanceof Refused && problem.status === 404) {
      state.open = null;
      return;
    }
    throw problem;
  }
}

/** A range's past: read anew when its next point is due, and every minute where that is later. */
async function readHistory(query, range, before) {
  const { path, step } = historyPath(query, range, state.servers.at);
  const isFresh = before.history && before.range === range && state.servers.at - before.historyAt < Math.min(step, 60);
  const history = isFresh ? before.history : await ask(path);
  return { history, range, historyAt: isFresh ? before.historyAt : state.servers.at };
}

async function orNull(answer) {
  try {
    return await answer;
  } catch (problem) {
    if (problem instanceof Refused) {
      return null;
    }
    throw problem;
  }
}

/** How the sidecar is heard: loading, live, stale or disconnected. */
export function connection() {
  if (state.servers === null) {
    return state.failure ? "disconnected" : "loading";
  }
  if (state.failures >= LOST) {
    return "disconnected";
  }
  const longest = Math.max(STALE_AFTER, MISSED_SCRAPES * 1000 * state.servers.interval);
  return performance.now() - state.heard > longest ? "stale" : "live";
}
