"""Backends that read or write outside of their buffers, each in one way; all of them compute rightly before."""

import ctypes
import os
from pathlib import Path

from mluops_gtest import Declined
from tests.support.wrong_backends import Exact

MIB = 1 << 20


def straying(stray):
    """A backend that strays so: `stray` gets where the first input begins and ends, and where the last output does."""

    class Straying(Exact):
        def spoil(self, call, outputs):
            first = next(arg.array for arg in call.inputs.values() if arg.array.size)
            stray(*(place for array in (first, outputs[-1]) for place in _ends(array)))

    return Straying


def _ends(array):
    return array.ctypes.data, array.ctypes.data + array.nbytes


def read(address):
    ctypes.string_at(address, 1)


def write(address):
    ctypes.memset(address, 0, 1)


ReadsPastTheEnd = straying(lambda start, end, out, out_end: read(end))
# An element that begins inside.
ReadsAcrossTheEnd = straying(lambda start, end, out, out_end: ctypes.c_uint64.from_address(end - 4).value)
ReadsTheSecondElementBehind = straying(lambda start, end, out, out_end: read(end + 4))
ReadsBeforeTheStart = straying(lambda start, end, out, out_end: read(start - 1))
ReadsFarBehind = straying(lambda start, end, out, out_end: read(end + MIB))
ReadsFarInFront = straying(lambda start, end, out, out_end: read(start - 60 * MIB))
WritesPastTheEnd = straying(lambda start, end, out, out_end: write(out_end))
WritesFarInFront = straying(lambda start, end, out, out_end: write(out - MIB))
# Right before the start, which is accessible while what lies behind is watched.
WritesIntoTheSlack = straying(lambda start, end, out, out_end: write(out - 1))
FollowsNull = straying(lambda *_: read(16))
FollowsAWildPointer = straying(lambda *_: read(0x1234567890))
FollowsWhatIsNoAddress = straying(lambda *_: read(0x7000_0000_0000_0000))
SendsItselfTheSignal = straying(lambda *_: os.kill(os.getpid(), 11))


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
