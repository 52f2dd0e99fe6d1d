// @ts-check
/** A section that can be folded; in low windows it starts folded. */

import { icon, make, onPress } from "l5kit/dom";

const LOW = "(max-height: 719px)";

/**
 * Create a button that folds a section by its `data-folded`.
 * @param {HTMLElement} section
 * @param {string} name of its contents, such as "Curves"
 * @returns {HTMLElement}
 */
export function foldButton(section, name) {
  const low = matchMedia(LOW);
  const button = make(
    "button",
    { type: "button", class: "chip fold", "data-testid": "fold" },
    icon("fold"),
    make("span", {}, name),
  );
  /** @param {boolean} folded */
  const fold = (folded) => {
    section.dataset.folded = String(folded);
    button.setAttribute("aria-expanded", String(!folded));
    button.title = `${folded ? "Show" : "Fold away"}: ${name.toLowerCase()}`;
  };
  fold(section.dataset.folded === undefined ? low.matches : section.dataset.folded === "true");
  onPress(button, () => {
    section.dataset.decided = "true";
    fold(section.dataset.folded !== "true");
  });
  low.addEventListener("change", () => {
    if (section.dataset.decided === undefined && button.isConnected) fold(low.matches);
  });
  return button;
}
