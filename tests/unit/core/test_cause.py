"""Every kind of cause has words in both languages, and comes back from a file as it was."""

import inspect
import re
import subprocess
import sys
import typing
from pathlib import Path
from string import Formatter

import msgspec
import pytest

from mluops_gtest.base.errors import ContentError
from mluops_gtest.base.typed_files import Source, decode_json, json_bytes
from mluops_gtest.core import cause as c
from mluops_gtest.core.cause import Cause, CauseBase, format_reason
from mluops_gtest.core.explanation import Law
from mluops_gtest.core.outcome import Outcome, Wording
from mluops_gtest.results.records import result_from_json, result_to_json
from tests.support.reports import result

ROOT = Path(__file__).parents[3]
KINDS = typing.get_args(Cause)
PLACES = c.Places(3, 40, 0, 17)
NAN = c.Exceeded("y", (c.Excess("diff1", float("nan"), 0.0),), PLACES, True, True, None, 9)
# Of each kind what it says in both languages; figures are those that a reader must find again.
SAID = [
    (c.PassedAtTry(2, Outcome.CRASHED), "passed at try 2 after crashed: ", "首次运行崩溃，第 2 次运行通过："),
    (c.AfterTimedCalls(5), "after 5 timed calls: ", "计时调用 5 次之后："),
    (
        c.UnderStress(3, 57, 2, Outcome.FAILED),
        "failed in 3 of 57 repetitions, first with OMP_NUM_THREADS=2: ",
        "57 次重复运行中 3 次失败，首次出现于 OMP_NUM_THREADS=2：",
    ),
    (c.OnlyAfter("a/b"), "only after a/b, not alone: ", "单独运行时通过，仅在 a/b 之后："),
    (c.UnknownOperator("op"), "operator 'op' is not supported", "不支持算子 'op'"),
    (c.Unsupported("b", "op"), "backend b does not support op", "后端 b 不支持 op"),
    (c.Declined("no {half}"), "declined: no {half}", "后端拒绝执行：no {half}"),
    (c.UndefinedCall("op", "no row"), "op does not define this call: no row", "op 对该调用没有定义：no row"),
    (c.Interrupted(), "interrupted", "运行被中断"),
    (c.StoppedAtFailure(), "stopped at the first failure", "已在第一个失败处停止"),
    (
        c.DeviceLost("b", 1, "no"),
        "backend b on device 1 failed its health check three times in a row: no",
        "后端 b 在设备 1 上连续三次未通过健康检查：no",
    ),
    (c.RunLost("gone"), "the run cannot go on: gone", "运行无法继续：gone"),
    (c.ContentError("f: broken"), "f: broken", "用例有误：f: broken"),
    (
        c.BaselineWrong("y", 2, 3, (0, 1), "0.5", "0.75", ours=True),
        "the reference is wrong: y[0, 1] is exactly 0.5, and the baseline says 0.75 (2 of 3 disputed elements)",
        "参考实现有误：y[0, 1] 的精确值为 0.5，基准值为 0.75（3 个有争议的元素中有 2 个）",
    ),
    (
        c.BaselineWrong("num", 1, 1, (), "5", "6", ours=False),
        "the baseline in the file is wrong: num is exactly 5, and the baseline says 6 (1 of 1 disputed elements)",
        "文件中的基准值有误：num 的精确值为 5，基准值为 6（1 个有争议的元素中有 1 个）",
    ),
    (c.Unreadable("a/b", "denied"), "a/b: cannot be read: denied.", "a/b：无法读取：denied。"),
    (c.TooLarge("a/b"), "a/b: does not fit into memory.", "a/b：内存放不下。"),
    (c.Unwritable("d: full"), "d: full", "无法写入：d: full"),
    (
        c.Shortage("MemoryError", "x"),
        "this machine does not give the case what it needs: MemoryError: x",
        "本机无法提供该用例所需的资源：MemoryError：x",
    ),
    (c.Bug("KeyError", "x"), "a bug of mluops-test: KeyError: x", "mluops-test 自身的缺陷：KeyError：x"),
    (
        c.Disturbed("fork server"),
        "the fork server was lost three times while this case ran",
        "本用例运行期间三次被打断（fork 服务进程丢失）",
    ),
    (
        c.WorkerTooSmall(),
        "no worker can hold the tensors of this case under the limits of this system",
        "在本系统的限制下，没有工作进程放得下该用例的张量",
    ),
    (c.Raised("ValueError", "x"), "ValueError: x", "后端抛出异常 ValueError：x"),
    (c.SupportsRaised("op", "E", "x"), "supports('op') raised E: x", "supports('op') 抛出异常 E：x"),
    (c.BadAnswer("nan"), "nan", "后端给出的值不可能成立：nan"),
    (c.ProtocolBroken("x"), "the worker did not answer as agreed: x", "工作进程没有按约定应答：x"),
    (
        c.TimedOut(2.5),
        "no answer within 2.5 s; the worker and all it started were killed",
        "2.5 秒内没有应答；工作进程及其启动的所有进程已被终止",
    ),
    (c.Exited(3), "the process exited with code 3", "进程以退出码 3 结束"),
    (c.Killed("", 70), "killed by signal 70", "工作进程被信号 70 终止"),
    (
        c.Fault("SIGSEGV", "wrote", "0x7f", "behind", "y", 1),
        "SIGSEGV, wrote 1 byte past the end of y",
        "SIGSEGV，写入 y 尾部之后 1 字节处",
    ),
    (c.ProgramDied("p", "SIGBUS", ""), "p died by SIGBUS", "p 被信号 SIGBUS 终止"),
    (
        c.WorkerLost(3, "node7"),
        "the worker was lost 3 times while it ran this case, last on node7",
        "运行该用例时工作进程丢失 3 次，最后一次在 node7",
    ),
    (
        c.Overrun("y", "in front", 4),
        "wrote before the start of y, first at byte 4 in front of it",
        "越界写入 y 起始之前，最近处距其起始 4 字节",
    ),
    (
        c.Leak(24_000_000, 8),
        "leaks 24.0 MB per call (8 calls in a fresh worker)",
        "内存泄漏：每次调用后多占用 24.0 MB（在新的工作进程中调用 8 次）",
    ),
    (c.InputChanged("x", 7), "changed the input x (element 7)", "改写了输入 x（第 7 个元素）"),
    (
        c.StillWritten("y"),
        "the call returned while something still wrote to y",
        "调用返回之后仍有写入 y 的操作",
    ),
    (c.HostArrayChanged("dims"), "changed the host array dims", "改写了主机数组 dims"),
    (c.PageWritten("x"), "wrote to x, which is a descriptor without data", "写入了 x，而它只有描述符，没有数据"),
    (
        c.FileSize("y.out", 4, "y", 8),
        "y.out holds 4 bytes; the buffer of y has 8",
        "y.out 有 4 字节，而 y 的缓冲区为 8 字节",
    ),
    (
        c.WrongStatus("SUCCESS", "BAD_PARAM", "hm", "odd", "it is odd"),
        "answered SUCCESS (hm), expected BAD_PARAM (check odd: it is odd)",
        "返回 SUCCESS（hm），期望 BAD_PARAM（检查 odd：it is odd）",
    ),
    (
        c.QueryStatus("SUCCESS", "BAD_PARAM", "size NULL", "size_null", "no size", "askSize"),
        "askSize answered SUCCESS (size NULL), expected BAD_PARAM (check size_null: no size)",
        "askSize 返回 SUCCESS（size NULL），期望 BAD_PARAM（检查 size_null：no size）",
    ),
    (c.Refusals(("f refused", "g too")), "f refused; g too", "调用应当成功，但相关函数拒绝：f refused；g too"),
    (
        c.WrittenAnyway("y", PLACES, "BAD_PARAM", "odd"),
        "y was written (3 elements, first at 0) although the call answers BAD_PARAM (odd)",
        "调用返回 BAD_PARAM（odd），但 y 被写入（3 个元素，第一个在 0）",
    ),
    (c.ScalarMissing("n", 4), "n was not reported; expected 4", "没有给出 n；期望 4"),
    (c.ScalarWrong("n", "1" * 400, 4), f"n is {'1' * 400}, expected 4", f"n 为 {'1' * 400}，期望 4"),
    (
        c.Unwritten("y", PLACES, (0, 0)),
        "y: 3 of 40 elements were never written, first at [0, 0]",
        "y：40 个元素中有 3 个从未写入，第一个在 [0, 0]",
    ),
    (
        c.NonFinite("y", 2, 5, ("diff1",), PLACES),
        "y: 2 elements differ in being NaN or infinite, first at flat index 5",
        "y：2 个元素在是否为 NaN 或无穷上不一致，第一个的扁平下标为 5",
    ),
    (
        NAN,
        "y: diff1 = nan > 0 over the finite elements; 3 of 40 elements unequal (9 in their bits)",
        "y：diff1 = nan > 0（仅统计有限值元素）；40 个元素中有 3 个不相等（按位不相等 9 个）",
    ),
    (
        c.BeyondBound("y", c.Places(3, 9, 0, 8), "float"),
        "y: 3 elements are further off than any order of float operations explains",
        "y：3 个元素的误差超出 float 运算任何顺序所能解释的范围",
    ),
    (
        c.BitsUnequal("y", 3),
        "y: 3 elements are equal but not bit for bit (−0, NaN payloads)",
        "y：3 个元素相等但按位不一致（−0、NaN 载荷）",
    ),
    (
        c.NotReproducible(2, ("y", "z")),
        "not reproducible: run 2 differs from run 1 in y, z",
        "结果不可复现：第 2 次运行与第 1 次的 y、z 不同",
    ),
    (c.NoCriterion("y", "half"), "y has no criterion for half", "y 没有针对 half 的精度标准"),
    (
        c.NotJudged("y"),
        "y was compared, but no criterion could be judged on it",
        "y 已比较，但没有任何精度标准可用于判定",
    ),
    (
        c.ConstantBaseline("y"),
        "the baseline of y is constant, so agreement proves nothing",
        "y 的基准值为常数，一致不能说明任何问题",
    ),
    (
        c.ComparedWithItself(),
        "the reference was compared with itself (device CPU: no stored baseline)",
        "参考实现与自身比较（CPU 设备：没有保存的基准值）",
    ),
    (c.NothingCompared(), "nothing was compared", "没有进行任何比较"),
    (c.LegacyReason("as it was"), "as it was", "as it was"),
]


def read(record):
    return result_from_json(decode_json(json_bytes(record), SOURCE), SOURCE)


SOURCE = Source("results.jsonl", "Run again.")


def test_every_kind_is_here():
    assert {type(cause) for cause, _, _ in SAID} == set(KINDS)
    assert {kind for kind in kinds_of(CauseBase) if kind not in (c.Prelude, c.External)} == set(KINDS)


def kinds_of(base):
    return {kind for one in base.__subclasses__() for kind in (one, *kinds_of(one))}


@pytest.mark.parametrize("kind", [*KINDS, *typing.get_args(Law)], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("lang", Wording._fields)
def test_every_kind_of_cause_and_law_has_words_of_its_own_attributes(kind, lang):
    words = getattr(kind, lang)
    if isinstance(words, str):
        places = [place for _, place, _, _ in Formatter().parse(words) if place is not None]
        attributes = {
            *kind.__struct_fields__,
            *(name for name in dir(kind) if isinstance(getattr(kind, name), property)),
        }
        assert {re.split(r"[.\[]", place)[0] for place in places} <= attributes
    else:
        assert list(inspect.signature(words).parameters) == ["self"]
    assert lang not in kind.__struct_fields__


@pytest.mark.parametrize(("cause", "english", "chinese"), SAID, ids=[type(cause).__name__ for cause, _, _ in SAID])
def test_what_it_says_and_how_it_is_stored(cause, english, chinese):
    assert (format_reason((cause,)), format_reason((cause,), "zh")) == (english, chinese)
    whole = result(outcome=Outcome.FAILED, causes=(cause, c.LegacyReason("more")))
    back = read(result_to_json(whole))
    assert repr(back.causes) == repr(whole.causes)
    assert back.reason == whole.reason


def test_several_are_one_line():
    causes = (c.PassedAtTry(3, Outcome.MEMORY), c.InputChanged("x", 0), c.Overrun("y", "behind", 1))
    assert format_reason(causes) == (
        "passed at try 3 after memory: changed the input x (element 0); "
        "wrote past the end of y, first at byte 1 behind it"
    )
    chinese = "首次运行内存错误，第 3 次运行通过：改写了输入 x（第 0 个元素）；越界写入 y"
    assert format_reason(causes, "zh").startswith(chinese)
    assert format_reason(()) == ""


class TestFiles:
    record = result_to_json(result(outcome=Outcome.FAILED, causes=(c.Exited(3),)))

    def test_they_hold_kind_figures_and_words(self):
        assert self.record["causes"] == [{"kind": "exited", "code": 3}]
        assert self.record["reason"] == "the process exited with code 3"

    @pytest.mark.parametrize("causes", [None, [{"kind": "from_tomorrow", "more": 1}]])
    def test_words_stand_in_for_causes_that_nobody_wrote_or_knows(self, causes):
        record = {**self.record, "causes": causes, "reason": "as it was said then"}
        if causes is None:
            del record["causes"]
        assert read(record).causes == (c.LegacyReason("as it was said then"),)

    def test_attempts_of_earlier_versions_have_words(self):
        record = {
            **self.record,
            "attempts": [{"outcome": "failed", "reason": "off"}, {"outcome": "passed", "reason": ""}],
        }
        assert [attempt.causes for attempt in read(record).attempts] == [(c.LegacyReason("off"),), ()]

    @pytest.mark.parametrize(
        ("causes", "words"),
        [
            ([{"kind": "exited", "code": "three"}], r"causes\[0\].code: expected an integer, got 'three'"),
            ([{"kind": "exited"}], "the key 'code' is missing"),
            ([{"kind": "overrun", "buffer": "y", "side": "above", "distance": 1}], r"causes\[0\].side"),
            ("exited", r"causes: expected a list, got 'exited'"),
            ([7], r"causes\[0\]"),
        ],
    )
    def test_spoiled_ones_are_refused_with_their_place(self, causes, words):
        with pytest.raises(ContentError, match=words):
            read({**self.record, "causes": causes})

    def test_words_must_be_words(self):
        with pytest.raises(ContentError, match="text"):
            read({**self.record, "causes": [], "reason": 7})


def test_equal_causes_are_one_key():
    assert len({c.Exited(3), c.Exited(3), c.Exited(4)}) == 2
    assert msgspec.to_builtins(c.NothingCompared()) == {"kind": "nothing_compared"}


def test_the_documentation_lists_every_kind_with_its_fields():
    text = (ROOT / "docs" / "reference" / "reports.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(\w+)` \| (.*?) \| ", text[text.index("## Causes") :], re.MULTILINE))
    known = {kind.__struct_config__.tag: ", ".join(f"`{name}`" for name in kind.__struct_fields__) for kind in KINDS}
    assert listed == known


# A class as a newcomer would add it to core/infrastructure.py; nothing else changes.
NEW_CAUSE = """

class Overheated(CauseBase):
    device: int
    celsius: float

    en = "device {device} is {celsius:g} °C hot"
    zh = "设备 {device} 的温度为 {celsius:g} °C"
"""
WITH_IT = """
import importlib.util, sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

class Loader(SourceFileLoader):
    def get_code(self, name):
        return compile(Path(self.path).read_text(encoding="utf-8") + sys.argv[1], self.path, "exec")

class Finder:
    def find_spec(name, path=None, target=None):
        if name == "mluops_gtest.core.infrastructure":
            file = str(Path(path[0], "infrastructure.py"))
            return importlib.util.spec_from_file_location(name, file, loader=Loader(name, file))

sys.meta_path.insert(0, Finder)

from mluops_gtest.base.typed_files import Source, decode_json, json_bytes
from mluops_gtest.core import cause
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.judging.fingerprint import with_fingerprint
from mluops_gtest.results.records import report_from_json, report_to_json
from mluops_gtest.results.reports.markdown import render_markdown
from tests.support.reports import report, result

run = report(with_fingerprint(result(outcome=Outcome.CRASHED, causes=(cause.Overheated(3, 104.5),))))
source = Source("report.json", "Run again.")
back = report_from_json(decode_json(json_bytes(report_to_json(run)), source), source)
assert back.results == run.results and back.results[0].fingerprint
for lang in ("en", "zh"):
    print("".join(render_markdown(back, lang=lang)))
"""


def test_a_new_cause_is_one_class():
    command = [sys.executable, "-c", WITH_IT, NEW_CAUSE]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "device 3 is 104.5 °C hot" in done.stdout
    assert "设备 3 的温度为 104.5 °C" in done.stdout
