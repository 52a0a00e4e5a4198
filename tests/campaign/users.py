"""The campaign as another user: much of what root may do is refused to others, so that both meet other faults."""

import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
from typing import NoReturn

from tests.campaign.sandbox import ROOT

# Whoever can do this can run the campaign.
_PROBE = """
import sys, tempfile
assert sys.version_info[:2] == ({}, {}), f"Python {{sys.version}} is another version"
import tests.campaign.__main__
tempfile.TemporaryDirectory().cleanup()
"""


def become(name: str) -> None:
    """Start this campaign anew as that user, with a Python that the user can run; exit 2 where there is none."""
    try:
        account = pwd.getpwnam(name)
    except KeyError:
        _refuse(f"there is no user {name}. `getent passwd` lists all")
    if os.geteuid() == account.pw_uid:
        return
    if os.geteuid() != 0:
        _refuse(f"only root can become {name}. Leave out --user: the campaign then runs as you")
    places = (ROOT, sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    environment = {
        **os.environ,
        "HOME": account.pw_dir,
        # Another Python of the same version finds the packages of this one there.
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(map(str, places))),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    environment.pop("TMPDIR", None)
    tried = []
    for python in dict.fromkeys((sys.executable, shutil.which("python3", path=os.defpath) or sys.executable)):
        command = [python, "-c", _PROBE.format(*sys.version_info[:2])]
        try:
            probe = subprocess.run(
                command, cwd=ROOT, env=environment, user=account.pw_uid, group=account.pw_gid, extra_groups=(),
                capture_output=True, text=True,
            )  # fmt: skip
        except OSError as error:
            tried.append(f"{python}: {error.strerror}")
            continue
        if probe.returncode == 0:
            print(f"as {name}, with {python}", flush=True)
            os.chdir(ROOT)
            os.setgroups(())
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
            os.execve(python, [python, "-m", "tests.campaign", *sys.argv[1:]], environment)
        tried.append(f"{python}: {(probe.stderr.strip().splitlines() or ['no word'])[-1]}")
    _refuse(
        f"{name} cannot run it. The checkout, its packages and a Python {sys.version_info[0]}.{sys.version_info[1]} "
        f"must be readable for all:\n  " + "\n  ".join(tried)
    )


def _refuse(why: str) -> NoReturn:
    print(f"--user: {why}", file=sys.stderr)
    sys.exit(2)
