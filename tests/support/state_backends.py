"""Backends that leave something in their worker which innocent cases would meet; each does it on the victim's cases."""

import builtins
import ctypes
import mmap
import os
import signal
import sys
import time

import msgspec
import numpy as np

from tests.support.crashing_backends import Isolated, misbehaving

RoundsUpwards = misbehaving(lambda _: ctypes.CDLL(None).fesetround(0x800))


class WritesBehindItsOutput(Isolated):
    """And where nobody looks: later calls of this process go wrong."""

    is_spoiled = False

    def run(self, call):
        if self.is_spoiled:
            ctypes.string_at(0)
        return super().run(call)

    def misbehave(self, call):
        output = next(iter(call.outputs.values())).array
        ctypes.memset(output.ctypes.data + output.nbytes, 0, 8)
        self.is_spoiled = True


class RaisesOnErrors(Isolated):
    """Every case divides by zero somewhere, as many kernels do and then select."""

    def run(self, call):
        np.float32(1) / np.zeros(1, np.float32)
        return super().run(call)

    def misbehave(self, call):
        np.seterr(all="raise")


class CallsOnErrors(RaisesOnErrors):
    def misbehave(self, call):
        def refuse(*_):
            raise RuntimeError("met the handler of another case")

        np.seterrcall(refuse)
        np.seterr(all="call")


class LeavesAPosixTimer(Isolated):
    """It rings a little later, and nobody handles the signal."""

    def run(self, call):
        time.sleep(0.01)
        return super().run(call)

    def misbehave(self, call):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        library, timer, first = ctypes.CDLL(None), ctypes.c_void_p(), (ctypes.c_long * 4)(0, 0, 0, 20_000_000)
        assert library.timer_create(1, None, ctypes.byref(timer)) == 0
        assert library.timer_settime(timer, 0, first, None) == 0


class LeavesAChildAtItsLine(Isolated):
    """A child takes what the next case's request would say."""

    def misbehave(self, call):
        import socket

        if os.fork() == 0:
            for fd in map(int, os.listdir("/proc/self/fd")):
                try:
                    line = socket.socket(fileno=fd)
                except OSError:
                    continue
                while line.recv(1 << 16):
                    pass
            time.sleep(600)


class UsesUpMappings(Isolated):
    """Every case maps some memory; victims leave little of what a process may have."""

    def run(self, call):
        kept = [mmap.mmap(-1, 4096, prot=mmap.PROT_READ | (mmap.PROT_WRITE if n % 2 else 0)) for n in range(2000)]
        status = super().run(call)
        kept.clear()
        return status

    def misbehave(self, call):
        library = ctypes.CDLL(None)
        library.mmap.restype = ctypes.c_void_p
        pages = 64_000
        with open("/proc/self/maps", "rb") as file:
            pages -= len(file.readlines())
        library.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
        library.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        start = library.mmap(None, pages * 4096, 0, 0x22, -1, 0)
        for page in range(0, pages, 2):
            library.mprotect(start + page * 4096, 4096, 1)


class ClearsThePath(Isolated):
    """Every case imports something for the first time."""

    def run(self, call):
        sys.modules.pop("colorsys", None)
        import colorsys  # noqa: F401

        return super().run(call)

    def misbehave(self, call):
        sys.path.clear()


class PatchesNumpy(Isolated):
    def misbehave(self, call):
        true = np.frombuffer
        np.frombuffer = lambda *arguments, **keywords: true(*arguments, **keywords) * 0


class PatchesImport(Isolated):
    def run(self, call):
        import colorsys  # noqa: F401

        return super().run(call)

    def misbehave(self, call):
        def refuse(*_, **__):
            raise ImportError("patched")

        builtins.__import__ = refuse


PatchesMsgspec = misbehaving(lambda _: setattr(msgspec.json, "encode", lambda *_: b"nonsense"))


class LeavesABusyThread(Isolated):
    """No Python thread: machine code that jumps to itself for ever."""

    def misbehave(self, call):
        library, handle = ctypes.CDLL(None), ctypes.c_ulong()
        loop = b"\xeb\xfe" if os.uname().machine == "x86_64" else b"\x00\x00\x00\x14"
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(loop)
        self.kept = code
        place = ctypes.addressof(ctypes.c_char.from_buffer(code))
        assert library.pthread_create(ctypes.byref(handle), None, ctypes.c_void_p(place), None) == 0


class KeepsAnIdlePool(Isolated):
    """As OpenMP and BLAS do: a thread that no Python code runs in, and that sleeps."""

    pool = False

    def run(self, call):
        call.notes.append(f"process {os.getpid()}")
        if not self.pool:
            self.pool, handle, library = True, ctypes.c_ulong(), ctypes.CDLL(None)
            library.pthread_create(ctypes.byref(handle), None, library.sleep, ctypes.c_void_p(600))
        return super().run(call)
