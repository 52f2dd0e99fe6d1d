// @ts-check
/** Making and finding elements. Texts become text nodes, so markup in data is shown, never read. */

/**
 * One element of the page by its id.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  return elementById(id, HTMLElement);
}

/**
 * One element of the page by its id, which has to be of a kind.
 * @template {HTMLElement} T
 * @param {string} id
 * @param {new () => T} kind such as HTMLInputElement
 * @returns {T}
 */
export function elementById(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page has no element "${id}" that is a ${kind.name}`);
  return found;
}

/**
 * A new element.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string | number>} [attributes] set as attributes
 * @param {...(Node | string)} children strings become text nodes
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/**
 * An icon of the page's sheet of symbols.
 * @param {string} name as in `#icon-NAME`
 * @returns {SVGElement}
 */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}

/**
 * Set a text only when it has changed, which spares the layout.
 * @param {Element} element
 * @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Let a button toggle: reports the new state and shows it as `aria-pressed`.
 * @param {HTMLElement} button
 * @param {boolean} pressed
 */
export function setPressed(button, pressed) {
  button.setAttribute("aria-pressed", String(pressed));
}

/**
 * A box with an error of the data or the server.
 * @param {string} title what went wrong, in few words
 * @param {string} detail the message of the error
 * @returns {HTMLElement}
 */
export function errorBox(title, detail) {
  return make(
    "div",
    { class: "error", role: "alert", "data-testid": "error" },
    make("strong", {}, title),
    make("span", {}, detail),
  );
}

/**
 * Call back on a press; a press by pointer leaves the keyboard to the player, so that space still plays.
 * @param {HTMLElement} button
 * @param {() => void} action
 */
export function onPress(button, action) {
  button.addEventListener("click", (event) => {
    if (event.detail > 0) button.blur();
    action();
  });
}
