"""Every cause in Chinese; what a backend, a program or an error says itself stays as it is."""

from typing import Final

from mluops_gtest.core import cause as c
from mluops_gtest.core.outcome import SIZELESS
from mluops_gtest.core.reasons.notation import Words


def _passed_at_try(cause: c.PassedAtTry) -> str:
    return f"首次运行{cause.after.words['zh']}，第 {cause.tries} 次运行通过"


def _under_stress(cause: c.UnderStress) -> str:
    count = f"{cause.repetitions} 次重复运行中 {cause.failed} 次{cause.outcome.words['zh']}"
    return f"{count}，首次出现于 OMP_NUM_THREADS={cause.threads}"


def _device_lost(cause: c.DeviceLost) -> str:
    device = "" if cause.device is None else f"在设备 {cause.device} 上"
    return f"后端 {cause.backend} {device}连续三次未通过健康检查：{cause.text}"


def _disturbed(cause: c.Disturbed) -> str:
    by = "工作进程迟到的旧应答" if cause.by == "late answer" else "fork 服务进程丢失"
    return f"本用例运行期间三次被打断（{by}）"


def _raised(cause: c.Raised) -> str:
    asked = f"{cause.asked}() 中" if cause.asked else ""
    return f"后端{asked}抛出异常 {cause.exception}：{cause.text}"


def _killed(cause: c.Killed) -> str:
    return f"工作进程被信号 {cause.signal or cause.number} 终止"


def _fault(cause: c.Fault) -> str:
    if not cause.address:
        return f"{cause.signal}，没有出错地址：野指针，或者指令要求内存对齐（此处缓冲区只按元素大小对齐）"
    access = {"read": "读取", "wrote": "写入", "touched": "访问"}[cause.access]
    return f"{cause.signal}，{access}{_FAULT_PLACES[cause.place].format(cause)}"


def _program_died(cause: c.ProgramDied) -> str:
    return f"{cause.program} 被信号 {cause.signal} 终止{cause.printed}"


def _overrun(cause: c.Overrun) -> str:
    side = "尾部之后" if cause.side == "behind" else "起始之前"
    return f"越界写入 {cause.buffer} {side}，最近处距其{side[:2]} {cause.distance} 字节"


def _file_size(cause: c.FileSize) -> str:
    found = "没有写出（0 字节）" if cause.bytes is None else f"有 {cause.bytes} 字节"
    return f"{cause.file} {found}，而 {cause.output} 的缓冲区为 {cause.wanted} 字节"


def _wrong_status(cause: c.WrongStatus) -> str:
    remarks = f"（{cause.remarks}）" if cause.remarks else ""
    check = f"（检查 {cause.check}：{cause.message}）" if cause.check else ""
    return f"返回 {cause.answered}{remarks}，期望 {cause.expected}{check}"


def _baseline_wrong(cause: c.BaselineWrong) -> str:
    whose = "参考实现有误" if cause.ours else "文件中的基准值有误"
    place = f"{cause.output}{list(cause.index)}" if cause.index else cause.output
    share = f"{cause.examined} 个有争议的元素中有 {cause.elements} 个"
    return f"{whose}：{place} 的精确值为 {cause.exact}，基准值为 {cause.baseline}（{share}）"


def _unwritten(cause: c.Unwritten) -> str:
    places = cause.places
    return f"{cause.output}：{places.size} 个元素中有 {places.count} 个从未写入，第一个在 {list(cause.index)}"


def _exceeded(cause: c.Exceeded) -> str:
    figures = "、".join(
        f"{one.criterion} = {one.value:.6g}" + ("（单边）" if one.criterion == SIZELESS else f" > {one.threshold:g}")
        for one in cause.criteria
    )
    where = "（仅统计有限值元素）" if cause.finite_only else ""
    count, size, bits = cause.differing.count, cause.differing.size, cause.bits_unequal
    if cause.equality or cause.beyond is None:
        more = f"（按位不相等 {bits} 个）" if bits > count else ""
        share = f"{size} 个元素中有 {count} 个不相等{more}"
    else:
        share = f"{size} 个元素中有 {cause.beyond} 个超出容差（按位不相等 {bits} 个）"
    return f"{cause.output}：{figures}{where}；{share}"


_FAULT_PLACES: Final = {
    "inside": " {0.buffer} 的第 {0.distance} 字节",
    "behind": " {0.buffer} 尾部之后 {0.distance} 字节处",
    "in front": " {0.buffer} 起始之前 {0.distance} 字节处",
    "null": "地址 {0.address}，空指针",
    "far": "地址 {0.address}，不在任何缓冲区附近",
}
# What has no text stands as a pattern of its fields.
WORDS: Final[Words] = {
    c.PassedAtTry: _passed_at_try,
    c.AfterTimedCalls: "计时调用 {0.calls} 次之后",
    c.UnderStress: _under_stress,
    c.OnlyAfter: "单独运行时通过，仅在 {0.case} 之后",
    c.UnknownOperator: "不支持算子 {0.operator!r}",
    c.Unsupported: "后端 {0.backend} 不支持 {0.operator}",
    c.Declined: "后端拒绝执行：{0.text}",
    c.UndefinedCall: "{0.operator} 对该调用没有定义：{0.text}",
    c.Interrupted: "运行被中断",
    c.StoppedAtFailure: "已在第一个失败处停止",
    c.DeviceLost: _device_lost,
    c.RunLost: "运行无法继续：{0.text}",
    c.WorkerLost: "运行该用例时工作进程丢失 {0.times} 次，最后一次在 {0.host}",
    c.ContentError: "用例有误：{0.text}",
    c.BaselineWrong: _baseline_wrong,
    c.Unreadable: "{0.case}：无法读取：{0.text}。",
    c.TooLarge: "{0.case}：内存放不下。",
    c.Unwritable: "无法写入：{0.text}",
    c.Shortage: "本机无法提供该用例所需的资源：{0.exception}：{0.text}",
    c.Bug: "mluops-test 自身的缺陷：{0.exception}：{0.text}",
    c.Disturbed: _disturbed,
    c.NoRoom: "在本系统的限制下，没有工作进程放得下该用例的张量",
    c.Raised: _raised,
    c.SupportsRaised: "supports({0.operator!r}) 抛出异常 {0.exception}：{0.text}",
    c.BadAnswer: "后端给出的值不可能成立：{0.text}",
    c.ProtocolBroken: "工作进程没有按约定应答：{0.text}",
    c.StillWritten: "调用返回之后仍有写入 {0.output} 的操作",
    c.TimedOut: "{0.seconds:g} 秒内没有应答；工作进程及其启动的所有进程已被终止",
    c.Exited: "进程以退出码 {0.code} 结束",
    c.Killed: _killed,
    c.Fault: _fault,
    c.ProgramDied: _program_died,
    c.Overrun: _overrun,
    c.InputChanged: "改写了输入 {0.input}（第 {0.element} 个元素）",
    c.HostArrayChanged: "改写了主机数组 {0.array}",
    c.PageWritten: "写入了 {0.tensor}，而它只有描述符，没有数据",
    c.FileSize: _file_size,
    c.Leak: lambda cause: (
        f"内存泄漏：每次调用后多占用 {cause.bytes / 1e6:.1f} MB（在新的工作进程中调用 {cause.calls} 次）"
    ),
    c.WrongStatus: _wrong_status,
    c.QueryStatus: lambda cause: f"{cause.function} {_wrong_status(cause)}",
    c.Refusals: lambda cause: "调用应当成功，但相关函数拒绝：" + "；".join(cause.texts),
    c.WrittenAnyway: "调用返回 {0.status}（{0.check}），但 {0.output} 被写入（{0.places.count} 个元素，"
    "第一个在 {0.places.first}）",
    c.ScalarMissing: "没有给出 {0.output}；期望 {0.expected}",
    c.ScalarWrong: "{0.output} 为 {0.got}，期望 {0.expected}",
    c.Unwritten: _unwritten,
    c.NonFinite: "{0.output}：{0.elements} 个元素在是否为 NaN 或无穷上不一致，第一个的扁平下标为 {0.first}",
    c.Exceeded: _exceeded,
    c.BitsUnequal: "{0.output}：{0.elements} 个元素相等但按位不一致（−0、NaN 载荷）",
    c.BeyondBound: "{0.output}：{0.places.count} 个元素的误差超出 {0.precision} 运算任何顺序所能解释的范围",
    c.NotReproducible: lambda cause: f"结果不可复现：第 {cause.run} 次运行与第 1 次的 {'、'.join(cause.outputs)} 不同",
    c.NoCriterion: "{0.output} 没有针对 {0.dtype} 的精度标准",
    c.NotJudged: "{0.output} 已比较，但没有任何精度标准可用于判定",
    c.ConstantBaseline: "{0.output} 的基准值为常数，一致不能说明任何问题",
    c.ComparedWithItself: "参考实现与自身比较（CPU 设备：没有保存的基准值）",
    c.NothingCompared: "没有进行任何比较",
    c.Told: "{0.text}",
}
