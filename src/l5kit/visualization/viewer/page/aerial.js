// @ts-check
/** Geometry of the tiles of an aerial picture on the page, without elements. */

/**
 * @typedef {object} AerialFacts made by `aerial_tiles.py`
 * @property {number} width_px of level 0
 * @property {number} height_px
 * @property {number} tile_px side of a tile, which has one more column and row of its neighbours
 * @property {number} num_levels each has half the pixels of the previous one along both axes
 * @property {number[][]} pixel_from_world column and row of level 0 from world x, y, 1, (2, 3)
 */
/** @typedef {{level: number, column: number, row: number}} Tile */
/** @typedef {{x: number, y: number, scale: number, width: number, height: number}} View world, CSS pixels per metre, CSS pixels */

/**
 * @param {AerialFacts} facts
 * @param {number} scale device pixels per metre
 * @returns {number} the coarsest level with at least one pixel per pixel of the page, else the finest
 */
export function levelFor({ pixel_from_world: [[a, b], [c, d]], num_levels }, scale) {
  const pixels_per_m = Math.sqrt(Math.abs(a * d - b * c));
  return Math.min(Math.max(Math.floor(Math.log2(pixels_per_m / scale) + 1e-9), 0), num_levels - 1);
}

/** @param {AerialFacts} facts @param {number} level @param {View} view @returns {Tile[]} visible tiles */
export function tilesInView(facts, level, { x, y, scale, width, height }) {
  const [dx, dy] = [width / 2 / scale, height / 2 / scale];
  const corners = [-1, 1].flatMap((right) => [-1, 1].map((up) => pixelOf(facts, x + right * dx, y + up * dy)));
  const side = facts.tile_px * 2 ** level;
  const [first, last] = [0, 1].map((axis) => {
    const places = corners.map((corner) => corner[axis]);
    const end = Math.ceil((axis ? facts.height_px : facts.width_px) / side) - 1;
    return [Math.max(Math.floor(Math.min(...places) / side), 0), Math.min(Math.floor(Math.max(...places) / side), end)];
  });
  const tiles = [];
  for (let row = last[0]; row <= last[1]; row += 1)
    for (let column = first[0]; column <= first[1]; column += 1) tiles.push({ level, column, row });
  return tiles;
}

/** @param {AerialFacts} facts @param {number} x world @param {number} y @returns {number[]} column and row of level 0 */
export function pixelOf({ pixel_from_world }, x, y) {
  return pixel_from_world.map(([ofX, ofY, shift]) => ofX * x + ofY * y + shift);
}

/**
 * @param {AerialFacts} facts
 * @param {View} view
 * @returns {[number, number, number, number, number, number]} canvas transform: CSS pixels from columns and rows of level 0
 */
export function pageFromPixel({ pixel_from_world: [[a, b, e], [c, d, f]] }, { x, y, scale, width, height }) {
  const determinant = a * d - b * c;
  const [xOfColumn, xOfRow, yOfColumn, yOfRow] = [d, -b, -c, a].map((value) => (scale * value) / determinant);
  const [column, row] = [a * x + b * y + e, c * x + d * y + f]; // at the centre of the page
  return [
    xOfColumn,
    -yOfColumn,
    xOfRow,
    -yOfRow,
    width / 2 - xOfColumn * column - xOfRow * row,
    height / 2 + yOfColumn * column + yOfRow * row,
  ];
}
