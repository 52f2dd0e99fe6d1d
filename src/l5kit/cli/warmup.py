"""``l5kit warmup``: compiles kernels ahead of use."""

from l5kit.cli.options import JsonOption
from l5kit.cli.output import print_facts, print_json
from l5kit.data.progress import show_progress


def warmup(as_json: JsonOption = False) -> None:
    """Compile the kernels of samples, vectors, maps, masks and simulations ahead of their first use.

    For container images and CI. Compiled kernels are stored in NUMBA_CACHE_DIR, or else next to the package, for
    processors of this type.

    Examples:
        l5kit warmup
        NUMBA_CACHE_DIR=/opt/kernels l5kit warmup
    """
    from l5kit.warmup.warm_up import warm_up

    with show_progress("Compiling", visible=True) as progress:
        done = warm_up(progress=progress)
    if as_json:
        print_json({"seconds": round(done.seconds, 1), "was_cold": done.was_cold, "cache_folder": done.cache_folder})
        return
    outcome = "compiled missing kernels" if done.was_cold else "all kernels were compiled already"
    print_facts("Kernels", {"Result": f"{outcome}, in {done.seconds:,.1f} s", "Folder": done.cache_folder})
