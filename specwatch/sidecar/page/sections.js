// Parts that views share.

import { h } from "./dom.js";

/** A part of a view under its heading. */
export function section(title, id, ...content) {
  return h("section", { "aria-labelledby": id, class: id }, h("h2", { id }, title), content);
}

/** A view's heading: where reading goes on after it was opened. */
export function heading(title, attributes = {}) {
  return h("h2", { id: "view-title", tabindex: "-1", ...attributes }, title);
}

/** Terms and what they are; those without a value are left out. */
export function definitions(entries) {
  return h(
    "dl",
    {},
    entries
      .filter(([, value]) => value)
      .map(([term, value]) => h("div", { "data-key": term }, h("dt", {}, term), h("dd", {}, value))),
  );
}
