// The one sentence that says how things are: "7 servers: 6 pay, 1 costs: gpu-3 (traffic changed domain, drifted since
// 14:02)."

import { h } from "./dom.js";
import { outsider, shortened, when } from "./format.js";
import { serverLink } from "./links.js";
import { VERDICTS, count, findings, groups, hasDrifted } from "./verdict.js";

/** Servers of one group that the sentence names; the table has the others. */
const MOST_NAMES = 3;

/** Characters of a name in the sentence: one that does not break fits a phone's line. */
const LONGEST_NAME = 24;

/** The sentence as nodes; `rows` as verdict.ranked gives them. */
export function headline(rows, now) {
  if (rows.length === 1) {
    return alone(rows[0], now);
  }
  const all = groups(rows);
  const [first] = all;
  if (all.length === 1 && !VERDICTS[first[0]].named) {
    const { count: words, isVerb } = VERDICTS[first[0]];
    return [`All ${rows.length} servers${isVerb ? "" : ":"} ${words[1]}.`];
  }
  // Those that need no name come first, so that the sentence ends with those that somebody must look at.
  const counted = unnamed(all);
  const named = all
    .filter(([verdict]) => VERDICTS[verdict].named)
    .map(([verdict, members]) => group(verdict, members, now));
  const parts = [...counted, ...named].flatMap((part, index) => [
    index > counted.length ? "; " : index ? ", " : "",
    part,
  ]);
  return [`${rows.length} servers: `, parts, "."];
}

/** Those that pay, and all others that need no name: in their own words where those words fit them all. */
function unnamed(all) {
  const paying = all.filter(([verdict]) => verdict === "pays").map((each) => together(count(...each)));
  const silent = all.filter(([verdict]) => VERDICTS[verdict].tone === "quiet");
  if (silent.length > 1) {
    return [...paying, together(`${silent.flatMap(([, members]) => members).length} without figures`)];
  }
  return [...paying, ...silent.map((each) => together(count(...each)))];
}

/** The same in a few words, for the window's title. */
export function title(rows) {
  const worst = groups(rows).find(([verdict]) => VERDICTS[verdict].named);
  return worst ? count(...worst) : `${rows.length} ${rows.length === 1 ? "server" : "servers"}`;
}

/** A number stays on the line of what it counts. */
function together(words) {
  return words.replace(" ", "\u00a0");
}

function group(verdict, members, now) {
  const shown = members.slice(0, MOST_NAMES);
  const rest = members.length - shown.length;
  const names = shown.flatMap((target, index) => [index ? ", " : "", name(target), why(target, verdict, now)]);
  return [together(count(verdict, members)), ": ", names, rest > 0 && ` and ${rest} more`];
}

function alone({ target, verdict }, now) {
  const { count: words, isVerb, named, word } = VERDICTS[verdict];
  const said = isVerb ? ` ${words[0]}` : `: ${word.toLowerCase()}`;
  return [name(target), said, named && why(target, verdict, now), "."];
}

function name(target) {
  return h("a", { href: serverLink(target.target.name) }, outsider(shortened(target.target.name, LONGEST_NAME)));
}

/** The reason, and since when acceptance is off its normal, as far as they are known. */
function why(target, verdict, now) {
  const words = verdict === "drifted" ? "since " : "drifted since ";
  const cause = findings(target)[0]?.cause;
  const since = hasDrifted(target) && target.drift.since && [words, when(target.drift.since, now)];
  const parts = [cause, since].filter(Boolean);
  return parts.length > 0 && [" (", parts.flatMap((part, index) => (index ? [", ", part] : [part])), ")"];
}
