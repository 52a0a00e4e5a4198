"""Causes around a call: why a backend was not called, what failed beside it, how a call ended without a reply."""

from typing import Final, Literal

from mluops_gtest.base.frozen import snake_case
from mluops_gtest.core.outcome import Outcome, Worded, Wording


class CauseBase(Worded, tag_field="kind", tag=snake_case):
    """One reason; equal ones are the same cause."""


class Prelude(CauseBase):
    """What stands before other causes."""


class External(CauseBase):
    """Not the backend's doing: it was not called, or something around it failed."""


class PassedAtTry(Prelude):
    """It passed when it was tried again; the causes of the first try follow."""

    tries: int
    after: Outcome

    en = "passed at try {tries} after {after.value}"
    zh = "首次运行{after.words[zh]}，第 {tries} 次运行通过"


class AfterTimedCalls(Prelude):
    """It passed before it was called again and again; what the last call came to follows."""

    calls: int

    en = "after {calls} timed calls"
    zh = "计时调用 {calls} 次之后"


class UnderStress(Prelude):
    """It did not pass in some repetitions with changing numbers of threads; the causes of the first of them follow."""

    failed: int
    repetitions: int
    # Of the first that failed, and what it came to.
    threads: int
    outcome: Outcome

    en = "{outcome.words[en]} in {failed} of {repetitions} repetitions, first with OMP_NUM_THREADS={threads}"
    zh = "{repetitions} 次重复运行中 {failed} 次{outcome.words[zh]}，首次出现于 OMP_NUM_THREADS={threads}"


class OnlyAfter(Prelude):
    """It passes alone in a fresh worker, and fails behind another case; the causes of that follow."""

    case: str

    en = "only after {case}, not alone"
    zh = "单独运行时通过，仅在 {case} 之后"


class UnknownOperator(External):
    """There is no such operator here."""

    operator: str

    en = "operator {operator!r} is not supported"
    zh = "不支持算子 {operator!r}"


class Unsupported(External):
    """supports() says no."""

    backend: str
    operator: str

    en = "backend {backend} does not support {operator}"
    zh = "后端 {backend} 不支持 {operator}"


class Declined(External):
    """The backend declined the call, in its own words."""

    text: str

    en = "declined: {text}"
    zh = "后端拒绝执行：{text}"


class UndefinedCall(External):
    """The operator does not define what the call of a file comes to, for the reason that its precondition gives."""

    operator: str
    text: str

    en = "{operator} does not define this call: {text}"
    zh = "{operator} 对该调用没有定义：{text}"


class Interrupted(External):
    """The user ended the run."""

    en = "interrupted"
    zh = "运行被中断"


class StoppedAtFailure(External):
    """Another case failed, and the run was asked to end there."""

    en = "stopped at the first failure"
    zh = "已在第一个失败处停止"


class DeviceLost(External):
    """No worker is healthy any more."""

    backend: str
    device: int | None
    text: str

    en = "backend {backend}{place.en} failed its health check three times in a row: {text}"
    zh = "后端 {backend} {place.zh}连续三次未通过健康检查：{text}"

    @property
    def place(self) -> Wording:
        """The device, where there are several."""
        return (
            Wording("", "") if self.device is None else Wording(f" on device {self.device}", f"在设备 {self.device} 上")
        )


class RunLost(External):
    """No worker can be started any more."""

    text: str

    en = "the run cannot go on: {text}"
    zh = "运行无法继续：{text}"


class ContentError(External):
    """The case is broken, in the words of the error."""

    text: str

    en = "{text}"
    zh = "用例有误：{text}"


class BaselineWrong(External):
    """The exact values of disputed elements refute the baseline; values of the first one as text."""

    output: str
    # How many of the recomputed elements it is wrong at.
    elements: int
    examined: int
    index: tuple[int, ...]
    exact: str
    baseline: str
    # The reference made the baseline; else it stands in a file of the user's.
    ours: bool

    en = (
        "{author.en}: {place} is exactly {exact}, and the baseline says {baseline} "
        "({elements} of {examined} disputed elements)"
    )
    zh = "{author.zh}：{place} 的精确值为 {exact}，基准值为 {baseline}（{examined} 个有争议的元素中有 {elements} 个）"

    @property
    def author(self) -> Wording:
        """Whose mistake it is."""
        if self.ours:
            return Wording("the reference is wrong", "参考实现有误")
        return Wording("the baseline in the file is wrong", "文件中的基准值有误")

    @property
    def place(self) -> str:
        """The first element."""
        return f"{self.output}{list(self.index)}" if self.index else self.output


class Unreadable(External):
    """The system does not give the case's file."""

    case: str
    text: str

    en = "{case}: cannot be read: {text}."
    zh = "{case}：无法读取：{text}。"


class TooLarge(External):
    """The case does not fit into memory."""

    case: str

    en = "{case}: does not fit into memory."
    zh = "{case}：内存放不下。"


class Unwritable(External):
    """Something the case needs could not be written."""

    text: str

    en = "{text}"
    zh = "无法写入：{text}"


class Shortage(External):
    """The machine does not give what the case needs."""

    exception: str
    text: str

    en = "this machine does not give the case what it needs: {exception}: {text}"
    zh = "本机无法提供该用例所需的资源：{exception}：{text}"


class Bug(External):
    """The harness is wrong."""

    exception: str
    text: str

    en = "a bug of mluops-test: {exception}: {text}"
    zh = "mluops-test 自身的缺陷：{exception}：{text}"


DISTURBANCES: Final = {
    "late answer": Wording(
        "the worker did not answer as agreed: it answered an earlier request once more", "工作进程迟到的旧应答"
    ),
    "fork server": Wording("the fork server was lost", "fork 服务进程丢失"),
}


class Disturbed(External):
    """Something from outside cut the case short whenever it ran, although it ran alone."""

    by: Literal["late answer", "fork server"]

    en = "{disturbance.en} three times while this case ran"
    zh = "本用例运行期间三次被打断（{disturbance.zh}）"

    @property
    def disturbance(self) -> Wording:
        """What cut it short."""
        return DISTURBANCES[self.by]


class WorkerTooSmall(External, tag="no_room"):
    """No worker can hold the tensors."""

    en = "no worker can hold the tensors of this case under the limits of this system"
    zh = "在本系统的限制下，没有工作进程放得下该用例的张量"


class Raised(CauseBase):
    """The backend raised; `asked` is what it was asked beside the call itself."""

    exception: str
    text: str
    asked: Literal["", "workspace_size"] = ""

    en = "{exception}: {text}"

    def zh(self) -> str:
        """Says also what raised."""
        return f"后端{self.asked and f'{self.asked}() 中'}抛出异常 {self.exception}：{self.text}"


class SupportsRaised(CauseBase):
    """supports() raised."""

    operator: str
    exception: str
    text: str

    en = "supports({operator!r}) raised {exception}: {text}"
    zh = "supports({operator!r}) 抛出异常 {exception}：{text}"


class BadAnswer(CauseBase):
    """What the backend told cannot be: a size, a time."""

    text: str
    asked: Literal["", "workspace_size"] = ""

    en = "{text}"
    zh = "后端给出的值不可能成立：{text}"


class ProtocolBroken(CauseBase):
    """The worker sent what no worker sends."""

    text: str

    en = "the worker did not answer as agreed: {text}"
    zh = "工作进程没有按约定应答：{text}"


class TimedOut(CauseBase):
    """No answer within the limit."""

    seconds: float

    en = "no answer within {seconds:g} s; the worker and all it started were killed"
    zh = "{seconds:g} 秒内没有应答；工作进程及其启动的所有进程已被终止"


class Exited(CauseBase):
    """The worker ended itself."""

    code: int

    en = "the process exited with code {code}"
    zh = "进程以退出码 {code} 结束"


class Killed(CauseBase):
    """The worker died by a signal; `signal` is empty where the system has no name for the number."""

    signal: str
    number: int

    def en(self) -> str:
        """The signal's name, else its number."""
        return f"killed by {self.signal or f'signal {self.number}'}"

    def zh(self) -> str:
        """The signal's name, else its number."""
        return f"工作进程被信号 {self.signal or self.number} 终止"


_ACCESSES: Final = {"read": "读取", "wrote": "写入", "touched": "访问"}
_FAULT_PLACES: Final = {
    "inside": Wording("byte {distance} of {buffer}", " {buffer} 的第 {distance} 字节"),
    "behind": Wording("{distance} byte{s} past the end of {buffer}", " {buffer} 尾部之后 {distance} 字节处"),
    "in front": Wording("{distance} byte{s} before the start of {buffer}", " {buffer} 起始之前 {distance} 字节处"),
    "null": Wording("at address {address}, a null pointer", "地址 {address}，空指针"),
    "far": Wording("at address {address}, far from every buffer", "地址 {address}，不在任何缓冲区附近"),
}


class Fault(CauseBase):
    """A memory fault with its place: by the nearest buffer, else by the address alone."""

    signal: str
    access: Literal["read", "wrote", "touched"] = "touched"
    # Hexadecimal; empty where the kernel told none.
    address: str = ""
    place: Literal["", "inside", "behind", "in front", "null", "far"] = ""
    buffer: str = ""
    # From the buffer's start where it is inside, else from its nearest end.
    distance: int = 0
    # The instruction: `compute+0x1f`, where the file names functions, and `libk.so+0x11a9`, where a file has it.
    function: str = ""
    code: str = ""

    def en(self) -> str:
        """The access and its place."""
        if self.address:
            return (
                f"{self.signal}, {self.access} {self._format_place('en')}{self._format_code(', in {} ({})', ', at {}')}"
            )
        return (
            f"{self.signal} without an address{self._format_code(' in {} ({})', ' at {}')}: a wild pointer, or an "
            "instruction that needs alignment; those fault here too, where a buffer is aligned to its element only"
        )

    def zh(self) -> str:
        """The access and its place."""
        if self.address:
            code = self._format_code("，位于 {}（{}）", "，位于 {}")
            return f"{self.signal}，{_ACCESSES[self.access]}{self._format_place('zh')}{code}"
        code = self._format_code("（位于 {}，{}）", "（位于 {}）")
        return f"{self.signal}，没有出错地址{code}：野指针，或者指令要求内存对齐（此处缓冲区只按元素大小对齐）"

    def _format_code(self, with_function: str, without: str) -> str:
        if not self.code:
            return ""
        return with_function.format(self.function, self.code) if self.function else without.format(self.code)

    def _format_place(self, lang: str) -> str:
        plural = "s" * (self.distance != 1)
        where = _FAULT_PLACES[self.place]
        return where.format(lang, distance=self.distance, buffer=self.buffer, address=self.address, s=plural)


class ProgramDied(CauseBase):
    """The program of exec:COMMAND died by a signal; `printed` are its last words."""

    program: str
    signal: str
    printed: str

    en = "{program} died by {signal}{printed}"
    zh = "{program} 被信号 {signal} 终止{printed}"


class WorkerLost(CauseBase):
    """Workers of a cluster were lost while they ran the case; the last of them on `host`."""

    times: int
    host: str

    en = "the worker was lost {times} times while it ran this case, last on {host}"
    zh = "运行该用例时工作进程丢失 {times} 次，最后一次在 {host}"
