// @ts-check
/** The fields above the list of scenes that narrow it down. */

import { make, setPressed } from "l5kit/dom";
import { emptyFilter, TURNS } from "l5kit/scene_table";

/** @typedef {import("l5kit/scene_table").Filter} Filter */

/**
 * Make the fields.
 * @param {import("l5kit/scene_table").SceneTable} table
 * @param {(filter: Filter) => void} onChange
 * @returns {HTMLElement}
 */
export function createSceneFilter(table, onChange) {
  let filter = emptyFilter();
  const changed = () => {
    const narrowed = countSet(filter);
    clear.hidden = narrowed === 0;
    summary.textContent = narrowed ? `Ranges and turns (${narrowed} set)` : "Ranges and turns";
    onChange(filter);
  };
  const wanted = table.isDriven ? "number, host or failure" : "number or host";
  const search = make("input", {
    type: "search",
    class: "field",
    placeholder: `Scene ${wanted}`,
    "aria-label": `Search for a scene ${wanted}`,
    "data-testid": "filter-text",
  });
  search.addEventListener("input", () => {
    filter.text = search.value;
    changed();
  });
  const turns = TURNS.map((turn) => {
    const chip = make(
      "button",
      {
        type: "button",
        class: "chip",
        "aria-pressed": "false",
        "data-testid": `filter-turn-${turn}`,
        title: `List scenes where the AV goes ${turn}`.replace("goes standing", "stands"),
      },
      turn,
    );
    chip.addEventListener("click", () => {
      const on = !filter.turns.delete(turn);
      if (on) filter.turns.add(turn);
      setPressed(chip, on);
      changed();
    });
    return chip;
  });
  const ranges = table.fields
    .filter((field) => field.digits !== undefined)
    .map((field) => rangeRow(field, () => filter, changed));
  const summary = make("summary", { "data-testid": "filter-more" }, "Ranges and turns");
  const clear = make(
    "button",
    { type: "button", class: "chip", "data-testid": "filter-clear", title: "Drop all filters" },
    "Clear",
  );
  clear.hidden = true;
  clear.addEventListener("click", () => {
    filter = emptyFilter();
    for (const input of form.querySelectorAll("input")) input.value = "";
    for (const chip of turns) setPressed(chip, false);
    changed();
  });
  const form = make(
    "div",
    { class: "filter", role: "search", "aria-label": "Filter the scenes" },
    make("div", { class: "filter-top" }, search, clear),
    make(
      "details",
      { class: "filter-more" },
      summary,
      make("div", { class: "filter-turns", role: "group", "aria-label": "Turn" }, ...turns),
      make("div", { class: "filter-ranges" }, ...ranges),
    ),
  );
  return form;
}

/** @param {Filter} filter @returns {number} how many things are set */
function countSet(filter) {
  const bounds = Object.values(filter.ranges).flatMap(({ min, max }) => [min, max]);
  return (filter.text.trim() ? 1 : 0) + filter.turns.size + bounds.filter((bound) => bound !== null).length;
}

/**
 * @param {import("l5kit/scene_table").Field} field
 * @param {() => Filter} getFilter
 * @param {() => void} changed
 * @returns {HTMLElement}
 */
function rangeRow(field, getFilter, changed) {
  /** @param {"min" | "max"} side */
  const bound = (side) => {
    const input = make("input", {
      type: "number",
      step: "any",
      class: "field",
      placeholder: side,
      "aria-label": `${field.title}, ${side === "min" ? "least" : "most"}`,
      "data-testid": `filter-${field.key}-${side}`,
    });
    input.addEventListener("input", () => {
      const { ranges } = getFilter();
      ranges[field.key] ??= { min: null, max: null };
      ranges[field.key][side] = Number.isFinite(input.valueAsNumber) ? input.valueAsNumber : null;
      changed();
    });
    return input;
  };
  return make(
    "div",
    { class: "filter-range" },
    make("span", { title: field.title }, field.unit ? `${field.head} (${field.unit})` : field.head),
    bound("min"),
    bound("max"),
  );
}
