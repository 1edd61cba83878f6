"""``sparrow`` in a process that is forked from one which has imported it: what a command does, without its start.

``python tests/forks.py SOCKET`` waits for commands; ``command`` writes an executable that hands over its words, folder,
environment and standard streams, and exits as the command did.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

CLIENT = """#!{python} -IS
import json, os, socket, sys
there = socket.socket(socket.AF_UNIX)
there.connect({path!r})
words = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(there, [len(words).to_bytes(8, "big")], [0, 1, 2])
there.sendall(words)
code = there.recv(1)
os._exit(code[0] if code else 70)
"""


def serve(path: str) -> None:
    """Fork for each command that comes, until standard input ends."""
    import sparrow.cli
    import sparrow.files.edges
    import sparrow.files.libsvm
    import sparrow.kernels.matvec  # noqa: F401

    with socket.socket(socket.AF_UNIX) as here:
        here.bind(path)
        here.listen()
        os.write(1, b"ready\n")
        while True:
            there, _ = here.accept()
            if os.fork() == 0:
                here.close()
                os._exit(_run(there))
            there.close()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def _run(there: socket.socket) -> int:
    """Run the command that stands in a connection, and answer with how it ended."""
    from sparrow.cli import main

    size, streams, _, _ = socket.recv_fds(there, 8, 3)
    words, folder, environment = json.loads(there.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    code = 70
    try:
        main(words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 70
    sys.stdout.flush()
    sys.stderr.flush()
    there.sendall(bytes([code]))
    return code


@contextlib.contextmanager
def command(folder: Path, repository: Path) -> Iterator[Path]:
    """Make an executable ``sparrow`` in a folder, which works while the block runs."""
    path, called = folder / "forks", folder / "sparrow"
    called.write_text(CLIENT.format(python=sys.executable, path=str(path)))
    called.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    server = subprocess.Popen(
        [sys.executable, Path(__file__), path],
        stdout=subprocess.PIPE,
        env=environment,
    )
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield called
    finally:
        server.terminate()
        server.communicate()


if __name__ == "__main__":
    serve(sys.argv[1])
