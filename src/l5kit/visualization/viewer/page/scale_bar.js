// @ts-check
/** A bar of a round length in metres at the bottom of the view. */

const LONGEST_PX = 120;

/** The bar and its text. */
export class ScaleBar {
  /** @param {HTMLElement} container */
  constructor(container) {
    this.element = document.createElement("div");
    this.element.className = "scale-bar";
    Object.assign(this.element.style, {
      position: "absolute",
      left: "12px",
      bottom: "10px",
      pointerEvents: "none",
      userSelect: "none",
      font: "600 11px/14px system-ui, sans-serif",
      textAlign: "center",
      border: "2px solid currentColor",
      borderTop: "0",
      borderRadius: "0 0 2px 2px",
      boxSizing: "border-box",
      height: "18px",
    });
    container.append(this.element);
  }

  /** @param {import("l5kit/palette").Tones} tones */
  setTones(tones) {
    this.element.style.color = tones.label;
    this.element.style.textShadow = `0 0 3px ${tones.halo}, 0 0 3px ${tones.halo}`;
  }

  /** @param {number} scale CSS pixels per metre */
  show(scale) {
    const length_m = roundLength(LONGEST_PX / scale);
    this.element.style.width = `${length_m * scale}px`;
    const text =
      length_m >= 1000 ? `${length_m / 1000} km` : length_m < 1 ? `${Math.round(100 * length_m)} cm` : `${length_m} m`;
    if (this.element.textContent !== text) this.element.textContent = text;
  }

  destroy() {
    this.element.remove();
  }
}

/** @param {number} most @returns {number} the largest 1, 2 or 5 times a power of ten that is at most this */
export function roundLength(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  return (most >= 5 * power ? 5 : most >= 2 * power ? 2 : 1) * power;
}
