// @ts-check
/** The list of scenes next to the player; in narrow windows it is a drawer over the player. */

import { icon, make } from "l5kit/dom";

/**
 * Make the button of the toolbar show and hide the list; in narrow windows it is a drawer over the player.
 * @param {object} elements
 * @param {HTMLElement} elements.layout
 * @param {HTMLElement} elements.button
 * @param {HTMLElement} elements.veil
 * @param {HTMLElement} elements.section
 * @returns {{closeDrawer: () => boolean}} closes the drawer; true if it was open
 */
export function createDrawer({ layout, button, veil, section }) {
  const narrow = matchMedia("(max-width: 1100px)"); // as in page.css
  let open = !narrow.matches;
  const show = () => {
    layout.dataset.list = open ? "open" : "closed";
    button.setAttribute("aria-expanded", String(open));
    veil.hidden = !(open && narrow.matches);
  };
  const set = (/** @type {boolean} */ value) => {
    open = value;
    show();
  };
  const closeDrawer = () => {
    if (!narrow.matches || !open) return false;
    set(false);
    return true;
  };
  button.addEventListener("click", () => {
    set(!open);
    if (open) section.querySelector("input")?.focus();
  });
  veil.addEventListener("click", closeDrawer);
  narrow.addEventListener("change", () => set(!narrow.matches));
  const close = make("button", {
    type: "button",
    class: "button icon drawer-close",
    title: "Close the list (Esc)",
    "aria-label": "Close the list",
  });
  close.append(icon("close"));
  close.addEventListener("click", closeDrawer);
  section.prepend(close);
  show();
  return { closeDrawer };
}
