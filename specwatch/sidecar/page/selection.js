// Which servers the table shows, and in which order: all of it stands in the address.

import { SORTS } from "./columns.js";
import { values, VERDICTS } from "./verdict.js";

const byName = new Intl.Collator("en", { numeric: true });

/**
 * The rows that `params` ask for, in their order; `rows` as verdict.ranked gives them, the worst first. `find` is part
 * of a server's or model's name, in any case; `state` a verdict; `sort` a column, `order` up or down.
 */
export function selected(rows, { find = "", state, sort, order }) {
  const wanted = find.trim().toLowerCase();
  const kept = rows.filter((row) => (!state || row.verdict === state) && (!wanted || isFound(row, wanted)));
  const column = SORTS.find(({ key }) => key === sort);
  return column ? sorted(kept, column, order ?? column.first) : kept;
}

function isFound({ target, verdict }, wanted) {
  const texts = [target.target.name, target.model_name ?? "", VERDICTS[verdict].word];
  return texts.some((text) => text.toLowerCase().includes(wanted));
}

/** Those without a value stay last in either order; equal ones stay as they were, the worst first. */
function sorted(rows, { by }, order) {
  const sign = order === "down" ? -1 : 1;
  const keyed = rows.map((row) => ({ row, value: by({ target: row.target, now: values(row.target) }) ?? null }));
  return keyed.sort((one, other) => compare(one.value, other.value, sign)).map(({ row }) => row);
}

function compare(one, other, sign) {
  if (one === null || other === null) {
    return (one === null) - (other === null);
  }
  return sign * (typeof one === "string" ? byName.compare(one, other) : one - other);
}

/** Rows by model, as [model, rows]: the groups in the order of their first rows. */
export function byModel(rows) {
  const models = new Map();
  for (const row of rows) {
    const model = row.target.model_name ?? "";
    models.set(model, [...(models.get(model) ?? []), row]);
  }
  return [...models];
}
