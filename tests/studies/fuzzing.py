"""Random and extreme options of studies, and what may come of them.

By hand, for one study or several: `python tests/studies/fuzzing.py thesis/fig-4.5 --runs 5 --seed 1`.
"""

import argparse
import contextlib
import dataclasses
import functools
import math
import random
import sys
import traceback
import typing
import warnings
import zlib
from pathlib import Path
from typing import Any, Literal

from secant import lab
from secant.lab.runs.reuse import using

NOW = zlib.crc32((Path(__file__).parents[2] / "CHANGELOG.md").read_text().encode())
"""A number that is the same on every machine, and another one after every change that has its line."""

LARGE = {"cifar10", "mnist", "fashion-mnist"}
"""Data with so many features that a run is larger than at smoke scale."""


def chosen(study, draw: random.Random, *, small: bool) -> dict[str, Any]:
    """Options of a study, some of them changed: extreme ones, or such that its run is small."""
    types = typing.get_type_hints(study.config_type)
    smoke = study.config("smoke")
    least = smallest(study.id) if small else smoke
    fields = dataclasses.fields(study.config_type)
    share = draw.choice([0.15, 0.4, 0.8])
    picked = [field for field in fields if draw.random() < share] or [draw.choice(fields)]
    drawn = {}
    for name, limits in ((field.name, field.metadata["limits"]) for field in picked):
        whole = type(getattr(smoke, name)) is tuple
        drawn[name] = _value(types[name], getattr(smoke if whole else least, name), limits, draw, small)
        if whole and small:
            drawn[name] = drawn[name][: max(2, len(getattr(least, name)))]
    return (dataclasses.asdict(least) if small else {}) | drawn


@functools.cache
def smallest(id: str) -> Any:
    """The smoke scale as small as the study takes it: tuples of one entry, sizes a quarter of what they are, or a half.

    What the entries of a tuple have each to itself, a network of another width for instance, is compiled for each.
    """
    study = lab.get(id)
    config = study.config("smoke")

    def less(*smaller: dict[str, Any]) -> Any:
        """The configuration with the first of the changes that is accepted."""
        for values in smaller:
            with contextlib.suppress(ValueError, TypeError):
                return study.config("smoke", **dataclasses.asdict(config) | values)
        return config

    tuples = {name: value for name, value in vars(config).items() if type(value) is tuple}
    for names in (list(tuples), *([name] for name in tuples)):  # together, for some have to be of one length
        config = less(*({name: tuples[name][:length] for name in names} for length in (1, 2)))
    for name, size in vars(config).items():
        if type(size) is int and name not in {"seed", "together", "every"}:  # the smaller those are, the more is done
            config = less({name: size // 4}, {name: size // 2})
    return config


def _value(kind: Any, usual: Any, limits: dict[str, float], draw: random.Random, small: bool) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return _tuple(arguments, usual, limits, draw, small)
    if origin is Literal:
        return draw.choice([choice for choice in arguments if not small or choice not in LARGE])
    if type(None) in arguments:
        (other,) = [a for a in arguments if a is not type(None)]
        return None if draw.random() < 0.4 else _value(other, usual, limits, draw, small)
    if kind is bool:
        return draw.random() < 0.5
    if kind is str:
        return usual if small else draw.choice([usual, "", "nonsense", "../../etc"])
    return _number(kind, usual, limits, draw, small)


def _tuple(arguments: Any, usual: Any, limits: dict[str, float], draw: random.Random, small: bool) -> Any:
    usual = () if usual is None else usual
    kind = arguments[0]
    if arguments[-1] is not Ellipsis:
        entries = [_value(k, u, limits, draw, small) for k, u in zip(arguments, usual, strict=False)]
        return tuple(entries if small or draw.random() < 0.8 else entries[:-1])
    ways = ["one", "fewer", "reversed", "twice", "random"] + ([] if small else ["none", "many"])
    way = draw.choice(ways)
    if way == "none" or not usual:
        return ()
    if way == "one":
        return (draw.choice(usual),)
    if way == "fewer":
        return usual[: draw.randint(1, len(usual))]
    if way == "reversed":
        return usual[::-1]
    if way == "twice":
        return (usual[0], *usual[: len(usual) - 1])
    count = draw.randint(1, 40) if way == "many" else draw.randint(1, len(usual))
    return tuple(_value(kind, draw.choice(usual), limits, draw, small) for _ in range(count))


def _number(kind: type, usual: Any, limits: dict[str, float], draw: random.Random, small: bool) -> Any:
    low = limits.get("at_least", limits.get("above"))
    high = limits.get("at_most", limits.get("below"))
    edges = [edge for edge in (low, high) if edge is not None]
    usual = 1 if usual is None else usual
    if kind is int:
        near = [usual, usual // 2, usual // 5, usual - 1, *(int(e) + k for e in edges for k in (0, 1, 2))]
        if small:
            least = 0 if low is None else int(low)
            return draw.choice([n for n in near if least <= n <= max(usual, least)] or [usual])
        return draw.choice([*near, 0, 1, 2, 3, -1, 7 * usual, 10**6, 10**9, 2**63, -(2**40)])
    near = [
        usual,
        usual / 2,
        2 * usual,
        usual * draw.uniform(0.1, 3),
        *edges,
        *(e + k for e in edges for k in (1e-9, 1e-3, -1e-3)),
    ]
    far = [0.0, 1.0, -1.0, 1e-300, -1e300, 1e300, 1e-12, 1e9, -usual, math.pi, 10 * usual]
    return float(draw.choice(near + far + ([] if small else [math.nan, math.inf, -math.inf])))


def accepted(study, values: dict[str, Any]) -> Any | None:
    """The configuration, or None where it is refused as it should be: by a line that names the study and a field."""
    try:
        return study.config("smoke", **values)
    except (ValueError, TypeError) as error:
        text = str(error)
        assert text.startswith(f"{study.id}: "), f"the error does not name the study: {text!r}"
        assert "\n" not in text, f"the error has several lines: {text!r}"
        assert any(field.name in text for field in dataclasses.fields(study.config_type)), f"no field named: {text!r}"
        return None


@functools.cache
def _computed(id: str, config: Any) -> Any:
    return lab.get(id)(config)


def _data(study, config: Any) -> Any:
    """The data of a run, computed once for all studies that stand on it."""
    return _computed(study.id, config)


def outcome(study, config: Any) -> list[Any]:
    """Runs and judges: no exception, and no finding without a number that is not inconclusive."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # an extreme option may overflow on the way
        warnings.filterwarnings("ignore", "(?s).*Digits stand in", UserWarning)  # a machine without the data
        with using(_data):
            findings = study.judge(_data(study, config), config)
    for finding in findings:
        numbers = (finding.predicted, finding.measured.value)
        assert finding.verdict == "inconclusive" or not any(map(math.isnan, numbers)), (finding.key, numbers)
    return findings


def drawn_by(study) -> str:
    """The name that draws of options go by: studies that share theirs, and with them a run, have one."""
    fields, kinds = dataclasses.fields(study.config_type), study.config_type.__mro__
    options = [kind for kind in kinds if dataclasses.is_dataclass(kind) and dataclasses.fields(kind) == fields][-1]
    return study.id if options.__module__ == study.compute.__module__ else f"{options.__module__}.{options.__name__}"


def small_configurations(study, seed: int, count: int) -> list[Any]:
    """Some accepted configurations that cost no more than the smoke scale.

    Studies that share their options, and with them a run, are tried with the same ones.
    """
    draw = random.Random(zlib.crc32(drawn_by(study).encode()) + seed)
    found: list[Any] = []
    for _ in range(60 * count):
        config = accepted(study, chosen(study, draw, small=True))
        if config is not None and config not in found:
            found.append(config)
        if len(found) == count:
            break
    return found


def main() -> int:
    """Fuzzes the named studies, and prints what goes wrong with the options that do it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("ids", nargs="+")
    parser.add_argument("--configs", type=int, default=300)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    bad = 0
    for id in options.ids:
        study = lab.get(id)
        draw = random.Random(options.seed)
        for _ in range(options.configs):
            values = chosen(study, draw, small=False)
            try:
                accepted(study, values)
            except Exception as error:
                bad += 1
                print(f"{id} {values}: {type(error).__name__}: {error}")
        usual = study.config("smoke")
        for config in small_configurations(study, options.seed, options.runs):
            changed = {n: v for n, v in vars(config).items() if v != getattr(usual, n)}
            try:
                outcome(study, config)
                print(f"{id} ran with {changed}")
            except Exception as error:
                bad += 1
                where = traceback.extract_tb(error.__traceback__)[-1]
                print(f"{id} BROKE with {changed}: {type(error).__name__}: {error} ({where.filename}:{where.lineno})")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
