// @ts-check
/** Light or dark theme: that of the system, until the button is pressed. */

import { byId } from "l5kit/dom";

const KEY = "l5kit-view-theme";

/** @typedef {"light" | "dark"} Theme */

/**
 * @param {(theme: Theme) => void} onChange
 * @returns {() => Theme} the current theme
 */
export function createTheme(onChange) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = stored();
  const theme = () => chosen ?? (system.matches ? "dark" : "light");
  const apply = () => {
    document.documentElement.dataset.theme = theme();
    onChange(theme());
  };
  document.documentElement.dataset.theme = theme();
  system.addEventListener("change", apply);
  addEventListener("storage", () => {
    chosen = stored(); // set by another page, such as the one next to it
    apply();
  });
  byId("theme").addEventListener("click", () => {
    chosen = theme() === "dark" ? "light" : "dark";
    store(chosen);
    apply();
  });
  return theme;
}

/**
 * Follow the theme of the pages in frames, whose buttons change it.
 * @param {(theme: Theme) => void} onChange
 * @returns {() => Theme} the current theme
 */
export function followTheme(onChange) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => stored() ?? (system.matches ? "dark" : "light");
  const apply = () => {
    document.documentElement.dataset.theme = theme();
    onChange(theme());
  };
  document.documentElement.dataset.theme = theme();
  system.addEventListener("change", apply);
  addEventListener("storage", apply);
  return theme;
}

/** @returns {Theme | null} */
function stored() {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : null;
  } catch {
    return null; // storage may be unavailable, as for files
  }
}

/** @param {Theme} theme */
function store(theme) {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Storage may be unavailable: the choice then lasts as long as the page.
  }
}
