// The last hour of every server: read once, then continued from what is polled anyway.

import { speedupOf, values } from "./verdict.js";

/** Points kept a server, as many as the sidecar keeps. */
const MOST_POINTS = 720;

/** Requests at a time: a fleet of hundreds must not hold up the figures themselves. */
const AT_ONCE = 4;

export class Histories {
  /** `read(name)` gives a promise of one server's points, oldest first; `changed` is called when all have come. */
  constructor(read, changed) {
    this.read = read;
    this.changed = changed;
    this.points = new Map();
    this.wanted = new Set();
    this.reading = new Set();
  }

  /** Points of one server, oldest first; empty while they are not read. */
  of(name) {
    return this.points.get(name) ?? [];
  }

  /** Read everything anew at the next update: there may be a hole, or another sidecar. */
  forget() {
    this.points.clear();
  }

  /** Take in the servers as just polled. */
  update(targets) {
    const names = new Set(targets.map((entry) => entry.target.name));
    for (const known of [...this.points.keys()].filter((name) => !names.has(name))) {
      this.points.delete(known);
    }
    for (const entry of targets) {
      if (this.points.has(entry.target.name)) {
        this.extend(entry);
      } else if (!this.reading.has(entry.target.name)) {
        this.wanted.add(entry.target.name);
      }
    }
    this.fetchWanted();
  }

  extend(entry) {
    const points = this.points.get(entry.target.name);
    const at = entry.last_scrape;
    if (at === null || at <= (points.at(-1)?.at ?? 0)) {
      return;
    }
    points.push({ at, acceptance_rate: values(entry).acceptance_rate, speedup: speedupOf(entry).value });
    points.splice(0, points.length - MOST_POINTS);
  }

  fetchWanted() {
    for (const name of [...this.wanted].slice(0, AT_ONCE - this.reading.size)) {
      this.wanted.delete(name);
      this.reading.add(name);
      this.read(name)
        .then((points) => this.points.set(name, points))
        .catch(() => {}) // asked for again at the next update
        .finally(() => {
          this.reading.delete(name);
          this.fetchWanted();
          if (!this.reading.size) {
            this.changed();
          }
        });
    }
  }
}
