// @ts-check
/** Light or dark: as the system says, until somebody presses the button. */

import { byId } from "l5kit/dom";

const KEY = "l5kit-view-theme";

/** @typedef {"light" | "dark"} Theme */

/**
 * @param {(theme: Theme) => void} onChange
 * @returns {() => Theme} the theme now
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
    chosen = stored(); // of another page, such as the one beside
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
 * Be as the pages in frames are, whose buttons change the theme.
 * @param {(theme: Theme) => void} onChange
 * @returns {() => Theme} the theme now
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
    return null; // storage may be forbidden, as for files
  }
}

/** @param {Theme} theme */
function store(theme) {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Storage may be forbidden: the choice then lasts as long as the page.
  }
}
