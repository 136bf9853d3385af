// When to ask the sidecar: at its events, and every few seconds where there are none.

/** Milliseconds from one answer to the next question without events. */
export const POLL = 2000;

/** The same while events come, or nobody looks: in case one gets lost, and for the window's title. */
const SELDOM = 15_000;

/** Milliseconds between two questions at least, however fast events come. */
const REST = 250;

/** Milliseconds until the next attempt where events were refused: too many listen, or a proxy lets none through. */
const RETRY = 30_000;

/** Milliseconds after which a question counts as not answered. */
const PATIENCE = 8000;

/** Answers remembered with their tags: those of one view. */
const MOST_KNOWN = 6;

const known = new Map();

/** What the sidecar says at a path. What has not changed is not sent again, and is the same object as before. */
export async function ask(path) {
  const before = known.get(path);
  const headers = before ? { "If-None-Match": before.tag } : {};
  const answer = await fetch(path, { signal: AbortSignal.timeout(PATIENCE), cache: "no-store", headers });
  if (answer.status === 304 && before) {
    return before.body;
  }
  if (!answer.ok) {
    throw new Refused(answer.status, await detailOf(answer));
  }
  const body = await answer.json();
  const tag = answer.headers.get("ETag");
  if (tag) {
    known.delete(path);
    known.set(path, { tag, body });
    [...known.keys()].slice(0, -MOST_KNOWN).forEach((old) => known.delete(old));
  }
  return body;
}

/** Have the sidecar change something; gives what it answers, null for an empty answer. */
export async function change(method, path, body) {
  const answer = await fetch(path, {
    method,
    signal: AbortSignal.timeout(PATIENCE),
    headers: body ? { "Content-Type": "application/json" } : {},
    body: body && JSON.stringify(body),
  });
  if (!answer.ok) {
    throw new Refused(answer.status, await detailOf(answer));
  }
  return answer.status === 204 ? null : answer.json();
}

/** The sidecar answered, but not with what was asked for. */
export class Refused extends Error {
  constructor(status, detail) {
    super(`HTTP ${status}`);
    this.status = status;
    this.detail = detail;
  }
}

async function detailOf(answer) {
  const { detail } = await answer.json().catch(() => ({}));
  return Array.isArray(detail) ? detail.map(({ loc, msg }) => `${loc?.at(-1)}: ${msg}`).join("; ") : detail;
}

/** Why a question failed, in words. */
export function reasonOf(problem) {
  if (problem.name === "TimeoutError") {
    return `no answer within ${PATIENCE / 1000} s`;
  }
  if (problem instanceof SyntaxError) {
    return "its answer is no JSON";
  }
  return problem instanceof Refused ? problem.message : "no connection";
}

export class Live {
  /** `read` asks what the view needs, and never fails. */
  constructor(read) {
    this.read = read;
    this.isReading = false;
    this.isWanted = false;
    document.addEventListener("visibilitychange", () => document.hidden || this.ask());
    this.listen();
    this.ask();
  }

  listen() {
    this.events = new EventSource("api/v1/events");
    this.events.addEventListener("scraped", () => document.hidden || this.ask());
    this.events.addEventListener("error", () => this.lost());
  }

  lost() {
    if (this.events.readyState === EventSource.CLOSED) {
      setTimeout(() => this.listen(), RETRY);
    }
    this.ask();
  }

  /** Ask now, or as soon as what is asked already has been answered. */
  async ask() {
    if (this.isReading) {
      this.isWanted = true;
      return;
    }
    clearTimeout(this.timer);
    this.isReading = true;
    this.isWanted = false;
    await this.read();
    this.isReading = false;
    this.timer = setTimeout(() => this.ask(), this.isWanted ? REST : this.pause());
  }

  pause() {
    return document.hidden || this.events.readyState === EventSource.OPEN ? SELDOM : POLL;
  }
}
