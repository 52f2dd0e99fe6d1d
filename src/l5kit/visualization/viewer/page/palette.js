// @ts-check
/** Colours of the bird's-eye view, as 0xRRGGBB or CSS hex; pictures have the same (birdseye/tones.py). */

/** Colours of agents by their most probable class; car, cyclist and pedestrian as in other pictures of scenes. */
export const CLASS_COLORS = {
  PERCEPTION_LABEL_NOT_SET: "#8A929C",
  PERCEPTION_LABEL_UNKNOWN: "#8A929C",
  PERCEPTION_LABEL_DONTCARE: "#A3A9B1",
  PERCEPTION_LABEL_CAR: "#1F77B4",
  PERCEPTION_LABEL_VAN: "#2A9DA8",
  PERCEPTION_LABEL_TRAM: "#6F63B8",
  PERCEPTION_LABEL_BUS: "#3FA97A",
  PERCEPTION_LABEL_TRUCK: "#3A5A86",
  PERCEPTION_LABEL_EMERGENCY_VEHICLE: "#F0A830",
  PERCEPTION_LABEL_OTHER_VEHICLE: "#5F7F9E",
  PERCEPTION_LABEL_BICYCLE: "#9A6BD0",
  PERCEPTION_LABEL_MOTORCYCLE: "#C77BB0",
  PERCEPTION_LABEL_CYCLIST: "#CC33FF",
  PERCEPTION_LABEL_MOTORCYCLIST: "#D6579A",
  PERCEPTION_LABEL_PEDESTRIAN: "#66CCFF",
  PERCEPTION_LABEL_ANIMAL: "#C3C95E",
  AVRESEARCH_LABEL_DONTCARE: "#A3A9B1",
};

/** @param {string} label such as "PERCEPTION_LABEL_CAR" @returns {string} CSS colour of the class */
export function classColor(label) {
  return Object.hasOwn(CLASS_COLORS, label)
    ? CLASS_COLORS[/** @type {keyof typeof CLASS_COLORS} */ (label)]
    : CLASS_COLORS.PERCEPTION_LABEL_UNKNOWN;
}

/** Colours of lanes by their light, in the order of `light_colors` of a scene. */
export const LIGHT_COLORS = { green: "#00A88F", yellow: "#F2C230", red: "#E02D3C" };

/** Box and trajectory of the AV. */
export const EGO_COLOR = "#D8392F";

const LIGHT = {
  ground: 0xf1f3f4,
  lane: 0xd6dce4,
  border: 0xa6b0bc,
  laneOverAerial: 0.25,
  crosswalk: 0xffffff,
  crosswalkGround: 0xc9d1da,
  lightTint: 0.5,
  past: 0x66758a,
  ghost: 0x3b4856,
  plan: 0x00838f,
  predicted: 0xe06400,
  boxEdge: 0.62,
  mark: 0xffffff,
  select: 0x10161d,
  label: "#1f2933",
  halo: "#ffffff",
};

const DARK = {
  ground: 0x12161b,
  lane: 0x2a333d,
  border: 0x4e5a67,
  laneOverAerial: 0.35,
  crosswalk: 0x64707e,
  crosswalkGround: 0x2d3640,
  lightTint: 0.5,
  past: 0x8d9cb0,
  ghost: 0x93a0b0,
  plan: 0x8ff5ff,
  predicted: 0xffa940,
  boxEdge: 1.35,
  mark: 0xffffff,
  select: 0xffffff,
  label: "#e7ebf0",
  halo: "#12161b",
};

/** @typedef {typeof LIGHT} Tones */

/** @type {Record<string, Tones>} */
export const THEMES = { light: LIGHT, dark: DARK };

/** @param {string} css such as "#1F77B4" @returns {number} 0xRRGGBB */
export function toNumber(css) {
  return Number.parseInt(css.slice(1), 16);
}

/** @param {number} color @param {number} factor below 1: darker, above 1: lighter @returns {number} */
export function shade(color, factor) {
  const channel = (/** @type {number} */ shift) => {
    const value = (color >> shift) & 255;
    const shaded = factor <= 1 ? value * factor : value + (255 - value) * (factor - 1);
    return Math.round(shaded) << shift;
  };
  return channel(16) | channel(8) | channel(0);
}
