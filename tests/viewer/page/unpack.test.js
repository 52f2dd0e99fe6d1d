import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { unpack } from "l5kit/unpack";
import { blob } from "./scenes.js";

const ARRAYS = {
  a: ["float32", [2, 2], Float32Array.of(1, 2, 3, 4)],
  b: ["uint8", [3], Uint8Array.of(7, 8, 9)],
  c: ["uint32", [1], Uint32Array.of(2 ** 32 - 1)],
  d: ["int32", [1], Int32Array.of(-5)],
  e: ["uint16", [1], Uint16Array.of(65535)],
  f: ["float32", [0, 2], new Float32Array(0)],
};
const whole = blob({ name: "\u00e4" }, ARRAYS);

test("facts, arrays and shapes come back", () => {
  const { facts, arrays, shapes } = unpack(whole);
  assert.deepEqual(facts, { name: "\u00e4" });
  for (const [name, [, shape, values]] of Object.entries(ARRAYS)) {
    assert.deepEqual(arrays[name], values);
    assert.deepEqual(shapes[name], shape);
    assert.equal(arrays[name].buffer, whole, "nothing is copied");
  }
});

describe("an error tells of", () => {
  const start = 8 + new DataView(whole).getUint32(4, true);
  const cases = [
    ["bytes that are too few", new ArrayBuffer(7), "a packed blob has at least 8 bytes, got 7"],
    ["other bytes", new ArrayBuffer(64), /^the bytes are not a packed blob/],
    ["a header that is cut off", whole.slice(0, 20), `the header needs ${start} bytes, the blob has 20`],
    [
      "arrays that are cut off",
      whole.slice(0, start + 12),
      `array "a" ends at byte ${start + 16}, the blob at ${start + 12}`,
    ],
    [
      "an array of an unknown type",
      blob({}, { z: ["float16", [1], Float64Array.of(1)] }),
      /^array "z" is float16; known are float64, /,
    ],
  ];
  for (const [name, bytes, message] of cases) {
    test(name, () => assert.throws(() => unpack(bytes), { message }));
  }
});
