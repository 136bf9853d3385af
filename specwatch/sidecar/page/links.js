// Addresses within the page: what is shown stands after the #, so that a link reproduces it and "back" works.

export const FLEET = "#/";

export function serverLink(name) {
  return `#/server/${encodeURIComponent(name)}`;
}

/** The server that an address shows; null for the fleet. */
export function serverOf(hash) {
  const parts = /^#\/server\/(.+)$/.exec(hash);
  if (!parts) {
    return null;
  }
  try {
    return decodeURIComponent(parts[1]);
  } catch {
    return null;
  }
}
