"""One C prototype as text or in a header: what is read of it, and what is refused in which words."""

import pytest

from mluops_gtest.base.errors import UsageError
from mluops_gtest.cli.c_prototype import read_operator, read_prototype

POOL = """
/* mluOpPool(the old one) is gone. */
#define MLUOP_WIN_API __attribute__((visibility("default"))) \\
    extern
mluOpStatus_t MLUOP_WIN_API
mluOpPool(mluOpHandle_t handle, // the device
          const mluOpTensorDescriptor_t x_desc, const void *x,
          const mluOpReduceMode_t mode, float scale, bool is_mean, size_t count,
          const int64_t sizes[], const int *pad,
          void *workspace, size_t workspace_size,
          const mluOpTensorDescriptor_t y_desc, void * y);
mluOpStatus_t mluOpGetPoolWorkspaceSize(mluOpHandle_t handle, const mluOpTensorDescriptor_t x_desc,
                                        const int64_t sizes[], size_t *workspace_size);
"""


def read(text, function=""):
    return read_prototype(text, "api.h", function)


def declared(text, function=""):
    return read_operator(text, "api.h", function)


@pytest.mark.parametrize(
    ("argument", "kind", "pointers", "is_const"),
    [
        ("int a", "int", 0, False),
        ("const unsigned  int a", "unsigned int", 0, True),
        ("enum mode_t a", "mode_t", 0, False),
        ("const void *a", "void", 1, True),
        ("void const* a", "void", 1, True),
        ("void * const a", "void", 1, False),
        ("const void *const *a", "void", 2, True),
        ("void **a[]", "void", 3, False),
        ("const int a[3][ N ]", "int", 2, True),
        ("struct mluOpFoo *__restrict__ a", "mluOpFoo", 1, False),
    ],
)
def test_an_argument_is_a_type_stars_a_name_and_brackets(argument, kind, pointers, is_const):
    (one,) = read(f"int f({argument});").arguments
    assert (one.type, one.name, one.pointers, one.is_const) == (kind, "a", pointers, is_const)


@pytest.mark.parametrize("text", ["int f(void);", "int f()", "extern int *f( /* nothing */ ) {"])
def test_there_may_be_no_argument(text):
    assert read(text).arguments == ()


def test_comments_directives_and_other_functions_are_passed_over():
    pool = read(POOL, "mluOpPool")
    assert [one.name for one in pool.arguments] == [
        "handle", "x_desc", "x", "mode", "scale", "is_mean", "count", "sizes", "pad", "workspace", "workspace_size",
        "y_desc", "y",
    ]  # fmt: skip
    assert read(POOL).name == "mluOpPool"


@pytest.mark.parametrize(
    ("text", "function", "words"),
    [
        ("no C at all", "", "api.h has no prototype. A prototype is e.g. 'mluOpStatus_t"),
        (POOL, "mluOpPol", "api.h declares no function 'mluOpPol', but mluOpPool"),
        ("int f(int a", "", "api.h, line 1: f has no ')' behind its arguments. Give the whole"),
        ("\nint f(void (*done)(int), int a);", "", "api.h, line 2: f has a '(' among its arguments"),
        ("int f(int a, ...);", "", "api.h, line 1: f: the argument '...' cannot be read. An argument is a type"),
        ("int f(int);", "", "the argument 'int' cannot be read"),
        ("int f(const void *);", "", "the argument 'const void *' cannot be read"),
        ("int f(int a = 3);", "", "the argument 'int a = 3' cannot be read"),
        ("int f(std::vector<int> a);", "", "the argument 'std::vector<int> a' cannot be read"),
        ("int f(int &a);", "", "the argument 'int &a' cannot be read"),
        ("int f(int a,);", "", "the argument '' cannot be read"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_place_and_remedy(text, function, words):
    with pytest.raises(UsageError) as refusal:
        read(text, function)
    assert words in str(refusal.value)


def test_tensors_parameters_and_arguments_are_those_of_the_prototype():
    holes = declared(POOL, "mluOpPool")
    assert holes["$INPUTS"] == '        TensorSpec("x", "[FILL_IN]", (DType.FLOAT,)),\n'
    assert holes["$OUTPUTS"] == '        OutputSpec("y", "[FILL_IN]", CRITERIA),\n'
    assert holes["$FIELDS"].splitlines() == [
        '        ParamField("mode", 1, "enum", enum=EnumSpec("mluOpReduceMode", {"MODE_FILL_IN": 0})),',
        '        ParamField("scale", 2, "float"),',
        '        ParamField("is_mean", 3, "bool"),',
        '        ParamField("count", 4, "int64"),',
        '        ParamField("sizes", 5, "int64", "repeated"),',
        '        ParamField("pad", 6, "int32", "repeated"),',
    ]
    c_api = " ".join(holes["$C_API"].split())
    assert '(HANDLE, *tensor("x"), *scalar("mode", type=CEnum("mluOpReduceMode_t", {"MODE_FILL_IN": 0})),' in c_api
    assert (
        '*host_array("sizes", type=CType.INT64), *host_array("pad"), WORKSPACE, WORKSPACE_SIZE, *tensor("y")' in c_api
    )
    assert 'query="mluOpGetPoolWorkspaceSize", query_arguments=(HANDLE, *descriptor("x"),' in c_api
    assert c_api.endswith('*host_array("sizes", type=CType.INT64), ASKED_SIZE), ),')


def test_data_stand_behind_their_descriptor_or_have_its_name():
    text = (
        "int f(mluOpTensorDescriptor_t a_desc, mluOpTensorDescriptor_t b_desc, const float *a, void *b_ptr, void *b);"
    )
    holes = declared(text)
    assert ('"a"' in holes["$INPUTS"], '"b"' in holes["$OUTPUTS"]) == (True, True)
    assert "# FILL IN what becomes of 'void *b_ptr': a declaration has no place for it." in holes["$C_API"]
    assert '*tensor("b")' in declared("int f(mluOpTensorDescriptor_t b_desc, void *out);")["$C_API"]


@pytest.mark.parametrize("argument", ["void **x", "mluOpFooDescriptor_t foo", "int *count", "double a"])
def test_what_has_no_place_in_a_declaration_is_marked_and_nothing_is_called(argument):
    c_api = declared(f"int f(mluOpTensorDescriptor_t y_desc, void *y, {argument});")["$C_API"]
    assert f"FILL IN what becomes of '{argument}'" in c_api
    assert all(line.startswith("    # ") for line in c_api.splitlines())


def test_a_function_without_an_output_is_none_of_an_operator():
    with pytest.raises(UsageError, match="mluOpGetPoolWorkspaceSize has no output, 'void \\*y' behind"):
        declared(POOL, "mluOpGetPoolWorkspaceSize")
