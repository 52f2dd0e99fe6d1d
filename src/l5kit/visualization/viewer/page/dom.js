// @ts-check
/** Creation and lookup of elements. Texts become text nodes, so that markup in data is displayed, never parsed. */

/**
 * Return the element of the page with an id.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  return elementById(id, HTMLElement);
}

/**
 * Return the element of the page with an id, which must be of a kind.
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
 * Create an element.
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
 * Create an icon from the symbols of the page.
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
 * Set a text only if it has changed, to avoid layout.
 * @param {Element} element
 * @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Set the state of a toggle button, as `aria-pressed`.
 * @param {HTMLElement} button
 * @param {boolean} pressed
 */
export function setPressed(button, pressed) {
  button.setAttribute("aria-pressed", String(pressed));
}

/**
 * Create a box with an error of the data or the server.
 * @param {string} title short description
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
 * Call back on a press; presses by pointer leave the focus to the player, so that space still plays.
 * @param {HTMLElement} button
 * @param {() => void} action
 */
export function onPress(button, action) {
  button.addEventListener("click", (event) => {
    if (event.detail > 0) button.blur();
    action();
  });
}
