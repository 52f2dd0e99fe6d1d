// @ts-check
/** Which colour is which class, for the classes of the scene. */

import { byId, make } from "l5kit/dom";
import { className } from "l5kit/format";
import { classColor, EGO_COLOR } from "l5kit/palette";

/** @param {string[]} classes names such as "PERCEPTION_LABEL_CAR" */
export function showLegend(classes) {
  const entries = [
    legendEntry(EGO_COLOR, "AV"),
    ...classes.map((name) => legendEntry(classColor(name), className(name))),
  ];
  byId("legend").replaceChildren(...entries);
}

/** @param {string} color of CSS @param {string} text @returns {HTMLElement} */
function legendEntry(color, text) {
  const swatch = make("span", { class: "swatch" });
  swatch.style.background = color;
  return make("li", {}, swatch, text);
}
