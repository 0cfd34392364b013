"""Figures are shown as they were drawn, or not at all."""

import json
import os
import shutil

import pytest

from secant import atlas
from secant.core.files import replacing
from secant.lab import Store, run
from secant.lab.drawing import figure_files
from secant.lab.drawing.figure_files import CorruptFigureError
from secant.lab.drawing.figures import FIGURE_FILES
from secant.lab.drawing.svg import check_svg
from secant.lab.runs.files import digest_of
from secant.lab.runs.record import sealed


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A store with one run and its figure, to be copied."""
    from conftest import halving

    store = Store(tmp_path_factory.mktemp("drawn"))
    run(halving, scale="smoke", store=store)
    return store.root


@pytest.fixture(autouse=True)
def no_theory(monkeypatch):
    """The pages here are those of one study: what they carry beside it has tests of its own."""
    monkeypatch.setattr("secant.atlas.reading.shelf", lambda: ())


@pytest.fixture
def quickly(drawn, monkeypatch):
    """A function after which drawing is copying what was drawn; each file whole or not at all, as it is drawn."""
    (found,) = Store(drawn).records()

    def copied(study, data, config, directory):
        for name in FIGURE_FILES:
            with replacing(directory / name) as partial:
                shutil.copy(found.directory / name, partial)

    return lambda: monkeypatch.setattr("secant.lab.drawing.figure_files.save_figures", copied)


@pytest.fixture
def record(demo, store, drawn):
    shutil.copytree(drawn, store.root)
    (found,) = store.records()
    return found


def again(demo, store):
    return run(demo, scale="smoke", store=store)


def reseal(record):
    """What someone can do who may write to the store: digests that match."""
    digests = {name: digest_of((record.directory / name).read_bytes()) for name in FIGURE_FILES}
    facts = {"run": record.facts["digest"], "files": digests}
    (record.directory / "figures.json").write_bytes(sealed(facts))


def test_what_was_drawn_is_what_is_read(record):
    found = figure_files.read(record)
    assert {name: (record.directory / name).read_bytes() for name in FIGURE_FILES} == found
    assert json.loads((record.directory / "figures.json").read_text())["run"] == record.facts["digest"]


def secret_link(path):
    secret = path.parents[5] / "secret"
    secret.write_text("secret")
    path.unlink()
    path.symlink_to(secret)


def own_link(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def pipe(path):
    path.unlink()
    os.mkfifo(path)


HARM = {
    "edited": lambda path: path.write_bytes(path.read_bytes()[:-100] + b"x" + path.read_bytes()[-99:]),
    "empty": lambda path: path.write_bytes(b""),
    "gone": lambda path: path.unlink(),
    "a link out of the store": secret_link,
    "a link to the same bytes": own_link,
    "a pipe": pipe,
}


@pytest.mark.parametrize("name", ["figure.svg", "figure-dark.svg", "figure.png", "figures.json"])
@pytest.mark.parametrize("harm", HARM.values(), ids=HARM.keys())
def test_a_figure_that_is_not_what_was_drawn_is_left_out_by_the_pages_and_drawn_again_by_a_run(
    demo, store, record, tmp_path, name, harm, quickly
):
    if (name, harm) != ("figure.svg", HARM["edited"]):  # one is drawn in earnest
        quickly()
    before = figure_files.read(record)
    harm(record.directory / name)
    if (name, harm) != ("figures.json", HARM["gone"]):
        with pytest.raises(CorruptFigureError, match=name):
            figure_files.read(record)
        with pytest.warns(RuntimeWarning, match=rf"demo/halving: .* left out \({name}: .*secant run demo/halving"):
            index = atlas.build(tmp_path / "pages", store, studies=[demo])
        page = index.parent / "studies" / "demo" / "halving"
        assert not list(page.glob("figure*"))
        assert str(store.root) not in (page / "index.html").read_text()
        assert (page / "data.nc").read_bytes() == (record.directory / "data.nc").read_bytes()
    again(demo, store)
    assert figure_files.read(record) == before
    assert not any((record.directory / name).is_symlink() for name in (*FIGURE_FILES, "figures.json"))
    index = atlas.build(tmp_path / "pages", store, studies=[demo])
    assert (index.parent / "studies/demo/halving/figure.png").read_bytes() == before["figure.png"]


def test_a_drawing_that_was_interrupted_is_done_again(demo, store, record, tmp_path, monkeypatch):
    shutil.rmtree(tmp_path / "pages", ignore_errors=True)

    def interrupt(*_):
        raise KeyboardInterrupt

    (record.directory / "figure.png").unlink()
    with monkeypatch.context() as patch:
        patch.setattr("secant.lab.drawing.figure_files.replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            again(demo, store)
    assert figure_files.read(record) is None
    index = atlas.build(tmp_path / "pages", store, studies=[demo])
    assert (index.parent / "studies/demo/halving/figure.png").stat().st_size > 1000


def test_the_figure_of_another_run_is_not_this_one(demo, store, record):
    other = run(demo, scale="smoke", store=store, rate=0.25)
    for name in (*FIGURE_FILES, "figures.json"):
        shutil.copy(other.directory / name, record.directory / name)
    with pytest.raises(CorruptFigureError, match=r"figures\.json: it is not of this run"):
        figure_files.read(record)


@pytest.mark.parametrize("written", [b"", b"[]", b"{}", b"[" * 100_000, b"\xff", b'{"files": 1}'])
def test_digests_that_are_none_are_not_believed(demo, store, record, written, quickly):
    quickly()
    (record.directory / "figures.json").write_bytes(written)
    with pytest.raises(CorruptFigureError, match=r"figures\.json: "):
        figure_files.read(record)
    again(demo, store)
    assert figure_files.is_drawn(record)


HEAD = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
ACTIVE = {
    "script": HEAD + "><script>alert(1)</script></svg>",
    "script by prefix": '<s:svg xmlns:s="http://www.w3.org/2000/svg"><s:script/></s:svg>',
    "script of html": HEAD + 'xmlns:h="http://www.w3.org/1999/xhtml"><h:script/></svg>',
    "picture of html": HEAD + 'xmlns:h="http://www.w3.org/1999/xhtml"><h:img src="x"/></svg>',
    "handler": HEAD + 'onload="alert(1)"/>',
    "handler in capitals": HEAD + 'ONLOAD="alert(1)"/>',
    "link": HEAD + '><a href="https://example.org"><g/></a></svg>',
    "javascript": HEAD + '><a xlink:href="javascript:alert(1)"><g/></a></svg>',
    "javascript, disguised": HEAD + '><g fill="java&#9;script&#58;alert(1)"/></svg>',
    "picture from outside": HEAD + '><image href="//example.org/x.png"/></svg>',
    "picture that is one more svg": HEAD + '><image href="data:image/svg+xml;base64,PHN2Zy8+"/></svg>',
    "use from outside": HEAD + '><use xlink:href="other.svg#a"/></svg>',
    "fill from outside": HEAD + '><g fill="url(https://example.org/#a)"/></svg>',
    "style from outside": HEAD + '><g style="fill: url( //example.org )"/></svg>',
    "styles from outside": HEAD + '><style>@import "https://example.org"</style></svg>',
    "styles in cdata": HEAD + "><style><![CDATA[*{fill:url(//example.org)}]]></style></svg>",
    "escaped style": HEAD + r'><g style="fill: u\72l(//example.org)"/></svg>',
    "animation": HEAD + '><set attributeName="href" to="#a"/></svg>',
    "foreign": HEAD + "><foreignObject/></svg>",
    "base": HEAD + 'xml:base="https://example.org"/>',
    "instruction": '<?xml-stylesheet href="https://example.org"?>' + HEAD + "/>",
    "entity": '<!DOCTYPE svg [<!ENTITY a "b">]>' + HEAD + ">&a;</svg>",
    "document type": '<!DOCTYPE svg SYSTEM "https://example.org/a.dtd">' + HEAD + "/>",
    "no namespace": "<svg><g/></svg>",
    "no xml": "<svg",
}


@pytest.mark.parametrize("svg", ACTIVE.values(), ids=ACTIVE.keys())
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_picture_that_does_more_than_show_is_refused(svg, encoding):
    with pytest.raises(ValueError, match=r"it has |it is not XML|refers|declares"):
        check_svg(svg.encode(encoding))


def test_a_picture_with_a_script_is_not_published_though_its_digest_matches(demo, store, record, tmp_path):
    path = record.directory / "figure.svg"
    path.write_text(path.read_text().replace("</svg>", "<script>alert(1)</script></svg>"))
    reseal(record)
    with pytest.warns(RuntimeWarning, match=r"left out \(figure.svg: it has the element <script>"):
        index = atlas.build(tmp_path / "pages", store, studies=[demo])
    assert not list(index.parent.rglob("figure.svg"))
    again(demo, store)
    assert b"<script" not in path.read_bytes()


def test_everything_that_matplotlib_draws_passes(tmp_path):
    import matplotlib
    import numpy as np
    from matplotlib.figure import Figure

    from secant.lab import theme

    with matplotlib.rc_context(theme("light")):
        figure = Figure(layout="constrained")
        axes = figure.subplots(2, 3).ravel()
        axes[0].plot([1, 2, 3], label="once on = 2 <script> javascript: url(x) @ \\alpha")
        axes[0].legend(title="$\\eta = 1$")
        axes[1].imshow(np.eye(5))
        axes[2].pcolormesh(np.eye(5), shading="gouraud")
        axes[3].bar([1, 2], [3, 4], hatch="//")
        axes[4].contourf(np.eye(5))
        axes[5].scatter([1, 2], [3, 4], c=[1, 2], alpha=0.5)
        figure.savefig(tmp_path / "figure.svg")
    check_svg((tmp_path / "figure.svg").read_bytes())
