"""The command line in this process, with a home of its own."""

import pytest

import secant.cli.entry as cli


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SECANT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(cli, "keep_compiled_code", lambda: None)  # the tests share one process
    return tmp_path / "home"


@pytest.fixture
def secant(home, capfd):
    """Runs a command; gives its exit status, output and error output."""

    def call(*arguments):
        try:
            status = cli.main(list(arguments))
        except SystemExit as stop:
            status = stop.code
        output, errors = capfd.readouterr()
        return status, output, errors

    return call
