// Show the frame of the slider: give each source the elements of that frame.
const index = Math.round((slider.value - slider.start) / slider.step)

for (const layer of layers) {
  const { frame_starts, shapes, shape_starts, xs, ys, columns } = layer
  const first = frame_starts[index]
  const end = frame_starts[index + 1]
  const data = { xs: [], ys: [] }
  for (let element = first; element < end; element++) {
    const from = shape_starts[shapes[element]]
    const to = shape_starts[shapes[element] + 1]
    data.xs.push(Float64Array.from(xs.slice(from, to), (x) => origin[0] + x))
    data.ys.push(Float64Array.from(ys.slice(from, to), (y) => origin[1] + y))
  }
  for (const [name, column] of Object.entries(columns)) {
    data[name] = Array.from(column.codes.slice(first, end), (code) => column.values[code])
  }
  layer.source.data = data
}
