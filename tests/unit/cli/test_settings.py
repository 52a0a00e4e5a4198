"""Settings as they would be typed in the current folder."""

import pytest

from mluops_gtest.running.settings import nearest_settings, read_settings


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with files; the current folder is below it."""
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    for name in ("mine.py", "libk.so", "prog", "data.bin"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path / "sub")
    return tmp_path


def defaults(folder, text):
    (folder / "mluops-test.toml").write_text(text)
    return read_settings(folder / "mluops-test.toml").defaults()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("numpy", "numpy"),
        ("mlu", "mlu"),
        ("torch:cuda", "torch:cuda"),
        ("package.kernels:backend", "package.kernels:backend"),
        ("mine.py", "../mine.py"),
        ("./mine.py:Kernels", "../mine.py:Kernels"),
        ("gone/mine.py:Kernels", "../gone/mine.py:Kernels"),
        ("/opt/mine.py:Kernels", "/opt/mine.py:Kernels"),
        ("c:./libk.so", "c:../libk.so"),
        ("c:libk.so", "c:../libk.so"),
        ("c:libinstalled.so", "c:libinstalled.so"),
        ("c:/opt/libk.so", "c:/opt/libk.so"),
        ("exec:./prog --table data.bin 'a b'", "exec:../prog --table ../data.bin 'a b'"),
        ("exec:python3 mine.py", "exec:python3 ../mine.py"),
        ("exec:'./prog", "exec:'./prog"),
        ("sub/mine.py", "./mine.py"),
    ],
)
def test_files_of_a_backend_stand_beside_the_settings(project, written, meant):
    assert defaults(project, f'backend = "{written}"')["backend"] == meant


def test_in_the_current_folder_everything_is_as_it_is_written(project, monkeypatch):
    monkeypatch.chdir(project)
    found = defaults(project, 'backend = "exec:./prog  x"\nroots = ["mine", "builtin"]\nwaivers = "w.yaml"\n')
    assert (found["backend"], found["roots"], found["waivers"]) == ("exec:./prog  x", ("mine", "builtin"), "w.yaml")


def test_a_folder_is_never_taken_for_the_built_in_content(project):
    found = defaults(project, 'roots = ["builtin", "./builtin", "sub/builtin"]\n')
    assert found["roots"] == ("builtin", "../builtin", "./builtin")


def test_labels_are_words_and_what_is_not_set_is_not_there(project):
    assert defaults(project, '[labels]\nteam = "a=b"\n') == {"labels": ("team=a=b",)}
    assert defaults(project, "jobs = 2\ntimeout = 3\n") == {"jobs": 2, "timeout": 3.0}


def test_the_nearest_file_counts(project, monkeypatch):
    monkeypatch.chdir(project / "sub" / "deep")
    assert nearest_settings() not in (project / "mluops-test.toml", project / "sub" / "mluops-test.toml")
    (project / "mluops-test.toml").touch()
    assert nearest_settings() == project / "mluops-test.toml"
    (project / "sub" / "mluops-test.toml").touch()
    assert nearest_settings() == project / "sub" / "mluops-test.toml"
    # A folder of that name is no file.
    (project / "sub" / "deep" / "mluops-test.toml").mkdir()
    assert nearest_settings() == project / "sub" / "mluops-test.toml"


def test_a_removed_current_folder_has_no_settings(project, monkeypatch):
    monkeypatch.chdir(project / "sub" / "deep")
    (project / "sub" / "deep").rmdir()
    assert nearest_settings() is None


@pytest.mark.parametrize(
    ("key", "text", "line"),
    [
        ("jobs", "jobs = 1\n", 1),
        ("jobs", '\n"jobs" = 1\n', 2),
        ("jobs", "timeout = 1 # jobs = 2\n  jobs=1\n", 2),
        ("labels", "jobs = 1\n[labels]\na = 'x'\n", 2),
        ("labels", "jobs = 1\nlabels.a = 'x'\n", 2),
        ("labels", "jobs = 1\nlabels = {a = 'x'}\n", 2),
    ],
)
def test_a_key_or_a_table_is_found_on_its_line(project, key, text, line):
    path = project / "mluops-test.toml"
    path.write_text(text)
    assert read_settings(path).place(key) == f"{path}:{line}"
