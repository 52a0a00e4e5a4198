"""Options for timing calls, shared by several commands."""

from typing import Any

import click

from mluops_gtest.cli.plain_options import together


class SamplesType(click.ParamType):  # type: ignore[type-arg]  # generic only in the newest click
    """A number of samples, or auto."""

    name = "N|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        """`auto` → None."""
        text = str(value).strip()
        if text == "auto":
            return None
        if not text.isdecimal() or not int(text):
            self.fail(
                f"{value!r} is neither auto nor a number of samples of at least 1, e.g. --samples 100.", param, ctx
            )
        return int(text)


sampling_options = together(
    click.option(
        "--warmup",
        type=click.IntRange(0),
        default=3,
        show_default=True,
        metavar="W",
        help="Untimed calls before the first sample, e.g. --warmup 10.",
    ),
    click.option(
        "--samples",
        type=SamplesType(),
        default="auto",
        show_default=True,
        metavar="N|auto",
        help="Timed calls per case, e.g. --samples 100; auto goes on until the median is known to 1 %, but "
        "stops at 1000 calls or about two seconds.",
    ),
    click.option("--cold-cache", is_flag=True, help="Empty this machine's caches before each sample."),
)
