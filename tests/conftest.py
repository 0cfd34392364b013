"""Fixtures every room uses."""

import gc
import os
import random
import shutil
import signal

import jax
import pytest
from hypothesis import Phase, settings

from secant.core.programs import forget_programs
from secant.dynamics import runner

# A shell starts what runs in its background with Ctrl-C ignored, and so would every process the tests start: those of
# them that interrupt one would wait for nothing.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Traces are trees of small objects that reference counts free: to look for circles after every 700 of them, as is
# usual, takes a twentieth of the time.
gc.set_threshold(200_000, 50, 1_000)

# For those who only ask whether a test fails: nobody looks for the smallest example.
settings.register_profile("unshrunk", settings.get_profile("ci"), phases=(Phase.explicit, Phase.generate))

# The first is the engine of the second without its windows: tests of pages are shorter in it.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
BROWSER_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(autouse=True)
def float64():
    """Tests compare identities to rounding, so they run in float64 unless they say otherwise."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def optimised():
    """For tests that compute longer than they compile: the compiler optimises a little, as the Makefile says."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(autouse=True)
def few_programs():
    """What the tests before have compiled is forgotten now and then: seldom, for tests of a room share programs."""
    yield
    forget_programs(beyond=1000)


def pytest_collection_finish():
    """What is there by now stays: whoever looks for circles need not look there."""
    gc.collect()
    gc.freeze()


class RandomClock:
    """A clock that runs now fast, now slow, as that of a busy machine does: each look at it is up to a minute later."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.now = 0.0

    def __call__(self):
        self.now += 10 ** self.draw.uniform(-7, 1.8)
        return self.now


@pytest.fixture
def random_clock(monkeypatch):
    """A function that sets the runner's clock to a random one."""
    return lambda seed=None: monkeypatch.setattr(runner, "clock", RandomClock(seed))


@pytest.fixture
def runs_of_studies(tmp_path_factory):
    """A store where all of the tests' processes keep the smoke runs of studies, so that each is computed once."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "runs-of-studies"


def pytest_terminal_summary(terminalreporter, config):
    """What the studies cost at smoke scale, in CPU-seconds with compiling: the mean and the dearest."""
    factory = getattr(config, "_tmp_path_factory", None)
    folder = None if factory is None else factory.getbasetemp() / "costs-of-studies"
    if folder is None or not folder.is_dir():
        return
    costs = {path.name: max(map(float, path.read_text().split())) for path in folder.iterdir()}
    terminalreporter.section("studies at smoke scale, CPU-seconds")
    terminalreporter.line(f"{sum(costs.values()) / len(costs):6.1f}  mean of {len(costs)}")
    for id, seconds in sorted(costs.items(), key=lambda item: -item[1])[:10]:
        terminalreporter.line(f"{seconds:6.1f}  {id}")


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium."""
    sync_api = pytest.importorskip("playwright.sync_api")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        message = "no Chromium found: `apt install chromium-headless-shell` brings one to test the pages in"
        if os.environ.get("SECANT_REQUIRE_BROWSER") == "1":
            pytest.fail(message)
        pytest.skip(message)
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=BROWSER_ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def window(browser):
    """Opens pages as a reader would; what they complain of and what they ask for fails the test."""
    contexts, complaints, requests = [], [], []

    def failed(request):
        if request.failure != "net::ERR_ABORTED":  # by the reader, who has gone on to another page
            complaints.append(f"failed: {request.url} ({request.failure})")

    def window(width=1280, scheme="light"):
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", failed)
        page.on("request", lambda request: requests.append(request.url))
        return page

    yield window
    for context in contexts:
        context.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file://", "blob:file://", "data:"))] == []
