// Numbers and times as people read them. A value that is not known is an en dash, never 0.

import { h } from "./dom.js";

export const NONE = "–";

/** Between a number and its unit: they stay on one line. */
const SPACE = "\u00a0";

const wholeNumbers = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

/** Format a number, or say that there is none. */
function orNone(value, format) {
  return isNumber(value) ? format(value) : NONE;
}

export function percent(value, digits = 1) {
  return orNone(value, (ratio) => `${(ratio * 100).toFixed(digits)}%`);
}

/** An estimated speedup: an upper bound, and shown as one. */
export function atMost(value) {
  return orNone(value, (factor) => `≤${SPACE}${factor.toFixed(2)}×`);
}

/** A speedup that is known. */
export function times(value) {
  return orNone(value, (factor) => `${factor.toFixed(2)}×`);
}

export function whole(value) {
  return orNone(value, (number) => wholeNumbers.format(number));
}

export function decimal(value, digits = 2) {
  return orNone(value, (number) => number.toFixed(digits));
}

export function tokensPerSecond(value) {
  return orNone(value, (rate) => (Math.abs(rate) < 100 ? rate.toFixed(1) : wholeNumbers.format(rate)));
}

export function milliseconds(seconds) {
  return orNone(seconds, (value) => `${(value * 1000).toFixed(value < 0.1 ? 1 : 0)}${SPACE}ms`);
}

/** A signal by the unit that the catalogue gives it. */
export function bySignal(signal, value) {
  if (signal.name === "estimated_speedup") {
    return atMost(value);
  }
  const format = BY_UNIT[signal.unit] ?? decimal;
  return format(value);
}

const BY_UNIT = {
  ratio: (value) => percent(value),
  tokens: (value) => decimal(value, 2),
  seconds: milliseconds,
  requests: (value) => decimal(value, 1),
  tokens_per_second: tokensPerSecond,
};

/** A number of a finding's evidence: { name, value, unit }. */
export function measured({ name, value, unit }) {
  if (name.endsWith("_at")) {
    return new Date(value * 1000).toISOString().slice(0, 16).replace("T", " ") + `${SPACE}UTC`;
  }
  if (name.includes("speedup")) {
    return times(value);
  }
  if (name.endsWith("score")) {
    return decimal(value);
  }
  if (unit === "seconds" && value >= 1) {
    return duration(value);
  }
  // K and numbers of servers are whole; means of tokens are not.
  const isCount = ["tokens", "servers"].includes(unit) && Number.isInteger(value);
  return isCount ? whole(value) : (BY_UNIT[unit] ?? decimal)(value);
}

const WINDOW = /^([\d.]+)([smhd])$/;
const UNIT_SECONDS = { s: 1, m: 60, h: 3600, d: 86400 };
const UNIT_WORDS = { s: "s", m: "min", h: "h", d: "d" };

/** A window's label for people: "1m" is "1 min". */
export function windowWords(label) {
  const parts = WINDOW.exec(label);
  return parts ? `${parts[1]}${SPACE}${UNIT_WORDS[parts[2]]}` : label;
}

/** Seconds that a window's label promises; null for one that names none. */
function windowSeconds(label) {
  const parts = WINDOW.exec(label);
  return parts ? Number(parts[1]) * UNIT_SECONDS[parts[2]] : null;
}

/** What a window covers so far, in words, where that is not yet most of what its label promises; else null. */
export function partCovered(label, seconds) {
  const promised = windowSeconds(label);
  return promised && isNumber(seconds) && seconds < 0.75 * promised ? duration(seconds) : null;
}

/** A duration by its two largest units: "2 h 5 min". */
export function duration(seconds) {
  const total = Math.max(0, Math.round(seconds));
  if (total < 120) {
    return `${total}${SPACE}s`;
  }
  const minutes = Math.round(total / 60);
  if (minutes < 120) {
    return `${minutes}${SPACE}min`;
  }
  const hours = Math.floor(minutes / 60);
  if (hours < 48) {
    return minutes % 60 ? `${hours}${SPACE}h ${minutes % 60}${SPACE}min` : `${hours}${SPACE}h`;
  }
  return `${Math.floor(hours / 24)}${SPACE}d ${hours % 24}${SPACE}h`;
}

/** Time of day, with the day where it is not today's. */
export function clock(at, now, seconds = false) {
  const moment = new Date(at * 1000);
  const time = moment.toLocaleTimeString("en-GB", {
    hour: "2-digit",
    minute: "2-digit",
    ...(seconds && { second: "2-digit" }),
  });
  const isToday = moment.toDateString() === new Date(now * 1000).toDateString();
  return isToday ? time : `${moment.toLocaleDateString("en-GB", { day: "numeric", month: "short" })}, ${time}`;
}

/** A moment as a <time>, its full form in UTC on hover. */
export function when(at, now) {
  const iso = new Date(at * 1000).toISOString();
  return h("time", { datetime: iso, title: iso }, clock(at, now));
}

/** The reader's time zone, in short. */
export function zone() {
  const parts = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" }).formatToParts(new Date());
  return parts.find((part) => part.type === "timeZoneName")?.value ?? "";
}

/** A name that came from outside: isolated, so that right-to-left text cannot reorder what stands beside it. */
export function outsider(text) {
  return h("bdi", {}, text);
}

/** At most `length` characters, the middle left out: both ends tell names apart. */
export function shortened(text, length = 32) {
  const letters = [...text];
  const half = Math.floor((length - 1) / 2);
  return letters.length <= length ? text : `${letters.slice(0, half).join("")}…${letters.slice(-half).join("")}`;
}
