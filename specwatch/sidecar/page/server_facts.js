// A server in words: what is wrong and what to do, what speculation is worth, its drift, what the scrape saw.

import { shape } from "./charts.js";
import { h } from "./dom.js";
import * as format from "./format.js";
import { definitions, section } from "./sections.js";
import { findings, hasDrifted } from "./verdict.js";

const LEVELS = {
  problem: { tone: "bad", shape: "diamond", word: "Problem" },
  notice: { tone: "quiet", shape: "ring", word: "Notice" },
  ok: { tone: "good", shape: "dot", word: "Fine" },
};

/** What vLLM's page is, in words. */
export const DIALECTS = {
  v1: "V1 engine",
  "v1-min": "V1 engine of 0.8.3 or 0.8.4, without draft counts",
  v0: "V0 engine",
  off: "vLLM without speculation",
};

/** What is wrong, what it rests on, and what to do. */
export function findingsList(target) {
  return h(
    "ul",
    { class: "findings" },
    findings(target).map(({ code, level, text, remedy, evidence }) => {
      const { tone, shape: drawn, word } = LEVELS[level] ?? LEVELS.notice;
      return h(
        "li",
        { "data-key": code, class: tone },
        h("span", { class: `word ${tone}` }, shape(drawn), word),
        h(
          "span",
          {},
          h("span", { class: "text" }, text),
          remedy && h("span", { class: "remedy" }, remedy),
          figures(evidence ?? []),
        ),
      );
    }),
  );
}

/** The numbers that a finding rests on, in one quiet line. */
function figures(evidence) {
  const told = evidence.map((entry) => `${entry.name.replaceAll("_", " ")} ${format.measured(entry)}`);
  return told.length > 0 && h("small", {}, told.join(" · "));
}

/** How the speedup is known, with what it saves and the K that would be best. */
export function worthSection(target) {
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

export function driftSection(target, { now }) {
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

export function factsSection(target, { now }) {
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
