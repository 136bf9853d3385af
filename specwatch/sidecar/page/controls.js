// What stands above the table of servers: find, show one state, sort, group.

import { shape } from "./charts.js";
import { SORTS } from "./columns.js";
import { h } from "./dom.js";
import { changed } from "./links.js";
import { VERDICTS, groups } from "./verdict.js";

/** The controls; `rows` are all servers, `address` what the page shows. */
export function controls(rows, address) {
  return h(
    "form",
    { class: "controls", role: "search", "aria-label": "Servers shown" },
    h(
      "label",
      { class: "find" },
      h("span", { class: "hidden" }, "Find a server, a model or a state"),
      h("input", {
        type: "search",
        name: "find",
        placeholder: "Find server, model, state",
        autocomplete: "off",
        spellcheck: "false",
        maxlength: "300",
        value: address.params.find ?? "",
      }),
    ),
    states(rows, address),
    h("label", { class: "sort" }, "Sort by ", sortChoice(address)),
    h(
      "label",
      { class: "group-by" },
      h("input", { type: "checkbox", name: "group", checked: address.params.group === "model" }),
      "Group by model",
    ),
  );
}

/** One link for each state that some server is in. */
function states(rows, address) {
  const chosen = address.params.state;
  const entry = (state, count, word, mark) =>
    h(
      "li",
      {},
      h(
        "a",
        { href: changed(address, { state }), "aria-current": (chosen ?? null) === state ? "true" : null },
        mark,
        word,
        " ",
        h("small", {}, String(count)),
      ),
    );
  const present = groups(rows);
  if (present.length < 2 && !chosen) {
    return null;
  }
  return h(
    "ul",
    { class: "states", "aria-label": "States" },
    entry(null, rows.length, "All"),
    present.map(([verdict, members]) => {
      const { word, tone, shape: drawn } = VERDICTS[verdict];
      return entry(verdict, members.length, word, h("span", { class: tone }, shape(drawn)));
    }),
  );
}

/** For where there are no heads to click on. */
function sortChoice({ params }) {
  const option = (value, text) => h("option", { value, selected: (params.sort ?? "") === value }, text);
  return h(
    "select",
    { name: "sort" },
    option("", "The worst first"),
    SORTS.map(({ key, label }) => option(key, label)),
  );
}

/** Make the controls say what the address says: what a reader has set by hand ignores attributes. */
export function follow(form, { params }) {
  const { find, group, sort } = form.elements;
  if (find !== document.activeElement) {
    find.value = params.find ?? "";
  }
  group.checked = params.group === "model";
  sort.value = params.sort ?? "";
}

/** The address that the controls now ask for. */
export function asked(form, address) {
  const { find, group, sort } = form.elements;
  const order = sort.value === (address.params.sort ?? "") ? address.params.order : null;
  return changed(address, {
    find: find.value.trim() ? find.value : null,
    group: group.checked ? "model" : null,
    sort: sort.value || null,
    order,
  });
}
