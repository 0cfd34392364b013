"""Where data sets come from: their public homes, and the checksums that their publishers give."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from secant.data import formats


@dataclass(frozen=True)
class Source:
    """One public data set.

    Attributes:
        title: the name of the data set.
        file: the `.npz` file that holds all of it.
        homes: the addresses below which its files are; all but the first are mirrors.
        files: the names of its files, each with its checksum as `algorithm:digest`. The checksum is None if the
            publisher makes the file at every request; `convert` then checks the content.
        convert: makes the arrays of `file` from the downloaded files, given in the order of `files`.
        part: another `.npz` file, with a part of the set, that is used if there is no `file`.
    """

    title: str
    file: str
    homes: tuple[str, ...]
    files: Mapping[str, str | None]
    convert: Callable[[Sequence[Path]], formats.Arrays]
    part: str | None = None


SOURCES = {
    "cifar10": Source(
        "CIFAR-10",
        "cifar10.npz",
        ("https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/"),
        {"cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530"},
        formats.cifar,
        part="cifar10_5k.npz",
    ),
    "mnist": Source(
        "MNIST",
        "mnist.npz",
        ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
        {
            "train-images-idx3-ubyte.gz": "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte.gz": "md5:d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte.gz": "md5:9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte.gz": "md5:ec29112dd5afa0611ce80d1b7f02629c",
        },
        formats.idx,
    ),
    "fashion-mnist": Source(
        "Fashion-MNIST",
        "fashion_mnist.npz",
        (
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        ),
        {
            "train-images-idx3-ubyte.gz": "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte.gz": "md5:25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte.gz": "md5:bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte.gz": "md5:bb300cfdad3c16e7a12a480ee83cd310",
        },
        formats.idx,
        part="fashion_mnist_12k.npz",
    ),
    "usps": Source(
        "USPS",
        "usps.npz",
        ("https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/",),
        {
            "usps.bz2": "md5:ec16c51db3855ca6c91edd34d0e9b197",
            "usps.t.bz2": "md5:8ea070ee2aca1ac39742fdd1ef5ed118",
        },
        formats.usps,
    ),
    "svhn": Source(
        "SVHN",
        "svhn.npz",
        ("http://ufldl.stanford.edu/housenumbers/",),
        {
            "train_32x32.mat": "md5:e26dedcc434d2e4c54c9b2d4a06d8373",
            "test_32x32.mat": "md5:eb5a983be6a315427106f1b164d9cef3",
        },
        formats.svhn,
    ),
    "spoken-digits": Source(
        "Free Spoken Digit Dataset, release 1.0.10",
        "fsdd.npz",
        ("https://github.com/Jakobovski/free-spoken-digit-dataset/archive/refs/tags/",),
        {"v1.0.10.zip": None},
        functools.partial(
            formats.recordings, digest="45a9b976ba3397a2fd5c70a9f2e43c34f442a3a6be47392ecfc41174b678f37e"
        ),
    ),
}
"""The data sets that can be downloaded, by name."""
