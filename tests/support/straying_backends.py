"""Backends that read or write outside of their buffers, each in one way; all of them compute rightly before."""

import ctypes
import os
from pathlib import Path

from mluops_gtest import Declined
from tests.support.wrong_backends import Exact

MIB = 1 << 20


class Straying(Exact):
    def spoil(self, call, outputs):
        inputs = [arg.array for arg in call.inputs.values() if arg.array.size]
        self.stray(inputs[0].ctypes.data, inputs[0].nbytes, outputs[-1].ctypes.data, outputs[-1].nbytes)

    def stray(self, start, size, out, out_size):
        """What it does with the addresses and sizes of the first input and of the last output."""


class ReadsPastTheEnd(Straying):
    def stray(self, start, size, out, out_size):
        ctypes.string_at(start + size, 1)


class ReadsAcrossTheEnd(Straying):
    """An element that begins inside."""

    def stray(self, start, size, out, out_size):
        ctypes.c_uint64.from_address(start + size - 4).value  # noqa: B018


class ReadsTheSecondElementBehind(Straying):
    def stray(self, start, size, out, out_size):
        ctypes.string_at(start + size + 4, 1)


class ReadsBeforeTheStart(Straying):
    def stray(self, start, size, out, out_size):
        ctypes.string_at(start - 1, 1)


class ReadsFarBehind(Straying):
    def stray(self, start, size, out, out_size):
        ctypes.string_at(start + size + MIB, 1)


class ReadsFarInFront(Straying):
    def stray(self, start, size, out, out_size):
        ctypes.string_at(start - 60 * MIB, 1)


class WritesPastTheEnd(Straying):
    def stray(self, start, size, out, out_size):
        ctypes.memset(out + out_size, 0, 1)


class WritesFarInFront(Straying):
    def stray(self, start, size, out, out_size):
        ctypes.memset(out - MIB, 0, 1)


class WritesIntoTheSlack(Straying):
    """Right before the start, which is accessible while what lies behind is watched."""

    def stray(self, start, size, out, out_size):
        ctypes.memset(out - 1, 0, 1)


class FollowsNull(Straying):
    def stray(self, start, size, out, out_size):
        ctypes.string_at(16)


class FollowsAWildPointer(Straying):
    def stray(self, start, size, out, out_size):
        ctypes.string_at(0x1234567890, 1)


class FollowsWhatIsNoAddress(Straying):
    def stray(self, start, size, out, out_size):
        ctypes.string_at(0x7000_0000_0000_0000, 1)


class SendsItselfTheSignal(Straying):
    def stray(self, start, size, out, out_size):
        os.kill(os.getpid(), 11)


class OverreadsItsWorkspace(Exact):
    def workspace_size(self, call):
        return 100

    def spoil(self, call, outputs):
        ctypes.string_at(call.workspace.ctypes.data + 128, 1)


class ReadsTheEmptyTensor(Exact):
    """An empty tensor has a pointer, but not a single byte."""

    def run(self, call):
        for arg in call.inputs.values():
            if arg is not None and arg.array is not None and not arg.array.size:
                ctypes.string_at(arg.array.ctypes.data, 1)
        return super().run(call)


class KeepsAPointer(Exact):
    """Reads in every call what it was given in the first one."""

    kept = None

    def spoil(self, call, outputs):
        if self.kept is not None:
            ctypes.string_at(self.kept, 1)
        type(self).kept = outputs[-1].ctypes.data


class TellsItsAddresses(Exact):
    """Into a file: of every call the offsets in their pages at which the buffers begin and end."""

    def spoil(self, call, outputs):
        arrays = [arg.array for arg in (*call.inputs.values(), *call.outputs.values())]
        page = os.sysconf("SC_PAGE_SIZE")
        starts = [array.ctypes.data % page for array in arrays]
        ends = [(array.ctypes.data + array.nbytes) % page for array in arrays]
        with Path(os.environ["STRAY_FILE"]).open("a") as file:
            print(any(starts), any(ends), file=file)


class MeasuresItsAddressSpace(Exact):
    def spoil(self, call, outputs):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        with Path(os.environ["STRAY_FILE"]).open("a") as file:
            print(pages * os.sysconf("SC_PAGE_SIZE"), file=file)


class HasADevice(Exact):
    host_memory = False


class Declines(Exact):
    def run(self, call):
        raise Declined("not here")


class Native(Exact):
    """Strays in C code; STRAY_LIBRARY names it. Where the lock is held, no Python code can run in another thread."""

    library = ctypes.CDLL

    def spoil(self, call, outputs):
        library = self.library(os.environ["STRAY_LIBRARY"])
        last = outputs[-1]
        self.stray(library, ctypes.c_void_p(last.ctypes.data), ctypes.c_void_p(last.ctypes.data + last.nbytes))

    def stray(self, library, start, end):
        """The one C function."""


class ReadsInAThread(Native):
    def stray(self, library, start, end):
        library.read_in_a_thread(end)


class ReadsInAThreadThatHoldsTheLock(ReadsInAThread):
    library = ctypes.PyDLL


class NeedsAlignment(Native):
    def stray(self, library, start, end):
        library.load_aligned(ctypes.c_void_p(end.value - 20))
