// Elements from data, and a live tree that follows a freshly built one. Text enters as text nodes only.

import { begin, settle } from "./lazy.js";

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. Attributes that are null, undefined or false are left out; so are such children. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Room for what may be wider than the page: it scrolls, by keyboard too. */
export function scroller(content) {
  return h("div", { class: "scroller", tabindex: "0" }, content);
}

/** An SVG element. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.flat(Infinity).filter(isShown));
  return element;
}

function isShown(child) {
  return child !== null && child !== undefined && child !== false;
}

/**
 * Make `live` equal to what the children describe, touching only what differs: focus, selection, scroll position and
 * opened details stay. Elements with a data-key are told apart by it, and are moved rather than rewritten.
 */
export function show(live, ...children) {
  const focused = document.activeElement;
  const fresh = live.cloneNode(false);
  fresh.append(...children.flat(Infinity).filter(isShown));
  begin(follow);
  followChildren(live, fresh);
  for (const place of live.querySelectorAll("[data-lazy]")) {
    if (place.shown === undefined) {
      settle(place, place);
    }
  }
  // Moving a node in the document takes the focus from it.
  if (focused !== document.activeElement && focused?.isConnected) {
    focused.focus({ preventScroll: true });
  }
}

function followChildren(live, fresh) {
  const keyed = new Map();
  for (const child of live.children) {
    if (keyOf(child)) {
      keyed.set(keyOf(child), child);
    }
  }
  let cursor = live.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const match = keyOf(wanted) ? keyed.get(keyOf(wanted)) : cursor;
    if (!match || !isAlike(match, wanted)) {
      live.insertBefore(wanted, cursor);
      continue;
    }
    if (match === cursor) {
      cursor = cursor.nextSibling;
    } else {
      live.insertBefore(match, cursor);
    }
    follow(match, wanted);
  }
  while (cursor) {
    const next = cursor.nextSibling;
    cursor.remove();
    cursor = next;
  }
}

function keyOf(node) {
  return node.dataset?.key;
}

function isAlike(live, fresh) {
  return live.nodeName === fresh.nodeName && keyOf(live) === keyOf(fresh);
}

function follow(live, fresh) {
  if (live.nodeType === Node.TEXT_NODE) {
    if (live.data !== fresh.data) {
      live.data = fresh.data;
    }
    return;
  }
  if (fresh.wanted) {
    settle(live, fresh);
    return;
  }
  followAttributes(live, fresh);
  followChildren(live, fresh);
}

function followAttributes(live, fresh) {
  for (const { name } of [...live.attributes]) {
    if (!fresh.hasAttribute(name) && !isTheReaders(live, name)) {
      live.removeAttribute(name);
    }
  }
  for (const { name, value } of fresh.attributes) {
    if (live.getAttribute(name) !== value) {
      live.setAttribute(name, value);
    }
  }
}

function isTheReaders(element, attribute) {
  return element.nodeName === "DETAILS" && attribute === "open";
}
