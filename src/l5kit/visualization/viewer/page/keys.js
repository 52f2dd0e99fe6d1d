// @ts-check
/** Keyboard handling of the player, and the dialog that lists the keys. */

import { byId, elementById, make } from "l5kit/dom";

/** @typedef {{keys: string[], shown: string, does: string, run: (event: KeyboardEvent) => void}} Binding */

/**
 * Listen to the keyboard. Fields and open dialogs keep their keys; space and Enter stay with a focused button.
 * @param {Binding[]} bindings `keys` are values of `KeyboardEvent.key`, letters in lower case
 * @param {() => void} [onShow] called before the dialog covers the page
 */
export function createKeys(bindings, onShow) {
  const dialog = elementById("keys", HTMLDialogElement);
  const list = byId("keys-list");
  const show = () => {
    if (dialog.open) return;
    onShow?.();
    dialog.showModal();
  };
  const all = [...bindings, { keys: ["?"], shown: "?", does: "show these keys", run: show }];
  for (const { shown, does } of all) list.append(make("dt", {}, make("kbd", {}, shown)), make("dd", {}, does));
  byId("keys-open").addEventListener("click", show);
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]") || keepsKey(event)) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const binding = all.find(({ keys }) => keys.includes(key));
    if (!binding) return;
    event.preventDefault();
    binding.run(event);
  });
}

/** @param {KeyboardEvent} event @returns {boolean} whether the focused element needs the key itself */
function keepsKey(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (!(target instanceof HTMLElement)) return false;
  if (target.id === "slider") return false;
  if (event.key === "Escape") return false;
  if (target.matches("input, select, textarea")) return true;
  return target.matches("button, summary, a") && (event.key === " " || event.key === "Enter");
}
