"""The descriptor that carries an operator's parameters, made and asked as its declaration says."""

from ctypes import POINTER, byref, c_int, c_void_p

from mluops_gtest.backends.c_library.api import MADE, Api, Prototypes
from mluops_gtest.backends.c_library.arguments import CallArguments, types_of
from mluops_gtest.backends.c_library.resources import Resources
from mluops_gtest.model.c_api import CParams


def prototypes_of(declared: CParams) -> Prototypes:
    """The descriptor's functions with the types of their arguments."""
    return {
        declared.create: (MADE,),
        declared.destroy: (c_void_p,),
        declared.set: (c_void_p, *types_of(declared.arguments)),
        **{getter: (c_void_p, POINTER(c_int)) for getter in declared.getters.values()},
    }


def make_params_descriptor(api: Api, resources: Resources, declared: CParams, arguments: CallArguments) -> int:
    """A descriptor of the call's parameters; a host array that is None is passed as NULL."""
    descriptor = api.make(declared.create)
    resources.own("parameter descriptor", lambda: api.call(declared.destroy, descriptor))
    # Values of its own: what the setter does to its host arrays is no affair of the operator.
    api.call(declared.set, descriptor, *CallArguments(arguments.params).values(declared.arguments))
    return descriptor


def results_of(api: Api, declared: CParams, descriptor: int) -> dict[str, int]:
    """The scalar results that the operator noted in the descriptor."""
    results = {}
    for name, getter in declared.getters.items():
        value = c_int()
        api.call(getter, descriptor, byref(value))
        results[name] = value.value
    return results
