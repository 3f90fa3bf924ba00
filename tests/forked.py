"""Processes of Python for the tests that have imported hashlearn before they begin.

Importing takes longer than what most tests do in a process of their own. So one process for each worker of the tests
imports it, and is asked to fork: the new process has its own files, folder, environment and signals, and is waited for
and killed like any other. Whoever tests how a process begins takes :class:`subprocess.Popen`.
"""

import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
from types import ModuleType

_LONGEST = 1_000_000


class ForkedPython(subprocess.Popen):
    """A Popen of ``[sys.executable, "-c", code, ...]`` or ``[sys.executable, "-m", "hashlearn", ...]``."""

    _parent: socket.socket | None = None
    _lock = threading.Lock()

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *more):
        assert args[0] == sys.executable, args
        assert preexec_fn is None, "a forked process cannot be prepared"
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite = more[3:9]
        self._status, status = os.pipe()
        files = [own if own != -1 else usual for usual, own in enumerate((p2cread, c2pwrite, errwrite))]
        asked = {
            "arguments": [os.fsdecode(each) for each in args[1:]],
            "folder": os.getcwd() if cwd is None else os.fsdecode(cwd),
            "environment": dict(os.environ if env is None else env),
        }
        try:
            with ForkedPython._lock:
                if ForkedPython._parent is None:
                    ForkedPython._parent = _begin_parent()
                socket.send_fds(ForkedPython._parent, [json.dumps(asked).encode()], [*files, status])
                self.pid = int(ForkedPython._parent.recv(100))
            self._child_created = True
        finally:
            os.close(status)
            self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)

    def _try_wait(self, wait_flags):
        with selectors.DefaultSelector() as selector:
            selector.register(self._status, selectors.EVENT_READ)
            if not selector.select(0 if wait_flags == os.WNOHANG else None):
                return 0, 0
        told = os.read(self._status, 100)
        os.close(self._status)
        return self.pid, int(told or 9)

    def _internal_poll(self, _deadstate=None):
        if self.returncode is None and self._waitpid_lock.acquire(False):
            try:
                if self.returncode is None:
                    pid, status = self._try_wait(os.WNOHANG)
                    if pid == self.pid:
                        self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode


if sys.platform != "linux":
    ForkedPython = subprocess.Popen  # type: ignore[misc, assignment]


def run_forked(args, input=None, capture_output=False, timeout=None, check=False, **options):
    """What :func:`subprocess.run` does, in a forked process."""
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        options["stdin"] = subprocess.PIPE
    with ForkedPython(args, **options) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def _begin_parent():
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, its):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LONGEST)
    with its:
        its.set_inheritable(True)
        subprocess.Popen([sys.executable, __file__, str(its.fileno())], pass_fds=[its.fileno()])
    return ours


def _serve(asking):
    """Fork whenever it is asked for; returns in the new process, what it is to run."""
    running: dict[int, tuple[int, int]] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(asking, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not asking:
                    pid, status = running.pop(key.fd)
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    os.write(status, str(os.waitpid(pid, 0)[1]).encode())
                    os.close(status)
                    continue
                message, files, _, _ = socket.recv_fds(asking, _LONGEST, 4)
                if not message:
                    sys.exit()
                pid = os.fork()
                if pid == 0:
                    for end, (_, status) in running.items():
                        os.close(end)
                        os.close(status)
                    os.close(files[3])
                    asking.close()
                    return json.loads(message), files[:3]
                for file in files[:3]:
                    os.close(file)
                end = os.pidfd_open(pid)
                running[end] = (pid, files[3])
                selector.register(end, selectors.EVENT_READ)
                asking.send(str(pid).encode())


def _become(asked, files):
    """Take the files, the folder and the environment."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        if file > 2:
            os.close(file)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    if "PYTHONUNBUFFERED" in os.environ:
        sys.stdout.reconfigure(write_through=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kind, what, *arguments = asked["arguments"]
    sys.path[0] = ""
    if kind == "-c":
        sys.argv = ["-c", *arguments]
        sys.modules["__main__"] = main = ModuleType("__main__")
        exec(compile(what, "<string>", "exec"), main.__dict__)
    else:
        assert (kind, what) == ("-m", "hashlearn"), asked["arguments"]
        from hashlearn.cli import main

        sys.argv = ["hashlearn", *arguments]
        sys.exit(main())


if __name__ == "__main__":
    from one_compiler import compile_once

    import hashlearn
    import hashlearn.server

    compile_once()
    for name in hashlearn.__all__:
        getattr(hashlearn, name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # each process is told for itself
    gc.collect()
    gc.freeze()
    _become(*_serve(socket.socket(fileno=int(sys.argv[1]))))
