"""Languages of GPU kernels: time to fill boxes with numba-cuda and with Triton.

    python benchmarks/kernel_languages.py

Both fill the same boxes of the same planes and must give the same bytes. The numba-cuda kernel runs one thread for each
row, like those of l5kit; the Triton kernel runs one program for a block of rows, with all columns at once.
"""

import numpy as np
import torch
import triton
import triton.language as tl
from numba import cuda

NUM_PLANES, NUM_BOXES, SIZE, ROWS = 5632, 8, 224, 8
SHIFT = 16


def make_edges(generator: np.random.Generator) -> np.ndarray:
    """Return, for the four edges of boxes, x in the first row, change of x per row, first row and end row."""
    center = generator.uniform(0, SIZE, (NUM_PLANES, NUM_BOXES, 1, 2))
    yaw = generator.uniform(-np.pi, np.pi, (NUM_PLANES, NUM_BOXES, 1))
    along = np.array([4.5, 4.5, -4.5, -4.5]) * np.cos(yaw) - np.array([2.0, -2.0, -2.0, 2.0]) * np.sin(yaw)
    across = np.array([4.5, 4.5, -4.5, -4.5]) * np.sin(yaw) + np.array([2.0, -2.0, -2.0, 2.0]) * np.cos(yaw)
    corners = center + np.stack([along, across], axis=-1)
    x0, row0 = (corners[..., 0] * (1 << SHIFT)).astype(np.int64), np.floor(corners[..., 1]).astype(np.int64)
    x1, row1 = np.roll(x0, -1, axis=-1), np.roll(row0, -1, axis=-1)
    per_row = np.where(row1 != row0, (x1 - x0) / np.where(row1 == row0, 1, row1 - row0), 0).astype(np.int64)
    first = np.where(row0 < row1, x0, x1)
    return np.stack([first, per_row, np.minimum(row0, row1), np.maximum(row0, row1)], axis=-1)


@cuda.jit
def fill_by_numba(edges, images):
    item = cuda.grid(1)
    plane, row = item // SIZE, item % SIZE
    if plane >= images.shape[0]:
        return
    for box in range(NUM_BOXES):
        left, right = np.int64(1) << 40, -(np.int64(1) << 40)
        for edge in range(4):
            if edges[plane, box, edge, 2] <= row < edges[plane, box, edge, 3]:
                x = edges[plane, box, edge, 0] + (row - edges[plane, box, edge, 2]) * edges[plane, box, edge, 1]
                left, right = min(left, x), max(right, x)
        for column in range(max((left + 65535) >> SHIFT, 0), min((right >> SHIFT) + 1, SIZE)):
            images[plane, row, column] = 255


@triton.jit
def fill_by_triton(edges, images, num_boxes: tl.constexpr, size: tl.constexpr, rows: tl.constexpr):
    plane, block = tl.program_id(0), tl.program_id(1)
    row = block * rows + tl.arange(0, rows)
    column = tl.arange(0, 256)
    filled = tl.zeros((rows, 256), tl.int1)
    for box in range(num_boxes):
        left = tl.full((rows,), 1 << 40, tl.int64)
        right = tl.full((rows,), -(1 << 40), tl.int64)
        for edge in range(4):
            at = edges + ((plane * num_boxes + box) * 4 + edge) * 4
            x0, per_row, top, bottom = tl.load(at), tl.load(at + 1), tl.load(at + 2), tl.load(at + 3)
            is_met = (row >= top) & (row < bottom)
            x = x0 + (row - top) * per_row
            left = tl.where(is_met, tl.minimum(left, x), left)
            right = tl.where(is_met, tl.maximum(right, x), right)
        first, last = (left + 65535) >> 16, right >> 16
        filled = filled | ((column[None, :] >= first[:, None]) & (column[None, :] <= last[:, None]))
    place = images + (plane * size + row[:, None]) * size + column[None, :]
    tl.store(place, tl.where(filled, 255, 0).to(tl.uint8), mask=(column[None, :] < size) & (row[:, None] < size))


def median_ms(run) -> float:
    """Return the milliseconds of a call on the GPU."""
    times = []
    for _ in range(20):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return float(np.median(times))


def main() -> None:
    """Print a table."""
    edges = torch.from_numpy(make_edges(np.random.default_rng(0))).cuda()
    by_numba = torch.empty((NUM_PLANES, SIZE, SIZE), dtype=torch.uint8, device="cuda")
    by_triton = torch.full_like(by_numba, 7)
    as_edges, as_images = cuda.as_cuda_array(edges), cuda.as_cuda_array(by_numba)
    stream = (
        cuda.external_stream(torch.cuda.current_stream().cuda_stream) if torch.cuda.current_stream().cuda_stream else 0
    )

    def run_numba() -> None:
        by_numba.zero_()
        fill_by_numba[-(-NUM_PLANES * SIZE // 64), 64, stream](as_edges, as_images)

    def run_triton() -> None:
        fill_by_triton[(NUM_PLANES, -(-SIZE // ROWS))](edges, by_triton, NUM_BOXES, SIZE, ROWS)

    run_numba(), run_triton()
    torch.cuda.synchronize()
    num_filled = int((by_numba > 0).sum())
    print(f"planes of {SIZE} x {SIZE}: {NUM_PLANES}, boxes in each: {NUM_BOXES}, filled pixels: {num_filled}")
    print(f"same bytes: {bool(torch.equal(by_numba, by_triton))}")
    num_bytes = by_numba.numel()
    for name, run in (
        ("numba-cuda, with clearing", run_numba),
        ("Triton", run_triton),
        ("clearing alone", by_numba.zero_),
    ):
        took_ms = median_ms(run)
        print(f"| {name} | {took_ms:.3f} ms | {num_bytes / took_ms / 1e6:.0f} GB/s written |")


if __name__ == "__main__":
    main()
