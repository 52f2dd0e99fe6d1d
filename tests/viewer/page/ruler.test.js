import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { lengthText, Ruler } from "l5kit/ruler";

test("two clicks make a line, a third begins another one", () => {
  const ruler = new Ruler();
  ruler.start();
  ruler.click({ x: 100, y: 200 });
  assert.equal(ruler.length_m(), null);
  ruler.click({ x: 103, y: 204 });
  assert.equal(ruler.length_m(), 5);
  ruler.click({ x: 1, y: 2 });
  assert.deepEqual(ruler.line(), [{ x: 1, y: 2 }]);
});

test("the line reaches to the pointer until its second end is set", () => {
  const ruler = new Ruler();
  ruler.start();
  ruler.click({ x: 0, y: 0 });
  ruler.pointer = { x: 0, y: 7 };
  assert.equal(ruler.length_m(), 7);
  ruler.click({ x: 6, y: 8 });
  assert.equal(ruler.length_m(), 10);
});

test("ends are moved one at a time", () => {
  const ruler = new Ruler();
  ruler.start();
  ruler.click({ x: 0, y: 0 });
  ruler.move(1, { x: 9, y: 9 }); // there is no second end yet
  assert.deepEqual(ruler.line(), [{ x: 0, y: 0 }]);
  ruler.click({ x: 3, y: 0 });
  ruler.move(0, { x: 3, y: -4 });
  assert.equal(ruler.length_m(), 4);
  ruler.move(1, { x: 0, y: -4 });
  assert.equal(ruler.length_m(), 3);
});

test("to stop forgets the line and says whether it was on", () => {
  const ruler = new Ruler();
  assert.equal(ruler.stop(), false);
  ruler.start();
  ruler.click({ x: 0, y: 0 });
  assert.equal(ruler.stop(), true);
  assert.equal(ruler.on, false);
  assert.deepEqual(ruler.line(), []);
});

describe("lengths are told in centimetres below 10 m, else in decimetres", () => {
  const cases = {
    "0.00 m": 0,
    "1.50 m": 1.499,
    "9.99 m": 9.9949,
    "10.0 m": 9.996,
    "12.3 m": 12.345,
    "1234.6 m": 1234.56,
  };
  for (const [text, length_m] of Object.entries(cases)) test(text, () => assert.equal(lengthText(length_m), text));
});
