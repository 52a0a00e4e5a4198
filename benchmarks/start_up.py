"""How fast commands start, beside `python -c "import numpy, click"`: `python -m benchmarks start-up`.

Each command is a process of its own, and runs once before it is measured. Rows that end in cpu count the processor time
of the process and of its children: on a machine that is busy with other things, that is the steadier figure.
"""

from collections.abc import Iterator
from functools import partial

from benchmarks.processes import IMPORTS, commands
from benchmarks.rows import Goal, Round, Rounds, Row

OPERATOR = "masked_im2col_forward"
TINY = f"{OPERATOR}/retinanet_1x1_twin_float"
PEER = "import numpy, click"
# The name of the row: the words of the command, and the ratio that is to be kept.
COMMANDS: dict[str, tuple[tuple[str, ...], float]] = {
    "help": (("--help",), 0.6),
    "run": (("run", TINY, "--out", "results", "--overwrite"), 2.5),
    "show": (("show", TINY), 2.5),
    "list": (("list", "--op", OPERATOR), 2.0),
    "list-all": (("list", "--all"), 2.0),
}
# By -X importtime and process_time.
WHY = {
    "run": "Of what is beyond the peer modules of ours take half, rich a sixth and protobuf a ninth.",
}


def rounds(words: tuple[str, ...], cpu: bool) -> Rounds:
    with commands() as python:

        def measure_round() -> Round:
            ours, peer = python.ours(*words), python.take(*IMPORTS)
            if cpu:
                return {"ours": ours.cpu_seconds, PEER: peer.cpu_seconds}
            return {"ours": ours.seconds, PEER: peer.seconds}

        measure_round()
        while True:
            yield measure_round()


def rows() -> Iterator[Row]:
    for name, (words, most) in COMMANDS.items():
        goals = (Goal(PEER, most),)
        what, why = f"`mluops-test {' '.join(words)}`", WHY.get(name, "")
        yield Row(f"start-up/{name}", what, partial(rounds, words, cpu=False), goals, why=why)
        yield Row(f"start-up/{name}/cpu", what, partial(rounds, words, cpu=True), goals, why=why)
