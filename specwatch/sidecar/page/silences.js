// Silences: alerts that somebody knows of, and wants no message about for a while.

import { h } from "./dom.js";
import * as format from "./format.js";
import { Refused, change, reasonOf } from "./live.js";
import { link } from "./links.js";
import { cardTable, cell, head, rowHead } from "./sections.js";

/** How long a silence can last, in seconds, by what people call it. */
const LENGTHS = [
  ["1 hour", 3600],
  ["4 hours", 4 * 3600],
  ["1 day", 86_400],
  ["1 week", 7 * 86_400],
];

const PATTERNS = [
  ["alert", "Alert"],
  ["target", "Server"],
  ["model", "Model"],
];

/** What came of the last silence made or ended here: { tone, text }. */
let outcome = null;

/** Silences in force; null where they could not be read. */
export function silencesSection(silences, now) {
  return h(
    "section",
    { "aria-labelledby": "silences-title", "data-key": "silences" },
    h("h3", { id: "silences-title" }, "Silences ", h("small", {}, "in force")),
    silences === null
      ? h("p", { class: "quiet" }, "Not read yet.")
      : silences.length
        ? table(silences, now)
        : h("p", { class: "quiet" }, "None: every alert that fires is told."),
  );
}

function table(silences, now) {
  return cardTable(
    { class: "silences", "aria-labelledby": "silences-title" },
    [
      ...PATTERNS.map(([, label]) => head(label)),
      head("Until"),
      head("By"),
      head(h("span", { class: "hidden" }, "Ends it")),
    ],
    h(
      "tbody",
      { role: "rowgroup" },
      silences.map((silence) => row(silence, now)),
    ),
  );
}

function row(silence, now) {
  const [alert, target, model] = PATTERNS.map(([name]) => pattern(silence[name]));
  return h(
    "tr",
    { role: "row", "data-key": silence.id },
    rowHead({ class: "break" }, format.outsider(alert)),
    cell("Server", "break", format.outsider(target)),
    cell("Model", "break", format.outsider(model)),
    cell(
      "Until",
      null,
      format.when(silence.ends_at, now),
      h("small", {}, `${format.duration(silence.ends_at - now)} left`),
    ),
    cell("By", "break", silence.by || format.NONE, h("small", { class: "break" }, silence.comment)),
    h(
      "td",
      { role: "cell", class: "figure" },
      h(
        "button",
        { type: "button", "data-ends": silence.id, "aria-label": `End the silence of ${alert} on ${target}` },
        "End",
      ),
    ),
  );
}

function pattern(text) {
  return text === "*" ? "all" : format.shortened(text, 80);
}

/** The form; `params` of the address fill it in. */
export function silenceForm(params) {
  const filled = PATTERNS.some(([name]) => params[name]);
  return h(
    "section",
    { "aria-labelledby": "silence-title", "data-key": `silence ${PATTERNS.map(([name]) => params[name]).join(" ")}` },
    h("h3", { id: "silence-title" }, "New silence ", h("small", {}, "* stands for any characters")),
    h(
      "form",
      { class: "silence" },
      PATTERNS.map(([name, label]) =>
        field(
          label,
          h("input", { name, required: true, maxlength: "300", value: params[name] ?? "*", spellcheck: "false" }),
          name === "alert",
        ),
      ),
      field(
        "For",
        h(
          "select",
          { name: "seconds" },
          LENGTHS.map(([text, seconds]) => h("option", { value: String(seconds) }, text)),
        ),
      ),
      field("Who you are", h("input", { name: "by", maxlength: "100", autocomplete: "name" })),
      field("Why", h("input", { name: "comment", maxlength: "300", autocomplete: "off" }), true),
      h("button", { type: "submit" }, "Silence"),
      filled && h("a", { href: link({ view: "alerts" }) }, "Clear"),
    ),
    h("p", { class: `outcome ${outcome?.tone ?? ""}`, role: "status" }, outcome?.text),
  );
}

function field(label, input, isWide = false) {
  return h("label", { class: isWide && "wide" }, h("span", {}, label), input);
}

/** Silence what a form says, from the sidecar's `now` on. */
export async function makeSilence(form, now) {
  const { seconds, ...rest } = Object.fromEntries(new FormData(form));
  const asked = { ...rest, ends_at: now + Number(seconds) };
  await tried(() => change("POST", "api/v1/silences", asked), `Silenced for ${format.duration(Number(seconds))}.`);
}

/** End a silence now. */
export async function endSilence(id) {
  await tried(() => change("DELETE", `api/v1/silences/${encodeURIComponent(id)}`), "The silence has ended.");
}

async function tried(action, done) {
  outcome = null;
  try {
    await action();
    outcome = { tone: "good", text: done };
  } catch (problem) {
    outcome = { tone: "bad", text: `Not done: ${whyNot(problem)}.` };
  }
}

function whyNot(problem) {
  if (problem instanceof Refused && [401, 403].includes(problem.status)) {
    return "this takes a token with the role admin";
  }
  return (problem instanceof Refused && problem.detail) || reasonOf(problem);
}
