import assert from "node:assert/strict";
import { test } from "node:test";
import { CLASS_COLORS, classColor, shade, THEMES, toNumber } from "l5kit/palette";

test("a class has its colour, and one that is not known that of the unknown ones", () => {
  assert.equal(classColor("PERCEPTION_LABEL_CAR"), "#1F77B4");
  assert.equal(classColor("SPACESHIP"), CLASS_COLORS.PERCEPTION_LABEL_UNKNOWN);
  assert.equal(classColor("toString"), CLASS_COLORS.PERCEPTION_LABEL_UNKNOWN);
});

test("colours are numbers for the GPU", () => {
  assert.equal(toNumber("#1F77B4"), 0x1f77b4);
  for (const color of Object.values(CLASS_COLORS)) assert.match(color, /^#[0-9A-F]{6}$/);
});

test("a shade is darker below 1 and lighter above", () => {
  assert.equal(shade(0x204060, 1), 0x204060);
  assert.equal(shade(0x204060, 0.5), 0x102030);
  assert.equal(shade(0xc8c8c8, 0.95), 0xbebebe);
  assert.equal(shade(0x204060, 0), 0);
  assert.equal(shade(0x00ff7f, 1.5), 0x80ffbf);
  assert.equal(shade(0x204060, 2), 0xffffff);
});

test("both themes have the same tones", () => {
  assert.deepEqual(Object.keys(THEMES.light), Object.keys(THEMES.dark));
});
