// How the sidecar is heard, in a word and, where it is silent, in a sentence.

import { h } from "./dom.js";
import * as format from "./format.js";

const WORDS = { loading: "Loading", live: "Live", stale: "Stale", disconnected: "Disconnected" };

/** The word with the time of the figures; `how` as state.connection() tells it. */
export function connectionWords(how, { servers }) {
  const time = servers?.at && `${format.clock(servers.at, servers.at, true)} ${format.zone()}`;
  return [h("span", { class: `connection ${how}` }, WORDS[how]), time && h("span", { class: "time" }, time)];
}

/** What stands above figures that are old; null where they are not. */
export function banner(how, { servers, failure }) {
  const from = servers && [" The figures below are from ", format.clock(servers.at, servers.at, true), "."];
  if (how === "disconnected") {
    return h(
      "p",
      { class: "bad" },
      h("b", {}, "Disconnected."),
      ` The sidecar at ${location.host} does not answer (${failure}).`,
      from,
    );
  }
  if (how === "stale") {
    return h("p", { class: "warn" }, h("b", {}, "Stale."), " The sidecar has sent nothing new for a while.", from);
  }
  return null;
}
