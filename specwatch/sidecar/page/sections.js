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

/** A table whose rows become cards where it is narrow; `heads` as `head` makes them. */
export function cardTable(attributes, heads, rows) {
  return h(
    "table",
    { role: "table", ...attributes, class: `plain from-edge cards ${attributes.class}` },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads)),
    rows,
  );
}

/** A column's head, with what stands below it. */
export function head(text, note, place) {
  return h("th", { role: "columnheader", scope: "col", class: place }, text, note && h("small", {}, note));
}

/** A row's own head. */
export function rowHead(attributes, ...content) {
  return h("th", { role: "rowheader", scope: "row", ...attributes }, content);
}

/** A cell that knows its column, for where there are no heads; `place` is its class. */
export function cell(label, place, ...content) {
  return h("td", { role: "cell", class: place, "data-label": label }, h("span", {}, content));
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
