"""Downloads of datasets from web servers, folders and buckets, verified, unpacked and laid out as published.

Folders and buckets are read by fsspec. Files of web servers are requested here, because neither fsspec nor pooch can
resume a download of gigabytes after checking that the server still has the same file, and neither refuses a redirect
from https to http. Archives are unpacked here, because the standard library accepts zip bombs, and names that collide
on other systems.
"""

from l5kit.data.download.addresses import Address, parse_address, parse_addresses
from l5kit.data.download.downloading import DownloadedDataset, download_dataset
from l5kit.data.download.fetching import Expected, Retries
from l5kit.data.unpack_limits import UnpackLimits

__all__ = [
    "Address",
    "DownloadedDataset",
    "Expected",
    "Retries",
    "UnpackLimits",
    "download_dataset",
    "parse_address",
    "parse_addresses",
]
