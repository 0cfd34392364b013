"""The atlas: static web pages of every study and its runs, which need no network and no server."""

from secant.atlas.pages import AtlasError, build, watched_page

__all__ = ["AtlasError", "build", "watched_page"]
