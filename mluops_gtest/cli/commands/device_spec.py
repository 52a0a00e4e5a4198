"""`mluops-test device-spec`."""

from collections.abc import Mapping
from pathlib import Path

import click

from mluops_gtest.base.errors import UsageError

_EPILOG = """\b
Examples:
  mluops-test device-spec --measure -o host.yaml   measure this machine
  mluops-test device-spec my_device.yaml           check a description and show it

\b
A description is YAML that you can write yourself:
  name: my-device
  bandwidth_bytes_per_s: 1.2e+12
  peak_ops_per_s: {float: 1.6e+13, half: 6.4e+13}   or one number
"""


@click.command("device-spec", epilog=_EPILOG)
@click.argument("file", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--measure", is_flag=True, help="Measure this machine with numpy: memory copies and matrix products.")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the measured description here, e.g. -o host.yaml.  [default: standard output]",
)
def command(file: Path | None, measure: bool, out: Path | None) -> None:
    """Check and show the description of a device, or measure this machine.

    `run --perf --device-spec FILE` then says how much of the bandwidth and peak each case reaches.
    """
    from mluops_gtest.base.files import replace_text
    from mluops_gtest.cli.echo import echo
    from mluops_gtest.results.times import DeviceSpec, device_spec_text, read_device_spec

    if measure == (file is not None):
        raise UsageError("Name a description, e.g. device-spec host.yaml, or give --measure.")
    if file is not None:
        if out is not None:
            raise UsageError("-o goes with --measure; a description that exists is only shown.")
        spec = read_device_spec(file)
        peaks = spec.peak if isinstance(spec.peak, Mapping) else {"": spec.peak}
        echo(f"name       {spec.name}")
        echo(f"bandwidth  {spec.bandwidth:.4g} bytes/s")
        for dtype, peak in peaks.items():
            balance = f"{peak / spec.bandwidth:.4g} operations per byte make both a limit"
            echo(f"peak       {peak:.4g} operations/s{f' ({dtype})' if dtype else ''}; {balance}")
        return
    from mluops_gtest.results.statistics import describe_host, measure_bandwidth, measure_peak

    text = device_spec_text(DeviceSpec("host", measure_bandwidth(), measure_peak()), describe_host())
    if out is None:
        echo(text.removesuffix("\n"))
        return
    replace_text(out, text)
    echo(f"Written: {out}")
