"""Studies made up for the pages, and the pages made of them."""

import sys
import types
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from secant import atlas, lab
from secant.lab import Estimate, Source, Store, Tolerance, claim, option, scaled, study

sys.path.append(str(Path(__file__).parent / "formulas"))  # where the tests find `formula_corpus`


@dataclass(frozen=True)
class Config:
    ratio: float = option(0.5, above=0, at_most=1, help="size of a step relative to the last, $r$")
    offset: float = option(0.0, help="what is added, of either sign")
    starts: tuple[float, ...] = option((1.0, -2.0), help="where to start")
    steps: int = scaled(smoke=20, laptop=40, paper=40, at_least=1, help="how many steps")
    mirrored: bool = option(False, help="turn it round")
    mode: str = option("plain", help="a word")


def series(config: Config) -> xr.Dataset:
    values = config.offset + config.ratio ** np.arange(config.steps)
    return xr.Dataset({"term": ("step", values)}, coords={"step": np.arange(config.steps)})


def judge(data, config):
    total = float(data.term.sum())
    exact = Tolerance(1e-4, why="the rest of the series, $r^n / (1 - r)$, at most $2^{-19}$")
    yield claim("sum", "sum of the series").equal(2.0, total, exact, note="with <b>tags</b> & $a<b$")
    yield claim("bound", "a bound").at_most(3.0, total)
    yield claim("noisy", "a noisy number").at_most(0.0, Estimate(2.5e-7, 1e-7), "sampling", slack=1e-7)
    yield claim("blows-up", "what blows up").equal(1.0, np.inf, 0.1, "none", note="it is meant to fail")
    yield claim("closed-form", "the closed form").erratum(
        (r"\sum_{k=0}^\infty r^k = \frac{1}{1 + r}", 2 / 3),
        (r"\sum_{k=0}^\infty r^k = \frac{1}{1 - r}", 2.0),
        total,
        exact,
        note="the sign of $r$ is lost",
        where="equation (3)",
    )


def draw(data, figure, config):
    figure.set_size_inches(11, 4)
    for axes, title in zip(figure.subplots(1, 3), ("Terms", "Sums", "Rests"), strict=True):
        axes.plot(data.step, data.term, label="terms")
        axes.set(title=title, xlabel="step", ylabel="$a_k$")
        axes.legend()


def draw_one(data, figure, config):
    axes = figure.subplots()
    axes.plot(data.step, data.term, label="terms")
    axes.set(title="Terms", xlabel="step")


def of(package, statement):
    """Makes a function look as if it were defined in a package of studies with a source of its own."""

    def decorate(function):
        def copied(config: Config) -> xr.Dataset:
            return function(config)

        copied.__module__, copied.__doc__ = f"{package}.module", statement
        return copied

    return decorate


def make(id, section="1.2", title="A series that adds up", statement="The series $\\sum_k r^k$ adds up.", **rest):
    package = f"demo_{id.split('/')[0]}"
    result = study(id, section=section, title=title, **rest)(of(package, statement)(series))
    result.findings(judge)
    result.figure(draw if id == "series/sum" else draw_one)
    return result


STATEMENT = r"""
For $0 < r < 1$ the geometric series with ratio $r$ adds up to
$$\sum_{k=0}^{\infty} r^k = \frac{1}{1 - r}, \qquad
  \sum_{k=0}^{n} r^k = \frac{1 - r^{n+1}}{1 - r} \le \frac{1}{1 - r},$$
whatever <script>alert("x")</script> & `code` say.

In a line, $a_1 + a_2 + a_3 + a_4 = b_1 + b_2 + b_3 + b_4 \le c_1 + c_2 + c_3 + c_4 \le d_1 + d_2 + d_3 + d_4$
may break.
"""


@pytest.fixture(scope="session")
def demo():
    """Studies of two sources: some run, one new, one never run."""
    for key, title in (("series", "On series & their $\\sum$ums"), ("limits", "Limits")):
        package = types.ModuleType(f"demo_{key}")
        package.SOURCE = Source(key, title, "A. Author and B. Author", 1821, {"1": "First steps to $\\infty$"})
        sys.modules[package.__name__] = package
    yield [
        make("series/sum", statement=STATEMENT, title=r"The geometric series sums to $\frac{1}{1-r}$"),
        make("series/thm-1.3", section="1.3", title="A catapult of its own", new=True),
        make("limits/thm-1", section="Theorem 1", title="Never run & <i>odd</i>"),
    ]
    for key in ("series", "limits"):
        del sys.modules[f"demo_{key}"]


@pytest.fixture(scope="session")
def store(tmp_path_factory, demo):
    """A store with runs of the first two studies."""
    store = Store(tmp_path_factory.mktemp("store"))
    lab.run(demo[0], scale="smoke", store=store)
    lab.run(demo[1], scale="smoke", store=store, figure=False)
    return store


@pytest.fixture(scope="session")
def pages(tmp_path_factory, demo, store):
    """The pages made of them."""
    return atlas.build(tmp_path_factory.mktemp("pages") / "atlas", store, studies=demo).parent


@pytest.fixture
def poor_contrasts():
    """What on a page does not stand out from its ground."""
    return lambda page: page.evaluate(CONTRASTS)


# Every element with text of its own: its contrast by the rules of WCAG, where it is below 4.5.
CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const known = new Map();
  const over = (colours) => {
    const key = colours.join();
    if (!known.has(key)) {
      canvas.clearRect(0, 0, 1, 1);
      for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
      known.set(key, [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3));
    }
    return known.get(key);
  };
  const light = (rgb) => rgb.map((c) => c / 255).map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest("svg, .unseen, .skip")) continue;
    const grounds = [];
    for (let e = element; e; e = e.parentElement) grounds.unshift(getComputedStyle(e).backgroundColor);
    const ground = over(grounds), text = over([...grounds, getComputedStyle(element).color]);
    const [a, b] = [light(ground), light(text)].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < 4.5) poor.push(`${contrast.toFixed(2)}: ${element.outerHTML.slice(0, 90)}`);
  }
  return poor;
}"""
