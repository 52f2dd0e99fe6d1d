import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, test } from "node:test";
import { roundLength, ScaleBar } from "l5kit/scale_bar";
import { isClose } from "./scenes.js";

describe("a round length", () => {
  for (const [most, length] of [
    [0.3, 0.2],
    [0.5, 0.5],
    [1, 1],
    [1.99, 1],
    [2, 2],
    [4.99, 2],
    [5, 5],
    [9.9, 5],
    [12, 10],
    [6000, 5000],
  ]) {
    test(`below ${most}`, () => assert.ok(isClose([roundLength(most)], [length], 1e-12)));
  }
});

describe("the bar", () => {
  beforeEach(() => {
    globalThis.document = { createElement: () => ({ style: {}, textContent: "" }) };
  });
  afterEach(() => {
    delete globalThis.document;
  });
  for (const [scale, width, text] of [
    [400, 80, "20 cm"],
    [8, 80, "10 m"],
    [0.1, 100, "1 km"],
    [0.02, 100, "5 km"],
    [60, 120, "2 m"],
  ]) {
    test(`at ${scale} pixels a metre`, () => {
      const bar = new ScaleBar({ append() {} });
      bar.show(scale);
      assert.equal(bar.element.textContent, text);
      assert.ok(isClose([Number.parseFloat(bar.element.style.width)], [width]));
    });
  }
});
