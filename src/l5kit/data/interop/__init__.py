"""Export of datasets and maps to xarray, Dask, Arrow, pandas, polars, Parquet, Lanelet2, OpenDRIVE and others."""

from l5kit.data.interop.columns import export_columns
from l5kit.data.interop.dask_records import to_dask_array, to_dask_dataframe, to_xarray
from l5kit.data.interop.exchanged_map import MapExport
from l5kit.data.interop.lanelet2_file import export_lanelet2
from l5kit.data.interop.map_differences import MapDifferences, compare_maps
from l5kit.data.interop.opendrive_file import export_opendrive
from l5kit.data.interop.openscenario_files import export_openscenario
from l5kit.data.interop.parquet_files import export_parquet
from l5kit.data.interop.py123d_files import export_py123d
from l5kit.data.interop.tables import to_arrow, to_arrow_batches, to_pandas, to_polars

__all__ = [
    "MapDifferences",
    "MapExport",
    "compare_maps",
    "export_columns",
    "export_lanelet2",
    "export_opendrive",
    "export_openscenario",
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
