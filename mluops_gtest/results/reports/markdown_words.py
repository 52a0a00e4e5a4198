"""Every word of the test report in English and Chinese, and how any text becomes Markdown."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mluops_gtest.base.text import strip_controls
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import ISOLATION_OFF

# Signs that would begin a link, a tag, an entity, an emphasis or a new cell. An underscore inside a word is none.
_SIGNS = re.compile(r"[\\`*\[\]<>|~$@&]|(?<!\w)_|_(?!\w)")


def text(words: str) -> str:
    """The words on one line, each sign as itself."""
    return _SIGNS.sub(r"\\\g<0>", _one_line(words))


def code(words: str) -> str:
    """The words as code; also where they hold back-quotes themselves."""
    line = _one_line(words)
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    padded = f" {line} " if line.startswith("`") or line.endswith("`") else line
    # A table's cell ends at every bar, in code as well.
    return f"{fence}{padded}{fence}".replace("|", r"\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """The lines of a table; the columns numbered in `right` hold numbers."""
    numbers = set(right)
    rule = ["---:" if place in numbers else "---" for place in range(len(head))]
    return [_row(head), _row(rule), *map(_row, rows), ""]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _one_line(words: str) -> str:
    return " ".join(strip_controls(words).split())


LANGUAGES = ("en", "zh")
Words = Callable[..., str]


def words(language: str) -> Words:
    """A function that gives the words of a key in this language, with its places filled."""
    column = LANGUAGES.index(language)

    def say(key: str, **values: Any) -> str:
        return WORDS[key][column].format(**values)

    return say


# Key → (English, Chinese).
WORDS: dict[str, tuple[str, str]] = {
    # The language itself, for reasons.
    "language": LANGUAGES,
    # Punctuation between the parts of a line.
    "comma": (", ", "、"),
    "semicolon": ("; ", "；"),
    "colon": (": ", "："),
    "sentences": ("{first} {second}", "{first}{second}"),
    "remarked": ("{words} ({remark})", "{words}（{remark}）"),
    "none": ("none", "无"),
    "title": ("Operator test report: {operators}", "算子测试报告：{operators}"),
    "verdict": ("Verdict", "结论"),
    "made": (
        "Made by mluops-test {version} from the results of {started} on backend {backend}.",
        "由 mluops-test {version} 根据 {started} 在后端 {backend} 上的测试结果生成。",
    ),
    "labels": ("Labels: {labels}.", "标签：{labels}。"),
    "roots": ("Content roots: {roots}.", "用例来源：{roots}。"),
    "settings_file": ("Settings: {file}.", "设置文件：{file}。"),
    "isolation_off": (
        ISOLATION_OFF,
        "未启用隔离：后端与判定程序在同一进程中运行，可以触及其中的一切；失败未在新的工作进程中复核。",
    ),
    "reseeded": (
        "The random values are those of `--reseed {number}`; {fixed} cases have the same values without it.",
        "随机数据由 `--reseed {number}` 生成；其中 {fixed} 个用例的数据与不加该选项时相同。",
    ),
    # 1
    "change": ("1 Change description", "1 修改描述"),
    "write_here": (
        "Write here what was changed and why, and for which versions or branches. The results fill in all the rest.",
        "请在此说明修改的内容与原因，以及影响的版本或分支。本报告的其余内容均根据测试结果自动填写。",
    ),
    "affected": ("Operators concerned", "影响的算子"),
    "standard": ("1.1 Accuracy standard", "1.1 精度验收标准"),
    "no_standard": ("No output was held to a criterion in this run.", "本次测试没有对任何输出应用精度标准。"),
    "operator": ("operator", "算子"),
    "output": ("output", "输出"),
    "dtype": ("data type", "数据类型"),
    "criteria": ("criteria", "验收标准"),
    "largest": ("largest reading", "最大误差"),
    "exact": ("exact", "完全一致"),
    "checklist": ("1.2 Checklist", "1.2 算子方案 checklist"),
    "number": ("no.", "序号"),
    "item": ("item", "需求"),
    "detail": ("details", "需求详情"),
    "platform": ("platform", "支持硬件"),
    "layouts": ("layouts", "layout"),
    "ranks": ("multi-dimensional tensors", "多维"),
    "zero": ("zero elements", "0 元素"),
    "dtypes": ("data types", "数据类型"),
    "limits": ("size limits", "规模限制"),
    "supported": ("supported", "支持"),
    "failing": ("fails", "未通过"),
    "not_tested": ("not tested", "未测试"),
    "dimensions": ("{ranks} dimensions", "{ranks} 维"),
    "largest_tensor": ("largest tensor computed: {tensor}", "已验证的最大张量：{tensor}"),
    "refused": (
        "larger tensors than allowed are refused ({count} tested)",
        "超出规模限制的张量均被拒绝（已测 {count} 个）",
    ),
    "not_refused": (
        "larger tensors than allowed are not all refused ({count} taken)",
        "超出规模限制的张量未全部被拒绝（{count} 个用例）",
    ),
    "refused_by_design": ("refused, as the document asks", "按文档要求拒绝"),
    "partly_refused": (
        "supported, except for what is refused as the document asks ({checks})",
        "部分支持，其余按文档要求拒绝（{checks}）",
    ),
    "own_criteria": (
        "Cases held to criteria of their own, which are not listed: {cases}.",
        "另有 {cases} 个用例按用例自身的标准判定，未列入上表。",
    ),
    "features": ("1.3 Feature tests", "1.3 特性测试"),
    "checks": ("1.4 Parameter checks", "1.4 参数检查"),
    "no_checks": ("No parameter check was tested in this run.", "本次测试没有参数检查用例。"),
    "expected_status": ("expected status", "期望状态码"),
    "cases": ("cases", "用例数"),
    "as_expected": ("as expected", "符合期望"),
    "differing": ("answered otherwise", "不符合期望的用例"),
    "answered": ("{case}: {status}", "{case}：{status}"),
    "no_status": ("no status", "无状态码"),
    # Test points, with what they say of themselves.
    "point": ("test point", "测试点"),
    "description": ("description", "描述"),
    "result": ("result", "结果"),
    "remarks": ("remarks", "备注"),
    "point_dtype": ("data types", "数据类型测试"),
    "point_rank": ("multi-dimensional tensors", "多维张量测试"),
    "point_layout": ("layouts", "layout 测试"),
    "point_size": ("sizes, remainders, alignment", "不同规模 / 余数 / 对齐测试"),
    "size_words": (
        "sets of shapes: {shapes}; cases whose rows are no multiple of 64: {remainders}",
        "{shapes} 组不同形状，其中 {remainders} 个用例的行长不是 64 的倍数",
    ),
    "point_zero": ("zero elements", "0 元素测试"),
    "zero_words": ("a tensor without elements", "含 0 元素的张量"),
    "point_stability": ("stability", "稳定性测试"),
    "stability_words": ("every case run {repeat} times from fresh memory", "每个用例在全新内存上运行 {repeat} 次"),
    "stability_once": (
        "every case run once; `--repeat N` runs it more often",
        "每个用例只运行一次，`--repeat N` 可重复运行",
    ),
    "point_nonfinite": ("nan / inf", "nan / inf 测试"),
    "nonfinite_words": ("NaN and infinities in the inputs", "输入含 nan 或 inf"),
    "point_checks": ("parameter checks", "参数检查"),
    "checks_words": ("invalid calls, each answered with its status", "非法调用应返回规定的状态码"),
    "point_precision": ("precision", "精度测试"),
    "precision_words": (
        "full mantissas, wide exponents, cancellation",
        "完整尾数、大指数范围以及相消数据",
    ),
    "point_network": ("network sizes", "网络规模测试"),
    "network_words": ("the sizes that networks use", "网络中实际使用的规模"),
    "point_memory": ("memory", "内存测试"),
    "memory_words": (
        "nothing written outside a buffer or into an input",
        "不得写出缓冲区范围，也不得改写输入",
    ),
    "ok": ("passed", "通过"),
    "bad": ("{count} not passed", "{count} 个未通过"),
    "and_more": ("and {count} more", "另有 {count} 个"),
    "left_out": ("{count} skipped or waived", "{count} 个跳过或已豁免"),
    # 2
    "function": ("2 Function tests", "2 功能测试"),
    "all_cases": ("all cases", "全部用例"),
    # 3
    "performance": ("3 Performance tests", "3 性能测试"),
    "no_performance": (
        "No performance was measured; `mluops-test run --perf` measures it.",
        "本次未测试性能，使用 `mluops-test run --perf` 可测试性能。",
    ),
    "device": ("Platform: {device}", "平台：{device}"),
    "no_device": (
        "No efficiencies: the device is not described (`mluops-test run --perf --device-spec FILE`).",
        "没有设备描述，因此未给出效率（用 `mluops-test run --perf --device-spec FILE` 指定）。",
    ),
    "hardware_time": ("hardware time (µs)", "硬件时间 (µs)"),
    "interface_time": ("interface time (µs)", "接口时间 (µs)"),
    "io_efficiency": ("IO efficiency", "IO 效率"),
    "compute_efficiency": ("compute efficiency", "计算效率"),
    "workspace": ("workspace (bytes)", "workspace (Bytes)"),
    "shape": ("shape", "规模"),
    "accepted": ("accepted", "达标"),
    "too_short": ("too short to judge", "耗时过短，无法判断"),
    "yes": ("yes", "是"),
    "no": ("no", "否"),
    # 4
    "conclusions": ("4 Conclusions", "4 总结分析"),
    "clear": (
        "Cases that ran on {backend}: {cases}; all are as they must be.",
        "在 {backend} 上运行的 {cases} 个用例全部符合要求。",
    ),
    "blocked": (
        "Cases on {backend}: {cases}; passed: {passed}; standing against the change: {bad}.",
        "在 {backend} 上共 {cases} 个用例，通过 {passed} 个，有 {bad} 个问题用例，不满足合入要求。",
    ),
    "nothing": (
        "Nothing was compared on {backend}, so this report proves nothing.",
        "在 {backend} 上没有进行任何比较，本报告不能说明任何问题。",
    ),
    "interrupted": ("The run was interrupted.", "测试运行被中断。"),
    "counts": ("Outcomes: {counts}.", "结果统计：{counts}。"),
    "measured": (
        "Cases with measured performance: {cases}; below what the acceptance requires: {low}; not judged: {unjudged}.",
        "{cases} 个用例测试了性能，其中 {low} 个未达到验收标准，{unjudged} 个未评判。",
    ),
    "problems": ("Open problems", "遗留问题"),
    "no_problems": ("There is no open problem.", "没有遗留问题。"),
    "unjudged": (
        "Functions have no open problem. Performance was not judged: the device is not described.",
        "功能没有遗留问题。性能未评判：没有设备描述。",
    ),
    "unmeasured": (
        "Functions have no open problem. Performance was not measured.",
        "功能没有遗留问题。性能未测试。",
    ),
    "leak": ("{case}: {words}", "{case}：{words}"),
    "problem": ("{operator}, {outcome} ({cases}): {reason}", "{operator}，{outcome}（{cases} 个用例）：{reason}"),
    "problem_cases": ("cases", "用例"),
    "cause": ("cause", "原因"),
    "repro": ("repro", "复现"),
    "arbitrated": ("exact", "精确重算"),
    "low": (
        "{operator}, {case}: {side} efficiency {reached}, {wanted} is required",
        "{operator}，{case}：{side} {reached}，要求 {wanted}",
    ),
    "side_io": ("IO", "IO 效率"),
    "side_compute": ("compute", "计算效率"),
    "more_problems": ("Further groups in report.json: {count}.", "其余 {count} 组问题见 report.json。"),
    "untested": ("Not tested: {points}.", "未测试：{points}。"),
    "stressed": (
        "{repetitions} repetitions with changing numbers of threads: of {cases} cases {failing} fail, {varying} vary",
        "以不同线程数重复运行 {repetitions} 次：{cases} 个用例中 {failing} 个失败，{varying} 个结果有变化但通过",
    ),
    "skipped": ("Skipped ({cases}): {reason}", "跳过（{cases} 个用例）：{reason}"),
    "waived": ("Waived ({cases}): {reason}", "已豁免（{cases} 个用例）：{reason}"),
    "against": ("Against the baseline", "与基线对比"),
    "transition": ("transition", "变化"),
    "history": ("History", "历史趋势"),
    "unremarkable": (
        "No case flakes, flips or drifts (runs: {runs}).",
        "{runs} 次运行中没有结果不稳定、翻转或精度漂移的用例。",
    ),
    "case": ("case", "用例"),
    "runs": ("runs", "运行次数"),
    "flake_rate": ("flaky", "不稳定率"),
    "flips": ("flips", "翻转次数"),
    "drift": ("drift", "精度漂移"),
    **{f"outcome_{outcome.value}": (outcome.words["en"], outcome.words["zh"]) for outcome in Outcome},
    # Transitions.
    "transition_still_passing": ("still passing", "保持通过"),
    "transition_fixed": ("fixed", "已修复"),
    "transition_regressed": ("regressed", "退化"),
    "transition_still_failing": ("still failing", "仍然失败"),
    "transition_new": ("new", "新增"),
    "transition_new_and_failing": ("new and failing", "新增且失败"),
    "transition_missing": ("missing", "缺失"),
    "transition_became_skipped": ("became skipped", "变为跳过"),
    "transition_still_skipped": ("still skipped", "仍然跳过"),
    "transition_not_run": ("not run", "未运行"),
    "transition_suspect": ("suspect", "存疑"),
}
