// One server: its findings, its figures by window, its profile by position, its drift, and what the scrape saw.

import { alertsSection } from "./alerts.js";
import { bar, chart, series, shape, timeAxis } from "./charts.js";
import { h, scroller } from "./dom.js";
import * as format from "./format.js";
import { FLEET } from "./links.js";
import { VERDICTS, findings, hasDrifted, speedupOf, values, verdictOf } from "./verdict.js";

const LEVELS = {
  problem: { tone: "bad", shape: "diamond", word: "Problem" },
  notice: { tone: "quiet", shape: "ring", word: "Notice" },
  ok: { tone: "good", shape: "dot", word: "Fine" },
};

const DIALECTS = {
  v1: "V1 engine",
  "v1-min": "V1 engine of 0.8.3 or 0.8.4, without draft counts",
  v0: "V0 engine",
  off: "vLLM without speculation",
};

/** Everything about one server; `context` holds now, catalogue, alerts, history. */
export function serverView(target, context) {
  const { tone, word, shape: drawn } = VERDICTS[verdictOf(target)];
  return [
    h("p", { class: "back" }, h("a", { href: FLEET }, "← All servers")),
    h(
      "div",
      { class: "server-head" },
      h("h2", { id: "server-title", tabindex: "-1", class: "server-name" }, format.outsider(target.target.name)),
      h("span", { class: `word ${tone}` }, shape(drawn), word),
    ),
    findingsList(target),
    alertsSection(context.alerts, context.now, { window: target.headline_window, server: target.target.name }),
    h(
      "div",
      { class: "columns" },
      h("div", {}, charts(target, context), windowsTable(target, context)),
      h("div", {}, worth(target), positions(target), drift(target, context), facts(target, context)),
    ),
  ];
}

/** What stands in place of a server that is not watched. */
export function noServer(name) {
  return [
    h("p", { class: "back" }, h("a", { href: FLEET }, "← All servers")),
    h("h2", { id: "server-title", tabindex: "-1", class: "server-name" }, "No such server"),
    h(
      "p",
      { class: "quiet" },
      "The sidecar watches no server called ",
      format.outsider(format.shortened(name, 80)),
      ".",
    ),
  ];
}

function section(title, id, ...content) {
  return h("section", { "aria-labelledby": id, class: id }, h("h2", { id }, title), content);
}

function findingsList(target) {
  return h(
    "ul",
    { class: "findings" },
    findings(target).map(({ code, level, text, remedy, evidence }) => {
      const { tone, shape: drawn, word } = LEVELS[level] ?? LEVELS.notice;
      return h(
        "li",
        { "data-key": code, class: tone },
        h("span", { class: `word ${tone}` }, shape(drawn), word),
        h("span", {}, text, remedy && h("span", { class: "remedy" }, remedy), figures(evidence ?? [])),
      );
    }),
  );
}

/** The numbers that a finding rests on, in one quiet line. */
function figures(evidence) {
  const told = evidence.map(
    (entry) => `${entry.name.replaceAll("_", " ")} ${format.measured(entry)}`,
  );
  return told.length > 0 && h("small", {}, told.join(" · "));
}

/** How the speedup is known, with what it saves and the K that would be best. */
function worth(target) {
  const best = target.speedups?.[0];
  return (
    best &&
    section(
      "What speculation is worth",
      "worth",
      definitions([
        ["Speedup", [h("b", {}, factor(best.value, best.kind)), `, ${best.kind}`]],
        ["Range", format.isNumber(best.low) && `${format.times(best.low)} to ${format.times(best.high)}`],
        ["Known from", best.source],
        [
          "Break-even acceptance",
          format.isNumber(best.break_even_acceptance) && format.percent(best.break_even_acceptance),
        ],
        ["Best K on this traffic", bestK(best)],
        [
          "Share of the bound",
          format.isNumber(target.share_of_bound) && `${format.percent(target.share_of_bound)} of what the GPU allows`,
        ],
        [
          best.tokens_saved_per_hour < 0 ? "Costs" : "Saves",
          format.isNumber(best.tokens_saved_per_hour) &&
            `${format.whole(Math.abs(best.tokens_saved_per_hour))} tokens an hour`,
        ],
      ]),
    )
  );
}

function bestK({ recommended_k: k, recommended_speedup: speedup, kind }) {
  if (!format.isNumber(k)) {
    return null;
  }
  return k === 0 ? "none: no K pays" : `${k} (${factor(speedup, kind)})`;
}

function factor(value, kind) {
  return kind === "estimated" ? format.atMost(value) : format.times(value);
}

function charts(target, { history, now }) {
  if (!history.some((point) => format.isNumber(point.acceptance_rate))) {
    return null;
  }
  const span = [Math.max(now - 3600, history[0].at), now];
  const words = format.windowWords(target.headline_window);
  const began = target.drift?.since;
  const moments = hasDrifted(target) && began ? [{ at: began, text: `fall began ${format.clock(began, now)}` }] : [];
  const reference = target.drift?.reference;
  const speedups = series(history, "speedup", span[0]);
  const top = Math.max(2, Math.ceil(Math.max(0, ...speedups.map((point) => point.value ?? 0))));
  return section(
    "Over time",
    "over-time",
    h("h3", {}, "Acceptance rate ", h("small", {}, `${words} windows`)),
    chart(series(history, "acceptance_rate", span[0]), {
      label: `Acceptance rate over the last ${format.duration(span[1] - span[0])}`,
      span,
      top: 1,
      format: (value) => format.percent(value, 0),
      marks: format.isNumber(reference) ? [{ value: reference, text: `normal ${format.percent(reference)}` }] : [],
      moments,
    }),
    timeAxis(span),
    h("h3", {}, "Speedup ", h("small", {}, `${speedupOf(target).kind}, ${words} windows`)),
    chart(speedups, {
      label: `Speedup over the last ${format.duration(span[1] - span[0])}`,
      span,
      top,
      format: (value) => `${Number(value.toFixed(1))}×`,
      marks: [{ value: 1, text: "break-even 1×" }],
      moments,
    }),
    timeAxis(span),
  );
}

function positions(target) {
  const window = target.headline_window;
  const long = Object.keys(target.windows ?? {}).at(-1) ?? window;
  const recent = values(target).position_acceptance ?? [];
  const before = values(target, long).position_acceptance ?? [];
  const heads = [format.windowWords(window), format.windowWords(long)];
  if (!recent.length) {
    return null;
  }
  return section(
    "Acceptance by position",
    "positions",
    recent.some(format.isNumber)
      ? h(
          "table",
          { class: "plain positions" },
          h(
            "caption",
            {},
            `Share of drafts accepted at each position, not conditional. Bar: ${heads[0]}; tick: ${heads[1]}.`,
          ),
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              h("th", { scope: "col" }, "Position"),
              h("td", {}),
              heads.map((head) => h("th", { scope: "col", class: "figure" }, head)),
            ),
          ),
          h(
            "tbody",
            {},
            recent.map((value, position) =>
              h(
                "tr",
                {},
                h("th", { scope: "row" }, String(position)),
                h("td", { class: "bar-cell" }, bar(value, before[position])),
                h("td", { class: "figure" }, format.percent(value)),
                h("td", { class: "figure quiet" }, format.percent(before[position])),
              ),
            ),
          ),
        )
      : h("p", { class: "quiet" }, `Too few drafts over ${heads[0]} to tell.`),
  );
}

function drift(target, { now }) {
  const { score, reference, since, learned, change } = target.drift ?? {};
  const isLearned = format.isNumber(score);
  const alarmed = hasDrifted(target);
  if (!isLearned && !learned) {
    return null;
  }
  return section(
    "Drift",
    "drift",
    definitions([
      [
        "Normal acceptance",
        isLearned
          ? `${format.percent(reference)}, learned from this server's own traffic`
          : `being learned, ${format.percent(learned, 0)} done`,
      ],
      [
        "Score",
        isLearned && [
          h("b", { class: alarmed && "warn" }, format.decimal(score)),
          alarmed ? ", alarm (from 1 on)" : ", alarm at 1",
        ],
      ],
      ["Change", change && changeWords(target.drift)],
      ["Fall began", since && [format.when(since, now), `, ${format.duration(now - since)} ago`]],
    ]),
  );
}

function changeWords({ change, change_low: low, change_high: high }) {
  const points = (share) => `${share > 0 ? "+" : "−"}${Math.abs(share * 100).toFixed(1)}`;
  return `${points(change)} points (95% interval ${points(low)} to ${points(high)})`;
}

/** Signals that are shown with the one whose 95 % interval they bound. */
const END_OF_INTERVAL = /_(low|high)$/;

function windowsTable(target, { catalogue }) {
  const windows = Object.entries(target.windows ?? {});
  const columns = windows.map(([label, { seconds, values: told }]) => ({
    head: format.windowWords(label),
    note: covered(label, seconds),
    told,
  }));
  if (Object.keys(target.since_start ?? {}).length) {
    columns.push({ head: "Since start", note: null, told: target.since_start });
  }
  const rows = (catalogue ?? []).filter(
    ({ name }) => !END_OF_INTERVAL.test(name) && columns.some(({ told }) => format.isNumber(told[name])),
  );
  if (!rows.length) {
    return null;
  }
  const heads = columns.map(({ head, note }) =>
    h("th", { scope: "col", class: "figure" }, head, note && h("small", {}, note)),
  );
  const table = h(
    "table",
    { class: "plain windows", "aria-labelledby": "windows" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Signal"), heads)),
    h(
      "tbody",
      {},
      rows.map((signal) => signalRow(signal, columns)),
    ),
  );
  return section("Figures by window", "windows", scroller(table));
}

function signalRow(signal, columns) {
  return h(
    "tr",
    { "data-key": signal.name },
    h("th", { scope: "row", title: signal.help }, signal.title),
    columns.map(({ told }) => figure(signal, told)),
  );
}

function figure(signal, told) {
  const text = format.bySignal(signal, told[signal.name]);
  const [low, high] = [told[`${signal.name}_low`], told[`${signal.name}_high`]];
  const interval =
    format.isNumber(low) && h("small", {}, `${format.bySignal(signal, low)} to ${format.bySignal(signal, high)}`);
  return h("td", { class: text === format.NONE ? "figure none" : "figure" }, text, interval);
}

/** What a window covers, where that is not what its label says. */
function covered(label, seconds) {
  if (!format.isNumber(seconds)) {
    return "no data";
  }
  const part = format.partCovered(label, seconds);
  return part && `${part} so far`;
}

function facts(target, { now }) {
  const { cost, error } = target;
  return section(
    "What the scrape sees",
    "facts",
    definitions([
      ["Page", h("span", { class: "break" }, target.target.url)],
      ["Model", target.model_name && format.outsider(target.model_name)],
      [
        "vLLM",
        [target.release ?? "release not told", target.dialect && `, ${DIALECTS[target.dialect] ?? target.dialect}`],
      ],
      ["Engines", target.engines > 0 && String(target.engines)],
      ["Method", target.method ?? "not told by the page"],
      ["K", target.k ? `${target.k} draft tokens at most` : "not told by the page"],
      [
        "Draft cost",
        cost && [
          `${format.percent(cost.c)} of a target step, verifying ${format.decimal(cost.v)}× a plain one`,
          h("small", {}, cost.source),
        ],
      ],
      ["Restarts seen", String(target.restarts ?? 0)],
      [
        "Last good scrape",
        target.last_scrape
          ? [format.when(target.last_scrape, now), `, ${format.duration(now - target.last_scrape)} ago`]
          : "none yet",
      ],
      ["Error", error && h("span", { class: "bad break" }, error)],
    ]),
  );
}

/** Terms and what they are; those without a value are left out. */
function definitions(entries) {
  return h(
    "dl",
    {},
    entries
      .filter(([, value]) => value)
      .map(([term, value]) => h("div", { "data-key": term }, h("dt", {}, term), h("dd", {}, value))),
  );
}
