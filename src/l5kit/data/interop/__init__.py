"""Datasets as other libraries know them: xarray, Dask, and plain zarr arrays for TensorStore and its like."""

from l5kit.data.interop.columns import export_columns
from l5kit.data.interop.dask_arrays import to_dask_array
from l5kit.data.interop.dask_frames import to_dask_dataframe
from l5kit.data.interop.xarray_dataset import to_xarray

__all__ = ["export_columns", "to_dask_array", "to_dask_dataframe", "to_xarray"]
