"""Files that are written whole or not at all, and folders that one process has to itself.

A process may be killed at any point: what it leaves is the old file or the new one, and perhaps a
temporary file, which the next writer removes. Every temporary file is locked while it is written,
so one that can be locked belongs to nobody; a lock ends with its process.
"""

import errno
import fcntl
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from quatgraph.errors import Mistake
from quatgraph.signals import cleanup_pending

LOCK = ".quatgraph.lock"
_TRIES = 100


def ensure_folder(path: Path) -> Path:
    """Makes the folder if need be, and checks that a file can be written in it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise unwritable(path, error) from error
    return path


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Has a folder to this block alone, among all processes and threads.

    The folder is made if need be; if nothing is in it after the block, whatever was made is removed
    again.

    Raises:
        Mistake: Another one has the folder.
    """
    try:
        made = [place for place in (folder, *folder.parents) if not place.exists()]
    except OSError as error:
        raise unwritable(folder, error) from error
    file = _take_lock(folder)
    try:
        with cleanup_pending():
            yield
    finally:
        # While it is locked: whoever opened it before will see that it is not the file's any more.
        with suppress(OSError):
            (folder / LOCK).unlink()
        file.close()
        with suppress(OSError):  # something is in it
            for place in made:
                place.rmdir()


def _take_lock(folder: Path) -> FileIO:
    path = folder / LOCK
    for _ in range(_TRIES):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = path.open("ab", buffering=0)
        except FileNotFoundError:  # another one has just removed the folder it had made
            continue
        except OSError as error:
            raise unwritable(folder, error) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise Mistake(
                f"another training is running in {folder}: wait until it ends, or choose another "
                "folder"
            ) from None
        except OSError as error:
            file.close()
            raise unwritable(folder, error) from error
        if _leads_to(path, file):
            return file
        file.close()
    raise Mistake(f"{folder} cannot be locked: choose another folder")


def check_writable(path: Path) -> None:
    """Refuses a file that cannot be written, before the work that it is to hold."""
    try:
        target = _target(path)
        if target is not None:
            with tempfile.TemporaryFile(dir=target.parent):
                pass
    except OSError as error:
        raise unwritable(path, error) from error


def write_atomic(path: Path, content: bytes | str) -> None:
    """Writes the file whole or not at all: whoever opens it sees the old content or the new.

    A symbolic link stays one, and the file it leads to is written. A device, a FIFO or an open
    stream such as ``/dev/stdout`` takes the content as it is.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        target = _target(path)
        if target is None:
            with path.open("ab", buffering=0) as stream:
                write_all(stream, data)
        else:
            with replacing(target) as file:
                write_all(file, data)
    except OSError as error:
        raise unwritable(path, error) from error


@contextmanager
def replacing(path: Path) -> Iterator[FileIO]:
    """A file to write, which becomes ``path`` at the end of the block and is removed if that fails.

    A file that is there already passes on its mode and, where that is allowed, its owner.
    """
    remove_leftovers(path)
    temporary, file = _open_temporary(path)
    try:
        with file:
            _keep_mode(path, file)
            yield file
            os.fsync(file.fileno())
            os.replace(temporary, path)  # noqa: PTH105
    finally:
        with suppress(OSError):
            temporary.unlink()


def _open_temporary(path: Path) -> tuple[Path, FileIO]:
    """A new file beside ``path``, locked: a rename is atomic only within one file system."""
    while True:
        temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
        file = temporary.open("xb", buffering=0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except BaseException:
            file.close()
            temporary.unlink()
            raise
        if _leads_to(temporary, file):  # else it was taken for a leftover before it was locked
            return temporary, file
        file.close()


def remove_leftovers(path: Path) -> None:
    """Removes the temporary files for ``path`` that killed processes left."""
    ours = re.compile(rf"\.{re.escape(path.name)}\.\d+-[0-9a-f]{{8}}\.tmp")
    with suppress(OSError):
        for name in filter(ours.fullmatch, os.listdir(path.parent)):  # noqa: PTH208
            _remove_if_unlocked(path.with_name(name))


def _remove_if_unlocked(path: Path) -> None:
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        finally:
            os.close(descriptor)


def write_all(file: FileIO, data: bytes) -> None:
    """Writes by one call, unless the system takes less, as on a disk that fills up."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def unwritable(path: Path, error: OSError) -> Mistake:
    """The Mistake for a file or folder that cannot be written."""
    reason = error.strerror or type(error).__name__
    remedy = REMEDIES.get(error.errno or 0, "choose a folder that is writable and has space left")
    return Mistake(f"cannot write {path}: {reason}; {remedy}")


REMEDIES = {
    errno.EISDIR: "name a file, or move that folder away",
    errno.EEXIST: "a file is in the way of a folder: choose another name",
    errno.ENOTDIR: "a file is in the way of a folder: choose another name",
}


def _target(path: Path) -> Path | None:
    """The regular file, there or not, that a path leads to; None for a device, a FIFO or a stream.

    Raises:
        OSError: It cannot be written.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        pass
    else:
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not os.access(path, os.W_OK):  # a rename would not mind
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if not stat.S_ISREG(mode):
            return None
    place = path.parent.resolve() / path.name
    while place.is_symlink():
        if place.is_relative_to("/proc"):  # an open stream: replacing its file would cut it off
            return None
        place = place.parent / place.readlink()
        place = place.parent.resolve() / place.name
    return place


def _leads_to(path: Path, file: FileIO) -> bool:
    """Whether the open file is still what the path names."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _keep_mode(path: Path, file: FileIO) -> None:
    try:
        before = path.stat()
    except FileNotFoundError:
        return
    with suppress(OSError):
        os.chown(file.fileno(), before.st_uid, before.st_gid)
    os.chmod(file.fileno(), stat.S_IMODE(before.st_mode))  # noqa: PTH101
