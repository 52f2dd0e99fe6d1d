// Keep the same number of metres per pixel along x and y, in a figure of any size. A frame of the slider centres the AV and
// keeps the zoom. The reset tool returns to the initial view, around the current position of the AV.
const { inner_width: width, inner_height: height } = plot
if (!(width > 0 && height > 0)) return
const index = slider == null ? 0 : Math.round((slider.value - slider.start) / slider.step)
const shorter = Math.min(width, height)
const half = Math.min(x_range.end - x_range.start, y_range.end - y_range.start) / 2

const show = (range, size, center) => {
  const stretch = size / shorter
  const middle = cb_obj === slider ? center : (range.start + range.end) / 2
  range.setv({
    start: middle - half * stretch,
    end: middle + half * stretch,
    reset_start: center - half_side * stretch,
    reset_end: center + half_side * stretch,
  })
}
show(x_range, width, centers_x[index])
show(y_range, height, centers_y[index])
