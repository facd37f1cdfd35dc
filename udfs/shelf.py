"""Programs as files that every Python worker of a machine maps: the index is sent once, not with every task.

Law: a file is named after its content, appears whole or not at all, and never changes: whoever has it has the right
one. Where workers share the driver's file system they map the file where it lies. Elsewhere each machine copies it
once to its own disk, one worker at a time, and keeps the few that were used last.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.fs as fs

Loaded = TypeVar("Loaded")
KEPT = 48


@dataclass(frozen=True, slots=True)
class Item:
    """A file on the shelf: where it lies and whether to copy it before use."""

    place: str
    name: str
    copy: bool


class Shelf:
    """Where the driver puts files, by content; a directory on this machine, or any address that Arrow can write to."""

    def __init__(self, place: str, *, copy: bool) -> None:
        self.place, self._copy = place, copy
        self._put: set[str] = set()

    def put(self, save: Callable[[Path], None]) -> Item:
        """Keep what `save` writes, until `keep` leaves it out."""
        with tempfile.TemporaryDirectory(prefix="sluice-") as scratch:
            file = Path(scratch) / "file"
            save(file)
            with file.open("rb") as opened:
                name = hashlib.file_digest(opened, "blake2b").hexdigest()[:32]
            store, root = _store(self.place)
            store.create_dir(root, recursive=True)
            if store.get_file_info(f"{root}/{name}").type is fs.FileType.NotFound:
                part = f"{root}/{name}.{os.getpid()}.part"
                fs.copy_files(str(file), part, source_filesystem=fs.LocalFileSystem(), destination_filesystem=store)
                store.move(part, f"{root}/{name}")
        self._put.add(name)
        return Item(self.place, name, self._copy)

    def keep(self, items: Iterable[Item]) -> None:
        """Take everything but these items from the shelf; who has a file mapped keeps it until it lets go."""
        store, root = _store(self.place)
        kept = {item.name for item in items}
        for name in self._put - kept:
            store.delete_file(f"{root}/{name}")
        self._put &= kept


_open: OrderedDict[str, Any] = OrderedDict()


def get(item: Item, load: Callable[[Path], Loaded]) -> Loaded:
    """What `load` makes of the file, once in this process; the few used last are kept."""
    key = f"{load.__module__}.{load.__qualname__}/{item.name}"
    if key not in _open:
        _open[key] = load(_local(item))
        while len(_open) > KEPT:
            _open.popitem(last=False)
    _open.move_to_end(key)
    loaded: Loaded = _open[key]
    return loaded


def _local(item: Item) -> Path:
    """The file on this machine; copied once, by whichever worker comes first."""
    store, root = _store(item.place)
    if not item.copy:
        return Path(root) / item.name
    own = _scratch()
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    if own.stat().st_uid != os.getuid():
        raise PermissionError(f"{own} is another user's: remove it, or set TMPDIR to a directory of your own")
    target = own / item.name
    with (own / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            part = own / f"{item.name}.part"
            fs.copy_files(
                f"{root}/{item.name}", str(part), source_filesystem=store, destination_filesystem=fs.LocalFileSystem()
            )
            part.replace(target)
            _make_room(own)
        os.utime(target)
    return target


def _scratch() -> Path:
    """The executor's own directory, which goes when it goes; else one for this user."""
    dirs = os.environ.get("SPARK_EXECUTOR_DIRS") or os.environ.get("LOCAL_DIRS")
    if dirs:
        return Path(dirs.replace(os.pathsep, ",").split(",")[0]) / "sluice-programs"
    return Path(tempfile.gettempdir()) / f"sluice-programs-{os.getuid()}"


def _make_room(own: Path) -> None:
    """Forget the files used longest ago; who has one mapped keeps it until it lets go."""
    files = sorted((file for file in own.iterdir() if len(file.name) == 32), key=lambda file: file.stat().st_mtime)
    for file in files[:-KEPT]:
        file.unlink()


def _store(place: str) -> tuple[fs.FileSystem, str]:
    """The file system and the path in it; Hadoop's names of S3 are Arrow's s3."""
    if "://" not in place and not place.startswith("file:"):
        return fs.LocalFileSystem(), place
    for hadoop in ("s3a://", "s3n://"):
        if place.startswith(hadoop):
            place = "s3://" + place.removeprefix(hadoop)
    if place.startswith("file:"):
        return fs.LocalFileSystem(), place.removeprefix("file:").replace("//", "/", 1)
    store, path = fs.FileSystem.from_uri(place)
    return store, path
