"""`python -m mluops_gtest` and the installed script: Ctrl-C has its answer before anything slow is imported."""

import os
import signal


def main() -> None:
    """Run the command line; an interrupt ends with exit code 130 and one word, also during the imports."""
    # nohup and some CI systems have interrupts ignored: they stay so.
    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_usual:
        # No exception: one that is raised inside an import can be swallowed or shown as a traceback.
        signal.signal(signal.SIGINT, _end_interrupted)
    from mluops_gtest.cli.main import main as run_command_line

    try:
        if is_usual:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run_command_line()
    except KeyboardInterrupt:
        _end_interrupted()


def _end_interrupted(*_: object) -> None:
    os.write(2, b"interrupted\n")
    os._exit(128 + signal.SIGINT)  # ExitCode.INTERRUPTED: to import it could be interrupted, too


# Processes that `generate -j` starts read this file as well.
if __name__ == "__main__":
    main()
