"""Downloads of datasets: from web servers, folders and buckets, checked, unpacked and laid out as published."""

from l5kit.data.download.addresses import Address, parse_address, parse_addresses
from l5kit.data.download.archives import UnpackLimits
from l5kit.data.download.downloading import DownloadedDataset, download_dataset
from l5kit.data.download.fetching import Expected, Retries

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
