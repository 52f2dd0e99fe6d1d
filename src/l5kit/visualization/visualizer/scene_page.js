// Show the frame that the slider stands at: give each source the elements of that frame and move the view to the AV.
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

// The reader's zoom is kept; the reset tool goes back to the first view around where the AV is now.
const recentre = (range, center) => {
  const half = (range.end - range.start) / 2
  range.setv({
    start: center - half,
    end: center + half,
    reset_start: center - half_side,
    reset_end: center + half_side,
  })
}
recentre(x_range, centers_x[index])
recentre(y_range, centers_y[index])
