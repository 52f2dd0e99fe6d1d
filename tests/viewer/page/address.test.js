import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, mock, test } from "node:test";
import { createAddress, formatAddress, parseAddress } from "l5kit/address";

describe("an address is read", () => {
  const cases = {
    "#scene=3&frame=120": { scene: 3, frame: 120 },
    "scene=3": { scene: 3 },
    "#track=av": { track: "av" },
    "#track=18446744073709551615": { track: "18446744073709551615" }, // more than a number holds
    "#lane=a%20lane%26": { lane: "a lane&" },
    "#aerial=1": { aerial: true },
    "#aerial=0": { aerial: false },
    "#follow=0": { follow: "off" },
    "#follow=1": { follow: "av" },
    "#follow=track": { follow: "track" },
    "#x=-1.5&y=%2B2e2&zoom=.5": { x: -1.5, y: 200, zoom: 0.5 },
    "#zoom=0.01": { zoom: 0.01 },
    "#zoom=1000": { zoom: 1000 },
    "#x=100000000&y=-100000000": { x: 1e8, y: -1e8 },
    "": {},
  };
  for (const [hash, place] of Object.entries(cases)) {
    test(hash, () => assert.deepEqual(parseAddress(hash), { place, problems: [] }));
  }
});

describe("what cannot be read is left out and named", () => {
  const cases = {
    "#scene=-1": "scene=-1 (allowed: a whole number)",
    "#scene=1.5": "scene=1.5 (allowed: a whole number)",
    "#scene=1234567890123456": "scene=1234567890123456 (allowed: a whole number)",
    "#frame=": "frame= (allowed: a whole number)",
    "#lane=": "lane= (allowed: the id of a lane)",
    "#aerial=yes": "aerial=yes (allowed: 0 or 1)",
    "#track=car": "track=car (allowed: a track id or av)",
    "#follow=2": "follow=2 (allowed: 0, 1 or track)",
    "#follow=constructor": "follow=constructor (allowed: 0, 1 or track)", // a name that every object has
    "#x=100000001": "x=100000001 (allowed: metres)",
    "#y=NaN": "y=NaN (allowed: metres)",
    "#zoom=0.009": "zoom=0.009 (allowed: pixels a metre, 0.01 to 1000)",
    "#zoom=1000.1": "zoom=1000.1 (allowed: pixels a metre, 0.01 to 1000)",
    "#toString=1": "toString (known: scene, frame, track, lane, aerial, follow, x, y, zoom)",
  };
  for (const [hash, problem] of Object.entries(cases)) {
    test(hash, () => assert.deepEqual(parseAddress(hash), { place: {}, problems: [problem] }));
  }
  test("long texts are cut", () => {
    const [problem] = parseAddress(`#scene=${"9".repeat(50)}`).problems;
    assert.equal(problem, `scene=${"9".repeat(39)}\u2026 (allowed: a whole number)`);
  });
});

test("a place that is written is read again", () => {
  const place = {
    scene: 0,
    frame: 7,
    track: "av",
    lane: "a b&",
    aerial: true,
    follow: "track",
    x: -12.25,
    y: 0.5,
    zoom: 8.1235,
  };
  const hash = formatAddress(place);
  assert.equal(hash, "#scene=0&frame=7&track=av&lane=a%20b%26&aerial=1&follow=track&x=-12.25&y=0.50&zoom=8.1235");
  assert.deepEqual(parseAddress(hash), { place, problems: [] });
  assert.equal(formatAddress({ follow: "off", x: 1, zoom: 1.234567 }), "#follow=0&zoom=1.2346", "x needs y");
});

describe("the address of the page", () => {
  let listeners;
  let written;

  beforeEach(() => {
    mock.timers.enable({ apis: ["setTimeout"] });
    listeners = {};
    written = [];
    const keep = (how) => (_state, _title, hash) => {
      written.push([how, hash]);
      globalThis.location.hash = hash;
    };
    globalThis.location = { hash: "#scene=1", href: "http://here/#scene=1" };
    globalThis.history = { pushState: keep("push"), replaceState: keep("replace") };
    globalThis.addEventListener = (type, act) => {
      listeners[type] = act;
    };
    globalThis.window = globalThis;
  });
  afterEach(() => {
    mock.timers.reset();
    for (const name of ["location", "history", "addEventListener", "window"]) delete globalThis[name];
  });

  test("many changes are written once, after a while", () => {
    let frame = 0;
    const address = createAddress({ current: () => ({ scene: 1, frame }), onChange: assert.fail });
    for (frame = 1; frame < 5; frame += 1) address.update();
    mock.timers.tick(399);
    assert.deepEqual(written, []);
    mock.timers.tick(1);
    assert.deepEqual(written, [["replace", "#scene=1&frame=5"]]);
    mock.timers.tick(1000);
    assert.equal(written.length, 1);
  });

  test("what is pending is written when the pointer is released, and not again", () => {
    const address = createAddress({ current: () => ({ scene: 2 }), onChange: assert.fail });
    listeners.pointerup();
    assert.deepEqual(written, []);
    address.update();
    listeners.pointerup();
    mock.timers.tick(1000);
    assert.deepEqual(written, [["replace", "#scene=2"]]);
  });

  test("another scene is a step that can be gone back", () => {
    createAddress({ current: () => ({ scene: 2 }), onChange: assert.fail }).push();
    assert.deepEqual(written, [["push", "#scene=2"]]);
  });

  test("nothing is written while nothing is shown, or where it stands there already", () => {
    createAddress({ current: () => null, onChange: assert.fail }).push();
    createAddress({ current: () => ({ scene: 1 }), onChange: assert.fail }).push();
    assert.deepEqual(written, []);
  });

  test("an address that somebody typed is handed on once, and not what the page wrote itself", () => {
    const read = [];
    const address = createAddress({ current: () => ({ scene: 2 }), onChange: (place) => read.push(place) });
    address.push();
    listeners.popstate();
    assert.deepEqual(read, []);
    globalThis.location.hash = "#scene=5";
    listeners.popstate();
    listeners.hashchange();
    assert.deepEqual(read, [{ place: { scene: 5 }, problems: [] }]);
  });

  test("a browser that forbids writing does no harm, and the link is whole", () => {
    globalThis.history.replaceState = () => {
      throw new Error("forbidden");
    };
    const address = createAddress({ current: () => ({ scene: 2 }), onChange: assert.fail });
    assert.equal(address.link(), "http://here/#scene=2");
  });
});
