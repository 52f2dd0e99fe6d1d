"""Ctrl-C of the processes that tests start."""

import signal

__all__ = ["take_back_ctrl_c"]


def take_back_ctrl_c() -> None:
    """Have Ctrl-C interrupt this process and what it starts, also where a shell has put it into the background.

    ``make test &`` in a script starts with an ignored SIGINT, which all children inherit. With a handler here it is the
    usual one again in each program that is started.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
