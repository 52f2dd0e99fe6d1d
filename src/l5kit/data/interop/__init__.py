"""Datasets as other libraries know them: xarray, Dask, Arrow, pandas, polars, Parquet, and plain arrays of zarr."""

from l5kit.data.interop.arrow_tables import to_arrow, to_arrow_batches
from l5kit.data.interop.columns import export_columns
from l5kit.data.interop.dask_arrays import to_dask_array
from l5kit.data.interop.dask_frames import to_dask_dataframe
from l5kit.data.interop.pandas_frames import to_pandas
from l5kit.data.interop.parquet_files import export_parquet
from l5kit.data.interop.polars_frames import to_polars
from l5kit.data.interop.py123d_files import export_py123d
from l5kit.data.interop.xarray_dataset import to_xarray

__all__ = [
    "export_columns",
    "export_parquet",
    "export_py123d",
    "to_arrow",
    "to_arrow_batches",
    "to_dask_array",
    "to_dask_dataframe",
    "to_pandas",
    "to_polars",
    "to_xarray",
]
