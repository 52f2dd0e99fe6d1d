// @ts-check
/** Chips of the tags of a scene; a press goes to the frame of the tag. */

import { make, onPress } from "l5kit/dom";
import { count } from "l5kit/format";

/** @typedef {import("l5kit/scene_tags").Tag} Tag */

/**
 * @param {Tag} tag
 * @param {(tag: Tag) => void} onGo
 * @returns {HTMLElement}
 */
export function tagChip(tag, onGo) {
  const { name, label, events } = tag;
  const times = events.length > 1 ? ` \u00d7${events.length}` : "";
  const frames = events.map(([begin]) => count(begin)).join(", ");
  const chip = make(
    "button",
    {
      type: "button",
      class: "tag-chip",
      tabindex: "-1",
      "data-tag": name,
      "data-testid": "tag-chip",
      title: `${label}: frame ${frames}. Press to go there${events.length > 1 ? ", again for the next" : ""}`,
    },
    label + times,
  );
  onPress(chip, () => onGo(tag));
  chip.addEventListener("click", (event) => event.stopPropagation());
  return chip;
}

/**
 * Show the tags of the open scene.
 * @param {HTMLElement} place
 * @param {Tag[]} tags
 * @param {(tag: Tag) => void} onGo
 */
export function showTags(place, tags, onGo) {
  const chips = tags.map((tag) => tagChip(tag, onGo));
  for (const chip of chips) chip.setAttribute("tabindex", "0");
  place.hidden = !chips.length;
  place.replaceChildren(...chips);
}
