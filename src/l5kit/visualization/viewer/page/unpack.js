// @ts-check
/** Reading of the packed blobs: "L5KV", length of the header, header JSON, arrays. */

/** @typedef {Float32Array | Uint32Array | Uint16Array | Uint8Array | Int32Array} Column */
/** @typedef {{facts: Record<string, any>, arrays: Record<string, any>, shapes: Record<string, number[]>}} Packed */

const MAGIC = 0x564b354c; // "L5KV", little-endian
const KINDS = {
  float32: Float32Array,
  uint32: Uint32Array,
  uint16: Uint16Array,
  uint8: Uint8Array,
  int32: Int32Array,
};

/**
 * The facts and arrays of a blob; the arrays are views of the buffer, nothing is copied.
 * @param {ArrayBuffer} buffer
 * @returns {Packed}
 * @throws {Error} where the bytes are not such a blob, or are cut off
 */
export function unpack(buffer) {
  if (buffer.byteLength < 8) throw new Error(`a packed blob has at least 8 bytes, got ${buffer.byteLength}`);
  const view = new DataView(buffer);
  if (view.getUint32(0, true) !== MAGIC) throw new Error("the bytes are not a packed blob (they do not start with L5KV)");
  const headerLength = view.getUint32(4, true);
  const start = 8 + headerLength;
  if (start > buffer.byteLength) throw new Error(`the header needs ${start} bytes, the blob has ${buffer.byteLength}`);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, headerLength)));
  /** @type {Packed} */
  const packed = { facts: header.facts, arrays: {}, shapes: {} };
  for (const entry of header.arrays) {
    packed.arrays[entry.name] = column(buffer, start, entry);
    packed.shapes[entry.name] = entry.shape;
  }
  return packed;
}

/**
 * @param {ArrayBuffer} buffer
 * @param {number} start where the data starts
 * @param {{name: string, dtype: string, shape: number[], offset: number}} entry
 * @returns {Column}
 */
function column(buffer, start, { name, dtype, shape, offset }) {
  const Kind = KINDS[/** @type {keyof typeof KINDS} */ (dtype)];
  if (!Kind) throw new Error(`array "${name}" is ${dtype}; known are ${Object.keys(KINDS).join(", ")}`);
  const length = shape.reduce((product, size) => product * size, 1);
  const end = start + offset + length * Kind.BYTES_PER_ELEMENT;
  if (end > buffer.byteLength) throw new Error(`array "${name}" ends at byte ${end}, the blob at ${buffer.byteLength}`);
  return new Kind(buffer, start + offset, length);
}
