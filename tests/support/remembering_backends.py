"""Backends for scale_by of the toy root that are wrong because of what ran before them, or for no reason at all."""

import os
import time

import numpy as np

from mluops_gtest import Status


class Doubles:
    """Right; `seen` are the counts of elements of the calls that this process has made."""

    def __init__(self):
        self.name = type(self).__name__
        self.seen = []

    def run(self, call):
        y = call.array("y")
        y[...] = call.array("x") * np.float32(2)
        if self.is_wrong(y.size):
            self.spoil(y)
        self.seen.append(y.size)
        with open("calls", "a") as file:
            file.write(f"{os.getpid()} {y.size}\n")
        return Status.SUCCESS

    def is_wrong(self, count):
        """Whether this call is spoiled."""
        return False

    def spoil(self, y):
        y[0] += 1


WrongAlways = type("WrongAlways", (Doubles,), {"is_wrong": lambda self, count: True})
WrongFrom3On = type("WrongFrom3On", (Doubles,), {"is_wrong": lambda self, count: 3 in self.seen})


class WrongAfter3(Doubles):
    culprit = 3

    def is_wrong(self, count):
        return self.seen[-1:] == [self.culprit]


class DiesAfter3(WrongAfter3):
    def spoil(self, y):
        os.abort()


class WrongAt4Once(Doubles):
    """The file beside it remembers across processes."""

    def is_wrong(self, count):
        if count != 4 or os.path.exists("wrong-once"):
            return False
        open("wrong-once", "w").close()
        return True


class Names(WrongAfter3):
    """The call before changes what is put back, and something else that is not."""

    def run(self, call):
        status = super().run(call)
        if self.seen[-1] == self.culprit:
            np.seterr(all="raise")
        return status


class NamesAfter4(Names):
    culprit = 4


class Hangs(Doubles):
    def is_wrong(self, count):
        return count in (3, 4)

    def spoil(self, y):
        with open("hung", "a") as file:
            file.write(".")
        time.sleep(60)
