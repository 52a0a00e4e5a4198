"""The settings file for the command line: its values are the defaults of options."""

import os
from pathlib import Path
from typing import Final

import click

from mluops_gtest.running.settings import SettingsFile, nearest_settings, read_settings

VARIABLE: Final = "MLUOPS_TEST_SETTINGS"
# Instead of a file: no settings.
NONE: Final = "none"


def use_settings(ctx: click.Context, param: click.Parameter, value: str | None) -> None:  # noqa: ARG001 - click's signature
    """Make the settings the defaults of every command."""
    path = nearest_settings() if value is None else None if value == NONE else Path(os.path.abspath(value))
    if path is None:
        return
    assert isinstance(ctx.command, click.Group)
    ctx.obj = read_settings(path)
    defaults = ctx.obj.defaults()
    # For a group, name its commands; history has no option that is in the settings.
    ctx.default_map = {**dict.fromkeys(ctx.command.list_commands(ctx), defaults), "audit": {"operators": defaults}}


def stands_in_settings(ctx: click.Context, name: str) -> bool:
    """The parameter has its value from the settings, not from the command line."""
    return ctx.get_parameter_source(name) is click.core.ParameterSource.DEFAULT_MAP


def typed_options(ctx: click.Context) -> dict[str, str]:
    """The parameters that the command line gives, and how each is written."""
    source = click.core.ParameterSource.COMMANDLINE
    written = {parameter.name or "": parameter.opts[0] for parameter in ctx.command.params}
    return {name: option for name, option in written.items() if ctx.get_parameter_source(name) is source}


def remark(error: click.ClickException) -> str:
    """Where a wrong value in the settings is; empty for a value from the command line."""
    if not isinstance(error, click.BadParameter) or error.ctx is None or error.param is None:
        return ""
    name = error.param.name or ""
    if not isinstance(error.ctx.obj, SettingsFile) or not stands_in_settings(error.ctx, name):
        return ""
    return f"\nThe value comes from {error.ctx.obj.place(name)}."
