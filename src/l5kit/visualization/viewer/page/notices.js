// @ts-check
/** Short messages above the player: notes of the dataset, ignored values of the address. */

import { byId, icon, make } from "l5kit/dom";

const SHOWN_MS = 12000;

/**
 * Show a message; identical messages are shown once.
 * @param {string} text
 * @param {{stays?: boolean}} [options] stays: until it is closed, otherwise for a few seconds
 */
export function notice(text, { stays = false } = {}) {
  const place = byId("notices");
  if ([...place.children].some((line) => line.firstChild?.textContent === text)) return;
  const close = make("button", {
    type: "button",
    class: "button icon",
    title: "Close this line",
    "aria-label": "Close this line",
  });
  close.append(icon("close"));
  const line = make("div", { class: "notice", "data-testid": "notice" }, make("span", {}, text), close);
  close.addEventListener("click", () => line.remove());
  place.append(line);
  if (!stays) setTimeout(() => line.remove(), SHOWN_MS);
}
