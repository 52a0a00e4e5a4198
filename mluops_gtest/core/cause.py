"""Why a case came to its outcome: a small type per kind that carries its words in both languages.

A result has a tuple of them, the main one first. Files hold the `kind` and the fields; nobody reads words back. Only
text that comes from outside (a backend's own words, an exception's message) is kept as text. A new cause is a class
here or in core/infrastructure.py, and nothing else. Here are those in an answer: memory that a call damaged, wrong
statuses and values, agreement that proves nothing.
"""

# ruff: noqa: F403 - all of them, so that a cause is written `cause.Declined`
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from mluops_gtest.base.text import pluralize
from mluops_gtest.core import infrastructure
from mluops_gtest.core.infrastructure import *
from mluops_gtest.core.infrastructure import CauseBase, Prelude
from mluops_gtest.core.outcome import SIZELESS, Wording, union_of_kinds


class Places(msgspec.Struct, frozen=True):
    """Which of the `size` elements of an output are meant: how many, and the flat indices of the first and the last."""

    count: int
    size: int
    # None where none is, although the output is beyond its criteria: a threshold below 0.
    first: int | None
    last: int | None


class Excess(msgspec.Struct, frozen=True):
    """A criterion that an output does not keep."""

    criterion: str
    value: float
    threshold: float


class Leak(CauseBase):
    """Each of several calls kept that many bytes more."""

    bytes: int
    calls: int

    en = "leaks {megabytes:.1f} MB per call ({calls} calls in a fresh worker)"
    zh = "内存泄漏：每次调用后多占用 {megabytes:.1f} MB（在新的工作进程中调用 {calls} 次）"

    @property
    def megabytes(self) -> float:
        """The bytes as people read them."""
        return self.bytes / 1e6


class Overrun(CauseBase):
    """A byte outside of a buffer was written, `distance` bytes from its end or start."""

    buffer: str
    side: Literal["behind", "in front"]
    distance: int

    def en(self) -> str:
        """The end of the buffer that was crossed, named from both sides."""
        where, off = ("past the end", "behind") if self.side == "behind" else ("before the start", "in front of")
        return f"wrote {where} of {self.buffer}, first at byte {self.distance} {off} it"

    def zh(self) -> str:
        """The end of the buffer that was crossed, named twice."""
        end, off = ("尾部", "之后") if self.side == "behind" else ("起始", "之前")
        return f"越界写入 {self.buffer} {end}{off}，最近处距其{end} {self.distance} 字节"


class InputChanged(CauseBase):
    """An input was written."""

    input: str
    element: int

    en = "changed the input {input} (element {element})"
    zh = "改写了输入 {input}（第 {element} 个元素）"


class GapWritten(CauseBase):
    """Places between the elements of a strided output were written; `first` is an element of its buffer."""

    output: str
    elements: int
    first: int

    zh = "改写了 {output} 各元素之间的间隙（{elements} 处，首处为缓冲区第 {first} 个元素）"

    def en(self) -> str:
        """How many places, and where the first is."""
        places = pluralize(self.elements, "place")
        return f"wrote to {places} between the strided elements of {self.output}, first at {self.first} of its buffer"


class HostArrayChanged(CauseBase):
    """A C array that is const was written."""

    array: str

    en = "changed the host array {array}"
    zh = "改写了主机数组 {array}"


class PageWritten(CauseBase):
    """The address that stands for a descriptor without data was written."""

    tensor: str

    en = "wrote to {tensor}, which is a descriptor without data"
    zh = "写入了 {tensor}，而它只有描述符，没有数据"


class FileSize(CauseBase):
    """A program's output file has another size than the buffer; None: there is no file."""

    file: str
    bytes: int | None
    output: str
    wanted: int

    en = "{file} {content.en}; the buffer of {output} has {wanted}"
    zh = "{file} {content.zh}，而 {output} 的缓冲区为 {wanted} 字节"

    @property
    def content(self) -> Wording:
        """What the file has."""
        if self.bytes is None:
            return Wording("was not written (0 bytes)", "没有写出（0 字节）")
        return Wording(f"holds {self.bytes} bytes", f"有 {self.bytes} 字节")


class WrongStatus(CauseBase):
    """Another status than expected; `remarks` are the backend's, `message` is the check in the operator's words."""

    answered: str
    expected: str
    remarks: str = ""
    check: str = ""
    message: str = ""

    def en(self) -> str:
        """Both statuses, with what is known of each."""
        remarks = f" ({self.remarks})" if self.remarks else ""
        check = f" (check {self.check}: {self.message})" if self.check else ""
        return f"answered {self.answered}{remarks}, expected {self.expected}{check}"

    def zh(self) -> str:
        """Both statuses, with what is known of each."""
        remarks = f"（{self.remarks}）" if self.remarks else ""
        check = f"（检查 {self.check}：{self.message}）" if self.check else ""
        return f"返回 {self.answered}{remarks}，期望 {self.expected}{check}"


class Refusals(CauseBase):
    """A function around the operator refused although the call should succeed."""

    texts: tuple[str, ...]

    def en(self) -> str:
        """The functions' own words."""
        return "; ".join(self.texts)

    def zh(self) -> str:
        """The functions' own words."""
        return f"调用应当成功，但相关函数拒绝：{'；'.join(self.texts)}"


class QueryStatus(WrongStatus):
    """A workspace query answered another status than its own checks ask for."""

    function: str = ""

    def en(self) -> str:
        """The same of the query's function."""
        return f"{self.function} {super().en()}"

    def zh(self) -> str:
        """The same of the query's function."""
        return f"{self.function} {super().zh()}"


class WrittenAnyway(CauseBase):
    """An output was written although the call fails or returns early."""

    output: str
    places: Places
    status: str
    check: str

    zh = "调用返回 {status}（{check}），但 {output} 被写入（{places.count} 个元素，第一个在 {places.first}）"

    def en(self) -> str:
        """How many elements, and why none should be."""
        written = f"{pluralize(self.places.count, 'element')}, first at {self.places.first}"
        return f"{self.output} was written ({written}) although the call answers {self.status} ({self.check})"


class ScalarMissing(CauseBase):
    """A result that is no tensor was not reported."""

    output: str
    expected: int

    en = "{output} was not reported; expected {expected}"
    zh = "没有给出 {output}；期望 {expected}"


class ScalarWrong(CauseBase):
    """A result that is no tensor is wrong; `got` in digits, which may be more than a number in JSON holds."""

    output: str
    got: str
    expected: int

    en = "{output} is {got}, expected {expected}"
    zh = "{output} 为 {got}，期望 {expected}"


class Unwritten(CauseBase):
    """Elements still hold what was there before the call."""

    output: str
    places: Places
    index: tuple[int, ...]

    en = "{output}: {places.count} of {places.size} elements were never written, first at {place}"
    zh = "{output}：{places.size} 个元素中有 {places.count} 个从未写入，第一个在 {place}"

    @property
    def place(self) -> list[int]:
        """The index in brackets."""
        return list(self.index)


class PreservedChanged(CauseBase):
    """Elements that the operator must leave as they were have other bits."""

    output: str
    places: Places

    zh = "{output}：{places.size} 个元素中有 {places.count} 个本应保持不变却被改写，第一个在 {places.first}"

    def en(self) -> str:
        """How many elements, and where."""
        changed = f"{pluralize(self.places.count, 'element')} of {self.places.size}"
        return f"{self.output}: {changed} must stay as before the call and did not, first at {self.places.first}"


class NonFinite(CauseBase):
    """Elements differ in being NaN or infinite; `differing` is what differs at all, `criteria` what it was held to."""

    output: str
    elements: int
    first: int
    criteria: tuple[str, ...]
    differing: Places

    zh = "{output}：{elements} 个元素在是否为 NaN 或无穷上不一致，第一个的扁平下标为 {first}"

    def en(self) -> str:
        """How many elements, and the first."""
        verb = f"differ{'s' * (self.elements == 1)}"
        elements = pluralize(self.elements, "element")
        return f"{self.output}: {elements} {verb} in being NaN or infinite, first at flat index {self.first}"


_UNEQUAL: Final = Wording("{0} of {1} elements unequal", "{1} 个元素中有 {0} 个不相等")
_UNEQUAL_BITS: Final = Wording(" ({} in their bits)", "（按位不相等 {} 个）")
_BEYOND: Final = Wording(
    "{0} of {1} elements beyond tolerance ({2} unequal in their bits)",
    "{1} 个元素中有 {0} 个超出容差（按位不相等 {2} 个）",
)


def format_share(
    beyond: int | None, unequal: int, bits_unequal: int | None, compared: int, *, equality: bool, lang: str = "en"
) -> str:
    """`12 of 640 elements beyond tolerance (640 unequal in their bits)`, or how many are unequal where that is asked.

    `beyond` is None where nobody counted: in outputs within their criteria, and in results of earlier versions.
    """
    if equality or beyond is None:
        more = bits_unequal is not None and bits_unequal > unequal
        return _UNEQUAL.format(lang, unequal, compared) + (_UNEQUAL_BITS.format(lang, bits_unequal) if more else "")
    return _BEYOND.format(lang, beyond, compared, unequal if bits_unequal is None else bits_unequal)


class Exceeded(CauseBase):
    """Criteria that an output does not keep, and how much of it differs; see judging/criteria.py for `beyond`."""

    output: str
    criteria: tuple[Excess, ...]
    differing: Places
    # They were measured on the finite elements; a NonFinite stands before it.
    finite_only: bool
    equality: bool
    beyond: int | None
    bits_unequal: int

    def en(self) -> str:
        """The figures with their thresholds, and the share."""
        where = " over the finite elements" if self.finite_only else ""
        return f"{self.output}: {', '.join(self._figures(' (one-sided)'))}{where}; {self._format_share('en')}"

    def zh(self) -> str:
        """The figures with their thresholds, and the share."""
        where = "（仅统计有限值元素）" if self.finite_only else ""
        return f"{self.output}：{'、'.join(self._figures('（单边）'))}{where}；{self._format_share('zh')}"

    def _figures(self, one_sided: str) -> list[str]:
        return [
            f"{one.criterion} = {one.value:.6g}{one_sided if one.criterion == SIZELESS else f' > {one.threshold:g}'}"
            for one in self.criteria
        ]

    def _format_share(self, lang: str) -> str:
        count, size = self.differing.count, self.differing.size
        return format_share(self.beyond, count, self.bits_unequal, size, equality=self.equality, lang=lang)


class BitsUnequal(CauseBase):
    """Equal, but not bit for bit, where that was asked."""

    output: str
    elements: int

    zh = "{output}：{elements} 个元素相等但按位不一致（−0、NaN 载荷）"

    def en(self) -> str:
        """How many elements."""
        verb = "is" if self.elements == 1 else "are"
        elements = pluralize(self.elements, "element")
        return f"{self.output}: {elements} {verb} equal but not bit for bit (−0, NaN payloads)"


class BeyondBound(CauseBase):
    """Elements that no order of right operations explains, where each is asked to keep what arithmetic allows."""

    output: str
    places: Places
    precision: str

    zh = "{output}：{places.count} 个元素的误差超出 {precision} 运算任何顺序所能解释的范围"

    def en(self) -> str:
        """How many elements."""
        verb = "is" if self.places.count == 1 else "are"
        elements = pluralize(self.places.count, "element")
        return f"{self.output}: {elements} {verb} further off than any order of {self.precision} operations explains"


class NotReproducible(CauseBase):
    """A repeated call gave other bits."""

    run: int
    outputs: tuple[str, ...]

    def en(self) -> str:
        """The outputs that differ."""
        return f"not reproducible: run {self.run} differs from run 1 in {', '.join(self.outputs)}"

    def zh(self) -> str:
        """The outputs that differ."""
        return f"结果不可复现：第 {self.run} 次运行与第 1 次的 {'、'.join(self.outputs)} 不同"


class StillWritten(CauseBase):
    """An output changed after the call had returned."""

    output: str

    en = "the call returned while something still wrote to {output}"
    zh = "调用返回之后仍有写入 {output} 的操作"


class NoCriterion(CauseBase):
    """Nobody says how near is near enough."""

    output: str
    dtype: str

    en = "{output} has no criterion for {dtype}"
    zh = "{output} 没有针对 {dtype} 的精度标准"


class NotJudged(CauseBase):
    """No criterion could be judged on the output."""

    output: str

    en = "{output} was compared, but no criterion could be judged on it"
    zh = "{output} 已比较，但没有任何精度标准可用于判定"


class ConstantBaseline(CauseBase):
    """Whoever writes a constant agrees with it."""

    output: str

    en = "the baseline of {output} is constant, so agreement proves nothing"
    zh = "{output} 的基准值为常数，一致不能说明任何问题"


class ComparedWithItself(CauseBase):
    """The reference was held to a baseline that it had just computed."""

    en = "the reference was compared with itself (device CPU: no stored baseline)"
    zh = "参考实现与自身比较（CPU 设备：没有保存的基准值）"


class NothingCompared(CauseBase):
    """There was nothing to compare."""

    en = "nothing was compared"
    zh = "没有进行任何比较"


class LegacyReason(CauseBase, tag="told"):
    """Words as a backend gave them, or as a results file of an earlier version has them."""

    text: str

    en = "{text}"
    zh = "{text}"


if TYPE_CHECKING:
    Cause = CauseBase
else:
    Cause = union_of_kinds(CauseBase, vars(infrastructure), globals().copy())

_COLON: Final = Wording(": ", "：")
_SEMICOLON: Final = Wording("; ", "；")


def format_reason(causes: Iterable[Cause], lang: str = "en") -> str:
    """All causes in one line; empty where there is none."""
    before, parts = "", []
    for cause in causes:
        if isinstance(cause, Prelude):
            before += cause.format(lang) + _COLON.format(lang)
        else:
            parts.append(cause.format(lang))
    return before + _SEMICOLON.format(lang).join(parts)
