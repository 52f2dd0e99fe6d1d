// @ts-check
/** Filter fields above the list of scenes. */

import { make, setPressed } from "l5kit/dom";
import { emptyFilter, TAG_OF_TURN, TURNS } from "l5kit/scene_table";

/** @typedef {import("l5kit/scene_table").Filter} Filter */

/**
 * Create the fields.
 * @param {import("l5kit/scene_table").SceneTable} table
 * @param {(filter: Filter) => void} onChange
 * @returns {{form: HTMLElement, showTags: () => void}} showTags: called once the kinds of tags are known
 */
export function createSceneFilter(table, onChange) {
  let filter = emptyFilter();
  const changed = () => {
    const narrowed = countSet(filter);
    clear.hidden = narrowed === 0;
    summary.textContent = narrowed ? `Ranges, turns, tags (${narrowed} set)` : "Ranges, turns, tags";
    onChange(filter);
  };
  const wanted = table.isDriven ? "number, failure or tag" : "number, host or tag";
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
  const summary = make("summary", { "data-testid": "filter-more" }, "Ranges, turns, tags");
  const clear = make(
    "button",
    { type: "button", class: "chip", "data-testid": "filter-clear", title: "Drop all filters" },
    "Clear",
  );
  clear.hidden = true;
  clear.addEventListener("click", () => {
    filter = emptyFilter();
    for (const input of form.querySelectorAll("input")) input.value = "";
    for (const chip of [...turns, ...tagGroup.querySelectorAll("button")]) setPressed(chip, false);
    changed();
  });
  const tagGroup = make("div", { class: "filter-turns", role: "group", "aria-label": "Tags" });
  const showTags = () => {
    if (tagGroup.childElementCount) return;
    tagGroup.append(...table.tags.kinds.map((kind) => tagButton(kind, () => filter, changed)));
    const known = new Set(table.tags.kinds.filter((kind) => kind.is_known).map(({ name }) => name));
    TURNS.forEach((turn, at) => {
      turns[at].hidden = known.has(TAG_OF_TURN[turn]) && !filter.turns.has(turn); // the chip of the tag replaces it
    });
  };
  const form = make(
    "div",
    { class: "filter", role: "search", "aria-label": "Filter the scenes" },
    make("div", { class: "filter-top" }, search, clear),
    make(
      "details",
      { class: "filter-more" },
      summary,
      make("div", { class: "filter-turns", role: "group", "aria-label": "Turn" }, ...turns),
      tagGroup,
      make("div", { class: "filter-ranges" }, ...ranges),
    ),
  );
  return { form, showTags };
}

/**
 * @param {import("l5kit/scene_tags").TagKind} kind
 * @param {() => Filter} getFilter
 * @param {() => void} changed
 * @returns {HTMLElement}
 */
function tagButton(kind, getFilter, changed) {
  const title = kind.is_known ? `List scenes with this: ${kind.label}` : `${kind.label} is not known without a map`;
  const chip = make(
    "button",
    { type: "button", class: "chip", "aria-pressed": "false", "data-testid": `filter-tag-${kind.name}`, title },
    kind.label,
  );
  chip.disabled = !kind.is_known;
  chip.addEventListener("click", () => {
    const { tags } = getFilter();
    const on = !tags.delete(kind.name);
    if (on) tags.add(kind.name);
    setPressed(chip, on);
    changed();
  });
  return chip;
}

/** @param {Filter} filter @returns {number} number of active conditions */
function countSet(filter) {
  const bounds = Object.values(filter.ranges).flatMap(({ min, max }) => [min, max]);
  return (
    (filter.text.trim() ? 1 : 0) +
    filter.turns.size +
    filter.tags.size +
    bounds.filter((bound) => bound !== null).length
  );
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
