// Addresses within the page: what is shown stands after the #, so that a link reproduces it and "back" works.

/** An address as { view, name, params }: `view` is fleet, server, alerts or targets; `name` is a server's. */
export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [view, name = ""] = path.split("/");
  const params = Object.fromEntries(new URLSearchParams(query));
  if (view === "server" && name) {
    return { view, name: decoded(name), params };
  }
  return { view: ["alerts", "targets"].includes(view) ? view : "fleet", name: null, params };
}

function decoded(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** The address of a view; parameters without a value are left out. */
export function link({ view, name }, params = {}) {
  const path = view === "fleet" ? "" : view === "server" ? `server/${encodeURIComponent(name)}` : view;
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value));
  return `#/${path}${query.size ? `?${query}` : ""}`;
}

export const FLEET = link({ view: "fleet" });

export function serverLink(name) {
  return link({ view: "server", name });
}

/** The same view with some parameters changed; null takes one away. */
export function changed({ view, name, params }, changes) {
  return link({ view, name }, { ...params, ...changes });
}
