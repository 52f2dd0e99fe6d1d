import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { angle, className, clockTime, count, counted, messageOf, percent, quantity, withoutMap } from "l5kit/format";

const NONE = "\u2013";

/** @param {string} name @param {(...values: any[]) => string} format @param {[any[], string][]} cases */
function table(name, format, cases) {
  describe(name, () => {
    for (const [values, text] of cases) {
      test(`${values.map(String).join(", ")} is ${text || "empty"}`, () => assert.equal(format(...values), text));
    }
  });
}

test("a score without the metrics of a map says so, one that is no score does not", () => {
  assert.equal(withoutMap({ time_to_collision: 1, drivable_area_compliance: null }), " without a map");
  assert.equal(withoutMap({ time_to_collision: 1, drivable_area_compliance: 1 }), "");
  assert.equal(withoutMap({ time_to_collision: null, drivable_area_compliance: null }), "");
  assert.equal(withoutMap(null), "");
});
table("count", count, [
  [[0], "0"],
  [[16000], "16,000"],
]);
table("counted", counted, [
  [[0, "scene"], "0 scenes"],
  [[1, "scene"], "1 scene"],
  [[16000, "scene"], "16,000 scenes"],
]);
table("quantity", quantity, [
  [[7.309, 2, "m/s"], "7.31 m/s"],
  [[7.309, 0], "7"],
  [[-0.04, 1], "0.0"],
  [[-0.4, 0], "0"],
  [[-0.06, 1], "-0.1"],
  [[null, 1, "m"], NONE],
  [[undefined, 1], NONE],
  [[Number.NaN, 1], NONE],
  [[Infinity, 1], NONE],
]);
table("angle", angle, [
  [[-Math.PI / 2], "-90.0\u00b0"],
  [[Math.PI], "180.0\u00b0"],
  [[-Math.PI], "180.0\u00b0"],
  [[(-179.96 * Math.PI) / 180], "180.0\u00b0"], // as shown it is a whole turn away from -180
  [[(-179.9 * Math.PI) / 180], "-179.9\u00b0"],
  [[3 * Math.PI], "180.0\u00b0"],
  [[(370 * Math.PI) / 180], "10.0\u00b0"],
  [[-0.0001], "0.0\u00b0"],
  [[Number.NaN], NONE],
]);
table("percent", percent, [
  [[0], "0 %"],
  [[1], "100 %"],
  [[0.984], "98 %"],
  [[0.1], "10 %"],
  [[0.05], "5.0 %"],
  [[0.001], "0.1 %"],
  [[0.00004], "0.004 %"],
  [[Number.NaN], NONE],
]);
table("className", className, [
  [["PERCEPTION_LABEL_EMERGENCY_VEHICLE"], "emergency vehicle"],
  [["AVRESEARCH_LABEL_DONTCARE"], "avresearch label dontcare"],
]);
table("clockTime", clockTime, [
  [["1572643684617362176"], "2019-11-01 21:28:04 UTC"],
  [["0"], ""],
  [["-1"], ""],
  [["12345678901234567890"], ""],
  [["noon"], ""],
]);
table("messageOf", messageOf, [
  [[new RangeError("too far")], "too far"],
  [["a text"], "a text"],
]);
