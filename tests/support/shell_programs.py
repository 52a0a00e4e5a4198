"""Shell scripts as kernels of the toy operator, for tests of exec:COMMAND."""

import os
from dataclasses import replace

import numpy as np

from mluops_gtest.core.call import OpCall, TensorArg
from mluops_gtest.core.case import Case
from mluops_gtest.core.tensor import DType, Layout, Tensor, TensorDesc
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options

# y = x · 1, so a copy is a right implementation; the folder is $1.
COPY = 'cp "$1/x.in" "$1/y.out"\n'
ANSWER = 'echo \'{"status": 0}\' > "$1/result.json"\n'
GOOD = COPY + ANSWER
# The same as a served program.
SERVE = 'while read -r folder; do\nset -- "$folder"\n{body}echo done\ndone\n'


def vector(name, *values):
    return Tensor(name, TensorDesc(DType.FLOAT, Layout.ARRAY, (len(values),)), np.array(values, "<f4"))


def scale_case(**changes):
    x, y = vector("x", 1.5, -2.0, 3.25, 8.0), vector("y", 1.5, -2.0, 3.25, 8.0)
    return replace(Case("scale_by/copy", "scale_by", (x,), (y,), {"factor": 1}, ((),)), **changes)


def scale_call(**changes):
    case = scale_case()
    arguments = {
        "operator": case.operator,
        "params": case.params,
        "inputs": {t.id: TensorArg(t.desc, t.values) for t in case.inputs},
        "outputs": {t.id: TensorArg(t.desc, np.full_like(t.values, np.nan)) for t in case.outputs},
    }
    return OpCall(**(arguments | changes))


def execute(backend, operator, case=None, options=None):
    return CaseRun(InlineCaller(backend), options or Options()).run_case(case or scale_case(), operator)


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
