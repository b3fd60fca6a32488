"""Atomic writes and folder locks.

A process may be killed at any point. It leaves the old file or the new one, and perhaps a temporary
file, which the next writer removes. A temporary file is locked while it is written and a lock ends
with its process, so a temporary file that can be locked is a leftover.
"""

import errno
import fcntl
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from quatgraph.errors import UserError
from quatgraph.signals import cleanup_pending

LOCK = ".quatgraph.lock"
_TRIES = 100


def ensure_folder(path: Path) -> Path:
    """Creates the folder if needed, and checks that it is writable."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise unwritable(path, error) from error
    return path


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Locks a folder against all other processes and threads.

    Creates the folder and its parents if needed, and removes them again if they are empty after the
    block.

    Raises:
        UserError: The folder is already locked.
    """
    with removed_if_empty(folder):
        file = _take_lock(folder)
        try:
            with cleanup_pending():
                yield
        finally:
            # Unlinked while locked: a process that has it open will see that the path is gone.
            with suppress(OSError):
                (folder / LOCK).unlink()
            file.close()


@contextmanager
def removed_if_empty(folder: Path) -> Iterator[None]:
    """Removes the folder and its parents after the block if they are empty and the block created
    them."""
    try:
        created = [path for path in (folder, *folder.parents) if not path.exists()]
    except OSError as error:
        raise unwritable(folder, error) from error
    try:
        yield
    finally:
        with suppress(OSError):  # not empty
            for path in created:
                path.rmdir()


def _take_lock(folder: Path) -> FileIO:
    path = folder / LOCK
    for _ in range(_TRIES):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = path.open("ab", buffering=0)
        except FileNotFoundError:  # another process has just removed the folder
            continue
        except OSError as error:
            raise unwritable(folder, error) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise UserError(
                f"another training is running in {folder}; wait for it to finish or choose another "
                "folder"
            ) from None
        except OSError as error:
            file.close()
            raise unwritable(folder, error) from error
        if _is_same_file(path, file):
            return file
        file.close()
    raise UserError(f"cannot lock {folder}; choose another folder")


def check_writable(path: Path) -> None:
    """Raises a UserError if the file cannot be written."""
    try:
        target = _target(path)
        if target is not None:
            with tempfile.TemporaryFile(dir=target.parent):
                pass
    except OSError as error:
        raise unwritable(path, error) from error


def write_atomic(path: Path, content: bytes | str | Callable[[FileIO], None]) -> None:
    """Writes a file atomically: readers see the old content or the new.

    Follows symbolic links. Devices, FIFOs and open streams such as ``/dev/stdout`` are written
    directly.

    Args:
        content: What is written, or a function that writes it.
    """
    data = content.encode() if isinstance(content, str) else content
    write = data if callable(data) else lambda file: write_all(file, data)
    try:
        target = _target(path)
        if target is None:
            with path.open("ab", buffering=0) as stream:
                write(stream)
        else:
            with replacing(target) as file:
                write(file)
    except OSError as error:
        raise unwritable(path, error) from error


@contextmanager
def replacing(path: Path) -> Iterator[FileIO]:
    """Opens a temporary file that replaces ``path`` at the end of the block.

    On failure the temporary file is removed. The new file gets the mode and, if permitted, the
    owner of the old one.
    """
    remove_leftovers(path)
    temporary, file = _open_temporary(path)
    try:
        with file:
            _copy_mode(path, file)
            yield file
            os.fsync(file.fileno())
            os.replace(temporary, path)  # noqa: PTH105
    finally:
        with suppress(OSError):
            temporary.unlink()


def _open_temporary(path: Path) -> tuple[Path, FileIO]:
    """Opens and locks a new file next to ``path``: a rename is atomic only within a file system."""
    while True:
        temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
        file = temporary.open("xb", buffering=0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except BaseException:
            file.close()
            temporary.unlink()
            raise
        if _is_same_file(temporary, file):  # else it was removed as a leftover before it was locked
            return temporary, file
        file.close()


def remove_leftovers(path: Path, also: Sequence[Path] = ()) -> None:
    """Removes temporary files for ``path`` that killed processes left behind.

    Args:
        also: Other files of such a process, with their temporary files; removed first.
    """
    ours = re.compile(rf"\.{re.escape(path.name)}\.\d+-[0-9a-f]{{8}}\.tmp")
    with suppress(OSError):
        for name in filter(ours.fullmatch, os.listdir(path.parent)):  # noqa: PTH208
            _remove_if_unlocked(path.with_name(name), also)


def _remove_if_unlocked(path: Path, also: Sequence[Path]) -> None:
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for other in also:
                remove_leftovers(other)
                other.unlink(missing_ok=True)
            path.unlink()
        finally:
            os.close(descriptor)


def write_all(file: FileIO, data: bytes | bytearray | memoryview) -> None:
    """Writes everything, in several calls if the system takes less, as on a full disk."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def unwritable(path: Path, error: OSError) -> UserError:
    """The UserError for a file or folder that cannot be written."""
    reason = error.strerror or type(error).__name__
    remedy = REMEDIES.get(error.errno or 0, "choose a folder that is writable and has space left")
    return UserError(f"cannot write {path}: {reason}; {remedy}")


REMEDIES = {
    errno.EFBIG: "raise the limit on the size of a file (ulimit -f)",
    errno.EISDIR: "name a file instead of a folder",
    errno.EEXIST: "a file is in the way; choose another path",
    errno.ENOTDIR: "a file is in the way; choose another path",
}


def _target(path: Path) -> Path | None:
    """The regular file behind a path, existing or not; None for a device, a FIFO or a stream.

    Raises:
        OSError: The file cannot be written.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        pass
    else:
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not os.access(path, os.W_OK):  # a rename would not check this
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if not stat.S_ISREG(mode):
            return None
    target = path.parent.resolve() / path.name
    while target.is_symlink():
        if target.is_relative_to("/proc"):  # an open stream, which a rename would disconnect
            return None
        target = target.parent / target.readlink()
        target = target.parent.resolve() / target.name
    return target


def _is_same_file(path: Path, file: FileIO) -> bool:
    """Whether the path still refers to the open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _copy_mode(path: Path, file: FileIO) -> None:
    try:
        before = path.stat()
    except FileNotFoundError:
        return
    with suppress(OSError):
        os.chown(file.fileno(), before.st_uid, before.st_gid)
    os.chmod(file.fileno(), stat.S_IMODE(before.st_mode))  # noqa: PTH101
