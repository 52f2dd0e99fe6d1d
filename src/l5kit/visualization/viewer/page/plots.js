// @ts-check
/** Plots over the time of the scene, with a mark at the current frame. */

import { make, setText } from "l5kit/dom";
import { quantity } from "l5kit/format";
import uPlot from "uplot";

/** @typedef {import("l5kit/theme").Theme} Theme */
/** @typedef {{first: number, last: number, color: string, title: string, onPress: () => void}} Mark frames of the plot */

const HEIGHT_PX = 92; // as .plot-body in page.css
const INK = {
  light: { axis: "#55606e", grid: "#dfe3e8", line: "#1f5fa8", second: "#c4501b" },
  dark: { axis: "#a3adb9", grid: "#2d353f", line: "#7db4f0", second: "#ffa37a" },
};

/** @typedef {"first" | "second" | "log"} LineKind line of the page, of the page next to it, or of the log, dashed */
/** @typedef {{name: string, kind: LineKind, values: (number | null)[]}} OtherLine values (F,), null for none */

/** @param {LineKind} kind @param {Theme} theme @returns {string} the colour of a line */
export function lineColor(kind, theme) {
  const ink = INK[theme];
  return { first: ink.line, second: ink.second, log: ink.axis }[kind];
}

/** A plot of one or more lines over time, in its own element. */
export class TimePlot {
  /**
   * @param {object} options
   * @param {string} options.name such as "Speed"
   * @param {string} options.unit such as "m/s"
   * @param {number} options.digits decimal places of values
   * @param {(least: number, most: number) => [number, number]} options.range of the axis for this range of values
   * @param {(frame: number) => void} options.onSeek called when a frame is clicked
   * @param {() => Theme} options.theme
   * @param {number} [options.height_px]
   */
  constructor({ name, unit, digits, range, onSeek, theme, height_px = HEIGHT_PX }) {
    this.options = { name, unit, digits, range, onSeek, theme, height_px };
    this.value = make("span", { class: "plot-value" });
    this.body = make("div", { class: "plot-body" });
    this.body.style.height = `${height_px}px`;
    this.element = make(
      "figure",
      { class: "plot", "data-testid": `plot-${name.toLowerCase()}` },
      make("figcaption", {}, make("span", {}, `${name} (${unit})`), this.value),
      this.body,
    );
    this.element.title = "Click or drag to go to a frame";
    this.now = make("div", { class: "plot-now" });
    /** @type {uPlot | null} */
    this.plot = null;
    /** @type {ArrayLike<number>} */
    this.time_s = [];
    /** @type {(number | null)[]} */
    this.values = [];
    this.name = "";
    /** @type {LineKind} */
    this.kind = "first";
    /** @type {OtherLine[]} */
    this.others = [];
    /** @type {Mark[]} */
    this.marks = [];
    this.frame = 0;
    new ResizeObserver(() => this.fitWidth()).observe(this.body);
  }

  /**
   * Show other lines.
   * @param {ArrayLike<number>} time_s (F,)
   * @param {(number | null)[]} values (F,), null for none
   * @param {{name?: string, kind?: LineKind, others?: OtherLine[], marks?: Mark[]}} [more] name: of the line, if there
   *   are others
   */
  setData(time_s, values, { name = "", kind = "first", others = [], marks = [] } = {}) {
    this.time_s = time_s;
    this.values = values;
    this.name = name;
    this.kind = kind;
    this.others = others;
    this.marks = marks;
    this.rebuild();
  }

  /** Rebuild the plot, as after a change of the theme. */
  rebuild() {
    this.plot?.destroy();
    this.plot = null;
    const width = this.body.clientWidth;
    if (!this.time_s.length || width < 40) return;
    const plot = new uPlot(this.plotOptions(width), this.columns(), this.body);
    this.plot = plot;
    plot.over.append(...this.marks.map((mark) => this.markElement(mark)), this.now);
    this.listen(plot);
    this.showFrame(this.frame);
  }

  /** Seek to the pointer while it is pressed. @param {uPlot} plot */
  listen(plot) {
    const { over } = plot;
    const seek = (/** @type {PointerEvent} */ event) => {
      const { left, width } = over.getBoundingClientRect();
      this.options.onSeek(plot.posToIdx(Math.min(Math.max(event.clientX - left, 0), width)));
    };
    over.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.target !== over) return; // presses on marks play failures
      over.setPointerCapture(event.pointerId);
      seek(event);
    });
    over.addEventListener("pointermove", (event) => {
      if (over.hasPointerCapture(event.pointerId)) seek(event);
    });
  }

  /** @returns {uPlot.AlignedData} */
  columns() {
    return [Array.from(this.time_s), this.values, ...this.others.map(({ values }) => values)];
  }

  /** @param {Mark} mark @returns {HTMLElement} for the pointer; the keyboard uses the marks below the slider */
  markElement({ first, last, color, title, onPress }) {
    const { time_s } = this;
    const length_s = time_s[time_s.length - 1] - time_s[0] || 1;
    const mark = make("div", { class: "plot-mark", title, "data-testid": "plot-mark" });
    mark.style.left = `${(100 * (time_s[first] - time_s[0])) / length_s}%`;
    mark.style.width = `${(100 * (time_s[last] - time_s[first])) / length_s}%`;
    mark.style.setProperty("--mark", color);
    mark.addEventListener("click", (event) => {
      event.stopPropagation();
      onPress();
    });
    return mark;
  }

  /** @param {number} width @returns {uPlot.Options} */
  plotOptions(width) {
    const { range, theme, height_px } = this.options;
    const ink = INK[theme()];
    const axis = {
      stroke: ink.axis,
      grid: { stroke: ink.grid, width: 1 },
      ticks: { show: false },
      font: "11px system-ui, sans-serif",
    };
    return {
      width,
      height: height_px,
      legend: { show: false },
      padding: [6, 8, 0, 0],
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
      scales: {
        x: {
          time: false,
          range: () => [this.time_s[0], Math.max(this.time_s[this.time_s.length - 1], this.time_s[0] + 0.1)],
        },
        y: {
          range: (_, least, most) => range(least ?? 0, most ?? 0),
        },
      },
      axes: [
        {
          ...axis,
          size: 22,
          gap: 3,
          values: (_, splits) => splits.map((value) => `${value} s`),
        },
        { ...axis, size: 42, gap: 4, space: 24 },
      ],
      series: [{}, this.series(this.kind), ...this.others.map(({ kind }) => this.series(kind))],
      hooks: { setCursor: [() => this.showValue()], draw: [() => this.markNow()] },
    };
  }

  /** @param {LineKind} kind @returns {uPlot.Series} */
  series(kind) {
    const stroke = lineColor(kind, this.options.theme());
    const style = kind === "log" ? { width: 1.25, dash: [5, 4] } : { width: 1.5 };
    return { stroke, ...style, points: { show: false }, spanGaps: false };
  }

  /** @param {number} frame to which the mark moves */
  showFrame(frame) {
    this.frame = frame;
    this.showValue();
    this.markNow();
  }

  /** Move the mark to the frame; the scale is known once the plot has been drawn. */
  markNow() {
    const left = this.plot?.valToPos(this.time_s[this.frame], "x") ?? NaN;
    if (Number.isFinite(left)) this.now.style.transform = `translateX(${Math.round(left)}px)`;
  }

  /** Show the value under the pointer, else at the current frame. */
  showValue() {
    const { idx, left = -1 } = this.plot?.cursor ?? {};
    const hovers = typeof idx === "number" && left >= 0;
    const frame = hovers ? idx : this.frame;
    const time = hovers ? `${quantity(this.time_s[frame], 1)} s: ` : "";
    const shown = (/** @type {(number | null)[]} */ values) => quantity(values[frame], this.options.digits);
    // two drives are distinguished by colour and order
    const others = this.others.map(({ kind, values }) =>
      kind === "log" ? `, log ${shown(values)}` : ` / ${shown(values)}`,
    );
    setText(this.value, `${time}${shown(this.values)}${others.join("")}`);
  }

  fitWidth() {
    const width = this.body.clientWidth;
    if (!this.plot) this.rebuild();
    else if (width >= 40 && width !== this.plot.width) this.plot.setSize({ width, height: this.options.height_px });
  }
}
