// Whether what the sidecar knows outlives it, in a sentence where it does not.

import { h } from "./dom.js";

/** What stands above everything while the database takes nothing, or after it was damaged; `store` may be null. */
export function unkept(store) {
  if (!store?.path) {
    return null;
  }
  if (!store.up) {
    return h(
      "p",
      { class: "warn break" },
      h("b", {}, "Not kept."),
      ` Nothing can be written to the database ${store.path} (${store.problem}). Servers are watched and alerts are told`,
      " as ever, from memory. If the sidecar ends before it can write again, what drift has learned, silences, alerts,",
      " messages that wait and history since then are lost.",
      aside(store),
    );
  }
  return store.set_aside && h("p", { class: "break" }, h("b", {}, "The database was damaged."), aside(store));
}

function aside({ set_aside: file }) {
  return file && ` A damaged file is kept as ${file}; an empty database took its place, and history begins anew.`;
}
