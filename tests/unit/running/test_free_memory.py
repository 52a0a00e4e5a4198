"""What is left of the memory, as the machine and the container around us say."""

import pytest

from mluops_gtest.running import caller as reply
from mluops_gtest.running.caller import checked_size, free_bytes


@pytest.fixture
def machine(tmp_path):
    def say(meminfo=None, **group):
        if meminfo is not None:
            (tmp_path / "meminfo").write_text(meminfo)
        for name, text in group.items():
            (tmp_path / f"memory.{name}").write_text(text)
        return free_bytes(tmp_path / "meminfo", tmp_path)

    return say


MEMINFO = "MemTotal:  100 kB\nMemAvailable:   64 kB\n"


def test_the_machine_says(machine):
    assert machine(MEMINFO) == 65536


def test_the_container_may_say_less(machine):
    group = {"current": "5000\n", "stat": "anon 1\ninactive_file 1000\n"}
    assert machine(MEMINFO, max="10000\n", **group) == 6000
    assert machine(MEMINFO, max="max\n", **group) == 65536


@pytest.mark.parametrize("meminfo", [None, "", "MemAvailable:\n", "MemAvailable: much kB\n", "MemTotal: 1 kB\n"])
def test_nobody_says(machine, meminfo):
    assert machine(meminfo) is None


def test_a_size_is_held_to_what_is_free(monkeypatch):
    monkeypatch.setattr(reply, "free_bytes", lambda: 1 << 30)
    assert checked_size("mine", 1 << 30) == 1 << 30
    with pytest.raises(ValueError, match=r"workspace_size\(\) returned 1073741825, but only 1073741824 bytes"):
        checked_size("mine", (1 << 30) + 1)
    with pytest.raises(ValueError, match=r"returned 1001, but --memory-limit allows 1000 bytes"):
        checked_size("mine", 1001, 1000)
    monkeypatch.setattr(reply, "free_bytes", lambda: None)
    assert checked_size("mine", 1 << 42) == 1 << 42
    with pytest.raises(ValueError, match="no machine has that"):
        checked_size("mine", (1 << 42) + 1)
