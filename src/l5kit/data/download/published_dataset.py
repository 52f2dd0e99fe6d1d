"""Published dataset: where it is had, under which licence, and how a folder with it looks."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PublishedDataset:
    """Facts of a dataset that its owner hands out.

    Attributes:
        name: What it is called.
        owner: Who hands it out.
        page: Address of the owner's page.
        licence: Short name of the licence, and what it asks for.
        licence_page: Address of its text.
        access: How one gets it.
        layout: The files of a data folder.
    """

    name: str
    owner: str
    page: str
    licence: str
    licence_page: str
    access: str
    layout: tuple[str, ...]


PUBLISHED_DATASET = PublishedDataset(
    name="Lyft Level 5 Prediction dataset, now the Woven by Toyota Prediction dataset",
    owner="Woven by Toyota",
    page="https://woven.toyota/en/prediction-dataset",
    licence="CC BY-NC-SA 4.0: name the owner, no commercial use, share under the same terms",
    licence_page="https://creativecommons.org/licenses/by-nc-sa/4.0/",
    access="the owner gives addresses to those who register on the page and agree to the terms there; l5kit has none",
    layout=(
        "scenes/sample.zarr, train.zarr, train_full.zarr, validate.zarr",
        "aerial_map/aerial_map.png",
        "semantic_map/semantic_map.pb",
        "meta.json",
    ),
)
