import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { levelFor, pageFromPixel, pixelOf, tilesInView } from "l5kit/aerial";
import { isClose } from "./scenes.js";

/** Half a metre a pixel, north up; the top left corner lies at x = -100, y = 300. */
const north = {
  width_px: 2100,
  height_px: 1000,
  tile_px: 512,
  num_levels: 3,
  pixel_from_world: [
    [2, 0, 200],
    [0, -2, 600],
  ],
};
/** The same, turned: columns run north, rows run east. */
const turned = {
  ...north,
  pixel_from_world: [
    [0, 2, 7],
    [2, 0, -9],
  ],
};

test("a place of the world has a column and a row", () => {
  assert.deepEqual(pixelOf(north, -100, 300), [0, 0]);
  assert.deepEqual(pixelOf(north, 10, 290), [220, 20]);
});

describe("a picture lies on the page where its world is", () => {
  const view = { x: 12, y: 34, scale: 8, width: 640, height: 480 };
  for (const [name, facts] of Object.entries({ north, turned })) {
    test(name, () => {
      const [a, b, c, d, e, f] = pageFromPixel(facts, view);
      for (const [x, y] of [
        [12, 34],
        [15, 34],
        [-3, 50],
      ]) {
        const [column, row] = pixelOf(facts, x, y);
        const page = [a * column + c * row + e, b * column + d * row + f];
        assert.ok(isClose(page, [320 + 8 * (x - 12), 240 - 8 * (y - 34)], 1e-9), `${page}`);
      }
    });
  }
});

describe("the level has a pixel for each of the page, if there is one", () => {
  const cases = [
    [8, 0],
    [2, 0],
    [1.1, 0],
    [1, 1],
    [0.5, 2],
    [0.01, 2],
  ];
  for (const [scale, level] of cases)
    test(`${scale} pixels a metre`, () => assert.equal(levelFor(north, scale), level));
});

describe("tiles in view", () => {
  const view = { x: 156, y: 44, scale: 4, width: 400, height: 400 }; // around the corner of four tiles
  const tile = (level, column, row) => ({ level, column, row });
  const cases = [
    ["four of level 0", north, 0, view, [tile(0, 0, 0), tile(0, 1, 0), tile(0, 0, 1), tile(0, 1, 1)]],
    ["one of level 1", north, 1, view, [tile(1, 0, 0)]],
    ["none beside the picture", north, 0, { ...view, x: 5000 }, []],
    ["no further ones at its end", north, 0, { ...view, x: 990, y: -190 }, [tile(0, 4, 1)]],
  ];
  for (const [name, facts, level, seen, tiles] of cases)
    test(name, () => assert.deepEqual(tilesInView(facts, level, seen), tiles));
});
