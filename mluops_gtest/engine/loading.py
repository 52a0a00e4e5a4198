"""From the words of a run's options to a backend: composed here, because backends may not import content or codec."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from mluops_gtest.backends.registry import BackendDependencies, load_backend
from mluops_gtest.content.operators import Operators, load_operators
from mluops_gtest.model.backend import Backend
from mluops_gtest.value import Value

if TYPE_CHECKING:
    from mluops_gtest.backends.exec_backend.backend import CallWriter


class BackendChoice(Value):
    """What the user asked for; plain values, so that it travels to a worker."""

    spec: str
    roots: tuple[str, ...]
    runtime: str | None = None
    serve: bool = False

    @property
    def keeps_state(self) -> bool:
        """What a call leaves may meet the next one: a program without --serve is started for each."""
        return self.serve or self.spec.partition(":")[0] != "exec"

    def to_message(self) -> dict[str, Any]:
        """Plain values for a pipe."""
        return asdict(self)

    def load(self, operators: Operators | None = None) -> Backend:
        """The backend; operators are loaded only for one that needs them."""

        @cache
        def resolve() -> Operators:
            return load_operators(*map(Path, self.roots)) if operators is None else operators

        def call_writer() -> "CallWriter":
            from mluops_gtest.codec.call_folder.folder import CallFolderWriter

            return CallFolderWriter(resolve())

        return load_backend(self.spec, BackendDependencies(resolve, call_writer, self.runtime, self.serve))
