"""The optional parts of an operator's folder: which file each is, and the one name that the file defines.

An operator's C functions as plain data: the arguments in their order, and what each is taken from.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum, auto
from itertools import pairwise
from typing import Any, Final, Generic, TypeVar

from msgspec import field
from msgspec.structs import replace

from mluops_gtest.base.errors import OperatorError
from mluops_gtest.base.frozen import Value
from mluops_gtest.core.call import ExactElements, OpCall, Space
from mluops_gtest.core.case import OPEN_TAGS
from mluops_gtest.core.declaration import Mutant, ParamField, Recipe, Reduction
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.shape import readable_shape

T = TypeVar("T")

# Called as run(call, inputs, outputs) for a call that computes: the call's tensors by name as torch tensors on the
# device where the kernel is to compute. It writes the outputs in place, and scalar results into call.scalars.
TorchKernel = Callable[[OpCall, Mapping[str, Any], Mapping[str, Any]], None]


class Part(Value, Generic[T]):
    """`file`.py beside the operator's __init__.py defines `name`, a value that it `accepts`: its `description`.

    OPERATOR may say it by the name of the file instead, and the file `beside` may define it, too.
    """

    file: str
    name: str
    description: str
    accepts: Callable[[object], bool]
    # What in a value that fits does not belong to this operator, in words; None if nothing.
    mistake: Callable[[T, Operator], str | None] = lambda _value, _operator: None
    beside: str | None = None


class KnownOperators(Mapping[str, Operator]):
    """The operators of a content root by canonical name, with the optional parts of their folders."""

    @abstractmethod
    def part(self, operator: str, part: Part[T]) -> T | None:
        """What the operator's folder has of this part, loaded when first asked for; None where it has none."""


class CType(Enum):
    """A number's type in C."""

    INT = "int"
    INT64 = "int64_t"
    FLOAT = "float"
    BOOL = "bool"


class CEnum(Value):
    """An enum type of C with its constants; the parameter holds the number, as the schema's enum does."""

    name: str
    constants: Mapping[str, int]


class ArgumentSource(Enum):
    """Where the value of an argument comes from."""

    HANDLE = auto()
    # The descriptor that carries the parameters.
    PARAMS = auto()
    # A tensor's descriptor, and its data.
    DESCRIPTOR = auto()
    DATA = auto()
    # A parameter by value; a repeated one as an array in host memory.
    SCALAR = auto()
    HOST_ARRAY = auto()
    # A number that no parameter holds: how long a symbol of the shapes is.
    SIZE = auto()
    WORKSPACE = auto()
    WORKSPACE_SIZE = auto()
    # Where a workspace query writes the size. It starts at 0: a query may succeed and leave it unwritten.
    ASKED_SIZE = auto()


class CArgument(Value):
    """One argument; `name` is the tensor's, the parameter's or the symbol's where the source is one of these."""

    source: ArgumentSource
    name: str = ""
    type: CType | CEnum = CType.INT
    # The C function takes the data of an input as `void *` instead of `const void *`.
    writable: bool = False
    # Tensors and axes that are as long as the symbol, the one that defines it first: they follow from the operator.
    places: tuple[tuple[str, int], ...] = ()
    # The data of an input that a call may lack, which is null then: it follows from the operator, too.
    optional: bool = False
    # The parameter's name in C, where that is another one.
    called: str = ""

    def size(self, tensors: Mapping[str, tuple[int, ...] | None]) -> int:
        """How long the symbol is by the dims of a call: at the first of its places that is there; 0 if none is."""
        known = ((tensors.get(name) or (), axis) for name, axis in self.places)
        return next((dims[axis] for dims, axis in known if axis < len(dims)), 0)


CArguments = tuple[CArgument, ...]

HANDLE: Final = CArgument(ArgumentSource.HANDLE)
PARAMS: Final = CArgument(ArgumentSource.PARAMS)
WORKSPACE: Final = CArgument(ArgumentSource.WORKSPACE)
WORKSPACE_SIZE: Final = CArgument(ArgumentSource.WORKSPACE_SIZE)
ASKED_SIZE: Final = CArgument(ArgumentSource.ASKED_SIZE)


def descriptor(*names: str) -> CArguments:
    """The descriptors of these tensors."""
    return tuple(CArgument(ArgumentSource.DESCRIPTOR, name) for name in names)


def data(*names: str, writable: bool = False) -> CArguments:
    """The data pointers of these tensors; `writable` where C takes an input as `void *`."""
    return tuple(CArgument(ArgumentSource.DATA, name, writable=writable) for name in names)


def tensor(*names: str, writable: bool = False) -> CArguments:
    """Descriptor and data of each of these tensors, alternating."""
    return tuple(one for name in names for one in (*descriptor(name), *data(name, writable=writable)))


def scalar(*names: str, type: CType | CEnum = CType.INT, called: str = "") -> CArguments:  # noqa: A002 - the word that an author looks for
    """These parameters by value; `called` is the name in C where that is another one."""
    return tuple(CArgument(ArgumentSource.SCALAR, name, type, called=called) for name in names)


def size(*symbols: str, type: CType = CType.INT) -> CArguments:  # noqa: A002 - the word that an author looks for
    """How long these symbols of the shapes are, by value: what no parameter holds."""
    return tuple(CArgument(ArgumentSource.SIZE, symbol, type) for symbol in symbols)


def host_array(*names: str, type: CType = CType.INT) -> CArguments:  # noqa: A002 - the word that an author looks for
    """These repeated parameters as arrays in host memory."""
    return tuple(CArgument(ArgumentSource.HOST_ARRAY, name, type) for name in names)


class CFunction(Value):
    """A function of the library; it answers mluOpStatus_t."""

    name: str
    arguments: CArguments
    # The name by which the operator's `queries` know it, where this one is deprecated.
    twin_of: str = ""

    @property
    def declared_name(self) -> str:
        """The name under which the operator says what a query checks."""
        return self.twin_of or self.name


class CParams(Value):
    """A descriptor type that carries parameters: how it is made, filled and destroyed, and what it tells after a call.

    `set` takes the descriptor first, then `arguments`: scalars and host arrays.
    """

    type: str
    create: str
    destroy: str
    set: str
    arguments: CArguments
    # Per scalar result its getter, called as getter(descriptor, int *) after the operator succeeded.
    getters: Mapping[str, str] = field(default_factory=dict)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Every function of the descriptor."""
        return (self.create, self.destroy, self.set, *self.getters.values())


class CSignature(Value):
    """An operator under one name: its function, its workspace query and the descriptor of its parameters, if any."""

    function: CFunction
    query: CFunction | None = None
    params: CParams | None = None

    @property
    def functions(self) -> tuple[CFunction, ...]:
        """The query, as a caller makes it first, and the operator."""
        return (self.function,) if self.query is None else (self.query, self.function)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Everything that a library must export for this name."""
        own = (self.function.name, *(() if self.query is None else (self.query.name,)))
        return own if self.params is None else (*own, *self.params.symbols)


# An operator under all its names; the first that a library exports whole is taken.
CApi = tuple[CSignature, ...]


def mistake_in(api: CApi, operator: Operator) -> str | None:
    """What in the functions does not fit the operator, in words; None if nothing does."""
    for name in operator.queries:
        if all(signature.query is None or signature.query.name != name for signature in api):
            return f"the operator says what {name} checks, but no CSignature has this query"
    return next((words for signature in api for words in _mistakes(signature, operator)), None)


def _mistakes(signature: CSignature, operator: Operator) -> Iterator[str]:
    for function in signature.functions:
        yield from _unknown_names(function.name, function.arguments, operator)
        wanted = int(function is signature.query)
        if function.arguments.count(ASKED_SIZE) != wanted:
            words = (
                "writes the size to exactly one ASKED_SIZE" if wanted else "is the operator: ASKED_SIZE is a query's"
            )
            yield f"{function.name} {words}"
        if signature.params is None and PARAMS in function.arguments:
            yield f"{function.name} takes PARAMS: its CSignature must say by params=CParams(…) what they are"
    own = signature.function
    passed = {argument.name for argument in own.arguments if argument.source is ArgumentSource.DATA}
    left_out = [spec.id for spec in operator.tensors if spec.id not in passed]
    unknown = operator.optional - {argument.name for argument in own.arguments if argument.optional}
    if unknown:
        yield f"{own.name} does not know that a call may lack {_listed(sorted(unknown))}: declare it by c_function(…)"
    if left_out:
        yield f"{own.name} does not take {', '.join(left_out)}: every tensor of the operator is an argument"
    yield from _params_mistakes(signature, operator)


def _params_mistakes(signature: CSignature, operator: Operator) -> Iterator[str]:
    params = signature.params
    if params is not None:
        yield from _unknown_names(params.set, params.arguments, operator)
        if operator.params_descriptor is None:
            yield f"{params.type} carries parameters: ParamMessage(descriptor=…) must give it a name for the cases"
    told = {} if params is None else params.getters
    if set(told) != set(operator.results):
        yield (
            f"{signature.function.name}: the results of the operator are {_listed(operator.results)}, "
            f"the getters of CParams tell {_listed(told)}"
        )


def _unknown_names(function: str, arguments: CArguments, operator: Operator) -> Iterator[str]:
    fields = {one.name: one for one in operator.param_fields if not one.result}
    tensors = [spec.id for spec in operator.tensors]
    for argument in arguments:
        match argument.source:
            case ArgumentSource.DESCRIPTOR | ArgumentSource.DATA if argument.name not in tensors:
                yield f"{function} takes the tensor {argument.name!r}; the operator has {_listed(tensors)}"
            case ArgumentSource.SCALAR | ArgumentSource.HOST_ARRAY if argument.name not in fields:
                yield f"{function} takes the parameter {argument.name!r}; the operator has {_listed(fields)}"
            case ArgumentSource.SIZE if not argument.places:
                yield f"{function} takes the size {argument.name!r}: c_function(…) finds no such axis of the operator"
            case ArgumentSource.SCALAR if fields[argument.name].label == "repeated":
                yield f"{function}: the parameter {argument.name!r} is repeated; write host_array, not scalar"
            case ArgumentSource.HOST_ARRAY if fields[argument.name].label != "repeated":
                yield f"{function}: the parameter {argument.name!r} is one number; write scalar, not host_array"


def _twin(newest: CSignature, names: Mapping[str, str]) -> CSignature:
    """The same functions under their deprecated names."""
    unknown = set(names) - {function.name for function in newest.functions}
    if unknown:
        raise OperatorError(f"twins names {_listed(sorted(unknown))}, which is no function of {newest.function.name}")

    def renamed(one: CFunction) -> CFunction:
        return replace(one, name=names[one.name], twin_of=one.name) if one.name in names else one

    query = None if newest.query is None else renamed(newest.query)
    return replace(newest, function=renamed(newest.function), query=query)


_C_TYPES: Final = {"int64": CType.INT64, "float": CType.FLOAT, "bool": CType.BOOL}


def _places(operator: Operator, symbol: str) -> tuple[tuple[str, int], ...]:
    """Where the symbol stands alone in the operator's shapes, first where it is defined."""
    first = operator.defining_axis(symbol)
    found = (
        (spec.id, number)
        for spec in operator.tensors
        for form in readable_shape(spec.shape).forms
        for number, axis in enumerate(form.axes)
        if axis.symbol == symbol
    )
    return tuple(dict.fromkeys([*filter(None, [first]), *found]))


def _c_type_of(field: ParamField) -> CType | CEnum:
    """The C type of a parameter's field; of an enum the type that C has for that of the schema."""
    if field.enum is None:
        return _C_TYPES.get(field.type, CType.INT)
    constants = {f"MLUOP_{name}": number for name, number in field.enum.values.items()}
    return CEnum(f"mluOp{field.enum.name}_t", constants)


def c_function(
    name: str,
    *,
    query: str | None = None,
    types: Mapping[str, CType | CEnum] | None = None,
    arguments: CArguments = (),
    query_arguments: CArguments = (),
    params: CParams | None = None,
    twins: Mapping[str, str] | None = None,
) -> Callable[[Operator], CApi]:
    """The operator's function and its workspace query, with the arguments in their usual places where none are given.

    The usual places: handle, inputs, parameters, workspace and its size where there is a query, outputs. The query
    takes the handle, all descriptors with the parameters between inputs and outputs, and where to write the size. A
    library that lacks a name of the pair is asked for the pair of `twins`, by name its deprecated one. A
    parameter has the C type of its field, an enum of `Mode` that is `mluOpMode_t` with constants `MLUOP_…`, unless
    `types` says another one.
    """

    def declare(operator: Operator) -> CApi:
        fields = {one.name: one for one in operator.param_fields if not one.result}
        chosen: Mapping[str, CType | CEnum] = types or {}
        words = {name: host_array if one.label == "repeated" else scalar for name, one in fields.items()}
        scalars = () if params is not None else tuple(one for name, word in words.items() for one in word(name))

        def complete(one: CArgument) -> CArgument:
            if one.source is ArgumentSource.SIZE:
                return replace(one, places=_places(operator, one.name))
            if one.source is ArgumentSource.DATA:
                return replace(one, optional=one.name in operator.optional)
            is_number = one.source in (ArgumentSource.SCALAR, ArgumentSource.HOST_ARRAY)
            if one.type is not CType.INT or not is_number or one.name not in fields:
                return one
            return replace(one, type=chosen.get(one.name) or _c_type_of(fields[one.name]))

        head = (HANDLE, PARAMS) if params is not None else (HANDLE,)
        inputs, outputs = (tuple(spec.id for spec in specs) for specs in (operator.arguments, operator.outputs))
        memory = () if query is None else (WORKSPACE, WORKSPACE_SIZE)
        usual = (*head, *tensor(*inputs), *scalars, *memory, *tensor(*outputs))
        asking = (*head, *descriptor(*inputs), *scalars, *descriptor(*outputs), ASKED_SIZE)
        asked = None if query is None else CFunction(query, tuple(map(complete, query_arguments or asking)))
        newest = CSignature(CFunction(name, tuple(map(complete, arguments or usual))), asked, params)
        return (newest,) if not twins else (newest, _twin(newest, twins))

    return declare


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _are_mutants(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(one, Mutant) for one in value)


def _mistake_in_mutants(mutants: tuple[Mutant, ...], _operator: Operator) -> str | None:
    names = sorted(one.name for one in mutants)
    twice = next((first for first, second in pairwise(names) if first == second), None)
    return None if twice is None else f"two mutants are named {twice!r}; give each a name of its own"


def _are_variants(value: object) -> bool:
    return isinstance(value, Mapping) and set(value) <= set(OPEN_TAGS) and all(map(_are_mutants, value.values()))


def _are_signatures(value: object) -> bool:
    return isinstance(value, tuple) and bool(value) and all(isinstance(one, CSignature) for one in value)


def _are_reductions(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(one, Reduction) for one in value.values())


def _are_recipes(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(callable, value.values()))


RECIPES: Final[Part[Mapping[str, Recipe]]] = Part(
    "recipes", "RECIPES", "a mapping of names to functions recipe(draw, params, dtype, **args)", _are_recipes
)
MUTANTS: Final[Part[tuple[Mutant, ...]]] = Part(
    "mutants", "MUTANTS", "a tuple of mluops_gtest.authoring.Mutant", _are_mutants, _mistake_in_mutants
)
# By the tag whose cases alone tell them from others: implementations that the document allows.
VARIANTS: Final[Part[Mapping[str, tuple[Mutant, ...]]]] = Part(
    "variants",
    "VARIANTS",
    f"a mapping of {' and '.join(OPEN_TAGS)} to tuples of mluops_gtest.authoring.Mutant",
    _are_variants,
    beside="mutants",
)
TORCH_KERNEL: Final[Part[TorchKernel]] = Part("torch_kernel", "run", "a function run(call, inputs, outputs)", callable)
C_API: Final[Part[CApi]] = Part(
    "c_api", "C_API", "a tuple of mluops_gtest.authoring.c_api.CSignature", _are_signatures, mistake_in
)
SPACE: Final[Part[Space]] = Part(
    "space",
    "SPACE",
    "a mluops_gtest.authoring.space.Space",
    lambda value: isinstance(value, Space),
    lambda space, _: space.mistake(),
    beside="recipes",
)
REDUCTIONS: Final[Part[Mapping[str, Reduction]]] = Part(
    "reductions",
    "REDUCTIONS",
    "a mapping of names to mluops_gtest.authoring.reductions.Reduction",
    _are_reductions,
    beside="recipes",
)
EXACT: Final[Part[ExactElements]] = Part(
    "exact", "elements", "a function elements(call) that gives a function of an index per output", callable
)
