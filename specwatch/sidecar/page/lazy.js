// Rows that are built when they are seen: a thousand servers change at once, and a screen shows twenty.

/** Rows built at once where nothing was shown yet: more than a tall screen has. */
const FIRST = 40;

/** Milliseconds of an idle moment that are left to the browser. */
const SPARE = 4;

/** Rows built in a moment that is not idle at all: some milliseconds' worth. */
const AT_LEAST = 8;

const waiting = new Set();
let follow = null;
let left = 0;
let isPlanned = false;

const watcher = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      target.isNear = isIntersecting;
      if (isIntersecting && waiting.has(target)) {
        build(target);
      }
    }
  },
  { rootMargin: "100% 0%" },
);

/**
 * A place for an element that `make` builds. It is built anew only where `signature` differs from what is shown, at
 * once where it is on the screen, in an idle moment where it is not.
 */
export function lazy(tag, key, signature, make) {
  const place = document.createElement(tag);
  place.dataset.key = key;
  place.dataset.lazy = "";
  place.wanted = { signature, make };
  return place;
}

/** To be called before places are shown; `follower(live, fresh)` makes one element like another. */
export function begin(follower) {
  follow = follower;
  left = FIRST;
}

/** Take over what a fresh place wants; `live` is on the page, and may be the same. */
export function settle(live, fresh) {
  const isNew = live.shown === undefined;
  live.wanted = fresh.wanted;
  if (live.wanted.signature === live.shown) {
    waiting.delete(live);
    return;
  }
  if (isNew) {
    watcher.observe(live);
  }
  if (live.isNear || (isNew && left > 0)) {
    left -= isNew ? 1 : 0;
    build(live);
    return;
  }
  waiting.add(live);
  plan();
}

function build(live) {
  waiting.delete(live);
  const fresh = live.wanted.make();
  fresh.dataset.key = live.dataset.key;
  fresh.dataset.lazy = "";
  live.shown = live.wanted.signature;
  follow(live, fresh);
}

/** Build everything that waits: before a row is looked for that may not be there yet. */
export function finish() {
  [...waiting].filter((live) => live.isConnected).forEach(build);
}

function plan() {
  if (!isPlanned) {
    isPlanned = true;
    requestIdleCallback(work, { timeout: 1000 });
  }
}

function work(deadline) {
  isPlanned = false;
  let built = 0;
  for (const live of waiting) {
    if (built >= AT_LEAST && deadline.timeRemaining() <= SPARE) {
      break;
    }
    if (live.isConnected) {
      build(live);
      built += 1;
    } else {
      waiting.delete(live);
      watcher.unobserve(live);
    }
  }
  if (waiting.size) {
    plan();
  }
}
