"""``l5kit synth``: generates a synthetic city."""

from dataclasses import asdict
from typing import Annotated

import typer

from l5kit.cli.options import AddressOption, Engine, EngineOption, JobOption, OutArgument, WorkersOption
from l5kit.cli.output import print_facts, print_table, require_writable_folder
from l5kit.cli.workers import RequestedWorkers
from l5kit.data.progress import show_progress
from l5kit.synthetic.city import make_city
from l5kit.synthetic.params import LIMITS, CityParams
from l5kit.synthetic.towns import MAX_NUM_TOWNS, make_towns, params_of_towns

_MOST_SCENES = int(LIMITS["num_scenes"][1])
_TOWN_SIZES_M = LIMITS["town_size"]


def synth(
    out: OutArgument,
    seed: Annotated[int, typer.Option(min=0, help="Random seed; the same seed gives the same files.")] = 0,
    scenes: Annotated[
        int, typer.Option(min=1, max=_MOST_SCENES, help="Number of scenes in scenes/sample.zarr.")
    ] = CityParams.num_scenes,
    train_scenes: Annotated[
        int, typer.Option(min=0, max=_MOST_SCENES, help="Number of scenes in scenes/train.zarr.")
    ] = CityParams.num_train_scenes,
    validate_scenes: Annotated[
        int, typer.Option(min=0, max=_MOST_SCENES, help="Number of scenes in scenes/validate.zarr.")
    ] = CityParams.num_validate_scenes,
    frames: Annotated[
        int, typer.Option(min=1, max=int(LIMITS["num_frames"][1]), help="Frames per scene, 10 per second.")
    ] = CityParams.num_frames,
    town_size: Annotated[
        float, typer.Option(min=_TOWN_SIZES_M[0], max=_TOWN_SIZES_M[1], help="Side of the square town, metres.")
    ] = CityParams.town_size,
    density: Annotated[
        float,
        typer.Option(
            min=0, max=LIMITS["traffic_density"][1], help="Traffic density; 1 gives about 90 agents per frame."
        ),
    ] = CityParams.traffic_density,
    noise: Annotated[
        bool,
        typer.Option("--noise", help="Simulate the noise of a tracker; the true scenes are written to truth/."),
    ] = False,
    towns: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_NUM_TOWNS,
            metavar="N",
            help="Generate N cities, OUT/town_00 and so on, each with these numbers of scenes; existing ones are kept.",
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing folder; with --towns, cities that differ.")
    ] = False,
    workers: WorkersOption = None,
    engine: EngineOption = Engine.THREADS,
    address: AddressOption = None,
    job: JobOption = None,
) -> None:
    """Generate a synthetic city: a complete dataset folder with traffic, map and aerial picture.

    With --towns, generate several different towns to train on.

    Examples:
        l5kit synth city
        l5kit synth city --seed 7 --scenes 20 --train-scenes 100 --overwrite --workers 4
    """
    require_writable_folder(out, option="OUT")
    if towns is not None and job is not None:  # a job folder is for one city
        raise typer.BadParameter("complete towns are kept anyway; drop it", param_hint="--job")
    params = CityParams(
        seed=seed,
        num_scenes=scenes,
        num_train_scenes=train_scenes,
        num_validate_scenes=validate_scenes,
        town_size=town_size,
        traffic_density=density,
        num_frames=frames,
        noise=noise,
    )
    # everything that the records depend on, so that a job folder is resumed only for the same city
    options = [seed, scenes, train_scenes, validate_scenes, frames, town_size, density, noise]
    with (
        RequestedWorkers(engine, address, workers, job).opened("synth", [], params=options) as carriers,
        show_progress("Driving", visible=True) as progress,
    ):
        if towns is None:
            city = make_city(out, **asdict(params), overwrite=overwrite, progress=progress, workers=carriers)
        else:
            made = make_towns(out, towns, params=params, overwrite=overwrite, progress=progress, workers=carriers)
    if towns is not None:
        num_scenes = {"sample": scenes, "train": train_scenes, "validate": validate_scenes}
        rows = [
            [name, str(of_town.seed), *(str(num_scenes[split]) for split in folder.scenes)]
            for folder, (name, of_town) in zip(made, params_of_towns(params, towns), strict=True)
        ]
        columns = ("town", "seed", *(f"scenes/{split}.zarr" for split in made[0].scenes))
        print_table(f"{towns} towns in {out}", columns, rows)
        return
    truth = {f"true {name}": path for name, path in city.truth.items()}
    files = {
        **city.scenes,
        **truth,
        "semantic map": city.semantic_map,
        "aerial picture": city.aerial_map,
        "meta": city.meta,
    }
    print_facts(f"City in {city.path}", files)
